//! An amend that is not plain: of an order beside the book, in a session or market that is not plain, or of other terms
//! than price and quantity.
//!
//! Holds       1. the first check that fails is the answer; until all have passed nothing changes;
//!             2. only continuous trading and the cross match a changed order; elsewhere it goes to the back;
//!             3. what costs the place costs the time.
//! Costs       an entry's; no loops of its own.
//! Start at    `Engine::amend_special`.

use pitwire_model::{
    Amend, Event, Expiry, InstrumentId, Lots, OrderId, OrderType, Phase, PostOnly, Priority, Reject, Side, Ticks,
    TimeInForce, VenueDay, VenueNanos,
};

use crate::account::Account;
use crate::amend::quantities;
use crate::book::{OrderOrigin, RestingOrder, Slot};
use crate::engine::{Engine, EventSink};
use crate::enter::{check_price, whole_lots};
use crate::limits::peak_of;
use crate::live::PublicEventTracker;
use crate::market::Market;
use crate::matching::{IncomingOrder, end_of_book};
use crate::rule_tables::{MatchingMode, Tif, session_permissions};
use crate::settle::set_aside;
use crate::special::{UndisplayedOrder, UndisplayedState};

/// A live order, wherever it is, as it is or as it shall be.
#[derive(Clone, Copy, Debug)]
struct LiveOrder {
    id: OrderId,
    instrument: InstrumentId,
    slot: Slot,
    side: Side,
    /// `None`: on a level of the book.
    place: Option<UndisplayedState>,
    kind: OrderType,
    open: u32,
    ordered: u32,
    display: u32,
    bound: Ticks,
    origin: OrderOrigin,
    expiry: Option<Expiry>,
}

impl LiveOrder {
    /// Zero for what has no limit.
    fn price(&self) -> Ticks {
        self.kind.limit_price().unwrap_or(Ticks::ZERO)
    }

    fn minimum(&self) -> Option<Lots> {
        match self.kind {
            OrderType::Hidden { minimum_execution, .. } => Some(minimum_execution),
            _ => None,
        }
    }

    /// Where it sets money aside.
    fn reserve_price(&self) -> Ticks {
        self.kind.limit_price().unwrap_or(self.bound)
    }

    /// Whether it can stand on a level, now or once its time has come.
    fn may_rest(&self) -> bool {
        self.kind.limit_price().is_some() && self.minimum().is_none() && self.origin.tif.rests()
    }

    /// Side, type and time in force never change, and what an order has none of cannot be given.
    fn check_amendable(&self, amend: &Amend) -> Result<(), Reject> {
        let price = self.kind.limit_price().is_some() || amend.price == Ticks::ZERO;
        let stop = amend.stop.is_none() || self.kind.stop_price().is_some();
        let minimum = amend.minimum_execution.is_none() || self.minimum().is_some();
        let expiry = match amend.expiry {
            None => true,
            Some(Expiry::Day(_)) => self.origin.tif == Tif::GoodTillDate,
            Some(Expiry::Time(_)) => self.origin.tif == Tif::GoodTillTime,
        };
        if price && stop && minimum && expiry { Ok(()) } else { Err(Reject::NotAmendable) }
    }

    /// Whether nothing about the order changes but that there is no more of it.
    fn only_reduces(&self, amend: &Amend) -> bool {
        let most = match amend.priority {
            Priority::KeepWhenReduced => self.ordered,
            Priority::AlwaysLose => self.open,
        };
        amend.price == self.price()
            && amend.lots.0 <= u64::from(most)
            && amend.display.is_none_or(|display| display.0 == u64::from(self.display))
            && amend.stop.is_none_or(|stop| self.kind.stop_price() == Some(stop))
            && amend.minimum_execution.is_none_or(|minimum| self.minimum() == Some(minimum))
            && amend.expiry.is_none_or(|expiry| self.expiry == Some(expiry))
    }

    /// Whether it stays where it is once it has become `new`.
    fn keeps_place(&self, new: &LiveOrder, priority: Priority) -> bool {
        priority == Priority::KeepWhenReduced
            && new.open <= self.open
            && new.display == self.display
            && (new.price() == self.price() || self.place == Some(UndisplayedState::Unelected))
    }

