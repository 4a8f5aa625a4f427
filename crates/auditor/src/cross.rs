//! Checks the closing price cross: all trades at the closing price, in order of time alone
//! (rulebook 12).
//!
//! Start at    [`check_cross_arrival`], [`check_cross_opening`].

use pitwire_model::{CancelReason, Event, InstrumentId, Lots, OrderId, SelfMatch, Side, Ticks, TimeInForce, TradeKind};

use crate::continuous::{IncomingOrder, check_fill_or_kill, incoming_order};
use crate::departures::{check_cancelled, check_departure};
use crate::model::VenueModel;
use crate::order_updates::{add_order, note_level_change, remove_order, replace_order};
use crate::orders::{LiveOrder, LiveOrderState};
use crate::reader::EventReader;
use crate::reduce_only::check_reduced_elected;
use crate::trades::{ExpectedTrade, check_throttle_trips, check_trade};
use crate::violation::{CheckResult, fail};

/// Checks the start of the cross: resting orders arrive one after another, in order of time.
///
/// # Errors
/// The errors of a wrong or missing trade at the closing price, and M4 or M5 if an order that
/// self-match prevention stops stays in the book.
pub fn check_cross_opening(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
) -> CheckResult {
    reader.peek(model)?;
    let Some(price) = model.market(instrument).closing.cross_price() else { return Ok(()) };
    let takes_part = |order: &&LiveOrder| order.instrument == instrument && takes_part(order, price);
    let mut there: Vec<&LiveOrder> = model.orders.values().filter(takes_part).collect();
    there.sort_by_key(|order| order.arrival);
    let there: Vec<OrderId> = there.iter().map(|order| order.id).collect();
    for id in there {
        let Some(order) = model.orders.get(&id).copied() else { continue };
        let taker = incoming_order(model, order, None, true);
        if check_cross_trades(model, reader, taker, price)?.1 {
            check_departure(model, reader, id, CancelReason::SelfMatch)?;
        }
    }
    Ok(())
}

/// Checks an elected stop that acts in the cross.
///
/// # Errors
/// M5 if a reduce-only stop does not follow its position, and the errors of
/// [`check_cross_arrival`].
pub fn check_elected_in_cross(model: &mut VenueModel, reader: &mut EventReader<'_>, order: OrderId) -> CheckResult {
    let Some(live) = check_reduced_elected(model, reader, order)? else { return Ok(()) };
    remove_order(model, reader, &live);
    model.ledger.reserve(live.account, model.order_cost(&live, live.open));
    let taker = incoming_order(model, live, live.mode, true);
    check_cross_arrival(model, reader, taker)
}

/// Checks an order that arrives in the cross: its trades at the closing price, then its remainder.
///
/// # Errors
/// The errors of a wrong or missing trade at the closing price. M5 if an immediate or market
/// remainder is not cancelled for the right reason.
pub fn check_cross_arrival(model: &mut VenueModel, reader: &mut EventReader<'_>, taker: IncomingOrder) -> CheckResult {
    reader.peek(model)?;
    let price = model
        .market(taker.order.instrument)
        .closing
        .cross_price()
        .filter(|price| takes_part(&at_once(&taker.order), *price));
    if taker.order.tif == TimeInForce::FillOrKill {
        let there = price.map_or(0, |price| reachable_in_cross(model, &taker, price));
        if there < taker.order.open {
            return check_fill_or_kill(model, reader, &taker, there);
        }
    }
    let (mut order, is_stopped) = match price {
        Some(price) => check_cross_trades(model, reader, taker, price)?,
        None => (taker.order, false),
    };
    order.mode = None;
    let expires = order.is_immediate() || (order.is_market() && order.tif != TimeInForce::ClosingCross);
    let reason = if is_stopped { CancelReason::SelfMatch } else { CancelReason::ImmediateRemainder };
    if order.open == 0 {
        return Ok(());
    }
    if is_stopped || expires {
        check_cancelled(model, reader, &order, reason)?;
        if taker.reserves {
            model.ledger.release(order.account, model.order_cost(&order, order.open));
        }
        return Ok(());
    }
    add_order(model, reader, LiveOrder { place: LiveOrderState::Active, shown: order.displayed_lots(), ..order });
    Ok(())
}

