//! Amends that are not plain: of an undisplayed order, on a market that is not plain, or of terms
//! other than price, quantity and peak.
//!
//! Holds       1. the first check that fails is the answer; nothing changes until all checks have
//!                passed;
//!             2. only continuous trading and the closing price cross match an amended order; in
//!                other sessions it goes to the back of the queue;
//!             3. an order that loses its place in the queue gets a new time.
//! Costs       as much as a new order.
//! Start at    [`Engine::amend_special`].

use pitwire_model::{
    Amend, Event, Expiry, InstrumentId, Lots, OrderId, OrderType, Phase, PostOnly, Priority, Reject, Side, Ticks,
    TimeInForce, VenueDay,
};

use crate::account::Account;
use crate::admission::Admission;
use crate::amend::amended_lots;
use crate::book::{OrderOrigin, Owner, RestingOrder, Slot};
use crate::command_end::MarketCommand;
use crate::engine::Engine;
use crate::event_sink::EventSink;
use crate::incoming::{IncomingOrder, worst_price};
use crate::market::Market;
use crate::market_context::MarketContext;
use crate::order_checks::{check_price, lots_u32, peak_of};
use crate::rule_tables::{MatchingMode, Tif, session_permissions};
use crate::undisplayed::{UndisplayedOrder, UndisplayedState};

/// A live order, displayed or not, before or after an amend.
#[derive(Clone, Copy, Debug)]
struct LiveOrder {
    id: OrderId,
    instrument: InstrumentId,
    slot: Slot,
    side: Side,
    /// `None` for an order on a level of the book.
    state: Option<UndisplayedState>,
    order_type: OrderType,
    open: u32,
    ordered: u32,
    display: u32,
    bound: Ticks,
    origin: OrderOrigin,
    expiry: Option<Expiry>,
}

impl LiveOrder {
    /// Returns the limit price; zero if the order has none.
    fn price(&self) -> Ticks {
        self.order_type.limit_price().unwrap_or(Ticks::ZERO)
    }

    fn minimum_execution(&self) -> Option<Lots> {
        match self.order_type {
            OrderType::Hidden { minimum_execution, .. } => Some(minimum_execution),
            _ => None,
        }
    }

    /// Returns the price at which money is reserved.
    fn reserve_price(&self) -> Ticks {
        self.order_type.limit_price().unwrap_or(self.bound)
    }

    /// Returns whether the order can be displayed on a level, now or after its session has come.
    fn may_be_displayed(&self) -> bool {
        self.order_type.limit_price().is_some() && self.minimum_execution().is_none() && self.origin.tif.may_rest()
    }

    /// Checks that the order has every term that the amend changes. Side, type and time in force
    /// never change.
    fn check_amendable(&self, amend: &Amend) -> Result<(), Reject> {
        let price = self.order_type.limit_price().is_some() || amend.price == Ticks::ZERO;
        let stop = amend.stop.is_none() || self.order_type.stop_price().is_some();
        let minimum = amend.minimum_execution.is_none() || self.minimum_execution().is_some();
        let expiry = match amend.expiry {
            None => true,
            Some(Expiry::Day(_)) => self.origin.tif == Tif::GoodTillDate,
            Some(Expiry::Time(_)) => self.origin.tif == Tif::GoodTillTime,
        };
        if price && stop && minimum && expiry { Ok(()) } else { Err(Reject::NotAmendable) }
    }

    /// Returns whether the amend only reduces the quantity.
    fn is_partial_cancel(&self, amend: &Amend) -> bool {
        let most = match amend.priority {
            Priority::KeepWhenReduced => self.ordered,
            Priority::AlwaysLose => self.open,
        };
        amend.price == self.price()
            && amend.lots.0 <= u64::from(most)
            && amend.display.is_none_or(|display| display.0 == u64::from(self.display))
            && amend.stop.is_none_or(|stop| self.order_type.stop_price() == Some(stop))
            && amend.minimum_execution.is_none_or(|minimum| self.minimum_execution() == Some(minimum))
            && amend.expiry.is_none_or(|expiry| self.expiry == Some(expiry))
    }

    /// Returns whether the order keeps its place in the queue when it becomes `new`.
    fn keeps_place(&self, new: &LiveOrder, priority: Priority) -> bool {
        priority == Priority::KeepWhenReduced
            && new.open <= self.open
            && new.display == self.display
            && (new.price() == self.price() || self.state == Some(UndisplayedState::Unelected))
    }

