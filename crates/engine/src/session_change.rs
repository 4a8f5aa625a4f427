//! One session ends and the next begins, in the order of operations of the rulebook (5.2).
//!
//! Holds       1. continuous trading never begins with a crossed displayed book;
//!             2. the end of an interrupted call is made up for exactly once, when the rules
//!                require it.
//! Leaves out  when sessions change: the session scheduler decides. Prices of calls: `auction`.
//! Costs       the live orders of the instrument, and the uncross.
//! Start at    [`SessionChange::run`].

use pitwire_model::{CancelReason, Event, Phase, SessionReason, VenueNanos};

use crate::auction::CrossExecution;
use crate::book::Slot;
use crate::command_end::MarketCommand;
use crate::controls::Breach;
use crate::event_sink::EventSink;
use crate::market::Market;
use crate::market_context::MarketContext;
use crate::reduce_only::ReduceOnlyLimiter;
use crate::rule_tables::{Tif, TifSet, session_permissions};
use crate::session_state::{DeferredCallEnd, IndicativeUncross};
use crate::undisplayed::{UndisplayedOrder, UndisplayedState};

/// Which event reports the change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionEvent {
    /// `SessionChanged`.
    SessionChanged,
    /// `PhaseChanged`, for commands of the first release.
    PhaseChanged,
}

/// A change of session that has passed its checks.
#[derive(Clone, Copy)]
pub(crate) struct SessionChange {
    pub from: Phase,
    pub to: Phase,
    pub reason: SessionReason,
    pub ends: Option<VenueNanos>,
    pub event: SessionEvent,
}

/// An uncross that did not take place because its price breached a tolerance.
struct UncrossBreach {
    breach: Breach,
    /// The call that would have ended; `None` for an uncross without a call.
    call: Option<Phase>,
}

impl SessionChange {
    /// Performs the change and everything that follows from it.
    pub fn run(self, context: &mut MarketContext<'_>, out: &mut impl EventSink) {
        let mut command = MarketCommand::begin_with_filter(context, out);
        let MarketCommand { context, out, .. } = &mut command;
        if !context.market.keeps_reduce_only(self.to) {
            ReduceOnlyLimiter { context }.cancel_reduce_only(out);
        }
        match self.end_session(context, out) {
            Ok(()) => self.begin_session(context, out),
            Err(breach) => self.continue_in_volatility_call(context, &breach, out),
        }
        command.finish();
    }

    /// Returns whether the venue was down for the whole of the call that begins, so that it is only
    /// reported.
    fn misses_call(self) -> bool {
        self.reason == SessionReason::Missed && self.to.is_call()
    }

    /// Performs steps 1 to 6.
    ///
    /// # Errors
    /// The breach if the price of an uncross breaches a tolerance. Then nothing has changed.
    fn end_session(self, context: &mut MarketContext<'_>, out: &mut impl EventSink) -> Result<(), UncrossBreach> {
        let SessionChange { from, to, .. } = self;
        let market = &mut *context.market;
        let was_held = !std::mem::take(&mut market.session.missed);
        let ends_call = from.is_call() && was_held;
        if was_held {
            if from.is_triggered_call() && to.is_scheduled_call() && !self.misses_call() {
                return Ok(());
            }
            if from.is_call() && interrupts_call(to) {
                market.session.defer_call_end(from);
                return Ok(());
            }
            if ends_call {
                let tolerance = market.call_tolerance();
                let uncrossed = context.uncross(from, tolerance, out);
                let price = uncrossed.map_err(|breach| UncrossBreach { breach, call: Some(from) })?;
                context.market.record_call_price(from, price);
            }
            context.elect_stops(out);
            self.end_orders(context, out);
        }
        // Step 6: orders that a halt or a pause left crossed are uncrossed as at the end of a
        // re-opening call.
        let market = &*context.market;
        if to == Phase::Continuous && !ends_call && !market.is_batch_market() && market.is_crossed() {
            let tolerance = market.rules.tolerance(Phase::ReopeningCall);
            let uncrossed = context.uncross(Phase::ReopeningCall, tolerance, out);
            uncrossed.map_err(|breach| UncrossBreach { breach, call: None })?;
            context.elect_stops(out);
        }
        Ok(())
    }

