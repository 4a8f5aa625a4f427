//! Checks the events by which an order leaves without a fill, or is parked.

use pitwire_model::{CancelReason, Event, Lots, OrderId, Ticks};

use crate::model::VenueModel;
use crate::order_updates::{remove_order, replace_order};
use crate::orders::{LiveOrder, LiveOrderKind, LiveOrderState};
use crate::reader::EventReader;
use crate::violation::{BrokenPromise, CheckResult, Promise, fail};

/// Checks that the next event cancels this order.
///
/// # Errors
/// M5 or M4, by the reason, if the next event is another one or has other terms.
pub fn check_cancelled(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    order: &LiveOrder,
    reason: CancelReason,
) -> CheckResult {
    let expected = cancelled(order, reason);
    match reader.peek(model)? {
        Some(actual) if *actual == expected => reader.advance(),
        actual => return Err(missing_cancellation(order, reason, actual)),
    }
    Ok(())
}

/// Checks that the next event cancels a live order, and removes it from the model.
///
/// # Errors
/// M4 if the order is not live, and the errors of [`check_cancelled`].
pub fn check_departure(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    order: OrderId,
    reason: CancelReason,
) -> CheckResult {
    let Some(live) = model.orders.get(&order).copied() else {
        fail!(M4, "order {order} must leave, but is not live");
    };
    check_cancelled(model, reader, &live, reason)?;
    remove_order(model, reader, &live);
    Ok(())
}

/// Returns the event that cancels an order. Market orders and stops have price zero.
pub fn cancelled(order: &LiveOrder, reason: CancelReason) -> Event {
    let has_price = !matches!(order.kind, LiveOrderKind::Market | LiveOrderKind::Stop);
    Event::Cancelled {
        order: order.id,
        account: order.account,
        instrument: order.instrument,
        side: order.side,
        price: if has_price { order.price } else { Ticks::ZERO },
        open: Lots(order.open),
        reason,
    }
}

/// Checks that the next event parks an active order.
///
/// # Errors
/// M5 if the next event is another one.
pub fn check_parked(model: &mut VenueModel, reader: &mut EventReader<'_>, order: &LiveOrder) -> CheckResult {
    let (id, account, instrument) = (order.id, order.account, order.instrument);
    let parked = Event::Parked { order: id, account, instrument, open: Lots(order.open) };
    match reader.peek(model)? {
        Some(actual) if *actual == parked => reader.advance(),
        actual => fail!(M5, "order {id} ({}) must be parked with {}: {actual:?}", order.tif.name(), order.open),
    }
    if model.orders.contains_key(&id) {
        replace_order(model, reader, order, LiveOrder { place: LiveOrderState::Parked, ..*order });
    }
    Ok(())
}

/// Names the promise that is broken when an expected cancellation does not come.
fn missing_cancellation(order: &LiveOrder, reason: CancelReason, actual: Option<&Event>) -> BrokenPromise {
    let expected = cancelled(order, reason);
    let promise = match reason {
        CancelReason::SelfMatch => Promise::M11,
        CancelReason::Requested
        | CancelReason::Disconnected
        | CancelReason::Killed
        | CancelReason::InstrumentDeleted
        | CancelReason::AccountClosed => Promise::M4,
        _ => Promise::M5,
    };
    let finding = |promise, sentence| BrokenPromise { promise, sentence };
    let (id, open) = (order.id, order.open);
    match actual {
        Some(Event::Cancelled { order: other, reason: actual, .. }) if *other != id => {
            let sentence =
                format!("order {other} was cancelled ({actual:?}) out of order: order {id} must be cancelled");
            finding(promise, format!("{sentence}, but is still live"))
        }
        Some(Event::Cancelled { reason: actual, .. }) if *actual != reason => {
            finding(promise, format!("order {id} was cancelled ({actual:?}), but the reason is {reason:?}"))
        }
        Some(event @ Event::Cancelled { .. }) => {
            finding(Promise::M4, format!("order {id} was cancelled as {event:?}, expected {expected:?}"))
        }
        None | Some(Event::BookChanged { .. }) if reason == CancelReason::ImmediateRemainder => {
            finding(Promise::M4, format!("{open} lots of order {id} neither traded, rested nor expired"))
        }
        Some(Event::Level { side, price, .. }) if (*side, *price) == (order.side, order.price) => {
            finding(promise, format!("order {id} may not rest ({reason:?}) and was published as resting"))
        }
        other => {
            let actual = other.map_or("nothing".to_owned(), |event| format!("{event:?}"));
            finding(
                promise,
                format!("order {id} must be cancelled, but is still live with {open} lots ({reason:?}): {actual}"),
            )
        }
    }
}