    fn as_incoming(&self, holder: &Account) -> IncomingOrder {
        let limit = match self.reserve_price() {
            Ticks::ZERO => worst_price(self.side),
            price => price,
        };
        let minimum_execution = self.minimum_execution();
        IncomingOrder {
            id: self.id,
            account: holder.spec.id,
            instrument: self.instrument,
            side: self.side,
            price: self.price(),
            limit,
            open: self.open,
            ordered: self.ordered,
            peak: self.display,
            is_day: self.origin.tif == Tif::Day,
            may_rest: self.order_type.limit_price().is_some() && self.origin.tif.may_rest(),
            minimum_execution: minimum_execution.map_or(0, |minimum| u32::try_from(minimum.0).unwrap_or(u32::MAX)),
            bound: self.bound,
            fill_or_kill: false,
            self_match: holder.spec.settings.self_match,
            origin: self.origin,
        }
    }

    fn as_resting(&self, owner: Owner) -> RestingOrder {
        RestingOrder {
            id: self.id,
            price: self.reserve_price(),
            open: self.open,
            ordered: self.ordered,
            owner,
            hidden: 0,
            display: self.display,
        }
    }

    fn amended_event(&self, holder: &Account, kept_priority: bool) -> Event {
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
            stop: self.order_type.stop_price(),
            minimum_execution: self.minimum_execution(),
            expiry: self.expiry,
        }
    }
}

