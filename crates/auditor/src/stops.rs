//! Checks elections of stop orders and what elected orders do outside continuous matching
//! (rulebook 14).

use pitwire_model::{CancelReason, Event, InstrumentId, OrderId, Phase, Side};

use crate::departures::check_departure;
use crate::model::VenueModel;
use crate::order_updates::replace_order;
use crate::orders::{LiveOrder, LiveOrderKind, LiveOrderState};
use crate::reader::EventReader;
use crate::reduce_only::check_reduced_elected;
use crate::violation::{CheckResult, fail};

/// Whether the last price has reached the stop price.
pub fn has_reached_stop(model: &VenueModel, order: &LiveOrder) -> bool {
    model.market(order.instrument).prices.last.is_some_and(|last| match order.side {
        Side::Buy => last >= order.stop,
        Side::Sell => last <= order.stop,
    })
}

/// Returns the elected stops that have not acted yet, in order of election.
pub fn elected_stops(model: &VenueModel, instrument: InstrumentId) -> Vec<OrderId> {
    let is_waiting = |order: &&LiveOrder| order.instrument == instrument && order.place == LiveOrderState::Elected;
    let mut waiting: Vec<&LiveOrder> = model.orders.values().filter(is_waiting).collect();
    waiting.sort_by_key(|order| order.arrival);
    waiting.iter().map(|order| order.id).collect()
}

/// Returns the stops that the last price has reached, in order of election.
fn electable_stops(model: &VenueModel, instrument: InstrumentId) -> Vec<OrderId> {
    let market = model.market(instrument);
    let Some(last) = market.prices.last else { return Vec::new() };
    let mut expected: Vec<&LiveOrder> =
        market.book.reached_stops(last).filter_map(|id| model.orders.get(&id)).collect();
    expected.sort_by_key(|order| (order.side, std::cmp::Reverse((order.stop.0 - last.0).abs()), order.id));
    expected.iter().map(|order| order.id).collect()
}

/// Checks that every stop whose price was reached is elected. Returns their ids.
///
/// # Errors
/// M5 if an election is missing or out of order.
pub fn check_elections(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
) -> CheckResult<Vec<OrderId>> {
    let expected = electable_stops(model, instrument);
    for order in &expected {
        check_election(model, reader, *order)?;
    }
    Ok(expected)
}

/// Checks that the next event elects this stop.
///
/// # Errors
/// M5 if the next event is another one.
pub fn check_election(model: &mut VenueModel, reader: &mut EventReader<'_>, order: OrderId) -> CheckResult {
    let Some(before) = model.orders.get(&order).copied() else { return Ok(()) };
    let Some(last) = model.market(before.instrument).prices.last else { return Ok(()) };
    let expected = Event::Triggered { order, account: before.account, instrument: before.instrument, last };
    match reader.peek(model)? {
        Some(actual) if *actual == expected => reader.advance(),
        Some(Event::Triggered { order: actual, .. }) => {
            fail!(
                M5,
                "order {actual} was elected at {last}, but order {order} with stop price {} comes first",
                before.stop
            )
        }
        _ => fail!(M5, "order {order} must be elected: {last} has reached its stop price {}", before.stop),
    }
    let kind = if before.kind == LiveOrderKind::Stop { LiveOrderKind::Market } else { LiveOrderKind::Limit };
    let arrival = model.orders.next_priority();
    replace_order(model, reader, &before, LiveOrder { kind, arrival, place: LiveOrderState::Elected, ..before });
    Ok(())
}

/// Checks elected stops in a session without immediate matching: they join the book or expire.
///
/// # Errors
/// M5 or M4 if such an order expires although it must join, or stays although it must expire.
pub fn check_elected_join(model: &mut VenueModel, reader: &mut EventReader<'_>, elected: &[OrderId]) -> CheckResult {
    for order in elected {
        let Some(live) = check_reduced_elected(model, reader, *order)? else { continue };
        let market = model.market(live.instrument);
        let is_batch = market.session.phase == Phase::Continuous && market.is_batched();
        let waits = match live.tif {
            pitwire_model::TimeInForce::ImmediateOrCancel => is_batch,
            pitwire_model::TimeInForce::FillOrKill => false,
            _ => is_batch || market.session.phase.is_call() || !live.is_market(),
        };
        if waits {
            let after = LiveOrder { place: LiveOrderState::Active, shown: live.displayed_lots(), mode: None, ..live };
            replace_order(model, reader, &live, after);
            reader.peek(model)?;
        } else {
            check_departure(model, reader, *order, CancelReason::NothingExecutes)?;
        }
    }
    Ok(())
}