    /// Step 5: cancels or parks the orders that do not outlive the session.
    fn end_orders(self, context: &mut MarketContext<'_>, out: &mut impl EventSink) {
        let SessionChange { from, to, .. } = self;
        let market = &mut *context.market;
        let ends_deferred = from.is_call() || !(to.is_call() || interrupts_call(to));
        let deferred =
            if ends_deferred { std::mem::take(&mut market.session.deferred) } else { DeferredCallEnd::default() };
        let rules = SessionEndRules {
            from,
            expire: session_permissions(from).expire.union(deferred.expire),
            ends_batch: market.trades_in_batches(),
            parks_gfa: from.is_call() || deferred.waits,
            now: context.clock.now,
        };
        let mut to_park = Vec::new();
        for (_, slot) in market.live_slots(|_, _| true) {
            match rules.cancel_reason(context.market, slot) {
                Some(reason) => context.cancel_live(slot, reason, out),
                None if rules.parks_gfa && context.market.is_active_gfa(slot) => to_park.push(slot),
                None => {}
            }
        }
        for slot in to_park {
            context.park(slot, out);
        }
    }

    /// Performs steps 7 to 10. The end of the command performs step 11.
    fn begin_session(self, context: &mut MarketContext<'_>, out: &mut impl EventSink) {
        self.set_session(context, out);
        if self.misses_call() {
            context.market.session.missed = true;
            return;
        }
        if matches!(self.to, Phase::ClosingPricePublication | Phase::HaltAndClose) {
            context.publish_closing_price(out);
        }
        inject_parked_orders(context, out);
        if self.to == Phase::ClosingPriceCross {
            CrossExecution::open(context, out);
        }
        context.execute_elected_stops(out);
    }

    /// Step 7.
    fn set_session(self, context: &mut MarketContext<'_>, out: &mut impl EventSink) {
        let SessionChange { from, to, reason, ends, event } = self;
        let market = &mut *context.market;
        if from == Phase::Continuous {
            market.closing_inputs.end_continuous(context.clock.now);
        }
        market.phase = to;
        market.session.ends = ends;
        market.session.continues = None;
        market.session.remaining.take_one(to);
        market.session.indicative = IndicativeUncross::default();
        market.restart_auction_state();
        market.update_plain();
        let instrument = market.spec.id;
        out.emit(match event {
            SessionEvent::PhaseChanged => Event::PhaseChanged { instrument, phase: to },
            SessionEvent::SessionChanged => Event::SessionChanged { instrument, from, to, reason, ends },
        });
    }

    /// The price of a call, or of the uncross in step 6, has breached a tolerance (10.4). Nothing
    /// executes and all orders stay.
    fn continue_in_volatility_call(
        self,
        context: &mut MarketContext<'_>,
        breach: &UncrossBreach,
        out: &mut impl EventSink,
    ) {
        out.emit(breach.breach.event(context.instrument()));
        if let Some(call) = breach.call {
            context.market.session.defer_call_end(call);
        }
        context.volatility_call().set_session(context, out);
        context.market.session.continues = breach.call;
        inject_parked_orders(context, out);
        context.execute_elected_stops(out);
        if breach.call.is_some() {
            // Emitted again although it has not changed.
            let now = context.market.indicative_uncross();
            context.emit_indicative(now, out);
        }
    }
}

