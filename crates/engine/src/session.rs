//! One session ends and another begins, in the order of operations of the rulebook (5.2).
//!
//! Holds       1. continuous trading never begins with a crossed visible book;
//!             2. what a call that was broken off would have ended is ended once, when the rules say so.
//! Leaves out  when: that is the timetable's. Prices of calls: `auction`.
//! Costs       linear in the live orders of the instrument, plus what the uncross costs.
//! Start at    `Engine::change_session`.

use pitwire_model::{
    Allocation, CancelReason, Event, InstrumentId, Phase, Reject, SessionReason, Side, Tolerance, VenueNanos,
};

use crate::book::Slot;
use crate::controls::Breach;
use crate::engine::{Engine, EventSink};
use crate::live::PublicEventTracker;
use crate::market::Market;
use crate::matching::IncomingOrder;
use crate::rule_tables::{MatchingMode, Tif, TifSet, session_permissions};
use crate::special::{DeferredCallEnd, IndicativeUncross, Special, UndisplayedOrder, UndisplayedState};

/// A change of session that has been allowed.
#[derive(Clone, Copy)]
struct SessionChange {
    instrument: InstrumentId,
    from: Phase,
    to: Phase,
    reason: SessionReason,
    ends: Option<VenueNanos>,
    /// Asked for as journals of the first release do.
    old_style: bool,
}

/// A price that could not be executed.
struct UncrossBreach {
    breach: Breach,
    /// The call whose price it was.
    call: Option<Phase>,
}

impl Engine {
    pub(crate) fn change_session(
        &mut self,
        instrument: InstrumentId,
        to: Phase,
        reason: SessionReason,
        ends: Option<VenueNanos>,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        let from = self.market(instrument).ok_or(Reject::UnknownInstrument)?.phase;
        let goes = from != to && from != Phase::Deleted && to != Phase::Deleted;
        if !goes || (reason == SessionReason::Operator && !operator_may(from, to)) {
            return Err(Reject::SessionNotAllowed);
        }
        self.pass_over(SessionChange { instrument, from, to, reason, ends, old_style: false }, out);
        Ok(())
    }

    pub(crate) fn set_phase(
        &mut self,
        instrument: InstrumentId,
        to: Phase,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        let from = self.market(instrument).ok_or(Reject::UnknownInstrument)?.phase;
        if to == Phase::Deleted {
            return Err(Reject::BadDefinition);
        }
        if from == Phase::Deleted {
            return Err(Reject::InstrumentDeleted);
        }
        if from == to {
            out.emit(Event::PhaseChanged { instrument, phase: to });
            return Ok(());
        }
        let reason = SessionReason::Operator;
        self.pass_over(SessionChange { instrument, from, to, reason, ends: None, old_style: true }, out);
        Ok(())
    }

    fn pass_over(&mut self, change: SessionChange, out: &mut impl EventSink) {
        let out = &mut PublicEventTracker::new(out);
        match self.end_session(change, out) {
            Ok(()) => self.begin_session(change, out),
            Err(broken) => self.go_on_in_volatility_call(change, broken, out),
        }
        self.conclude(change.instrument, None, out);
    }

