//! Checks cancels of one order and of many: exactly the requested orders leave, in order of id,
//! with the expected reason.

use std::collections::BTreeMap;

use pitwire_model::{AccountId, CancelFilter, CancelReason, Epoch, Event, InstrumentId, OrderId, Reject};

use crate::conclusion::check_conclusion;
use crate::departures::check_departure;
use crate::model::VenueModel;
use crate::reader::EventReader;
use crate::settling::check_settling;
use crate::violation::{CheckResult, fail};

/// Checks the cancellations of these orders, by instrument and within it by order id.
///
/// # Errors
/// M4 if an order of the list stays or another one leaves. Also the errors of elections and filters
/// that follow in its instrument.
pub fn check_cancellations(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    leaves: impl IntoIterator<Item = (InstrumentId, OrderId)>,
    reason: CancelReason,
) -> CheckResult {
    let mut books: BTreeMap<InstrumentId, Vec<OrderId>> = BTreeMap::new();
    for (instrument, order) in leaves {
        books.entry(instrument).or_default().push(order);
    }
    for (instrument, mut orders) in books {
        orders.sort_unstable();
        orders.dedup();
        let before = model.market(instrument).book.touch();
        for order in orders {
            check_departure(model, reader, order, reason)?;
        }
        if let Some(Event::Cancelled { order, reason, .. }) = reader.peek(model)?
            && model.orders.get(order).is_some_and(|live| live.instrument == instrument)
        {
            fail!(M4, "order {order} was cancelled ({reason:?}) without a request");
        }
        check_settling(model, reader, instrument, Some(before), None)?;
        check_conclusion(model, reader, instrument)?;
    }
    Ok(())
}

/// Checks the answer to a cancel and everything that follows from it.
///
/// # Errors
/// S1 if a cancel of an unknown or foreign order is not refused by that name, M4 if the order
/// stays.
pub fn check_cancel(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    account: AccountId,
    order: OrderId,
) -> CheckResult {
    let (expected, instrument) = match model.orders.get(&order) {
        None => (Some(Reject::UnknownOrder), None),
        Some(live) if live.account != account => (Some(Reject::NotOwner), None),
        Some(live) => (None, Some(live.instrument)),
    };
    if let Some(Event::CancelRefused { order: actual, account: whose, reason }) = reader.peek(model)?
        && (*actual, *whose) == (order, account)
        && expected == Some(*reason)
    {
        reader.advance();
        return reader.expect_end(model);
    }
    if let Some(reason) = expected {
        fail!(S1, "the cancel of order {order} must be refused ({}), but was not", reason.name());
    }
    let named = instrument.map(|instrument| (instrument, order));
    check_cancellations(model, reader, named, CancelReason::Requested)?;
    reader.expect_end(model)
}

/// Checks a mass cancel: every order of the account that `which` covers leaves, and no other.
///
/// # Errors
/// M4 if a covered order stays or another order leaves.
pub fn check_cancel_all(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    account: AccountId,
    which: &CancelFilter,
    reason: CancelReason,
) -> CheckResult {
    let leaves = match which {
        CancelFilter::All => model.orders_of_account(account, |_| true),
        CancelFilter::Instrument(instrument) => model.orders_of_account(account, |live| live.instrument == *instrument),
        CancelFilter::Session(session) => model.orders_of_account(account, |live| live.session == *session),
        CancelFilter::Listed(orders) => {
            let named = orders.iter().filter_map(|id| model.orders.get(id));
            named.filter(|live| live.account == account).map(|live| (live.instrument, live.id)).collect()
        }
    };
    check_cancellations(model, reader, leaves, reason)?;
    reader.expect_end(model)
}

/// Checks the start of an epoch: orders with cancel-on-disconnect leave, and kills of sessions end.
///
/// # Errors
/// S1 if the event of the epoch is missing or has another number, M4 if an order with
/// cancel-on-disconnect stays.
pub fn check_epoch_start(model: &mut VenueModel, reader: &mut EventReader<'_>, epoch: Epoch) -> CheckResult {
    let leaves = model.orders_where(|live| live.cancel_on_disconnect);
    check_cancellations(model, reader, leaves, CancelReason::Disconnected)?;
    match reader.peek(model)? {
        Some(Event::EpochStarted { epoch: actual }) if *actual == epoch => reader.advance(),
        _ => fail!(S1, "epoch {epoch} must start, but did not"),
    }
    model.kills.sessions.clear();
    reader.expect_end(model)
}
