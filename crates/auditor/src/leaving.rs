//! Cancels of one order and of many: exactly those that were asked for go, in their order, for the one reason.

use std::collections::BTreeMap;

use pitwire_model::{AccountId, CancelFilter, CancelReason, Epoch, Event, InstrumentId, OrderId, Reject};

use crate::Auditor;
use crate::book::Live;
use crate::fault::{Judged, offence};
use crate::turn::Turn;

impl Auditor {
    /// Judges the events by which these orders leave: instrument by instrument, in each in the order of entry.
    pub(crate) fn follow_leaving(
        &mut self,
        turn: &mut Turn<'_>,
        leaves: impl IntoIterator<Item = (InstrumentId, OrderId)>,
        reason: CancelReason,
    ) -> Judged {
        let mut books: BTreeMap<InstrumentId, Vec<OrderId>> = BTreeMap::new();
        for (instrument, order) in leaves {
            books.entry(instrument).or_default().push(order);
        }
        for (instrument, mut orders) in books {
            orders.sort_unstable();
            orders.dedup();
            let before = self.market_of(instrument).book.touch();
            for order in orders {
                self.see_leaving(turn, order, reason)?;
            }
            if let Some(Event::Cancelled { order, reason, .. }) = self.peek(turn)?
                && self.orders.get(order).is_some_and(|live| live.instrument == instrument)
            {
                offence!(M4, "order {order} was cancelled ({reason:?}) and nobody asked for it");
            }
            self.settle_book(turn, instrument, Some(before), None)?;
            self.conclude(turn, instrument)?;
        }
        Ok(())
    }

    /// All live orders of which this is true.
    pub(crate) fn live_where(&self, wanted: impl Fn(&Live) -> bool) -> Vec<(InstrumentId, OrderId)> {
        self.orders.values().filter(|live| wanted(live)).map(|live| (live.instrument, live.id)).collect()
    }

    /// An account's orders of which this is true.
    pub(crate) fn live_of(&self, account: AccountId, wanted: impl Fn(&Live) -> bool) -> Vec<(InstrumentId, OrderId)> {
        let holder = self.ledger.accounts.get(account.0 as usize);
        let all = holder.into_iter().flat_map(|holder| &holder.live_orders);
        all.filter(|(_, id)| self.orders.get(id).is_some_and(&wanted)).copied().collect()
    }

    pub(crate) fn judge_cancel(&mut self, turn: &mut Turn<'_>, account: AccountId, order: OrderId) -> Judged {
        let (due, instrument) = match self.orders.get(&order) {
            None => (Some(Reject::UnknownOrder), None),
            Some(live) if live.account != account => (Some(Reject::NotOwner), None),
            Some(live) => (None, Some(live.instrument)),
        };
        if let Some(Event::CancelRefused { order: told, account: whose, reason }) = self.peek(turn)?
            && (*told, *whose) == (order, account)
            && due == Some(*reason)
        {
            turn.pass();
            return self.nothing_follows(turn);
        }
        if let Some(reason) = due {
            offence!(S1, "a cancel of order {order} was to be refused ({}) and was not", reason.name());
        }
        let named = instrument.map(|instrument| (instrument, order));
        self.follow_leaving(turn, named, CancelReason::Requested)?;
        self.nothing_follows(turn)
    }

    pub(crate) fn judge_cancel_all(
        &mut self,
        turn: &mut Turn<'_>,
        account: AccountId,
        which: &CancelFilter,
        reason: CancelReason,
    ) -> Judged {
        let leaves = match which {
            CancelFilter::All => self.live_of(account, |_| true),
            CancelFilter::Instrument(instrument) => self.live_of(account, |live| live.instrument == *instrument),
            CancelFilter::Session(session) => self.live_of(account, |live| live.session == *session),
            CancelFilter::Listed(orders) => {
                let named = orders.iter().filter_map(|id| self.orders.get(id));
                named.filter(|live| live.account == account).map(|live| (live.instrument, live.id)).collect()
            }
        };
        self.follow_leaving(turn, leaves, reason)?;
        self.nothing_follows(turn)
    }

    /// A new epoch: nothing of the sessions of the last one is left.
    pub(crate) fn judge_epoch(&mut self, turn: &mut Turn<'_>, epoch: Epoch) -> Judged {
        let leaves = self.live_where(|live| live.cancel_on_disconnect);
        self.follow_leaving(turn, leaves, CancelReason::Disconnected)?;
        match self.peek(turn)? {
            Some(Event::EpochStarted { epoch: told }) if *told == epoch => turn.pass(),
            _ => offence!(S1, "epoch {epoch} was to start and did not"),
        }
        self.killed_sessions.clear();
        self.nothing_follows(turn)
    }
}
