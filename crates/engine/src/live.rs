//! Live orders wherever they are: put aside, taken off, brought into the book; and how a command on a market that is not
//! plain ends.
//!
//! Holds       1. an order that is kept beside the book counts and reserves as one in it;
//!             2. a command's last word is `BookChanged` exactly when it said something public of the instrument.
//! Start at    `Engine::keep`, then `Engine::conclude`.

use pitwire_model::{AccountId, CancelReason, Event, InstrumentId, Lots, OrderId, OrderType, Phase, Side, Ticks};

use crate::book::{OrderOrigin, Owner, RestingOrder, Slot};
use crate::engine::{Engine, EventSink};
use crate::market::Market;
use crate::matching::{IncomingOrder, end_of_book};
use crate::rule_tables::{MatchingMode, Tif, session_permissions};
use crate::settle::set_aside;
use crate::special::{IndicativeUncross, UndisplayedOrder, UndisplayedState};

/// Best visible price of each side, and the visible quantity there.
pub(crate) type Touch = [Option<(Ticks, u64)>; 2];

/// Passes events on and remembers whether any of them was public.
pub(crate) struct PublicEventTracker<'a, S> {
    pub out: &'a mut S,
    pub public: bool,
}

impl<'a, S: EventSink> PublicEventTracker<'a, S> {
    pub fn new(out: &'a mut S) -> Self {
        PublicEventTracker { out, public: false }
    }
}

impl<S: EventSink> EventSink for PublicEventTracker<'_, S> {
    fn emit(&mut self, event: Event) {
        // Journals of the first release tell a phase and count nothing.
        self.public |= event.is_public() && !matches!(event, Event::PhaseChanged { .. });
        self.out.emit(event);
    }
}

impl Engine {
    /// The next place in time.
    #[inline]
    pub(crate) fn next_time(&mut self) -> u64 {
        self.times += 1;
        self.times
    }

    /// Puts a new live order beside the book: counts it, reserves for it, makes it known.
    pub(crate) fn keep(&mut self, instrument: InstrumentId, order: UndisplayedOrder) -> Slot {
        let Engine { accounts, markets, orders, .. } = self;
        let market = &mut markets[instrument.0 as usize];
        let slot = market.put_kept(order);
        orders.insert(order.id, instrument, slot);
        accounts[order.account.0 as usize].open_orders += 1;
        set_aside(accounts, market, order.account, order.side, order.reserve_price(), i128::from(order.open));
        slot
    }

    /// Takes an order that is kept beside the book out of the venue, without a word. `None` when none is there.
    pub(crate) fn drop_kept(&mut self, instrument: InstrumentId, slot: Slot) -> Option<UndisplayedOrder> {
        let Engine { accounts, markets, orders, .. } = self;
        let market = &mut markets[instrument.0 as usize];
        let order = market.take_kept(slot)?;
        orders.remove(order.id);
        accounts[order.account.0 as usize].open_orders -= 1;
        set_aside(accounts, market, order.account, order.side, order.reserve_price(), -i128::from(order.open));
        Some(order)
    }

    #[cold]
    pub(crate) fn take_off_kept(
        &mut self,
        instrument: InstrumentId,
        slot: Slot,
        reason: CancelReason,
        out: &mut impl EventSink,
    ) {
        let Some(UndisplayedOrder { id: order, account, side, kind, open, .. }) = self.drop_kept(instrument, slot)
        else {
            return;
        };
        let price = kind.limit_price().unwrap_or(Ticks::ZERO);
        out.emit(Event::Cancelled { order, account, instrument, side, price, open: Lots(u64::from(open)), reason });
    }

    /// An order that nothing matches now comes into the book: a market order waits unpriced, a
    /// hidden one rests unseen, the others on their level.
    pub(crate) fn join(&mut self, order: &IncomingOrder, out: &mut impl EventSink) {
        let IncomingOrder { id, account, instrument, side, price, open, ordered, bound, minimum, origin, .. } = *order;
        let (kind, place) = if minimum > 0 {
            (OrderType::Hidden { price, minimum_execution: Lots(u64::from(minimum)) }, UndisplayedState::Hidden)
        } else if order.is_market() {
            (OrderType::Market, UndisplayedState::Unpriced)
        } else {
            return self.rest(order, open, out);
        };
        self.keep(
            instrument,
            UndisplayedOrder { id, account, side, place, kind, open, ordered, display: 0, bound, mode: None, origin },
        );
        if place == UndisplayedState::Hidden {
            self.markets[instrument.0 as usize].special.arrivals.push(id);
        }
    }