    fn incoming(&self, holder: &Account) -> IncomingOrder {
        let price = self.price();
        let limit = match self.reserve_price() {
            Ticks::ZERO => end_of_book(self.side),
            bound => bound,
        };
        IncomingOrder {
            id: self.id,
            account: holder.spec.id,
            instrument: self.instrument,
            side: self.side,
            price,
            limit,
            open: self.open,
            ordered: self.ordered,
            peak: self.display,
            day: self.origin.tif == Tif::Day,
            rests: self.kind.limit_price().is_some() && self.origin.tif.rests(),
            minimum: self.minimum().map_or(0, |minimum| u32::try_from(minimum.0).unwrap_or(u32::MAX)),
            bound: self.bound,
            whole: false,
            mode: holder.spec.settings.self_match,
            origin: self.origin,
        }
    }

    fn amended(&self, holder: &Account, kept_priority: bool) -> Event {
        Event::Amended {
            order: self.id,
            account: holder.spec.id,
            instrument: self.instrument,
            side: self.side,
            price: self.price(),
            lots: Lots(u64::from(self.ordered)),
            open: Lots(u64::from(self.open)),
            kept_priority,
            display: (self.display > 0).then_some(Lots(u64::from(self.display))),
            stop: self.kind.stop_price(),
            minimum_execution: self.minimum(),
            expiry: self.expiry,
        }
    }
}

impl Market {
    /// Until when an order lives, if it has a date or a time.
    pub(crate) fn expiry_of(&self, order: OrderId, origin: &OrderOrigin) -> Option<Expiry> {
        match origin.tif {
            Tif::GoodTillDate => Some(Expiry::Day(VenueDay(u32::from(origin.day)))),
            Tif::GoodTillTime => self.special.times.of(order).map(Expiry::Time),
            _ => None,
        }
    }

    fn standing(&self, slot: Slot) -> Option<LiveOrder> {
        let instrument = self.spec.id;
        if slot.is_kept() {
            let UndisplayedOrder { id, side, place, kind, open, ordered, display, bound, origin, .. } =
                *self.special.get(slot)?;
            let (place, expiry) = (Some(place), self.expiry_of(id, &origin));
            return Some(LiveOrder {
                id,
                instrument,
                slot,
                side,
                place,
                kind,
                open,
                ordered,
                display,
                bound,
                origin,
                expiry,
            });
        }
        let (order, origin) = (self.book.get(slot), self.book.origin(slot));
        Some(LiveOrder {
            id: order.id,
            instrument,
            slot,
            side: order.owner.side(),
            place: None,
            kind: OrderType::Limit { price: order.price },
            open: order.total_open(),
            ordered: order.ordered,
            display: order.display,
            bound: Ticks::ZERO,
            origin,
            expiry: self.expiry_of(order.id, &origin),
        })
    }
}

impl Engine {
    #[cold]
    pub(crate) fn amend_special(
        &mut self,
        amend: &Amend,
        (instrument, slot): (InstrumentId, Slot),
        out: &mut impl EventSink,
    ) {
        match self.check_amend_special(amend, instrument, slot) {
            Err(reason) => out.emit(Event::AmendRefused { order: amend.order, account: amend.account, reason }),
            Ok((old, new)) => {
                let (touch, mut out) = (self.touch_of(instrument), PublicEventTracker::new(out));
                self.change_special(amend.priority, &old, new, &mut out);
                self.conclude(instrument, touch, &mut out);
            }
        }
    }