    /// Steps 1 to 6. A breach in a call leaves everything as it was.
    fn end_session(&mut self, change: SessionChange, out: &mut impl EventSink) -> Result<(), UncrossBreach> {
        let SessionChange { instrument, from, to, .. } = change;
        let market = &mut self.markets[instrument.0 as usize];
        let was_held = !std::mem::take(&mut market.special.missed);
        let call = from.is_call() && was_held;
        if was_held {
            if from.is_triggered_call() && to.is_scheduled_call() && !change.misses_call() {
                return Ok(());
            }
            if from.is_call() && breaks_off(to) {
                market.special.leave_unfinished(from);
                return Ok(());
            }
            if call {
                let tolerance = market.tolerance_of_call();
                let uncrossed = self.uncross(instrument, from, tolerance, out);
                let price = uncrossed.map_err(|breach| UncrossBreach { breach, call: Some(from) })?;
                self.markets[instrument.0 as usize].call_ended(from, price);
            }
            self.elect(instrument, out);
            self.end_orders(change, out);
        }
        // Step 6: what a halt or a pause left crossed is uncrossed as a re-opening call's end would.
        let market = &self.markets[instrument.0 as usize];
        if to == Phase::Continuous && !call && !market.is_batched() && market.is_crossed() {
            let tolerance = market.rules.tolerance(Phase::ReopeningCall);
            let uncrossed = self.uncross(instrument, Phase::ReopeningCall, tolerance, out);
            uncrossed.map_err(|breach| UncrossBreach { breach, call: None })?;
            self.elect(instrument, out);
        }
        Ok(())
    }

    /// Step 5.
    fn end_orders(&mut self, change: SessionChange, out: &mut impl EventSink) {
        let SessionChange { instrument, from, to, .. } = change;
        let at = instrument.0 as usize;
        let market = &mut self.markets[at];
        let counts = from.is_call() || !(to.is_call() || breaks_off(to));
        let before = if counts { std::mem::take(&mut market.special.unfinished) } else { DeferredCallEnd::default() };
        let ending = SessionEnd {
            from,
            expire: session_permissions(from).expire.and(before.expire),
            batch: market.batches(),
            parks: (from.is_call() || before.waits),
            now: self.now,
        };
        let found = self.live_slots(at, |_, _| true);
        let mut stay = Vec::new();
        for (_, slot) in found {
            match ending.reason(&self.markets[at], slot) {
                Some(reason) => self.take_off(instrument, slot, reason, out),
                None if ending.parks && self.markets[at].is_active_any_call(slot) => stay.push(slot),
                None => {}
            }
        }
        for slot in stay {
            self.park(instrument, slot, out);
        }
    }

    /// Steps 7 to 10; the end of the command does step 11.
    fn begin_session(&mut self, change: SessionChange, out: &mut impl EventSink) {
        let SessionChange { instrument, to, .. } = change;
        self.enter_session(change, out);
        if change.misses_call() {
            self.markets[instrument.0 as usize].special.missed = true;
            return;
        }
        if matches!(to, Phase::ClosingPricePublication | Phase::HaltAndClose) {
            self.publish_close(instrument, out);
        }
        self.inject_for(instrument, out);
        if to == Phase::ClosingPriceCross {
            self.open_cross(instrument, out);
        }
        self.act_elected(instrument, out);
    }

    /// Step 7.
    fn enter_session(&mut self, change: SessionChange, out: &mut impl EventSink) {
        let SessionChange { instrument, from, to, reason, ends, old_style } = change;
        let market = &mut self.markets[instrument.0 as usize];
        if from == Phase::Continuous {
            market.day.end_continuous(self.now);
        }
        market.phase = to;
        market.special.ends = ends;
        market.special.continues = None;
        market.special.remaining.take_one(to);
        market.special.indicated = IndicativeUncross::default();
        market.phase_changed();
        market.judge();
        out.emit(if old_style {
            Event::PhaseChanged { instrument, phase: to }
        } else {
            Event::SessionChanged { instrument, from, to, reason, ends }
        });
    }

    /// Step 9.
    fn inject_for(&mut self, instrument: InstrumentId, out: &mut impl EventSink) {
        let market = &self.markets[instrument.0 as usize];
        let wanted = session_permissions(market.phase).inject;
        let is_wanted = |slot: &Slot| market.special.get(*slot).is_some_and(|order| wanted.has(order.origin.tif));
        let slots: Vec<Slot> = market.special.parked().filter(is_wanted).collect();
        for slot in slots {
            self.inject(instrument, slot, out);
        }
    }

