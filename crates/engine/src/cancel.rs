//! Cancels by owner, mass cancels, and other commands that remove orders.
//!
//! Holds       a mass cancel proceeds by instrument, and by order id within one; each instrument's
//!             changes end with one change number.
//! Costs       a cancel: constant; a list: its length, plus sorting; others: the orders of the
//!             books concerned, plus sorting the orders that are removed.
//! Start at    [`Engine::cancel`].

use pitwire_model::{AccountId, CancelFilter, CancelReason, Event, InstrumentId, OrderId, Reject};

use crate::book::{OrderOrigin, Slot};
use crate::command_end::MarketCommand;
use crate::engine::Engine;
use crate::event_sink::EventSink;
use crate::market_context::MarketContext;

impl Engine {
    /// HOT. Cancels an order by its owner's request.
    #[inline]
    pub(crate) fn cancel(&mut self, account: AccountId, order: OrderId, out: &mut impl EventSink) {
        match self.owned_order(account, order) {
            Err(reason) => out.emit(Event::CancelRefused { order, account, reason }),
            Ok((instrument, slot)) => {
                let mut context = self.context(instrument);
                if context.market.plain && !slot.is_undisplayed() {
                    context.cancel_live(slot, CancelReason::Requested, out);
                    context.emit_book_changed(out);
                } else {
                    context.cancel_special(slot, CancelReason::Requested, out);
                }
            }
        }
    }

    /// Finds a live order of `account`.
    ///
    /// # Errors
    /// `UnknownOrder`, or `NotOwner` if the order belongs to another account.
    #[inline]
    pub(crate) fn owned_order(&self, account: AccountId, order: OrderId) -> Result<(InstrumentId, Slot), Reject> {
        let (instrument, slot) = self.orders.get(order).ok_or(Reject::UnknownOrder)?;
        let owner = self.markets.as_slice()[instrument.0 as usize].account_at(slot);
        if owner == Some(account) { Ok((instrument, slot)) } else { Err(Reject::NotOwner) }
    }

    pub(crate) fn cancel_all(
        &mut self,
        account: AccountId,
        which: &CancelFilter,
        reason: CancelReason,
        out: &mut impl EventSink,
    ) {
        let is_owned = |owner: AccountId, _: &OrderOrigin| owner == account;
        match which {
            CancelFilter::All => _ = self.cancel_where(None, reason, is_owned, out),
            CancelFilter::Instrument(only) => _ = self.cancel_where(Some(*only), reason, is_owned, out),
            CancelFilter::Session(session) => {
                let is_wanted = |owner: AccountId, origin: &OrderOrigin| owner == account && origin.session == *session;
                self.cancel_where(None, reason, is_wanted, out);
            }
            CancelFilter::Listed(orders) => self.cancel_listed(account, orders, reason, out),
        }
    }

    /// Cancels the orders that `wanted` selects by account and origin, on one instrument or on all.
    /// Returns how many.
    pub(crate) fn cancel_where(
        &mut self,
        only: Option<InstrumentId>,
        reason: CancelReason,
        wanted: impl Fn(AccountId, &OrderOrigin) -> bool,
        out: &mut impl EventSink,
    ) -> u32 {
        let mut cancelled = 0;
        for instrument in self.markets.ids() {
            if only.is_some_and(|only| only != instrument) {
                continue;
            }
            let mut context = self.context(instrument);
            let found = context.market.live_slots(&wanted);
            if found.is_empty() {
                continue;
            }
            let mut command = MarketCommand::begin(&mut context, out);
            for (_, slot) in &found {
                command.cancel(*slot, reason);
                cancelled += 1;
            }
            command.finish();
        }
        cancelled
    }

    fn cancel_listed(
        &mut self,
        account: AccountId,
        orders: &[OrderId],
        reason: CancelReason,
        out: &mut impl EventSink,
    ) {
        let find = |id: &OrderId| self.owned_order(account, *id).ok().map(|(instrument, slot)| (instrument, *id, slot));
        let mut found: Vec<(InstrumentId, OrderId, Slot)> = orders.iter().filter_map(find).collect();
        found.sort_unstable_by_key(|(instrument, id, _)| (*instrument, *id));
        found.dedup_by_key(|(_, id, _)| *id);
        for of_instrument in found.chunk_by(|(a, ..), (b, ..)| a == b) {
            let mut context = self.context(of_instrument[0].0);
            let mut command = MarketCommand::begin(&mut context, out);
            for (_, _, slot) in of_instrument {
                command.cancel(*slot, reason);
            }
            command.finish();
        }
    }
}

impl MarketContext<'_> {
    /// Cancels one order on a market that is not plain, or one that is not displayed.
    #[cold]
    pub fn cancel_special(&mut self, slot: Slot, reason: CancelReason, out: &mut impl EventSink) {
        let mut command = MarketCommand::begin(self, out);
        command.cancel(slot, reason);
        command.finish();
    }
}