    fn check_amend_special(
        &self,
        amend: &Amend,
        instrument: InstrumentId,
        slot: Slot,
    ) -> Result<(LiveOrder, LiveOrder), Reject> {
        let market = self.market(instrument).ok_or(Reject::UnknownInstrument)?;
        let account = self.account(amend.account).ok_or(Reject::UnknownAccount)?;
        let old = market.standing(slot).ok_or(Reject::UnknownOrder)?;
        let permit = session_permissions(market.phase);
        if !permit.amend {
            return Err(Reject::NotOpen);
        }
        old.check_amendable(amend)?;
        if old.minimum().is_some() && !permit.amend_hidden {
            return Err(Reject::TypeNotAllowedInSession);
        }
        let partial_cancel = old.only_reduces(amend);
        if !partial_cancel {
            self.check_blocks(account, old.origin.session)?;
        }
        let mut new = LiveOrder { expiry: amend.expiry.or(old.expiry), ..old };
        (new.ordered, new.open) = quantities(*amend, old.ordered, old.open)?;
        new.kind = kind_amended(amend, old.kind)?;
        new.display = match amend.display {
            None => old.display,
            Some(_) if !old.may_rest() => return Err(Reject::DisplayOutOfRange),
            display => peak_of(display, whole_lots(amend.lots)?)?,
        };
        if let Some(minimum) = new.minimum() {
            if market.rules().minimum_reserve.is_some_and(|least| Lots(u64::from(new.ordered)) < least) {
                return Err(Reject::QuantityBelowReserve);
            }
            market.minimum_of(minimum, new.open)?;
        }
        if let Some(expiry) = amend.expiry {
            self.check_expiry(as_tif(expiry))?;
        }
        if new.price() != old.price() {
            market.check_band(new.kind.limit_price())?;
        }
        if !partial_cancel {
            self.check_change_special(market, account, amend.post_only, (&old, &mut new))?;
        }
        Ok((old, new))
    }

    /// What an amend that may trade, or add, has to pass; moves a post-only order's price.
    fn check_change_special(
        &self,
        market: &Market,
        account: &Account,
        post_only: PostOnly,
        (old, new): (&LiveOrder, &mut LiveOrder),
    ) -> Result<(), Reject> {
        if post_only != PostOnly::No {
            let OrderType::Limit { price } = new.kind else { return Err(Reject::PostOnlyNotAllowed) };
            if !new.may_rest() || !market.takes_post_only() {
                return Err(Reject::PostOnlyNotAllowed);
            }
            new.kind = OrderType::Limit { price: market.placed(new.side, price, post_only)? };
        }
        market.check_limits_special(&mut new.incoming(account), new.kind.limit_price().is_none())?;
        if account.is_limited() {
            let (price, open) = (old.reserve_price(), (old.open, old.ordered));
            let owner = crate::book::Owner::new(account.spec.id, old.side, false);
            let (id, display) = (old.id, old.display);
            let as_resting = RestingOrder { id, price, open: open.0, ordered: open.1, owner, hidden: 0, display };
            let as_priced = IncomingOrder { price: new.reserve_price(), ..new.incoming(account) };
            self.check_amend_funds(market, &as_resting, &as_priced)?;
        }
        Ok(())
    }

    fn change_special(&mut self, priority: Priority, old: &LiveOrder, mut new: LiveOrder, out: &mut impl EventSink) {
        let (at, kept_priority) = (old.instrument.0 as usize, old.keeps_place(&new, priority));
        if let Some(Expiry::Day(VenueDay(day))) = new.expiry {
            new.origin.day = u16::try_from(day).unwrap_or(u16::MAX);
        }
        if let Some(Expiry::Time(time)) = new.expiry.filter(|_| new.expiry != old.expiry) {
            self.set_time(old.instrument, old.id, time);
        }
        if !kept_priority {
            new.origin.time = self.next_time();
        }
        let market = &self.markets[at];
        let Some(account) = self.account_at(old.instrument, old.slot) else { return };
        let holder = &self.accounts[account.0 as usize];
        let (amended, incoming) = (new.amended(holder, kept_priority), new.incoming(holder));
        let matches = match session_permissions(market.phase).matching {
            MatchingMode::Continuous => !market.batches(),
            MatchingMode::ClosingPrice => old.place != Some(UndisplayedState::Hidden),
            MatchingMode::Uncross | MatchingMode::Nothing => false,
        };
        let active = matches!(old.place, None | Some(UndisplayedState::Hidden | UndisplayedState::Unpriced));
        match old.place {
            None if kept_priority => self.reduce_in_book(old, &new, amended, out),
            Some(_) if kept_priority || !active || !matches => self.change_beside_book(old, &new, amended, out),
            _ => {
                self.step_out(old, amended, out);
                self.step_in(&incoming, out);
            }
        }
    }

    fn set_time(&mut self, instrument: InstrumentId, order: OrderId, time: VenueNanos) {
        let Engine { markets, orders, .. } = self;
        markets[instrument.0 as usize].special.times.set(order, time, |other| orders.contains(other));
    }

