//! Changes of session: what begins, what ends, and in which order. Also the settings of an
//! instrument and of the venue day.

use pitwire_model::{
    Allocation, CancelReason, Command, Derivation, Event, InstrumentId, OrderId, Phase, Reject, SessionReason, Ticks,
    TimeInForce, TradingRules, VenueNanos,
};

use crate::cross::begin_cross;
use crate::leaving::expire_orders;
use crate::order::{ReferenceOrder, ReferenceOrderKind};
use crate::phases::{begin_session, inject_parked, volatility_call_end};
use crate::rule_tables::permits;
use crate::state::VenueState;
use crate::trading::{begin_volatility_call, elect_stops, publish_conclusion, run_elected, settle_market};
use crate::uncross::uncross;
use crate::validity::{are_valid_rules, is_valid_price};

/// A change of session, as requested or as replaced by a breach.
#[derive(Clone, Copy, Debug)]
pub struct SessionTransition {
    pub to: Phase,
    /// `None` publishes `PhaseChanged` as in the first release.
    pub reason: Option<SessionReason>,
    pub ends: Option<VenueNanos>,
}

const fn interrupts_calls(to: Phase) -> bool {
    matches!(to, Phase::Halted | Phase::HaltAndClose | Phase::Pause)
}

/// Whether an operator may request this change.
fn operator_may_change(from: Phase, to: Phase) -> bool {
    use Phase::{Continuous, HaltAndClose, Halted, Pause, ReopeningCall, VolatilityCall};
    match to {
        Halted | HaltAndClose | Pause => from != Phase::Closed,
        ReopeningCall => matches!(from, Halted | Pause),
        VolatilityCall => from == Continuous,
        _ => matches!(from, Halted | HaltAndClose | Pause | VolatilityCall | ReopeningCall),
    }
}

/// Executes a command that changes sessions or days.
///
/// # Errors
/// The first rule that forbids the command.
pub fn run_session_command(venue: &mut VenueState, command: &Command, out: &mut Vec<Event>) -> Result<(), Reject> {
    match command {
        Command::SetPhase { instrument, phase } => set_phase(venue, *instrument, *phase, out),
        Command::ChangeSession { instrument, to, reason, ends, .. } => {
            let market = venue.market(*instrument).ok_or(Reject::UnknownInstrument)?;
            let from = market.session.phase;
            let deleted = from == Phase::Deleted || *to == Phase::Deleted;
            if from == *to || deleted || (*reason == SessionReason::Operator && !operator_may_change(from, *to)) {
                return Err(Reject::SessionNotAllowed);
            }
            change_session(venue, *instrument, SessionTransition { to: *to, reason: Some(*reason), ends: *ends }, out);
            Ok(())
        }
        Command::ExtendSession { instrument, ends } => extend_call(venue, *instrument, *ends, out),
        Command::SetRemaining { instrument, remaining } => {
            let at = venue.existing_market(*instrument)?;
            venue.markets[at].session.remaining = *remaining;
            out.push(Event::RemainingSet { instrument: *instrument });
            Ok(())
        }
        Command::BeginDay { day, closes } => {
            (venue.day, venue.closes) = (*day, *closes);
            out.push(Event::DayBegun { day: *day });
            Ok(())
        }
        Command::PassTime => {
            expire_orders(venue, out);
            Ok(())
        }
        Command::FilterHidden { instrument } => {
            let at = venue.existing_market(*instrument)?;
            let since = out.len();
            venue.markets[at].filtered_touch = None;
            settle_market(venue, at, None, out);
            publish_conclusion(venue, at, since, out);
            Ok(())
        }
        Command::RunBatch { instrument } => {
            let at = venue.existing_market(*instrument)?;
            run_batch(venue, at, out);
            Ok(())
        }
        Command::SetTradingRules { instrument, rules } => set_trading_rules(venue, *instrument, rules, out),
        Command::SetClosingPrice { instrument, price } => set_closing_price(venue, *instrument, *price, out),
        other => unreachable!("{other:?} is dispatched elsewhere"),
    }
}

fn set_phase(
    venue: &mut VenueState,
    instrument: InstrumentId,
    phase: Phase,
    out: &mut Vec<Event>,
) -> Result<(), Reject> {
    venue.market(instrument).ok_or(Reject::UnknownInstrument)?;
    if phase == Phase::Deleted {
        return Err(Reject::BadDefinition);
    }
    let at = venue.existing_market(instrument)?;
    if venue.markets[at].session.phase == phase {
        out.push(Event::PhaseChanged { instrument, phase });
    } else {
        change_session(venue, instrument, SessionTransition { to: phase, reason: None, ends: None }, out);
    }
    Ok(())
}

