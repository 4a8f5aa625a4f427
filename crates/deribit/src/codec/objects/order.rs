//! Orders (wire object 5.2).

use pitwire_model::{CancelReason, InstrumentSpec, Lots, OrderType, PostOnly, TimeInForce, format_date};
use pitwire_projections::{OrderRecord, OrderState, Place};

use super::{amount, average_price, contracts, price, side_name, tif_name};
use crate::codec::json::Json;

/// Facts about an order that hold only now.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrderMoment {
    /// Visible quantity that trades before it. Shown to its own member only.
    pub queue_ahead: Option<Lots>,
    /// Whether this message announces its election, whatever happened to it since.
    pub triggers: bool,
}

pub fn order(j: &mut Json<'_>, spec: &InstrumentSpec, order: &OrderRecord, moment: OrderMoment) {
    let waits = order.place == Place::Unelected && order.state == OrderState::Open;
    let state = match order.state {
        _ if moment.triggers => "triggered",
        OrderState::Open if waits => "untriggered",
        OrderState::Open => "open",
        OrderState::Filled => "filled",
        OrderState::Cancelled => "cancelled",
    };
    j.object(|j| {
        j.key("order_id").quoted_uint(order.id.0);
        j.key("order_state").string(state);
        j.key("order_type").string(order_type_name(order.order_type));
        j.key("instrument_name").string(&spec.name);
        j.key("direction").string(side_name(order.side));
        if waits && order.is_market() {
            // The one field of the dialect that is a number or a text.
            j.key("price").string("market_price");
        } else if order.is_market() {
            // The average price paid: the dialect expects a number even for a market order.
            j.key("price").decimal(average_price(spec, order.tick_lots, order.filled));
        } else {
            price(j, "price", spec, order.price());
        }
        amounts(j, spec, order);
        j.key("time_in_force").string(order_tif_name(order));
        j.key("creation_timestamp").uint(order.created.as_millis());
        j.key("last_update_timestamp").uint(order.updated.as_millis());
        j.key("label").string(order.label.as_str());
        if !order.client_order_id.as_str().is_empty() {
            j.key("client_order_id").string(order.client_order_id.as_str());
        }
        j.key("post_only").bool(order.post_only != PostOnly::No);
        if order.post_only != PostOnly::No {
            j.key("reject_post_only").bool(order.post_only == PostOnly::Reject);
        }
        j.key("reduce_only").bool(order.reduce_only);
        j.key("replaced").bool(order.replaced);
        j.raw(br#""api":true,"web":false,"mmp":false,"is_liquidation":false,"risk_reducing":false"#);
        j.key("user_id").uint(u64::from(order.account.0) + 1);
        trigger(j, spec, order);
        extensions(j, spec, order);
        if let Some(lots) = moment.queue_ahead {
            amount(j, "queue_ahead", spec, lots);
        }
        if let Some(reason) = order.cancel_reason {
            j.key("cancel_reason").string(cancel_reason_name(reason));
        }
    });
}

/// The dialect's word for an order type. A hidden order is a limit order.
pub const fn order_type_name(order_type: OrderType) -> &'static str {
    match order_type {
        OrderType::Limit { .. } | OrderType::Hidden { .. } => "limit",
        OrderType::Market => "market",
        OrderType::Stop { .. } => "stop_market",
        OrderType::StopLimit { .. } => "stop_limit",
    }
}

/// Writes the fields of trigger orders, before and after their election.
fn trigger(j: &mut Json<'_>, spec: &InstrumentSpec, order: &OrderRecord) {
    let Some(stop) = order.stop() else { return };
    j.key("trigger").string("last_price");
    price(j, "trigger_price", spec, stop);
    j.key("triggered").bool(order.elected_at.is_some());
    if let Some(last) = order.elected_at {
        price(j, "trigger_reference_price", spec, last);
    }
}

/// Writes fields that the dialect does not have, for orders that use them.
fn extensions(j: &mut Json<'_>, spec: &InstrumentSpec, order: &OrderRecord) {
    if let Some(lots) = order.minimum_execution() {
        j.key("hidden").bool(true);
        amount(j, "min_execution", spec, lots);
    }
    if is_extension(order.tif) {
        j.key("tif_ext").string(order.tif.name());
    }
    match order.tif {
        TimeInForce::GoodTillDate { day } => j.key("expires_at").string(&format_date(day)).end(),
        TimeInForce::GoodTillTime { at } => j.key("expires_at").uint(at.as_millis()).end(),
        _ => {}
    }
    if order.place == Place::Parked {
        j.key("parked").bool(order.state == OrderState::Open);
    }
}

/// The dialect's word for the time in force of an order. A market order for the day has the
/// dialect's default, because clients that sent none compare it with that default.
fn order_tif_name(order: &OrderRecord) -> &'static str {
    match order.tif {
        TimeInForce::Day if order.is_market() => tif_name(TimeInForce::GoodTillCancel),
        tif => tif_name(tif),
    }
}

/// Whether the dialect has no word for this time in force.
const fn is_extension(tif: TimeInForce) -> bool {
    use TimeInForce::{Day, FillOrKill, GoodTillCancel, ImmediateOrCancel};
    !matches!(tif, Day | GoodTillCancel | ImmediateOrCancel | FillOrKill)
}

fn amounts(j: &mut Json<'_>, spec: &InstrumentSpec, order: &OrderRecord) {
    amount(j, "amount", spec, order.lots);
    amount(j, "filled_amount", spec, order.filled);
    j.key("average_price").decimal(average_price(spec, order.tick_lots, order.filled));
    j.key("contracts").decimal(contracts(spec, order.lots));
    // The old name is always written, the newer one only if it differs.
    let whole = if order.minimum_execution().is_some() { Lots::ZERO } else { order.lots };
    amount(j, "max_show", spec, order.display.unwrap_or(whole));
    if let Some(display) = order.display {
        amount(j, "display_amount", spec, display);
        amount(j, "refresh_amount", spec, display);
    }
}

/// The dialect's nearest word for a reason. Expiries at a session change use the rulebook's word.
pub const fn cancel_reason_name(reason: CancelReason) -> &'static str {
    match reason {
        CancelReason::Requested => "user_request",
        CancelReason::ImmediateRemainder => "immediate_or_cancel",
        CancelReason::FillOrKill => "fill_or_kill",
        CancelReason::DayEnded | CancelReason::InstrumentDeleted => "settlement",
        CancelReason::SelfMatch => "self_match_prevention",
        CancelReason::Disconnected => "cancel_on_disconnect",
        CancelReason::Killed => "risk_mitigation",
        CancelReason::AccountClosed => "pme_account_locked",
        CancelReason::TimeReached => "time_reached",
        CancelReason::DateReached => "date_reached",
        CancelReason::NinetyDays => "ninety_days",
        CancelReason::CallEnded => "auction_ended",
        CancelReason::PauseEnded => "pause_ended",
        CancelReason::CrossEnded => "cross_ended",
        CancelReason::BelowMinimumExecution => "below_minimum_execution",
        CancelReason::Breaker => "breaker",
        CancelReason::NothingExecutes => "nothing_executes",
        CancelReason::ReduceOnly => "reduce_only",
    }
}
