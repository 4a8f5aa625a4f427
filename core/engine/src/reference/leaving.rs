//! Cancelling: one order, many orders, the turn of the day, the end of an epoch.

use pitwire_model::{AccountId, CancelFilter, CancelReason, Epoch, Event, OrderId, Reject};

use super::matching::cancelled;
use super::{Market, Order, ReferenceEngine};

impl Market {
    /// Takes an order out and says so, the book's own word excepted.
    fn expel(&mut self, id: OrderId, reason: CancelReason, out: &mut Vec<Event>) {
        let order = self.remove(id);
        out.push(cancelled(self.spec.id, &order, order.price, reason));
        self.tell_level(order.side, order.price, out);
    }
}

impl ReferenceEngine {
    pub(super) fn cancel(&mut self, account: AccountId, order: OrderId, out: &mut Vec<Event>) {
        let refused = |reason| Event::CancelRefused { order, account, reason };
        match self.find(order) {
            None => out.push(refused(Reject::UnknownOrder)),
            Some((_, found)) if found.account != account => out.push(refused(Reject::NotOwner)),
            Some(_) => _ = self.expel_all(|_, candidate| candidate.id == order, CancelReason::Requested, out),
        }
    }

    pub(super) fn cancel_all(
        &mut self,
        account: AccountId,
        which: &CancelFilter,
        reason: CancelReason,
        out: &mut Vec<Event>,
    ) {
        let leaves = |market: &Market, order: &Order| {
            order.account == account
                && match which {
                    CancelFilter::All => true,
                    CancelFilter::Instrument(only) => *only == market.spec.id,
                    CancelFilter::Session(session) => order.session == *session,
                    CancelFilter::Listed(orders) => orders.contains(&order.id),
                }
        };
        self.expel_all(leaves, reason, out);
    }

    pub(super) fn end_day(&mut self, out: &mut Vec<Event>) {
        self.expel_all(|_, order| order.day, CancelReason::DayEnded, out);
        out.push(Event::DayEnded);
    }

    pub(super) fn start_epoch(&mut self, epoch: Epoch, out: &mut Vec<Event>) {
        self.expel_all(|_, order| order.cancel_on_disconnect, CancelReason::Disconnected, out);
        self.epoch = epoch;
        self.killed_sessions.clear();
        out.push(Event::EpochStarted { epoch });
    }

    /// Instrument by instrument, in the order of entry; says how many orders went.
    pub(super) fn expel_all(
        &mut self,
        leaves: impl Fn(&Market, &Order) -> bool,
        reason: CancelReason,
        out: &mut Vec<Event>,
    ) -> u32 {
        let mut gone = 0;
        for market in &mut self.markets {
            let leaving = market.orders.iter().filter(|order| leaves(market, order));
            let mut ids: Vec<OrderId> = leaving.map(|order| order.id).collect();
            ids.sort();
            for id in &ids {
                market.expel(*id, reason, out);
                gone += 1;
            }
            if !ids.is_empty() {
                market.tell_change(out);
            }
        }
        gone
    }
}