    /// Step 10: elected stops act, in the order of their election. A breach on the way has the rest join the call.
    pub(crate) fn act_elected(&mut self, instrument: InstrumentId, out: &mut impl EventSink) {
        while let Some(order) = self.next_elected(instrument) {
            let market = &self.markets[instrument.0 as usize];
            if market.phase == Phase::Continuous && !market.batches() {
                self.aggress(&order, out);
            } else {
                self.join_elected(&order, out);
            }
        }
    }

    /// The first elected stop that has not acted, taken out to do so.
    fn next_elected(&mut self, instrument: InstrumentId) -> Option<IncomingOrder> {
        let slot = self.markets[instrument.0 as usize].special.elected().next()?;
        let order = self.drop_kept(instrument, slot)?;
        Some(self.incoming_of(instrument, &order))
    }

    /// An elected stop where nothing aggresses: it waits or rests, or expires if it cannot.
    fn join_elected(&mut self, order: &IncomingOrder, out: &mut impl EventSink) {
        let market = &self.markets[order.instrument.0 as usize];
        let at_once = !order.origin.tif.rests();
        match session_permissions(market.phase).matching {
            MatchingMode::Continuous if !order.whole => self.join(order, out),
            MatchingMode::ClosingPrice => self.cross(order, out),
            MatchingMode::Uncross if !at_once => self.join(order, out),
            MatchingMode::Nothing if !at_once && !order.is_market() => self.join(order, out),
            _ => out.emit(order.cancelled(order.open, CancelReason::NothingExecutes)),
        }
    }

    /// A breach ends continuous trading (10.3): after what was said of the breach and of the order that made it.
    pub(crate) fn breaker_call(&mut self, instrument: InstrumentId, out: &mut impl EventSink) {
        let from = self.markets[instrument.0 as usize].phase;
        self.enter_session(self.by_breach(instrument, from), out);
        self.inject_for(instrument, out);
        self.elect(instrument, out);
        while let Some(order) = self.next_elected(instrument) {
            self.join_elected(&order, out);
        }
    }

    /// A call's price breaches (10.4): nothing executes, what stands stays. So does what a session without a call found
    /// crossed.
    fn go_on_in_volatility_call(&mut self, change: SessionChange, broken: UncrossBreach, out: &mut impl EventSink) {
        let SessionChange { instrument, from, .. } = change;
        let at = instrument.0 as usize;
        out.emit(broken.breach.event(instrument));
        if let Some(call) = broken.call {
            self.markets[at].special.leave_unfinished(call);
        }
        self.enter_session(self.by_breach(instrument, from), out);
        self.markets[at].special.continues = broken.call;
        self.inject_for(instrument, out);
        self.act_elected(instrument, out);
        if broken.call.is_some() {
            // Told again, though it is what it was.
            let now = self.indicative(instrument);
            self.tell_indicative(instrument, now, out);
        }
    }

    fn by_breach(&self, instrument: InstrumentId, from: Phase) -> SessionChange {
        let length = self.markets[instrument.0 as usize].rules.volatility_call_ns;
        let ends = Some(VenueNanos(self.now.0.saturating_add(length)));
        let (to, reason) = (Phase::VolatilityCall, SessionReason::Breaker);
        SessionChange { instrument, from, to, reason, ends, old_style: false }
    }
}

impl SessionChange {
    /// A call that is only told of, because the venue was down for the whole of it.
    fn misses_call(&self) -> bool {
        self.reason == SessionReason::Missed && self.to.is_call()
    }
}

/// What ends with a session.
struct SessionEnd {
    from: Phase,
    expire: TifSet,
    batch: bool,
    parks: bool,
    now: VenueNanos,
}