/// Returns the orders of the other side that arrived earlier, in order of time. A new order may
/// meet all of them.
fn earlier_contra_orders(model: &VenueModel, taker: &IncomingOrder, price: Ticks) -> Vec<LiveOrder> {
    let order = &taker.order;
    let is_incoming = !model.orders.contains_key(&order.id);
    let contra = |other: &&LiveOrder| {
        other.instrument == order.instrument
            && other.side == order.side.opposite()
            && (is_incoming || other.arrival < order.arrival)
            && takes_part(other, price)
    };
    let mut there: Vec<LiveOrder> = model.orders.values().filter(contra).copied().collect();
    there.sort_by_key(|other| other.arrival);
    there
}

fn reachable_in_cross(model: &VenueModel, taker: &IncomingOrder, price: Ticks) -> u64 {
    let mut there = 0;
    for other in earlier_contra_orders(model, taker, price) {
        if !taker.must_not_meet(&other) {
            there += other.open;
        } else if taker.mode != SelfMatch::CancelResting {
            break;
        }
    }
    there
}

/// Checks the trades of one order. Returns its remainder and whether self-match prevention cancels
/// it.
fn check_cross_trades(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    mut taker: IncomingOrder,
    price: Ticks,
) -> CheckResult<(LiveOrder, bool)> {
    for resting in earlier_contra_orders(model, &taker, price) {
        if taker.order.open == 0 {
            break;
        }
        if taker.must_not_meet(&resting) {
            if let Some(Event::Trade { trade_seq, maker, .. }) = reader.peek(model)?
                && *maker == resting.id
            {
                fail!(M11, "trade {trade_seq} is with order {maker}, of the same member");
            }
            if matches!(taker.mode, SelfMatch::CancelResting | SelfMatch::CancelBoth) {
                check_departure(model, reader, resting.id, CancelReason::SelfMatch)?;
            }
            if taker.mode != SelfMatch::CancelResting {
                return Ok((taker.order, true));
            }
            continue;
        }
        let Some(maker) = model.orders.get(&resting.id).copied() else { continue };
        let lots = maker.open.min(taker.order.open);
        let (kind, taker_reserves) = (TradeKind::Cross, taker.reserves);
        check_trade(model, reader, &ExpectedTrade { maker, taker: taker.order, price, lots, kind, taker_reserves })?;
        apply_cross_fill(model, reader, maker.id, lots)?;
        if model.orders.contains_key(&taker.order.id) {
            apply_cross_fill(model, reader, taker.order.id, lots)?;
        }
        taker.order.open -= lots;
        check_throttle_trips(reader)?;
    }
    Ok((taker.order, false))
}

/// Applies a fill. An iceberg displays its peak again without losing priority.
fn apply_cross_fill(model: &mut VenueModel, reader: &mut EventReader<'_>, order: OrderId, lots: u64) -> CheckResult {
    let Some(before) = model.orders.get(&order).copied() else { return Ok(()) };
    let mut left = LiveOrder { open: before.open - lots, ..before };
    let rest = before.shown.saturating_sub(lots);
    if left.open == 0 {
        left.shown = 0;
        note_level_change(model, reader, &before);
        model.market_mut(before.instrument).book.shrink(&before, before.shown, lots);
        model.orders.insert(left);
        remove_order(model, reader, &left);
        return Ok(());
    }
    left.shown = left.displayed_lots();
    if left.is_visible() && left.shown > rest {
        let LiveOrder { account, instrument, side, price, .. } = left;
        let expected = Event::Refreshed { order, account, instrument, side, price, shown: Lots(left.shown) };
        match reader.peek(model)? {
            Some(actual) if *actual == expected => reader.advance(),
            actual => fail!(M2, "order {order} must display {} again, found {actual:?}", left.shown),
        }
    }
    replace_order(model, reader, &before, left);
    Ok(())
}

/// Whether a visible order may trade at the closing price.
fn takes_part(order: &LiveOrder, price: Ticks) -> bool {
    let reaches = match (order.reach(), order.side) {
        (None, _) => true,
        (Some(limit), Side::Buy) => limit >= price,
        (Some(limit), Side::Sell) => limit <= price,
    };
    order.is_active() && !order.is_hidden() && reaches
}

/// Returns an incoming order as if it were active in the book.
pub fn at_once(order: &LiveOrder) -> LiveOrder {
    LiveOrder { place: LiveOrderState::Active, ..*order }
}
