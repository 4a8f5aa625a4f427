//! Checks elections of stop orders and what elected orders do outside continuous matching
//! (rulebook 14).

use pitwire_model::{CancelReason, Event, InstrumentId, OrderId, Phase, Side};

use crate::departures::check_departure;
use crate::model::VenueModel;
use crate::order_updates::replace_order;
use crate::orders::{LiveOrder, LiveOrderKind, LiveOrderState};
use crate::reader::EventReader;
use crate::violation::{CheckResult, fail};

/// Whether the last price has reached a stop's.
pub fn has_reached_stop(model: &VenueModel, order: &LiveOrder) -> bool {
    model.market(order.instrument).prices.last.is_some_and(|last| match order.side {
        Side::Buy => last >= order.stop,
        Side::Sell => last <= order.stop,
    })
}

/// Elected stops that have not acted yet, in the order of their election.
pub fn elected_stops(model: &VenueModel, instrument: InstrumentId) -> Vec<OrderId> {
    let is_waiting = |order: &&LiveOrder| order.instrument == instrument && order.place == LiveOrderState::Elected;
    let mut waiting: Vec<&LiveOrder> = model.orders.values().filter(is_waiting).collect();
    waiting.sort_by_key(|order| order.arrival);
    waiting.iter().map(|order| order.id).collect()
}

/// The stops whose price the last trade has reached, in the order in which they are elected.
fn electable_stops(model: &VenueModel, instrument: InstrumentId) -> Vec<OrderId> {
    let market = model.market(instrument);
    let Some(last) = market.prices.last else { return Vec::new() };
    let mut due: Vec<&LiveOrder> = market.book.reached_stops(last).filter_map(|id| model.orders.get(&id)).collect();
    due.sort_by_key(|order| (order.side, std::cmp::Reverse((order.stop.0 - last.0).abs()), order.id));
    due.iter().map(|order| order.id).collect()
}

/// Every stop that is due says so, and waits to act.
pub fn check_elections(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
) -> CheckResult<Vec<OrderId>> {
    let due = electable_stops(model, instrument);
    for order in &due {
        check_election(model, reader, *order)?;
    }
    Ok(due)
}

pub fn check_election(model: &mut VenueModel, reader: &mut EventReader<'_>, order: OrderId) -> CheckResult {
    let Some(before) = model.orders.get(&order).copied() else { return Ok(()) };
    let Some(last) = model.market(before.instrument).prices.last else { return Ok(()) };
    let due = Event::Triggered { order, account: before.account, instrument: before.instrument, last };
    match reader.peek(model)? {
        Some(told) if *told == due => reader.advance(),
        Some(Event::Triggered { order: told, .. }) => {
            fail!(M5, "order {told} was elected at {last} and order {order} was to be, at {}", before.stop)
        }
        _ => fail!(M5, "order {order} was to be elected: {last} has reached its stop price {}", before.stop),
    }
    let kind = if before.kind == LiveOrderKind::Stop { LiveOrderKind::Market } else { LiveOrderKind::Limit };
    let arrival = model.orders.next_priority();
    replace_order(model, reader, &before, LiveOrder { kind, arrival, place: LiveOrderState::Elected, ..before });
    Ok(())
}

/// Elected stops where nothing executes at once: they wait in the book, or expire.
pub fn check_elected_join(model: &mut VenueModel, reader: &mut EventReader<'_>, elected: &[OrderId]) -> CheckResult {
    for order in elected {
        let Some(live) = model.orders.get(order).copied() else { continue };
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
