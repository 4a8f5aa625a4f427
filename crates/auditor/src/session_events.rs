//! Checks the events that begin a session, inject parked orders, report a breach, and start the
//! volatility call after it (rulebook 10).

use pitwire_model::{Event, InstrumentId, OrderId, Phase, SessionReason, VenueNanos};

use crate::conclusion::check_indicative;
use crate::limits::ToleranceBreach;
use crate::model::VenueModel;
use crate::order_updates::replace_order;
use crate::orders::{LiveOrder, LiveOrderState};
use crate::reader::EventReader;
use crate::rule_tables::tables;
use crate::stops::{check_elected_join, check_elections};
use crate::violation::{CheckResult, fail};

/// The word that a session begins. When it ends is judged where a command said it.
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
        Some(Event::Parked { order, .. }) => fail!(M5, "order {order} was parked and had no reason to be"),
        Some(Event::Triggered { order, .. }) => fail!(M5, "order {order} was elected and was not due"),
        Some(Event::Trade { trade_seq, .. }) => {
            fail!(M8, "trade {trade_seq} where {} ends, and no trade was due", before.name())
        }
        told => fail!(
            M8,
            "instrument {instrument} was to go from {} to {} ({}) and {told:?} was said",
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

/// A breach is told with the numbers that make it one.
pub fn check_breach(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
    breach: &ToleranceBreach,
) -> CheckResult {
    let price = breach.price;
    match reader.peek(model)? {
        Some(Event::Breached { instrument: of, price: told, reference, against, bps })
            if (*of, *told) == (instrument, price) =>
        {
            if !model.market(instrument).has_correct_numbers(breach, (*reference, *against, *bps)) {
                fail!(M8, "{told} was told to breach {bps} of {reference} ({against:?}), which is not so");
            }
            reader.advance();
            Ok(())
        }
        Some(Event::Breached { price: told, .. }) => {
            fail!(M8, "a breach by {told} was told, and it is {price} that breaches")
        }
        Some(Event::Trade { trade_seq, price: told, .. }) => {
            fail!(M8, "trade {trade_seq} at {told}, and {price} breaches a tolerance: {breach:?}")
        }
        _ => fail!(M8, "{price} breaches a tolerance and that was not told: {breach:?}"),
    }
}

/// What a breach in continuous trading leads to, once the order that was trading has ended.
pub fn check_volatility_call(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
    waiting: &[OrderId],
) -> CheckResult {
    check_session_event(model, reader, instrument, Phase::VolatilityCall, SessionReason::Breaker, None)?;
    check_injections(model, reader, instrument)?;
    let mut joining = waiting.to_vec();
    joining.extend(check_elections(model, reader, instrument)?);
    check_elected_join(model, reader, &joining)?;
    check_indicative(model, reader, instrument, false)
}

/// Parked orders that the session is for come into the book, in the order of their numbers.
pub fn check_injections(model: &mut VenueModel, reader: &mut EventReader<'_>, instrument: InstrumentId) -> CheckResult {
    let phase = model.market(instrument).session.phase;
    let is_due = |order: &&LiveOrder| {
        order.instrument == instrument && order.place == LiveOrderState::Parked && tables().injects(phase, order.tif)
    };
    let due: Vec<LiveOrder> = model.orders.values().filter(is_due).copied().collect();
    for order in due {
        let injected = Event::Injected { order: order.id, account: order.account, instrument };
        match reader.peek(model)? {
            Some(told) if *told == injected => reader.advance(),
            _ => fail!(M5, "order {} ({}) was to be injected into {}", order.id, order.tif.name(), phase.name()),
        }
        let after = LiveOrder { place: LiveOrderState::Active, shown: order.displayed_lots(), mode: None, ..order };
        replace_order(model, reader, &order, after);
        reader.peek(model)?;
    }
    Ok(())
}
