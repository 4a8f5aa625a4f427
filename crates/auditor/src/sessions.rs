//! Checks a change of session (rulebook 5, 10.4, 16).
//!
//! Does        check the order of operations: uncross, elections, expiries, parking, the session
//!             event, the closing price, injections, and the actions of elected stops.
//! Leaves out  which session the schedule requires. Only the journal records it.
//! Start at    [`check_session_change`].

use std::collections::BTreeSet;

use pitwire_model::{
    CancelReason, Event, InstrumentId, OrderId, Phase, Reject, SessionReason, TimeInForce, VenueNanos,
};

use crate::conclusion::check_indicative;
use crate::cross::{check_cross_opening, check_elected_in_cross};
use crate::departures::{check_departure, check_parked};
use crate::market::AuditedSession;
use crate::model::VenueModel;
use crate::orders::LiveOrder;
use crate::reader::EventReader;
use crate::reduce_only::check_reduce_only_end;
use crate::rule_tables::tables;
use crate::session_events::{check_injections, check_session_event, check_volatility_call, enter_session};
use crate::settling::{check_elected_order, check_settling};
use crate::stops::{check_elected_join, check_elections, elected_stops};
use crate::uncross::check_uncross;
use crate::violation::{CheckResult, fail};

/// A requested change of session.
#[derive(Clone, Copy, Debug)]
pub struct SessionChange {
    pub to: Phase,
    pub reason: SessionReason,
    pub ends: Option<VenueNanos>,
    /// Requested by `SetPhase` of the first release, which is answered with `PhaseChanged`.
    pub is_old: bool,
}

impl AuditedSession {
    /// Checks whether this change of session is allowed.
    ///
    /// # Errors
    /// `SessionNotAllowed` if the session does not change, is that of a deleted instrument, or if
    /// an operator may not command this change.
    pub fn check_change_allowed(&self, to: Phase, reason: SessionReason) -> Result<(), Reject> {
        let from = self.phase;
        let is_way = match (reason, to) {
            (SessionReason::Operator, Phase::Halted | Phase::HaltAndClose | Phase::Pause) => {
                !matches!(from, Phase::Closed | Phase::Deleted)
            }
            (SessionReason::Operator, Phase::ReopeningCall) => matches!(from, Phase::Halted | Phase::Pause),
            (SessionReason::Operator, Phase::VolatilityCall) => from == Phase::Continuous,
            (SessionReason::Operator, _) => matches!(
                from,
                Phase::Halted | Phase::HaltAndClose | Phase::Pause | Phase::VolatilityCall | Phase::ReopeningCall
            ),
            _ => true,
        };
        let is_possible = from != to && from != Phase::Deleted && to != Phase::Deleted;
        if is_way && is_possible { Ok(()) } else { Err(Reject::SessionNotAllowed) }
    }
}

/// Checks a change of session: the end of the old one, the event, the start of the new one.
///
/// # Errors
/// M8 if the change is wrong or missing, M6 if the uncross is, M5 if orders expire, park or join
/// against their terms.
pub fn check_session_change(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
    change: SessionChange,
) -> CheckResult {
    check_reduce_only_end(model, reader, instrument, change.to)?;
    let from = model.market(instrument).session.phase;
    let was_missed = model.market(instrument).session.missed;
    let is_missed_call = change.reason == SessionReason::Missed && change.to.is_call();
    let is_absorbed = from.is_triggered_call() && change.to.is_scheduled_call() && !is_missed_call;
    if !was_missed && !is_absorbed {
        if from.is_call() && interrupts_calls(change.to) {
            model.market_mut(instrument).session.interrupt_call(from);
        } else if check_session_end(model, reader, instrument, from, change.to)? {
            return check_call_breach(model, reader, instrument, from);
        }
    }
    let mut change = change;
    let market = model.market(instrument);
    if change.to == Phase::Continuous
        && !market.is_batched()
        && (!from.is_call() || was_missed)
        && market.book.is_crossed().is_some()
    {
        if check_uncross(model, reader, instrument, Phase::ReopeningCall)? {
            change = SessionChange { to: Phase::VolatilityCall, reason: SessionReason::Breaker, ..change };
        } else {
            check_elections(model, reader, instrument)?;
        }
    }
    check_change_event(model, reader, instrument, change)?;
    if is_missed_call {
        model.market_mut(instrument).session.missed = true;
        return Ok(());
    }
    check_session_start(model, reader, instrument, change.to)
}

/// Checks the end of a session. Returns whether a breach prevented the uncross of a call.
fn check_session_end(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
    from: Phase,
    to: Phase,
) -> CheckResult<bool> {
    if from.is_call() && check_uncross(model, reader, instrument, from)? {
        return Ok(true);
    }
    check_elections(model, reader, instrument)?;
    let counts = from.is_call() || !(to.is_call() || interrupts_calls(to));
    let market = model.market_mut(instrument);
    let unfinished = if counts { market.session.unfinished.take() } else { None };
    check_expiries(model, reader, instrument, from, unfinished.as_ref())?;
    if from.is_call() || unfinished.is_some() {
        let waits = |order: &&LiveOrder| {
            order.instrument == instrument && order.is_active() && order.tif == TimeInForce::AnyCall
        };
        let expected: Vec<LiveOrder> = model.orders.values().filter(waits).copied().collect();
        for order in &expected {
            check_parked(model, reader, order)?;
        }
    }
    Ok(false)
}