impl SessionEnd {
    fn reason(&self, market: &Market, slot: Slot) -> Option<CancelReason> {
        let kept = market.special.get(slot);
        let (id, origin) = match kept {
            Some(order) => (order.id, order.origin),
            None => (market.book.get(slot).id, market.book.origin(slot)),
        };
        let tif = origin.tif;
        let place = kept.map(|order| order.place);
        let active = matches!(place, None | Some(UndisplayedState::Hidden | UndisplayedState::Unpriced));
        let of_batch = match kept {
            Some(order) => order.place == UndisplayedState::Unpriced,
            None => tif == Tif::ImmediateOrCancel,
        };
        if self.batch && of_batch {
            return Some(CancelReason::ImmediateRemainder);
        }
        if self.expire.has_market() && kept.is_some_and(is_market_here) {
            return Some(if self.from == Phase::Pause { CancelReason::PauseEnded } else { CancelReason::CallEnded });
        }
        match tif {
            Tif::GoodTillTime => {
                let passed = market.special.times.of(id).is_some_and(|at| at <= self.now);
                passed.then_some(CancelReason::TimeReached)
            }
            Tif::ClosingCross if active && self.expire.has(tif) => Some(CancelReason::CrossEnded),
            _ if active && self.expire.has(tif) => Some(CancelReason::CallEnded),
            _ => None,
        }
    }
}

/// Market orders that end with the market orders of a call: an elected stop is one whatever its time in force; GFA is
/// parked, and CPX ends with the cross.
fn is_market_here(order: &UndisplayedOrder) -> bool {
    order.is_market()
        && order.place == UndisplayedState::Unpriced
        && !matches!(order.origin.tif, Tif::AnyCall | Tif::ClosingCross)
}

/// Sessions that end a call without its uncross.
fn breaks_off(to: Phase) -> bool {
    matches!(to, Phase::Halted | Phase::HaltAndClose | Phase::Pause)
}

/// Section 16.
fn operator_may(from: Phase, to: Phase) -> bool {
    match to {
        Phase::Halted | Phase::HaltAndClose | Phase::Pause => from != Phase::Closed,
        Phase::ReopeningCall => matches!(from, Phase::Halted | Phase::Pause),
        Phase::VolatilityCall => from == Phase::Continuous,
        _ => breaks_off(from) || from.is_triggered_call(),
    }
}

impl Special {
    /// What the call's end would have ended waits for the next.
    pub(crate) fn leave_unfinished(&mut self, call: Phase) {
        let expire = self.unfinished.expire.and(session_permissions(call).expire);
        self.unfinished = DeferredCallEnd { expire, waits: true };
    }
}

impl Market {
    /// A halt that does as little as it can: nothing executes, expires or is said; a call's end waits.
    pub(crate) fn break_off(&mut self) {
        if self.phase == Phase::Halted {
            return;
        }
        if self.phase.is_call() && !self.special.missed {
            self.special.leave_unfinished(self.phase);
        }
        self.phase = Phase::Halted;
        self.special.ends = None;
        self.special.missed = false;
        self.special.continues = None;
        self.special.indicated = IndicativeUncross::default();
        self.phase_changed();
        self.judge();
    }

    /// Best bid at or above best offer, by what is visible.
    fn is_crossed(&self) -> bool {
        let (bid, offer) = (self.book.best_price(Side::Buy), self.book.best_price(Side::Sell));
        bid.zip(offer).is_some_and(|(bid, offer)| bid >= offer)
    }

    fn is_batched(&self) -> bool {
        self.rules.allocation == Allocation::FrequentBatch
    }

    /// Nothing breaks off the volatility call.
    fn tolerance_of_call(&self) -> Tolerance {
        if self.phase == Phase::VolatilityCall { Tolerance::default() } else { self.rules.tolerance(self.phase) }
    }

    /// Whether it is an active GFA order.
    pub(crate) fn is_active_any_call(&self, slot: Slot) -> bool {
        match self.special.get(slot) {
            Some(order) => order.place == UndisplayedState::Unpriced && order.origin.tif == Tif::AnyCall,
            None => !slot.is_kept() && self.book.origin(slot).tif == Tif::AnyCall,
        }
    }
}
