//! Session changes by an operator: of one instrument, or of a segment with one command per
//! instrument.
//!
//! Holds       the engine decides whether one session may follow another (rulebook 16).

use crate::codec::RpcError;
use pitwire_model::{Command, InstrumentId, Phase, SessionReason, Ticks, VenueNanos};

use super::super::order_parameters;
use crate::call::{Call, MethodResult};

/// Halts trading; orders stay.
///
/// # Errors
/// A refusal if an instrument or the end is wrong, or if its session does not allow the change.
pub fn halt(call: &mut Call<'_>) -> MethodResult {
    turn(call, Phase::Halted)
}

/// Halts trading for the rest of the day.
///
/// # Errors
/// A refusal if an instrument or the end is wrong, or if its session does not allow the change.
pub fn halt_and_close(call: &mut Call<'_>) -> MethodResult {
    turn(call, Phase::HaltAndClose)
}

/// Pauses trading.
///
/// # Errors
/// A refusal if an instrument or the end is wrong, or if its session does not allow the change.
pub fn pause(call: &mut Call<'_>) -> MethodResult {
    turn(call, Phase::Pause)
}

/// Reopens trading. With `seconds` or `ends_at` the call ends by itself, otherwise an operator ends
/// it.
///
/// # Errors
/// A refusal if an instrument or the end is wrong, or if its session does not allow the change.
pub fn reopen(call: &mut Call<'_>) -> MethodResult {
    turn(call, Phase::ReopeningCall)
}

/// Starts a volatility call of the length in the instrument's rules, or of `seconds`, or until
/// `ends_at`.
///
/// # Errors
/// A refusal if an instrument or the end is wrong, or if it does not trade continuously.
pub fn volatility_call(call: &mut Call<'_>) -> MethodResult {
    turn(call, Phase::VolatilityCall)
}

fn turn(call: &mut Call<'_>, to: Phase) -> MethodResult {
    let given = ends(call)?;
    for_each(call, |call, instrument| {
        let due = call.venue.now();
        let ends = given.or_else(|| own_length(call, instrument, to).map(|ns| VenueNanos(due.0.saturating_add(ns))));
        let reason = SessionReason::Operator;
        call.command(Command::ChangeSession { instrument, to, reason, due, ends }).map(|_| ())
    })
}

fn own_length(call: &Call<'_>, instrument: InstrumentId, to: Phase) -> Option<u64> {
    let rules = call.venue.engine().market(instrument)?.spec.rules.as_ref()?;
    Some(rules.volatility_call_ns).filter(|ns| to == Phase::VolatilityCall && *ns > 0)
}

/// Resumes the session that the schedule has now.
///
/// # Errors
/// A refusal if an instrument is wrong, or if its session does not allow the change.
pub fn resume(call: &mut Call<'_>) -> MethodResult {
    for_each(call, |call, instrument| {
        let (to, ends) = call.venue.scheduled(instrument);
        let (due, reason) = (call.venue.now(), SessionReason::Operator);
        call.command(Command::ChangeSession { instrument, to, reason, due, ends }).map(|_| ())
    })
}

/// Sets a later end for the running call.
///
/// # Errors
/// A refusal if no end is given, if it is not in the future, or if an instrument has no running
/// call.
pub fn extend(call: &mut Call<'_>) -> MethodResult {
    let given = ends(call)?;
    let given = given.ok_or_else(|| RpcError::invalid("seconds", "seconds from now, or ends_at, is required"))?;
    for_each(call, |call, instrument| call.command(Command::ExtendSession { instrument, ends: given }).map(|_| ()))
}

/// Sets the closing price of an instrument.
///
/// # Errors
/// A refusal if the instrument or the price is wrong, or if the closing price is in use already.
pub fn closing_price(call: &mut Call<'_>) -> MethodResult {
    let instrument = call.instrument_id()?;
    let price: Ticks = order_parameters::required_price(call, call.spec(instrument)?)?;
    call.command(Command::SetClosingPrice { instrument, price })?;
    call.done()
}

/// Reads `seconds` from now, or `ends_at` in milliseconds of venue time.
fn ends(call: &Call<'_>) -> Result<Option<VenueNanos>, RpcError> {
    let now = call.venue.now();
    if let Some(seconds) = call.params.integer("seconds")? {
        let ns = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).and_then(|s| s.checked_mul(1_000_000_000));
        let ends = ns.and_then(|ns| now.0.checked_add(ns)).map(VenueNanos);
        return ends.map(Some).ok_or_else(|| RpcError::invalid("seconds", "one second or more"));
    }
    let Some(ms) = call.params.integer("ends_at")? else { return Ok(None) };
    let ends = u64::try_from(ms).ok().and_then(|ms| ms.checked_mul(1_000_000)).map(VenueNanos);
    let ends = ends.filter(|ends| *ends > now);
    ends.map(Some).ok_or_else(|| RpcError::invalid("ends_at", format!("later than now, {} ms", now.as_millis())))
}

/// Applies `work` to `instrument_name`, or to each instrument of `segment`. The first refusal ends
/// it and says how far it came.
fn for_each(call: &mut Call<'_>, mut work: impl FnMut(&mut Call<'_>, InstrumentId) -> MethodResult) -> MethodResult {
    let wanted = if call.params.has("segment") { call.segment()? } else { vec![call.instrument_id()?] };
    for (done, instrument) in wanted.iter().enumerate() {
        if let Err(mut error) = work(call, *instrument) {
            if wanted.len() > 1 {
                let name = call.spec(*instrument).map(|spec| spec.name.clone()).unwrap_or_default();
                error.reason = format!("{name}: {} ({done} of {} done before it)", error.reason, wanted.len());
            }
            return Err(error);
        }
    }
    call.done()
}