fn check_expiries(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
    from: Phase,
    unfinished: Option<&BTreeSet<String>>,
) -> CheckResult {
    let ends =
        |what: &str| tables().expires(from, what) || unfinished.is_some_and(|unfinished| unfinished.contains(what));
    let market = model.market(instrument);
    let is_batch = from == Phase::Continuous && market.is_batched();
    let now = model.at;
    let reason = |order: &LiveOrder| {
        let tif = order.tif.name();
        let waits = matches!(order.tif, TimeInForce::AnyCall | TimeInForce::ClosingCross);
        if order.is_active() && is_batch && (order.is_market() || order.is_immediate()) {
            return Some(CancelReason::ImmediateRemainder);
        }
        if order.is_active() && order.is_market() && !waits && ends("market") {
            return Some(if from == Phase::Pause { CancelReason::PauseEnded } else { CancelReason::CallEnded });
        }
        match order.tif {
            TimeInForce::OpeningCall | TimeInForce::IntradayCall | TimeInForce::ClosingCall => {
                (order.is_active() && ends(tif)).then_some(CancelReason::CallEnded)
            }
            TimeInForce::ClosingCross => (order.is_active() && ends(tif)).then_some(CancelReason::CrossEnded),
            TimeInForce::GoodTillTime { at } => (at <= now && ends(tif)).then_some(CancelReason::TimeReached),
            _ => None,
        }
    };
    let mine = model.orders.of_instrument(instrument);
    let expected: Vec<(OrderId, CancelReason)> = mine.filter_map(|order| Some((order.id, reason(order)?))).collect();
    for (order, reason) in expected {
        check_departure(model, reader, order, reason)?;
    }
    Ok(())
}

/// Checks a call whose price breaches a tolerance: it continues as a volatility call, and none of
/// its orders expire.
fn check_call_breach(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
    from: Phase,
) -> CheckResult {
    model.market_mut(instrument).session.interrupt_call(from);
    check_session_event(model, reader, instrument, Phase::VolatilityCall, SessionReason::Breaker, None)?;
    model.market_mut(instrument).session.continues = Some(from);
    check_injections(model, reader, instrument)?;
    check_indicative(model, reader, instrument, true)
}

fn check_change_event(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
    change: SessionChange,
) -> CheckResult {
    if change.is_old {
        let phase = change.to;
        match reader.peek(model)? {
            Some(Event::PhaseChanged { instrument: of, phase: to }) if (*of, *to) == (instrument, phase) => {
                reader.advance();
            }
            Some(Event::SessionChanged { .. }) if change.reason == SessionReason::Breaker => {
                return check_session_event(model, reader, instrument, phase, change.reason, None);
            }
            actual => fail!(M8, "instrument {instrument} must become {}, found {actual:?}", phase.name()),
        }
        enter_session(model, instrument, phase, change.ends);
        return Ok(());
    }
    let ends = (change.reason != SessionReason::Breaker).then_some(change.ends);
    check_session_event(model, reader, instrument, change.to, change.reason, ends)
}

/// Checks what follows the event that begins a session.
fn check_session_start(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
    phase: Phase,
) -> CheckResult {
    if matches!(phase, Phase::ClosingPricePublication | Phase::HaltAndClose) {
        check_closing_price(model, reader, instrument)?;
    }
    check_injections(model, reader, instrument)?;
    if phase == Phase::ClosingPriceCross {
        check_cross_opening(model, reader, instrument)?;
    }
    let waiting = elected_stops(model, instrument);
    if phase == Phase::Continuous && !model.market(instrument).is_batched() {
        for (at, order) in waiting.iter().enumerate() {
            if check_elected_order(model, reader, *order)?.is_some() {
                return check_volatility_call(model, reader, instrument, &waiting[at + 1..]);
            }
        }
    } else if phase == Phase::ClosingPriceCross {
        for order in waiting {
            check_elected_in_cross(model, reader, order)?;
        }
    } else {
        check_elected_join(model, reader, &waiting)?;
    }
    check_settling(model, reader, instrument, None, None)
}

/// Checks the event that gives a call a later end.
///
/// # Errors
/// S1 if the event is missing or has another end.
pub fn check_extension(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
    ends: VenueNanos,
) -> CheckResult {
    let phase = model.market(instrument).session.phase;
    let reason = SessionReason::Extended;
    let expected = Event::SessionChanged { instrument, from: phase, to: phase, reason, ends: Some(ends) };
    reader.expect_event(model, &expected)?;
    model.market_mut(instrument).session.ends = Some(ends);
    Ok(())
}

/// Whether a session interrupts a call, so that its expiries wait.
const fn interrupts_calls(phase: Phase) -> bool {
    matches!(phase, Phase::Halted | Phase::HaltAndClose | Phase::Pause)
}

fn check_closing_price(model: &mut VenueModel, reader: &mut EventReader<'_>, instrument: InstrumentId) -> CheckResult {
    let derived = model.market(instrument).closing.derive();
    let actual = match reader.peek(model)? {
        Some(Event::ClosingPriceSet { instrument: of, price, derivation }) if *of == instrument => {
            Some((*price, *derivation))
        }
        _ => None,
    };
    if actual != derived {
        fail!(M6, "the closing price was published as {actual:?}, but is {derived:?}");
    }
    if actual.is_some() {
        reader.advance();
    }
    model.market_mut(instrument).closing.closing = actual;
    Ok(())
}