fn extend_call(
    venue: &mut VenueState,
    instrument: InstrumentId,
    ends: VenueNanos,
    out: &mut Vec<Event>,
) -> Result<(), Reject> {
    let at = venue.existing_market(instrument)?;
    let market = &mut venue.markets[at];
    if !market.session.phase.is_call() || ends < venue.now {
        return Err(Reject::SessionNotAllowed);
    }
    let since = out.len();
    market.session.ends = Some(ends);
    let (from, to) = (market.session.phase, market.session.phase);
    let ends = market.session.ends;
    out.push(Event::SessionChanged { instrument, from, to, reason: SessionReason::Extended, ends });
    publish_conclusion(venue, at, since, out);
    Ok(())
}

fn set_trading_rules(
    venue: &mut VenueState,
    instrument: InstrumentId,
    rules: &TradingRules,
    out: &mut Vec<Event>,
) -> Result<(), Reject> {
    let at = venue.existing_market(instrument)?;
    let market = &mut venue.markets[at];
    if !are_valid_rules(rules) {
        return Err(Reject::BadDefinition);
    }
    if rules.allocation != market.allocation() && !market.session.phase.is_quiet() {
        return Err(Reject::SessionNotAllowed);
    }
    market.spec.rules = Some(Box::new(rules.clone()));
    out.push(Event::TradingRulesSet { instrument, rules: Box::new(rules.clone()) });
    Ok(())
}

fn set_closing_price(
    venue: &mut VenueState,
    instrument: InstrumentId,
    price: Ticks,
    out: &mut Vec<Event>,
) -> Result<(), Reject> {
    let at = venue.existing_market(instrument)?;
    let market = &mut venue.markets[at];
    if matches!(market.session.phase, Phase::ClosingPriceCross | Phase::PostClose | Phase::Closed) {
        return Err(Reject::SessionNotAllowed);
    }
    if !is_valid_price(price) {
        return Err(Reject::PriceOutOfRange);
    }
    let since = out.len();
    market.closing.price = Some((price, Derivation::Manual));
    out.push(Event::ClosingPriceSet { instrument, price, derivation: Derivation::Manual });
    publish_conclusion(venue, at, since, out);
    Ok(())
}

fn change_session(venue: &mut VenueState, instrument: InstrumentId, change: SessionTransition, out: &mut Vec<Event>) {
    let at = instrument.0 as usize;
    let since = out.len();
    run_transition(venue, at, change, out);
    publish_conclusion(venue, at, since, out);
}

fn run_transition(venue: &mut VenueState, at: usize, mut change: SessionTransition, out: &mut Vec<Event>) {
    let market = &mut venue.markets[at];
    market.cancel_reduce_only(change.to, out);
    let (from, was_missed) = (market.session.phase, market.session.missed);
    let passes_by = change.reason == Some(SessionReason::Missed) && change.to.is_call();
    let absorbs = !passes_by && from.is_triggered_call() && change.to.is_scheduled_call();
    if was_missed || absorbs {
    } else if from.is_call() && interrupts_calls(change.to) {
        market.session.unfinished.insert(from as u8);
    } else if !end_session(venue, at, change.to, out) {
        return;
    }
    let held = from.is_call() && !was_missed;
    let market = &venue.markets[at];
    if change.to == Phase::Continuous
        && market.allocation() != Allocation::FrequentBatch
        && !held
        && market.is_crossed()
    {
        match uncross(venue, at, Phase::ReopeningCall, out) {
            Ok(_) => _ = elect_stops(venue, at, out),
            Err(breach) => {
                out.push(breach.event(venue.markets[at].spec.id));
                let ends = Some(volatility_call_end(venue, at));
                change = SessionTransition { to: Phase::VolatilityCall, reason: Some(SessionReason::Breaker), ends };
            }
        }
    }
    begin_session(venue, at, change.to, change.reason, change.ends, out);
    if passes_by {
        venue.markets[at].session.missed = true;
        return;
    }
    if matches!(change.to, Phase::ClosingPricePublication | Phase::HaltAndClose) {
        publish_closing_price(venue, at, out);
    }
    inject_parked(venue, at, out);
    if change.to == Phase::ClosingPriceCross {
        begin_cross(venue, at, out);
    }
    if !run_elected(venue, at, out) && change.to == Phase::Continuous {
        settle_market(venue, at, None, out);
    }
}