    /// Sets an active order aside, with its time: as it stands in the book, or unpriced.
    pub(crate) fn park(&mut self, instrument: InstrumentId, slot: Slot, out: &mut impl EventSink) {
        let Engine { markets, orders, .. } = self;
        let market = &mut markets[instrument.0 as usize];
        if slot.is_kept() {
            if let Some(order) = market.relocate_kept(slot, |order| order.place = UndisplayedState::Parked) {
                let UndisplayedOrder { id: order, account, open, .. } = order;
                out.emit(Event::Parked { order, account, instrument, open: Lots(u64::from(open)) });
            }
            return;
        }
        let origin = market.book.origin(slot);
        let (order, lots) = market.book.remove(slot);
        let (id, account, side, price) = (order.id, order.owner.account(), order.owner.side(), order.price);
        let open = order.total_open();
        market.whole_changed(side, Some(price), -i64::from(open));
        let kept = UndisplayedOrder {
            id,
            account,
            side,
            place: UndisplayedState::Parked,
            kind: OrderType::Limit { price },
            open,
            ordered: order.ordered,
            display: order.display,
            bound: Ticks::ZERO,
            mode: None,
            origin,
        };
        let slot = market.put_kept(kept);
        orders.remove(id);
        orders.insert(id, instrument, slot);
        out.emit(Event::Parked { order: id, account, instrument, open: Lots(u64::from(open)) });
        out.emit(Event::Level { instrument, side, price, lots: Lots(lots) });
    }

    /// Brings a parked order into the book, at its place in time.
    pub(crate) fn inject(&mut self, instrument: InstrumentId, slot: Slot, out: &mut impl EventSink) {
        let Engine { markets, orders, .. } = self;
        let market = &mut markets[instrument.0 as usize];
        let Some(order) = market.special.get(slot).copied() else { return };
        let UndisplayedOrder { id, account, side, kind, open, ordered, display, origin, .. } = order;
        out.emit(Event::Injected { order: id, account, instrument });
        let Some(price) = kind.limit_price() else {
            market.relocate_kept(slot, |order| (order.place, order.mode) = (UndisplayedState::Unpriced, None));
            return;
        };
        market.take_kept(slot);
        let shown = if display == 0 { open } else { open.min(display) };
        let owner = Owner::new(account, side, origin.tif == Tif::Day);
        let resting = RestingOrder { id, price, open: shown, ordered, owner, hidden: open - shown, display };
        let (slot, lots) = market.book.rest_by_time(resting, origin);
        market.whole_changed(side, Some(price), i64::from(open));
        orders.remove(id);
        orders.insert(id, instrument, slot);
        out.emit(Event::Level { instrument, side, price, lots: Lots(lots) });
    }

    /// An order that is kept as one that comes in: an elected stop, or an order that arrives in the cross.
    pub(crate) fn incoming_of(&self, instrument: InstrumentId, order: &UndisplayedOrder) -> IncomingOrder {
        let UndisplayedOrder { id, account, side, kind, open, ordered, display, bound, mode, origin, .. } = *order;
        let price = kind.limit_price().unwrap_or(Ticks::ZERO);
        let limit = match kind.limit_price() {
            Some(price) => price,
            None if bound == Ticks::ZERO => end_of_book(side),
            None => bound,
        };
        let usual = self.account(account).map(|holder| holder.spec.settings.self_match);
        IncomingOrder {
            id,
            account,
            instrument,
            side,
            price,
            limit,
            bound,
            open,
            ordered,
            peak: display,
            minimum: order.minimum(),
            day: origin.tif == Tif::Day,
            rests: kind.limit_price().is_some() && origin.tif.rests(),
            whole: origin.tif == Tif::FillOrKill,
            mode: mode.or(usual).unwrap_or_default(),
            origin,
        }
    }

    /// What the public saw best before a command that may change it.
    pub(crate) fn touch_of(&self, instrument: InstrumentId) -> Option<Touch> {
        self.market(instrument).map(Market::touch)
    }

