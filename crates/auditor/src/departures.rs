//! Checks the events by which an order leaves without a fill, or is parked.

use pitwire_model::{CancelReason, Event, Lots, OrderId, Ticks};

use crate::model::VenueModel;
use crate::order_updates::{remove_order, replace_order};
use crate::orders::{LiveOrder, LiveOrderKind, LiveOrderState};
use crate::reader::EventReader;
use crate::violation::{BrokenPromise, CheckResult, Promise, fail};

/// An order leaves without having filled: the event that says so is next.
pub fn check_cancelled(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    order: &LiveOrder,
    reason: CancelReason,
) -> CheckResult {
    let due = cancelled(order, reason);
    match reader.peek(model)? {
        Some(told) if *told == due => reader.advance(),
        told => return Err(missing_cancellation(order, reason, told)),
    }
    Ok(())
}

/// A live order leaves: judged, and taken out of everything.
pub fn check_departure(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    order: OrderId,
    reason: CancelReason,
) -> CheckResult {
    let Some(live) = model.orders.get(&order).copied() else {
        fail!(M4, "order {order} was to leave and is not live");
    };
    check_cancelled(model, reader, &live, reason)?;
    remove_order(model, reader, &live);
    Ok(())
}

/// The end of an order without a fill. A market order, and a stop, has no price.
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

/// An active order is set aside again.
pub fn check_parked(model: &mut VenueModel, reader: &mut EventReader<'_>, order: &LiveOrder) -> CheckResult {
    let (id, account, instrument) = (order.id, order.account, order.instrument);
    let parked = Event::Parked { order: id, account, instrument, open: Lots(order.open) };
    match reader.peek(model)? {
        Some(told) if *told == parked => reader.advance(),
        told => fail!(M5, "order {id} ({}) was to be parked with {}: {told:?}", order.tif.name(), order.open),
    }
    if model.orders.contains_key(&id) {
        replace_order(model, reader, order, LiveOrder { place: LiveOrderState::Parked, ..*order });
    }
    Ok(())
}

/// The promise that is broken when an order was to leave and something else was said.
fn missing_cancellation(order: &LiveOrder, reason: CancelReason, told: Option<&Event>) -> BrokenPromise {
    let due = cancelled(order, reason);
    let promise = match reason {
        CancelReason::SelfMatch => Promise::M11,
        CancelReason::Requested
        | CancelReason::Disconnected
        | CancelReason::Killed
        | CancelReason::InstrumentDeleted
        | CancelReason::AccountClosed => Promise::M4,
        _ => Promise::M5,
    };
    let fault = |promise, sentence| BrokenPromise { promise, sentence };
    let (id, open) = (order.id, order.open);
    match told {
        Some(Event::Cancelled { order: other, reason: said, .. }) if *other != id => {
            let sentence =
                format!("order {other} was cancelled ({said:?}) out of order: order {id} was to be cancelled");
            fault(promise, format!("{sentence} and is still there"))
        }
        Some(Event::Cancelled { reason: said, .. }) if *said != reason => {
            fault(promise, format!("order {id} was cancelled ({said:?}), and the reason is {reason:?}"))
        }
        Some(event @ Event::Cancelled { .. }) => {
            fault(Promise::M4, format!("order {id} was cancelled as {event:?}, and it is {due:?}"))
        }
        None | Some(Event::BookChanged { .. }) if reason == CancelReason::ImmediateRemainder => {
            fault(Promise::M4, format!("{open} lots of order {id} neither traded nor rest nor expired"))
        }
        Some(Event::Level { side, price, .. }) if (*side, *price) == (order.side, order.price) => {
            fault(promise, format!("order {id} may not rest ({reason:?}) and was published as resting"))
        }
        other => {
            let said = other.map_or("nothing".to_owned(), |event| format!("{event:?}"));
            fault(
                promise,
                format!("order {id} was to be cancelled and is still there, with {open} ({reason:?}): {said}"),
            )
        }
    }
}
