//! Checks expiries and the end of the venue day (rulebook 6).
//!
//! Holds       no expiry is missed and none is early: every live order is examined.

use std::collections::BTreeMap;

use pitwire_model::{CancelReason, Event, InstrumentId, OrderId, SessionReason, TimeInForce, VenueDay};

use crate::conclusion::check_conclusion;
use crate::departures::{check_departure, check_parked};
use crate::model::{MAX_ORDER_DAYS, VenueModel};
use crate::orders::{LiveOrder, LiveOrderKind, LiveOrderState};
use crate::reader::EventReader;
use crate::reporting::check_reporting_close;
use crate::settling::check_settling;
use crate::violation::{CheckResult, fail};

/// Checks that orders past their expiry time expire in every instrument without a running call.
///
/// # Errors
/// M5 or M4 if an expired order stays or another order leaves.
pub fn check_time_passed(model: &mut VenueModel, reader: &mut EventReader<'_>) -> CheckResult {
    let now = model.at;
    let mut expected: BTreeMap<InstrumentId, Vec<OrderId>> = BTreeMap::new();
    for (instrument, at, order) in model.orders.timed() {
        if *at <= now && !model.market(*instrument).session.phase.is_call() {
            expected.entry(*instrument).or_default().push(*order);
        }
    }
    for (instrument, orders) in expected {
        let before = model.market(instrument).book.touch();
        for order in orders {
            check_departure(model, reader, order, CancelReason::TimeReached)?;
        }
        check_settling(model, reader, instrument, Some(before), None)?;
        check_conclusion(model, reader, instrument)?;
    }
    reader.expect_end(model)
}

/// Checks the end of a venue day: orders of the day expire, orders for calls are parked.
///
/// # Errors
/// M5 if an order expires, stays or is parked against its time in force, or if the day does not
/// end. Also the errors of trade reporting that closes.
pub fn check_day_end(model: &mut VenueModel, reader: &mut EventReader<'_>) -> CheckResult {
    for instrument in (0..).map(InstrumentId).take(model.markets.len()) {
        check_reporting_close(model, reader, instrument, SessionReason::Scheduled)?;
        let before = model.market(instrument).book.touch();
        let mine: Vec<LiveOrder> = model.orders.of_instrument(instrument).copied().collect();
        for order in mine {
            if order.tif == TimeInForce::AnyCall && order.is_active() {
                check_parked(model, reader, &order)?;
            } else if let Some(reason) = day_end_reason(model, &order) {
                check_departure(model, reader, order.id, reason)?;
            }
        }
        check_settling(model, reader, instrument, Some(before), None)?;
        check_conclusion(model, reader, instrument)?;
        let market = model.market_mut(instrument);
        market.closing.end_day();
        market.day = Default::default();
        market.session.remaining = Default::default();
    }
    if !matches!(reader.peek(model)?, Some(Event::DayEnded)) {
        if let Some(Event::Cancelled { order, reason, .. }) = reader.peek(model)? {
            fail!(M5, "order {order} was cancelled ({reason:?}) and the end of this day does not expire it");
        }
        fail!(M5, "the day must end, but did not");
    }
    reader.advance();
    reader.expect_end(model)
}

/// Returns why the end of the day cancels an order, or `None` if it stays.
fn day_end_reason(model: &VenueModel, order: &LiveOrder) -> Option<CancelReason> {
    // An elected stop that waits for the next session is a market or limit order by now.
    if matches!(order.place, LiveOrderState::Active | LiveOrderState::Elected) && order.kind == LiveOrderKind::Market {
        return Some(CancelReason::DayEnded);
    }
    match order.tif {
        TimeInForce::Day
        | TimeInForce::GoodTillTime { .. }
        | TimeInForce::OpeningCall
        | TimeInForce::IntradayCall
        | TimeInForce::ClosingCall
        | TimeInForce::ClosingCross
        | TimeInForce::ImmediateOrCancel
        | TimeInForce::FillOrKill => Some(CancelReason::DayEnded),
        TimeInForce::GoodTillDate { day } => (day <= model.today()).then_some(CancelReason::DateReached),
        TimeInForce::GoodTillCancel => {
            let entered = order.entered.filter(|day| *day != VenueDay::ZERO)?;
            (entered.0 + MAX_ORDER_DAYS <= model.today().0).then_some(CancelReason::NinetyDays)
        }
        TimeInForce::AnyCall => None,
    }
}