    fn reduce_in_book(&mut self, old: &LiveOrder, new: &LiveOrder, amended: Event, out: &mut impl EventSink) {
        let Engine { accounts, markets, .. } = self;
        let market = &mut markets[old.instrument.0 as usize];
        let (side, price, less) = (old.side, old.price(), i64::from(old.open - new.open));
        let account = market.book.account_of(old.slot);
        market.book.set_origin(old.slot, new.origin);
        let lots = Lots(market.book.reduce(old.slot, new.open, new.ordered));
        market.whole_changed(side, Some(price), -less);
        set_aside(accounts, market, account, side, price, -i128::from(less));
        out.emit(amended);
        out.emit(Event::Level { instrument: old.instrument, side, price, lots });
    }

    /// An order beside the book changes where it is; with a new time if that is what it costs.
    fn change_beside_book(&mut self, old: &LiveOrder, new: &LiveOrder, amended: Event, out: &mut impl EventSink) {
        let Engine { accounts, markets, .. } = self;
        let market = &mut markets[old.instrument.0 as usize];
        let changed = market.relocate_kept(old.slot, |kept| {
            (kept.kind, kept.origin, kept.display) = (new.kind, new.origin, new.display);
            (kept.open, kept.ordered) = (new.open, new.ordered);
        });
        if let Some(kept) = changed {
            set_aside(accounts, market, kept.account, old.side, old.reserve_price(), -i128::from(old.open));
            set_aside(accounts, market, kept.account, old.side, new.reserve_price(), i128::from(new.open));
        }
        if old.place == Some(UndisplayedState::Hidden) && market.phase == Phase::Continuous {
            market.special.arrivals.push(old.id);
        }
        out.emit(amended);
    }

    /// Out of its place: the public sees it go, if it saw it.
    fn step_out(&mut self, old: &LiveOrder, amended: Event, out: &mut impl EventSink) {
        if old.slot.is_kept() {
            self.drop_kept(old.instrument, old.slot);
            return out.emit(amended);
        }
        let Engine { accounts, markets, orders, .. } = self;
        let market = &mut markets[old.instrument.0 as usize];
        let (order, lots) = market.book.remove(old.slot);
        let (account, price, open) = (order.owner.account(), order.price, order.total_open());
        market.whole_changed(old.side, Some(price), -i64::from(open));
        orders.remove(order.id);
        accounts[account.0 as usize].open_orders -= 1;
        set_aside(accounts, market, account, old.side, price, -i128::from(open));
        out.emit(amended);
        out.emit(Event::Level { instrument: old.instrument, side: old.side, price, lots: Lots(lots) });
    }

    /// And in again, at the back.
    fn step_in(&mut self, order: &IncomingOrder, out: &mut impl EventSink) {
        let market = &self.markets[order.instrument.0 as usize];
        match session_permissions(market.phase).matching {
            MatchingMode::Continuous if !market.batches() => self.aggress(order, out),
            MatchingMode::ClosingPrice => self.cross(order, out),
            MatchingMode::Continuous | MatchingMode::Uncross | MatchingMode::Nothing => self.join(order, out),
        }
    }
}

/// The order's type with the prices and the minimum that the amend asks for.
fn kind_amended(amend: &Amend, old: OrderType) -> Result<OrderType, Reject> {
    let kind = match old {
        OrderType::Limit { .. } => OrderType::Limit { price: amend.price },
        OrderType::Market => OrderType::Market,
        OrderType::Hidden { minimum_execution, .. } => {
            let minimum_execution = amend.minimum_execution.unwrap_or(minimum_execution);
            OrderType::Hidden { price: amend.price, minimum_execution }
        }
        OrderType::Stop { stop } => OrderType::Stop { stop: amend.stop.unwrap_or(stop) },
        OrderType::StopLimit { stop, .. } => {
            OrderType::StopLimit { stop: amend.stop.unwrap_or(stop), price: amend.price }
        }
    };
    check_price(kind.limit_price())?;
    check_price(kind.stop_price())?;
    Ok(kind)
}

fn as_tif(expiry: Expiry) -> TimeInForce {
    match expiry {
        Expiry::Day(day) => TimeInForce::GoodTillDate { day },
        Expiry::Time(at) => TimeInForce::GoodTillTime { at },
    }
}