    /// Ends a command's work on one instrument: `touch` is what the public saw before it, `None` where that is to be
    /// forgotten. Settles what trades continuously, tells what a call would do, and says
    /// `BookChanged` when something public was said.
    pub(crate) fn conclude<S: EventSink>(
        &mut self,
        instrument: InstrumentId,
        touch: Option<Touch>,
        out: &mut PublicEventTracker<'_, S>,
    ) {
        if !self.markets[instrument.0 as usize].plain {
            self.conclude_special(instrument, touch, out);
        }
        if out.public {
            self.book_changed(instrument, out);
        }
    }

    #[cold]
    fn conclude_special<S: EventSink>(
        &mut self,
        instrument: InstrumentId,
        touch: Option<Touch>,
        out: &mut PublicEventTracker<'_, S>,
    ) {
        let at = instrument.0 as usize;
        if self.markets[at].phase == Phase::Continuous {
            self.settle(instrument, touch, out);
        }
        if self.markets[at].gathers() && !self.markets[at].special.missed {
            self.indicate(instrument, out);
        }
        let market = &mut self.markets[at];
        market.special.arrivals.clear();
        market.judge();
    }

    /// Tells what the call would do now, if that is not what was told last.
    pub(crate) fn indicate(&mut self, instrument: InstrumentId, out: &mut impl EventSink) {
        let now = self.indicative(instrument);
        if self.markets[instrument.0 as usize].special.indicated != now {
            self.tell_indicative(instrument, now, out);
        }
    }

    pub(crate) fn tell_indicative(
        &mut self,
        instrument: InstrumentId,
        now: IndicativeUncross,
        out: &mut impl EventSink,
    ) {
        self.markets[instrument.0 as usize].special.indicated = now;
        let (price, volume, imbalance) = (now.price, Lots(now.volume), now.imbalance);
        out.emit(Event::Indicative { instrument, price, volume, imbalance });
    }

    /// Who owns a live order, wherever it is.
    #[inline]
    pub(crate) fn account_at(&self, instrument: InstrumentId, slot: Slot) -> Option<AccountId> {
        let market = &self.markets[instrument.0 as usize];
        if slot.is_kept() {
            return market.special.get(slot).map(|order| order.account);
        }
        Some(market.book.account_of(slot))
    }

    /// Slots of the live orders wanted, by account and origin, in the order in which they were entered. Costs all live
    /// orders of the instrument.
    pub(crate) fn live_slots(
        &self,
        at: usize,
        wanted: impl Fn(AccountId, &OrderOrigin) -> bool,
    ) -> Vec<(OrderId, Slot)> {
        let market = &self.markets[at];
        let mut found = market.book.slots_of(|order, origin| wanted(order.owner.account(), origin));
        if market.special.len() > 0 {
            let kept = market.special.unordered().filter(|(_, order)| wanted(order.account, &order.origin));
            found.extend(kept.map(|(slot, order)| (order.id, slot)));
            found.sort_unstable_by_key(|(id, _)| *id);
        }
        found
    }
}

impl Market {
    pub(crate) fn put_kept(&mut self, order: UndisplayedOrder) -> Slot {
        if order.place == UndisplayedState::Unpriced {
            self.whole_changed(order.side, order.bounded_price(), i64::from(order.open));
        }
        self.kept += 1;
        // Until the command ends and all is judged.
        self.plain = false;
        self.special.put(order)
    }

    pub(crate) fn take_kept(&mut self, slot: Slot) -> Option<UndisplayedOrder> {
        let order = self.special.take(slot)?;
        self.kept -= 1;
        if order.place == UndisplayedState::Unpriced {
            self.whole_changed(order.side, order.bounded_price(), -i64::from(order.open));
        }
        Some(order)
    }

    pub(crate) fn relocate_kept(
        &mut self,
        slot: Slot,
        change: impl FnOnce(&mut UndisplayedOrder),
    ) -> Option<UndisplayedOrder> {
        let old = *self.special.get(slot)?;
        let new = self.special.relocate(slot, change)?;
        for (order, sign) in [(old, -1), (new, 1)] {
            if order.place == UndisplayedState::Unpriced {
                self.whole_changed(order.side, order.bounded_price(), sign * i64::from(order.open));
            }
        }
        Some(new)
    }

    pub(crate) fn touch(&self) -> Touch {
        [Side::Buy, Side::Sell].map(|side| self.best(side).map(|(price, lots)| (price, lots.0)))
    }

    /// Orders gather here for one price: a call, or continuous trading by batches.
    pub(crate) fn gathers(&self) -> bool {
        session_permissions(self.phase).matching == MatchingMode::Uncross || self.batches()
    }
}
