//! Checks the events that begin a session, inject parked orders, report a breach, and start the
//! volatility call after it (rulebook 10).

use pitwire_model::{Event, InstrumentId, OrderId, Phase, SessionReason, VenueNanos};

use crate::conclusion::check_indicative;
use crate::limits::ToleranceBreach;
use crate::model::VenueModel;
use crate::order_updates::replace_order;
use crate::orders::{LiveOrder, LiveOrderState};
use crate::reader::EventReader;
use crate::reduce_only::check_reduce_only_end;
use crate::rule_tables::tables;
use crate::stops::{check_elected_join, check_elections};
use crate::violation::{CheckResult, fail};

/// Checks the event that begins a session. `until` is the expected end, if a command stated it.
///
/// # Errors
/// M8 if another session follows, or none, or if a trade happens between. M5 if an order leaves, is
/// parked or elected between without a reason.
pub fn check_session_event(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
    phase: Phase,
    why: SessionReason,
    until: Option<Option<VenueNanos>>,
) -> CheckResult {
    let before = model.market(instrument).session.phase;
    let ends = match reader.peek(model)? {
        Some(Event::SessionChanged { instrument: of, from, to, reason, ends })
            if (*of, *from, *to, *reason) == (instrument, before, phase, why)
                && until.is_none_or(|until| until == *ends) =>
        {
            reader.advance();
            *ends
        }
        Some(Event::Cancelled { order, reason, .. }) => {
            fail!(M5, "order {order} was cancelled ({reason:?}) and nothing of {} ends it", before.name())
        }
        Some(Event::Parked { order, .. }) => fail!(M5, "order {order} was parked without a reason"),
        Some(Event::Triggered { order, .. }) => {
            fail!(M5, "order {order} was elected, but its stop price was not reached")
        }
        Some(Event::Trade { trade_seq, .. }) => {
            fail!(M8, "trade {trade_seq} at the end of {}, where nothing may trade", before.name())
        }
        actual => fail!(
            M8,
            "instrument {instrument} must go from {} to {} ({}), found {actual:?}",
            before.name(),
            phase.name(),
            why.name()
        ),
    };
    enter_session(model, instrument, phase, ends);
    Ok(())
}

pub fn enter_session(model: &mut VenueModel, instrument: InstrumentId, phase: Phase, ends: Option<VenueNanos>) {
    let now = model.at;
    let market = model.market_mut(instrument);
    market.set_phase(phase, ends, now);
    market.session.remaining.take_one(phase);
}

/// Checks the event that reports a breach, with its reference and tolerance.
///
/// # Errors
/// M8 if the breach is missing, at another price, or has wrong numbers.
pub fn check_breach(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
    breach: &ToleranceBreach,
) -> CheckResult {
    let price = breach.price;
    match reader.peek(model)? {
        Some(Event::Breached { instrument: of, price: actual, reference, against, bps })
            if (*of, *actual) == (instrument, price) =>
        {
            if !model.market(instrument).has_correct_numbers(breach, (*reference, *against, *bps)) {
                fail!(
                    M8,
                    "{actual} was published as a breach of {bps} bps of {reference} ({against:?}), which is wrong"
                );
            }
            reader.advance();
            Ok(())
        }
        Some(Event::Breached { price: actual, .. }) => {
            fail!(M8, "a breach by {actual} was published, but {price} breaches")
        }
        Some(Event::Trade { trade_seq, price: actual, .. }) => {
            fail!(M8, "trade {trade_seq} at {actual}, and {price} breaches a tolerance: {breach:?}")
        }
        _ => fail!(M8, "{price} breaches a tolerance and was not published: {breach:?}"),
    }
}

/// Checks the volatility call after a breach in continuous trading. `waiting` are elected stops
/// that have not acted.
///
/// # Errors
/// M8 if the call is missing or wrong, M5 if orders for the call do not join it, M6 if its
/// indicative values are wrong.
pub fn check_volatility_call(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
    waiting: &[OrderId],
) -> CheckResult {
    check_reduce_only_end(model, reader, instrument, Phase::VolatilityCall)?;
    check_session_event(model, reader, instrument, Phase::VolatilityCall, SessionReason::Breaker, None)?;
    check_injections(model, reader, instrument)?;
    let mut joining = waiting.to_vec();
    joining.extend(check_elections(model, reader, instrument)?);
    check_elected_join(model, reader, &joining)?;
    check_indicative(model, reader, instrument, false)
}

/// Checks that parked orders for this session join the book in order of id.
///
/// # Errors
/// M5 if an order is missing or out of order.
pub fn check_injections(model: &mut VenueModel, reader: &mut EventReader<'_>, instrument: InstrumentId) -> CheckResult {
    let phase = model.market(instrument).session.phase;
    let is_due = |order: &&LiveOrder| {
        order.instrument == instrument && order.place == LiveOrderState::Parked && tables().injects(phase, order.tif)
    };
    let expected: Vec<LiveOrder> = model.orders.values().filter(is_due).copied().collect();
    for order in expected {
        let injected = Event::Injected { order: order.id, account: order.account, instrument };
        match reader.peek(model)? {
            Some(actual) if *actual == injected => reader.advance(),
            _ => fail!(M5, "order {} ({}) must be injected into {}", order.id, order.tif.name(), phase.name()),
        }
        let after = LiveOrder { place: LiveOrderState::Active, shown: order.displayed_lots(), mode: None, ..order };
        replace_order(model, reader, &order, after);
        reader.peek(model)?;
    }
    Ok(())
}