impl MarketContext<'_> {
    /// Ends continuous trading because of a breach (10.3). The events of the breach and of the
    /// order that caused it have been emitted.
    pub fn start_volatility_call(&mut self, out: &mut impl EventSink) {
        ReduceOnlyLimiter { context: self }.cancel_reduce_only(out);
        self.volatility_call().set_session(self, out);
        inject_parked_orders(self, out);
        self.elect_stops(out);
        while let Some(order) = self.take_elected_stop(out) {
            self.add_elected_stop(&order, out);
        }
    }

    /// The change from the current session to the volatility call.
    fn volatility_call(&self) -> SessionChange {
        let length_ns = self.market.rules.volatility_call_ns;
        SessionChange {
            from: self.market.phase,
            to: Phase::VolatilityCall,
            reason: SessionReason::Breaker,
            ends: Some(VenueNanos(self.clock.now.0.saturating_add(length_ns))),
            event: SessionEvent::SessionChanged,
        }
    }
}

/// Step 9: activates the parked orders that wait for the new session.
fn inject_parked_orders(context: &mut MarketContext<'_>, out: &mut impl EventSink) {
    let undisplayed = &context.market.undisplayed;
    let wanted = session_permissions(context.market.phase).inject;
    let is_wanted = |slot: &Slot| undisplayed.get(*slot).is_some_and(|order| wanted.has(order.origin.tif));
    let slots: Vec<Slot> = undisplayed.parked().filter(is_wanted).collect();
    for slot in slots {
        context.inject(slot, out);
    }
}

/// Which orders end with a session.
struct SessionEndRules {
    from: Phase,
    expire: TifSet,
    ends_batch: bool,
    parks_gfa: bool,
    now: VenueNanos,
}

impl SessionEndRules {
    /// Returns why the order at `slot` is cancelled. `None` if it stays.
    fn cancel_reason(&self, market: &Market, slot: Slot) -> Option<CancelReason> {
        let undisplayed = market.undisplayed.get(slot);
        let id = undisplayed.map_or_else(|| market.book.get(slot).id, |order| order.id);
        let tif = market.origin_at(slot).tif;
        let state = undisplayed.map(|order| order.state);
        let is_active = matches!(state, None | Some(UndisplayedState::Hidden | UndisplayedState::Unpriced));
        let lives_for_one_batch = match state {
            Some(state) => state == UndisplayedState::Unpriced,
            None => tif == Tif::ImmediateOrCancel,
        };
        if self.ends_batch && lives_for_one_batch {
            return Some(CancelReason::ImmediateRemainder);
        }
        if self.expire.has_market() && undisplayed.is_some_and(ends_with_market_orders) {
            return Some(if self.from == Phase::Pause { CancelReason::PauseEnded } else { CancelReason::CallEnded });
        }
        match tif {
            Tif::GoodTillTime => {
                let has_passed = market.expiries.of(id).is_some_and(|at| at <= self.now);
                has_passed.then_some(CancelReason::TimeReached)
            }
            Tif::ClosingCross if is_active && self.expire.has(tif) => Some(CancelReason::CrossEnded),
            _ if is_active && self.expire.has(tif) => Some(CancelReason::CallEnded),
            _ => None,
        }
    }
}

/// Returns whether the order ends with the market orders of a call. An elected stop does, whatever
/// its time in force. A GFA order is parked instead, and a CPX order ends with the cross.
fn ends_with_market_orders(order: &UndisplayedOrder) -> bool {
    order.is_market()
        && order.state == UndisplayedState::Unpriced
        && !matches!(order.origin.tif, Tif::AnyCall | Tif::ClosingCross)
}

/// Returns whether this session interrupts a call, which then ends without its uncross.
fn interrupts_call(to: Phase) -> bool {
    matches!(to, Phase::Halted | Phase::HaltAndClose | Phase::Pause)
}

/// Returns whether an operator may change the session (section 16).
pub(crate) fn operator_may_change(from: Phase, to: Phase) -> bool {
    match to {
        Phase::Halted | Phase::HaltAndClose | Phase::Pause => from != Phase::Closed,
        Phase::ReopeningCall => matches!(from, Phase::Halted | Phase::Pause),
        Phase::VolatilityCall => from == Phase::Continuous,
        _ => interrupts_call(from) || from.is_triggered_call(),
    }
}
