//! Orders (wire object 5.2).

use pitwire_model::{CancelReason, InstrumentSpec, Lots, PostOnly};
use pitwire_views::{OrderRecord, OrderState};

use super::{amount, average_price, contracts, price, side_name, tif_name};
use crate::json::Json;

/// What only the moment knows about an order.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrderMoment {
    /// Visible quantity that trades before it: ours, told to its own member only.
    pub queue_ahead: Option<Lots>,
    /// It was sent as one; such orders never rest, so nothing keeps this.
    pub reduce_only: bool,
}

pub fn order(j: &mut Json<'_>, spec: &InstrumentSpec, order: &OrderRecord, moment: OrderMoment) {
    let state = match order.state {
        OrderState::Open => "open",
        OrderState::Filled => "filled",
        OrderState::Cancelled => "cancelled",
    };
    j.object(|j| {
        j.key("order_id").quoted_uint(order.id.0);
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
        amounts(j, spec, order);
        j.key("time_in_force").string(tif_name(order.tif));
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
        j.key("reduce_only").bool(moment.reduce_only);
        j.key("replaced").bool(order.replaced);
        j.raw(br#""api":true,"web":false,"mmp":false,"is_liquidation":false,"risk_reducing":false"#);
        j.key("user_id").uint(u64::from(order.account.0) + 1);
        if let Some(lots) = moment.queue_ahead {
            amount(j, "queue_ahead", spec, lots);
        }
        if let Some(reason) = order.cancel_reason {
            j.key("cancel_reason").string(cancel_reason_name(reason));
        }
    });
}

fn amounts(j: &mut Json<'_>, spec: &InstrumentSpec, order: &OrderRecord) {
    amount(j, "amount", spec, order.lots);
    amount(j, "filled_amount", spec, order.filled);
    j.key("average_price").decimal(average_price(spec, order.tick_lots, order.filled));
    j.key("contracts").decimal(contracts(spec, order.lots));
    // The old name is always told, the newer one where it says something.
    amount(j, "max_show", spec, order.display.unwrap_or(order.lots));
    if let Some(display) = order.display {
        amount(j, "display_amount", spec, display);
        amount(j, "refresh_amount", spec, display);
    }
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
        _ => "settlement",
    }
}
