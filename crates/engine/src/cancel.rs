//! Orders leave by their owner's word, or because something they hang on is gone.
//!
//! Holds       mass cancels go instrument by instrument, within one in the order of entry, and end each instrument's
//!             changes with one number.
//! Costs       a cancel: constant; a list: its length, plus sorting; others: the orders of the books concerned, plus
//!             sorting those they take.

use pitwire_model::{AccountId, CancelFilter, CancelReason, Event, InstrumentId, Lots, OrderId, Reject};

use crate::book::{OrderOrigin, Slot};
use crate::engine::{Engine, EventSink};
use crate::live::PublicEventTracker;
use crate::settle::set_aside;

impl Engine {
    pub(crate) fn cancel(&mut self, account: AccountId, order: OrderId, out: &mut impl EventSink) {
        match self.owned(account, order) {
            Err(reason) => out.emit(Event::CancelRefused { order, account, reason }),
            Ok((instrument, slot)) if self.markets[instrument.0 as usize].plain && !slot.is_kept() => {
                self.take_off(instrument, slot, CancelReason::Requested, out);
                self.book_changed(instrument, out);
            }
            Ok((instrument, slot)) => self.cancel_special(instrument, slot, CancelReason::Requested, out),
        }
    }

    /// Takes one order off where that may have consequences, or may be nobody's business.
    #[cold]
    pub(crate) fn cancel_special(
        &mut self,
        instrument: InstrumentId,
        slot: Slot,
        reason: CancelReason,
        out: &mut impl EventSink,
    ) {
        let (touch, mut out) = (self.touch_of(instrument), PublicEventTracker::new(out));
        self.take_off(instrument, slot, reason, &mut out);
        self.conclude(instrument, touch, &mut out);
    }

    #[inline]
    pub(crate) fn owned(&self, account: AccountId, order: OrderId) -> Result<(InstrumentId, Slot), Reject> {
        let (instrument, slot) = self.orders.get(order).ok_or(Reject::UnknownOrder)?;
        let owner = self.account_at(instrument, slot);
        if owner == Some(account) { Ok((instrument, slot)) } else { Err(Reject::NotOwner) }
    }

    #[inline]
    pub(crate) fn take_off(
        &mut self,
        instrument: InstrumentId,
        slot: Slot,
        reason: CancelReason,
        out: &mut impl EventSink,
    ) {
        if slot.is_kept() {
            return self.take_off_kept(instrument, slot, reason, out);
        }
        let market = &mut self.markets[instrument.0 as usize];
        let (order, lots) = market.book.remove(slot);
        if !market.plain {
            market.whole_changed(order.owner.side(), Some(order.price), -i64::from(order.total_open()));
        }
        self.orders.remove(order.id);
        let (account, side, open) = (order.owner.account(), order.owner.side(), order.total_open());
        self.accounts[account.0 as usize].open_orders -= 1;
        set_aside(&mut self.accounts, market, account, side, order.price, -i128::from(open));
        let open = Lots(u64::from(open));
        out.emit(Event::Cancelled { order: order.id, account, instrument, side, price: order.price, open, reason });
        out.emit(Event::Level { instrument, side, price: order.price, lots: Lots(lots) });
    }

    pub(crate) fn cancel_all(
        &mut self,
        account: AccountId,
        which: &CancelFilter,
        reason: CancelReason,
        out: &mut impl EventSink,
    ) {
        let owned = |owner: AccountId, _: &OrderOrigin| owner == account;
        match which {
            CancelFilter::All => _ = self.take_off_where(None, reason, owned, out),
            CancelFilter::Instrument(only) => _ = self.take_off_where(Some(*only), reason, owned, out),
            CancelFilter::Session(session) => {
                let owned = |owner: AccountId, origin: &OrderOrigin| owner == account && origin.session == *session;
                self.take_off_where(None, reason, owned, out);
            }
            CancelFilter::Listed(orders) => self.take_off_listed(account, orders, reason, out),
        }
    }

    /// Returns how many orders went.
    pub(crate) fn take_off_where(
        &mut self,
        only: Option<InstrumentId>,
        reason: CancelReason,
        wanted: impl Fn(AccountId, &OrderOrigin) -> bool,
        out: &mut impl EventSink,
    ) -> u32 {
        let mut taken = 0;
        for at in 0..self.markets.len() {
            let instrument = self.markets[at].spec.id;
            if only.is_some_and(|only| only != instrument) {
                continue;
            }
            let found = self.live_slots(at, &wanted);
            if found.is_empty() {
                continue;
            }
            let (touch, mut out) = (self.touch_of(instrument), PublicEventTracker::new(out));
            for (_, slot) in &found {
                self.take_off(instrument, *slot, reason, &mut out);
                taken += 1;
            }
            self.conclude(instrument, touch, &mut out);
        }
        taken
    }

    fn take_off_listed(
        &mut self,
        account: AccountId,
        orders: &[OrderId],
        reason: CancelReason,
        out: &mut impl EventSink,
    ) {
        let place = |id: &OrderId| self.owned(account, *id).ok().map(|(instrument, slot)| (instrument, *id, slot));
        let mut found: Vec<(InstrumentId, OrderId, Slot)> = orders.iter().filter_map(place).collect();
        found.sort_unstable_by_key(|(instrument, id, _)| (*instrument, *id));
        found.dedup_by_key(|(_, id, _)| *id);
        for of_one in found.chunk_by(|(a, ..), (b, ..)| a == b) {
            let instrument = of_one[0].0;
            let (touch, mut out) = (self.touch_of(instrument), PublicEventTracker::new(out));
            for (_, _, slot) in of_one {
                self.take_off(instrument, *slot, reason, &mut out);
            }
            self.conclude(instrument, touch, &mut out);
        }
    }
}
