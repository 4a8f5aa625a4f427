//! Orders (wire object 5.2).

use pitwire_model::{CancelReason, InstrumentSpec};
use pitwire_views::{OrderRecord, OrderState};

use super::{amount, average_price, contracts, price, side_name, tif_name};
use crate::json::Json;

pub fn order(j: &mut Json<'_>, spec: &InstrumentSpec, order: &OrderRecord) {
    let state = match order.state {
        OrderState::Open => "open",
        OrderState::Filled => "filled",
        OrderState::Cancelled => "cancelled",
    };
    with_state(j, spec, order, state);
}

/// An order that never lived, for clients that insist on seeing one.
pub fn rejected_order(j: &mut Json<'_>, spec: &InstrumentSpec, order: &OrderRecord) {
    with_state(j, spec, order, "rejected");
}

fn with_state(j: &mut Json<'_>, spec: &InstrumentSpec, order: &OrderRecord, state: &str) {
    j.object(|j| {
        j.key("order_id").string(&order.id.to_string());
        j.key("order_state").string(state);
        j.key("order_type").string(if order.is_market { "market" } else { "limit" });
        j.key("instrument_name").string(&spec.name);
        j.key("direction").string(side_name(order.side));
        if order.is_market {
            // What it paid; a number is due even where a market order has no price.
            j.key("price").decimal(average_price(spec, order.tick_lots, order.filled));
        } else {
            price(j, "price", spec, order.price);
        }
        amount(j, "amount", spec, order.lots);
        amount(j, "filled_amount", spec, order.filled);
        j.key("average_price").decimal(average_price(spec, order.tick_lots, order.filled));
        j.key("contracts").decimal(contracts(spec, order.lots));
        amount(j, "max_show", spec, order.lots);
        j.key("time_in_force").string(tif_name(order.tif));
        j.key("creation_timestamp").uint(order.created.as_millis());
        j.key("last_update_timestamp").uint(order.updated.as_millis());
        j.key("label").string(order.label.as_str());
        j.key("replaced").bool(order.replaced);
        j.key("api").bool(true);
        for flag in ["web", "post_only", "reduce_only", "mmp", "is_liquidation", "risk_reducing"] {
            j.key(flag).bool(false);
        }
        j.key("user_id").uint(u64::from(order.account.0) + 1);
        if let Some(reason) = order.cancel_reason {
            j.key("cancel_reason").string(cancel_reason_name(reason));
        }
    });
}

/// The dialect has no words of its own for most; these come nearest.
pub(super) const fn cancel_reason_name(reason: CancelReason) -> &'static str {
    match reason {
        CancelReason::Requested => "user_request",
        CancelReason::ImmediateRemainder => "immediate_or_cancel",
        CancelReason::FillOrKill => "fill_or_kill",
        CancelReason::DayEnded | CancelReason::InstrumentDeleted => "settlement",
        CancelReason::SelfMatch => "self_match_prevention",
        CancelReason::Disconnected => "cancel_on_disconnect",
        CancelReason::Killed => "risk_mitigation",
        CancelReason::AccountClosed => "pme_account_locked",
    }
}
