//! Cancelling: one order, many orders, the turn of the day, the end of an epoch.

use pitwire_model::{
    AccountId, CancelFilter, CancelReason, Epoch, Event, OrderId, Reject, RemainingSessions, SessionReason,
    TimeInForce, VenueNanos,
};

use super::matching::cancelled;
use super::{Kind, Market, Order, Place, ReferenceEngine};

impl Market {
    /// Takes an order out and says so, the book's own word excepted.
    pub(super) fn expel(&mut self, id: OrderId, reason: CancelReason, out: &mut Vec<Event>) {
        let order = self.remove(id);
        out.push(cancelled(self.spec.id, &order, reason));
        self.tell_level_of(&order, out);
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
        for at in 0..self.markets.len() {
            self.shut_reporting(self.markets[at].spec.id, SessionReason::Scheduled, out);
            let since = out.len();
            for id in self.markets[at].numbers(|_| true) {
                let Some(order) = self.markets[at].get(id).copied() else { continue };
                if order.is_active() && order.tif == TimeInForce::AnyCall {
                    self.markets[at].park(id, out);
                } else if let Some(reason) = self.reason_at_day_end(&order) {
                    self.markets[at].expel(id, reason, out);
                }
            }
            self.settle(at, None, out);
            self.conclude(at, since, out);
            self.markets[at].turn_day();
            self.markets[at].remaining = RemainingSessions::default();
        }
        out.push(Event::DayEnded);
    }

    fn reason_at_day_end(&self, order: &Order) -> Option<CancelReason> {
        let is_active = matches!(order.place, Place::Active | Place::Elected);
        if is_active && order.kind == Kind::Market {
            return Some(CancelReason::DayEnded);
        }
        match order.tif {
            TimeInForce::AnyCall => None,
            TimeInForce::GoodTillDate { day } => (day <= self.day).then_some(CancelReason::DateReached),
            TimeInForce::GoodTillCancel => {
                let is_old = order.entered.0 > 0 && self.day.0 >= order.entered.0.saturating_add(90);
                is_old.then_some(CancelReason::NinetyDays)
            }
            _ => Some(CancelReason::DayEnded),
        }
    }

    pub(super) fn pass_time(&mut self, out: &mut Vec<Event>) {
        for at in 0..self.markets.len() {
            let market = &self.markets[at];
            if market.phase.is_call() {
                continue;
            }
            let mut over: Vec<(VenueNanos, OrderId)> = Vec::new();
            for order in &market.orders {
                if let TimeInForce::GoodTillTime { at } = order.tif
                    && at <= self.now
                {
                    over.push((at, order.id));
                }
            }
            over.sort();
            if over.is_empty() {
                continue;
            }
            let since = out.len();
            for (_, id) in over {
                self.markets[at].expel(id, CancelReason::TimeReached, out);
            }
            self.settle(at, None, out);
            self.conclude(at, since, out);
        }
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
        for at in 0..self.markets.len() {
            let market = &mut self.markets[at];
            let ids = market.numbers(|order| leaves(market, order));
            if ids.is_empty() {
                continue;
            }
            let since = out.len();
            for id in ids {
                market.expel(id, reason, out);
                gone += 1;
            }
            self.settle(at, None, out);
            self.conclude(at, since, out);
        }
        gone
    }
}
