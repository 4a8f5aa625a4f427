//! Cancels of one order and of many: exactly those that were asked for go, in their order, for the one reason.

use std::collections::{BTreeSet, VecDeque};

use pitwire_model::{AccountId, CancelFilter, CancelReason, Epoch, Event, InstrumentId, OrderId, Reject};

use crate::book::Live;
use crate::turn::Turn;
use crate::{Auditor, Judged, offence};

impl Auditor {
    /// Judges the events by which these orders leave.
    pub(crate) fn follow_leaving(
        &mut self,
        leaves: impl IntoIterator<Item = (InstrumentId, OrderId)>,
        reason: CancelReason,
        events: &[Event],
    ) -> Judged {
        // Instrument by instrument, and in each in the order of entry.
        let leaves: VecDeque<_> = BTreeSet::from_iter(leaves).into_iter().collect();
        self.follow(Turn { leaves, reason: Some(reason), ..Turn::default() }, events)
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

    pub(crate) fn judge_cancel(&mut self, account: AccountId, order: OrderId, events: &[Event]) -> Judged {
        let (due, instrument) = match self.orders.get(&order) {
            None => (Some(Reject::UnknownOrder), None),
            Some(live) if live.account != account => (Some(Reject::NotOwner), None),
            Some(live) => (None, Some(live.instrument)),
        };
        if let [Event::CancelRefused { order: told, account: whose, reason }] = events
            && (*told, *whose) == (order, account)
            && due == Some(*reason)
        {
            return Ok(());
        }
        if let Some(reason) = due {
            offence!("a cancel of order {order} was to be refused ({}) and was not", reason.name());
        }
        self.follow_leaving(instrument.map(|instrument| (instrument, order)), CancelReason::Requested, events)
    }

    pub(crate) fn judge_cancel_all(
        &mut self,
        account: AccountId,
        which: &CancelFilter,
        reason: CancelReason,
        events: &[Event],
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
        self.follow_leaving(leaves, reason, events)
    }

    pub(crate) fn judge_day_end(&mut self, events: &[Event]) -> Judged {
        let Some((Event::DayEnded, rest)) = events.split_last() else {
            offence!("the day was to end and did not");
        };
        let leaves = self.live_where(|live| live.day);
        self.follow_leaving(leaves, CancelReason::DayEnded, rest)
    }

    /// A new epoch: nothing of the sessions of the last one is left.
    pub(crate) fn judge_epoch(&mut self, epoch: Epoch, events: &[Event]) -> Judged {
        let rest = match events.split_last() {
            Some((Event::EpochStarted { epoch: told }, rest)) if *told == epoch => rest,
            _ => offence!("epoch {epoch} was to start and did not"),
        };
        let leaves = self.live_where(|live| live.cancel_on_disconnect);
        self.follow_leaving(leaves, CancelReason::Disconnected, rest)?;
        self.killed_sessions.clear();
        Ok(())
    }
}