impl Market {
    fn live_order(&self, slot: Slot) -> Option<LiveOrder> {
        let instrument = self.spec.id;
        if slot.is_undisplayed() {
            let UndisplayedOrder { id, side, state, order_type, open, ordered, display, bound, origin, .. } =
                *self.undisplayed.get(slot)?;
            let (state, expiry) = (Some(state), self.expiry_of(id, &origin));
            return Some(LiveOrder {
                id,
                instrument,
                slot,
                side,
                state,
                order_type,
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
            state: None,
            order_type: OrderType::Limit { price: order.price },
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
        instrument: InstrumentId,
        slot: Slot,
        out: &mut impl EventSink,
    ) {
        let admission = Admission::new(self, instrument, amend.account);
        match admission.and_then(|admission| admission.check_special_amend(amend, slot)) {
            Err(reason) => out.emit(Event::AmendRefused { order: amend.order, account: amend.account, reason }),
            Ok((old, new)) => {
                let mut context = self.context(instrument);
                let mut command = MarketCommand::begin(&mut context, out);
                command.context.apply_special_amend(amend.priority, &old, new, &mut command.out);
                command.finish();
            }
        }
    }
}

impl Admission<'_> {
    /// Checks an amend. Returns the order before and after it.
    fn check_special_amend(&self, amend: &Amend, slot: Slot) -> Result<(LiveOrder, LiveOrder), Reject> {
        let market = self.market;
        let old = market.live_order(slot).ok_or(Reject::UnknownOrder)?;
        let permissions = session_permissions(market.phase);
        if !permissions.amend {
            return Err(Reject::NotOpen);
        }
        old.check_amendable(amend)?;
        if old.minimum_execution().is_some() && !permissions.amend_hidden {
            return Err(Reject::TypeNotAllowedInSession);
        }
        let is_partial_cancel = old.is_partial_cancel(amend);
        if !is_partial_cancel {
            self.check_blocks(old.origin.session)?;
        }
        let mut new = LiveOrder { expiry: amend.expiry.or(old.expiry), ..old };
        (new.ordered, new.open) = amended_lots(*amend, old.ordered, old.open)?;
        if old.origin.flags.reduce_only() && old.state.is_none() {
            let most = u32::try_from(self.account.room(old.instrument, old.side)).unwrap_or(u32::MAX).max(1);
            let cut = new.open.saturating_sub(most);
            (new.ordered, new.open) = (new.ordered - cut, new.open - cut);
        }
        new.order_type = amended_type(amend, old.order_type)?;
        new.display = match amend.display {
            None => old.display,
            Some(_) if !old.may_be_displayed() || old.origin.flags.reduce_only() => {
                return Err(Reject::DisplayOutOfRange);
            }
            display => peak_of(display, lots_u32(amend.lots)?)?,
        };
        if !is_partial_cancel {
            self.check_min_display(new.display, lots_u32(amend.lots)?)?;
        }
        if let Some(minimum) = new.minimum_execution() {
            if market.rules().minimum_reserve.is_some_and(|least| Lots(u64::from(new.ordered)) < least) {
                return Err(Reject::QuantityBelowReserve);
            }
            self.check_minimum_execution(minimum, new.open)?;
        }
        if let Some(expiry) = amend.expiry {
            self.engine.clock.check_expiry(as_time_in_force(expiry))?;
        }
        if new.price() != old.price() {
            self.check_band(new.order_type.limit_price())?;
        }
        if !is_partial_cancel {
            self.check_special_change(amend.post_only, &old, &mut new)?;
        }
        Ok((old, new))
    }

    /// Checks an amend that is not a partial cancel. Moves the price of a post-only order.
    fn check_special_change(&self, post_only: PostOnly, old: &LiveOrder, new: &mut LiveOrder) -> Result<(), Reject> {
        let Admission { engine, market, account } = *self;
        if post_only != PostOnly::No {
            let OrderType::Limit { price } = new.order_type else { return Err(Reject::PostOnlyNotAllowed) };
            if !new.may_be_displayed() || !self.allows_post_only() {
                return Err(Reject::PostOnlyNotAllowed);
            }
            new.order_type = OrderType::Limit { price: market.post_only_price(new.side, price, post_only)? };
        }
        market.check_special_limits(&mut new.as_incoming(account), new.order_type.limit_price().is_none())?;
        if account.is_limited() {
            let owner = Owner::new(account.spec.id, old.side, false);
            let priced = IncomingOrder { price: new.reserve_price(), ..new.as_incoming(account) };
            engine.funds().check_amend(market, &old.as_resting(owner), &priced)?;
        }
        Ok(())
    }
}

impl MarketContext<'_> {
    fn apply_special_amend(
        &mut self,
        priority: Priority,
        old: &LiveOrder,
        mut new: LiveOrder,
        out: &mut impl EventSink,
    ) {
        let kept_priority = old.keeps_place(&new, priority);
        if let Some(Expiry::Day(VenueDay(day))) = new.expiry {
            new.origin.day = u16::try_from(day).unwrap_or(u16::MAX);
        }
        if let Some(Expiry::Time(time)) = new.expiry.filter(|_| new.expiry != old.expiry) {
            self.set_expiry_time(old.id, time);
        }
        if !kept_priority {
            new.origin.time = self.clock.next_priority();
        }
        let Some(account) = self.market.account_at(old.slot) else { return };
        let holder = &self.accounts[account.0 as usize];
        let (event, incoming) = (new.amended_event(holder, kept_priority), new.as_incoming(holder));
        let matches = match session_permissions(self.market.phase).matching {
            MatchingMode::Continuous => !self.market.trades_in_batches(),
            MatchingMode::ClosingPrice => old.state != Some(UndisplayedState::Hidden),
            MatchingMode::Uncross | MatchingMode::Nothing => false,
        };
        let is_active = matches!(old.state, None | Some(UndisplayedState::Hidden | UndisplayedState::Unpriced));
        match old.state {
            None if kept_priority => self.reduce_displayed(old, &new, event, out),
            Some(_) if kept_priority || !is_active || !matches => self.change_undisplayed(old, &new, event, out),
            _ => {
                self.remove_for_amend(old, event, out);
                self.match_in_session(&incoming, out);
            }
        }
    }

    fn reduce_displayed(&mut self, old: &LiveOrder, new: &LiveOrder, event: Event, out: &mut impl EventSink) {
        let (instrument, side, price) = (old.instrument, old.side, old.price());
        let released = i64::from(old.open - new.open);
        let account = self.market.book.account_of(old.slot);
        self.market.book.set_origin(old.slot, new.origin);
        let lots = Lots(self.market.book.reduce(old.slot, new.open, new.ordered));
        self.market.change_curve(side, Some(price), -released);
        self.reserve(account, side, price, -i128::from(released));
        out.emit(event);
        out.emit(Event::Level { instrument, side, price, lots });
    }

    /// Changes an undisplayed order in its slot.
    fn change_undisplayed(&mut self, old: &LiveOrder, new: &LiveOrder, event: Event, out: &mut impl EventSink) {
        let changed = self.market.update_undisplayed(old.slot, |order| {
            (order.order_type, order.origin, order.display) = (new.order_type, new.origin, new.display);
            (order.open, order.ordered) = (new.open, new.ordered);
        });
        if let Some(order) = changed {
            self.reserve(order.account, old.side, old.reserve_price(), -i128::from(old.open));
            self.reserve(order.account, old.side, new.reserve_price(), i128::from(new.open));
        }
        if old.state == Some(UndisplayedState::Hidden) && self.market.phase == Phase::Continuous {
            self.market.undisplayed.arrivals.push(old.id);
        }
        out.emit(event);
    }

    /// Removes an order that will be matched again. The public sees its level change if the order
    /// was displayed.
    fn remove_for_amend(&mut self, old: &LiveOrder, event: Event, out: &mut impl EventSink) {
        if old.slot.is_undisplayed() {
            self.remove_undisplayed(old.slot);
            return out.emit(event);
        }
        let (order, lots) = self.remove_displayed(old.slot);
        out.emit(event);
        out.emit(Event::Level { instrument: old.instrument, side: old.side, price: order.price, lots: Lots(lots) });
    }
}

/// Returns the order type with the prices and the minimum execution size that the amend names.
fn amended_type(amend: &Amend, old: OrderType) -> Result<OrderType, Reject> {
    let order_type = match old {
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
    check_price(order_type.limit_price())?;
    check_price(order_type.stop_price())?;
    Ok(order_type)
}

fn as_time_in_force(expiry: Expiry) -> TimeInForce {
    match expiry {
        Expiry::Day(day) => TimeInForce::GoodTillDate { day },
        Expiry::Time(at) => TimeInForce::GoodTillTime { at },
    }
}