/// Ends a session (steps 3 to 5). Returns false if a breach started a volatility call instead.
fn end_session(venue: &mut VenueState, at: usize, to: Phase, out: &mut Vec<Event>) -> bool {
    let from = venue.markets[at].session.phase;
    if from.is_call() {
        match uncross(venue, at, from, out) {
            Ok(None) => {}
            Ok(Some(price)) => {
                let market = &mut venue.markets[at];
                let goes_on = from == Phase::VolatilityCall && market.session.continues == Some(Phase::ClosingCall);
                if from == Phase::ClosingCall || goes_on {
                    market.closing.closing_call = Some(price);
                }
            }
            Err(breach) => {
                out.push(breach.event(venue.markets[at].spec.id));
                venue.markets[at].session.unfinished.insert(from as u8);
                let ends = Some(volatility_call_end(venue, at));
                begin_session(venue, at, Phase::VolatilityCall, Some(SessionReason::Breaker), ends, out);
                venue.markets[at].session.continues = Some(from);
                venue.markets[at].call.must_publish = true;
                inject_parked(venue, at, out);
                return false;
            }
        }
    }
    elect_stops(venue, at, out);
    expire_with_session(venue, at, to, out);
    true
}

fn expire_with_session(venue: &mut VenueState, at: usize, to: Phase, out: &mut Vec<Event>) {
    let market = &venue.markets[at];
    let from = market.session.phase;
    let waits = to.is_call() || interrupts_calls(to);
    let counts = !market.session.unfinished.is_empty() && (from.is_call() || !waits);
    let mut words = permits(from).expire.clone();
    if counts {
        for call in &market.session.unfinished {
            words.extend(permits(Phase::ALL[usize::from(*call)]).expire.iter().cloned());
        }
    }
    for id in market.order_ids(|_| true) {
        if let Some(reason) = session_end_reason(venue, at, id, &words) {
            venue.markets[at].cancel(id, reason, out);
        }
    }
    if from.is_call() || counts {
        park_call_orders(venue, at, out);
    }
    if counts {
        venue.markets[at].session.unfinished.clear();
    }
}

fn session_end_reason(venue: &VenueState, at: usize, id: OrderId, words: &[String]) -> Option<CancelReason> {
    let market = &venue.markets[at];
    let order = market.get(id)?;
    let listed = |word: &str| words.iter().any(|listed| listed == word);
    if order.is_active() {
        let is_market = order.kind == ReferenceOrderKind::Market;
        if market.is_batching() && (is_market || order.tif == TimeInForce::ImmediateOrCancel) {
            return Some(CancelReason::ImmediateRemainder);
        }
        if is_market && listed("market") && !matches!(order.tif, TimeInForce::AnyCall | TimeInForce::ClosingCross) {
            let pauses = market.session.phase == Phase::Pause;
            return Some(if pauses { CancelReason::PauseEnded } else { CancelReason::CallEnded });
        }
        match order.tif {
            TimeInForce::OpeningCall | TimeInForce::IntradayCall | TimeInForce::ClosingCall
                if listed(order.tif.name()) =>
            {
                return Some(CancelReason::CallEnded);
            }
            TimeInForce::ClosingCross if listed("cpx") => return Some(CancelReason::CrossEnded),
            _ => {}
        }
    }
    has_expired(venue, order).then_some(CancelReason::TimeReached)
}

fn has_expired(venue: &VenueState, order: &ReferenceOrder) -> bool {
    matches!(order.tif, TimeInForce::GoodTillTime { at } if at <= venue.now)
}

/// Parks every active order with time in force GFA.
fn park_call_orders(venue: &mut VenueState, at: usize, out: &mut Vec<Event>) {
    for id in venue.markets[at].order_ids(|order| order.is_active() && order.tif == TimeInForce::AnyCall) {
        venue.markets[at].park(id, out);
    }
}

fn run_batch(venue: &mut VenueState, at: usize, out: &mut Vec<Event>) {
    if !venue.markets[at].is_batching() {
        return;
    }
    let since = out.len();
    let times = venue.last_priority;
    venue.markets[at].call.batch_ends.push(times);
    let breach = uncross(venue, at, Phase::Continuous, out).err();
    if let Some(breach) = breach {
        out.push(breach.event(venue.markets[at].spec.id));
    }
    let reason = if breach.is_some() { CancelReason::Breaker } else { CancelReason::ImmediateRemainder };
    let ends = |order: &ReferenceOrder| {
        order.is_active() && (order.kind == ReferenceOrderKind::Market || order.tif == TimeInForce::ImmediateOrCancel)
    };
    for id in venue.markets[at].order_ids(ends) {
        venue.markets[at].cancel(id, reason, out);
    }
    if breach.is_some() {
        begin_volatility_call(venue, at, out);
    } else {
        elect_stops(venue, at, out);
        run_elected(venue, at, out);
    }
    publish_conclusion(venue, at, since, out);
}

fn publish_closing_price(venue: &mut VenueState, at: usize, out: &mut Vec<Event>) {
    let market = &mut venue.markets[at];
    if let Some((price, derivation)) = market.closing.derive() {
        out.push(Event::ClosingPriceSet { instrument: market.spec.id, price, derivation });
    }
}
