//! What an order's parameters say: read to the letter, and refused where they cannot be kept.
//!
//! Holds       a parameter that changes what is bought is obeyed or refused by name, never passed over.

use pitwire_engine::OrderView;
use pitwire_jsonrpc::RpcError;
use pitwire_model::{
    AccountId, Amend, Decimal, InstrumentId, InstrumentSpec, Label, Lots, NewOrder, OrderType, PostOnly, Priority,
    Side, Ticks, TimeInForce,
};
use pitwire_views::OrderRecord;

use super::Done;
use crate::desk::Call;

/// Parameters of trigger orders.
const TRIGGER_VALUES: &[&str] = &["trigger", "trigger_price", "trigger_offset"];
/// Parameters of what this venue does not have.
const FOREIGN_VALUES: &[&str] = &["advanced", "linked_order_type", "trigger_fill_condition", "otoco_config"];
const LATER: &str = "trigger orders answer 10033 until the rulebook; watch the ticker and send a limit or market order";

/// A new order, and whether it may only bring a position nearer to zero.
pub struct Terms {
    pub order: NewOrder,
    pub reduce_only: bool,
}

pub fn of_entry(call: &Call<'_>, account: AccountId, instrument: InstrumentId, side: Side) -> Result<Terms, RpcError> {
    refuse_foreign(call)?;
    let spec = call.spec(instrument)?;
    let lots = lots(call, spec)?.ok_or_else(|| RpcError::invalid("amount", "amount (or contracts) is required"))?;
    let order_type = order_type(call, spec)?;
    let tif = time_in_force(call, order_type)?;
    let (label, client_order_id) = (call.label()?, client_order_id(call)?);
    // Showing all of itself, an order is no iceberg.
    let display = display(call, spec)?.filter(|display| *display != lots);
    let post_only = post_only(call)?.unwrap_or_default();
    let order = NewOrder {
        account,
        instrument,
        side,
        order_type,
        lots,
        tif,
        display,
        post_only,
        label,
        client_order_id,
        ..NewOrder::PLAIN
    };
    let reduce_only = call.params.boolean("reduce_only")?.unwrap_or(false);
    if reduce_only {
        check_reduce_only(spec, &order)?;
    }
    Ok(Terms { order, reduce_only })
}

/// What is not given stays as it is.
pub fn of_edit(call: &Call<'_>, live: &OrderView, record: Option<&OrderRecord>) -> Result<Amend, RpcError> {
    refuse_foreign(call)?;
    if call.params.boolean("reduce_only")? == Some(true) {
        return Err(resting_reduce_only());
    }
    let spec = call.spec(live.instrument)?;
    let before = record.map_or(PostOnly::No, |record| record.post_only);
    Ok(Amend {
        account: live.account,
        order: live.id,
        price: price(call, spec)?.unwrap_or(live.price),
        lots: lots(call, spec)?.unwrap_or(live.ordered),
        priority: Priority::KeepWhenReduced,
        display: display(call, spec)?,
        post_only: post_only(call)?.unwrap_or(before),
        ..Amend::PLAIN
    })
}

/// Refuses a request that has come, or waited, too long for its sender. Asked when it is read and again before it goes to
/// the market.
pub fn check_valid_until(call: &Call<'_>, now_ms: u64) -> Done {
    let Some(until_ms) = call.params.integer("valid_until")? else { return Ok(()) };
    if u64::try_from(until_ms).is_ok_and(|until_ms| now_ms <= until_ms) {
        return Ok(());
    }
    Err(RpcError::param("timed_out", "valid_until", format!("it is {now_ms} ms, valid_until is {until_ms}")))
}

/// The member's own number for an order; empty when it gives none.
pub fn client_order_id(call: &Call<'_>) -> Result<Label, RpcError> {
    let text = call.params.text("client_order_id")?.unwrap_or_default();
    let most = Label::MAX_BYTES;
    let why = || format!("a client_order_id has at most {most} bytes of UTF-8; this one has {}", text.len());
    Label::new(&text).ok_or_else(|| RpcError::invalid("client_order_id", why()))
}

fn refuse_foreign(call: &Call<'_>) -> Done {
    if call.params.boolean("mmp")? == Some(true) {
        return Err(unsupported("mmp"));
    }
    if let Some(name) = TRIGGER_VALUES.iter().find(|name| call.params.has(name)) {
        return Err(RpcError::param("not_implemented", name, LATER));
    }
    match FOREIGN_VALUES.iter().find(|name| call.params.has(name)) {
        Some(name) => Err(unsupported(name)),
        None => Ok(()),
    }
}

fn unsupported(name: &'static str) -> RpcError {
    RpcError::param("unsupported_combination", name, format!("{name} is not supported by this version"))
}

fn order_type(call: &Call<'_>, spec: &InstrumentSpec) -> Result<OrderType, RpcError> {
    match call.params.text("type")?.as_deref() {
        None | Some("" | "limit") => Ok(OrderType::Limit { price: required_price(call, spec)? }),
        Some("market") => Ok(OrderType::Market),
        Some("stop_limit" | "stop_market" | "take_limit" | "take_market" | "trailing_stop") => {
            Err(RpcError::param("not_implemented", "type", LATER))
        }
        Some("market_limit") => {
            let instead = "send a limit order at the other side's best, or immediate_or_cancel";
            Err(RpcError::param("not_implemented", "type", format!("market_limit is not served; {instead}")))
        }
        Some(_) => Err(RpcError::invalid("type", "type is limit or market")),
    }
}

fn time_in_force(call: &Call<'_>, order_type: OrderType) -> Result<TimeInForce, RpcError> {
    match (call.params.text("time_in_force")?.as_deref(), order_type) {
        (None | Some(""), OrderType::Market) | (Some("good_til_day"), _) => Ok(TimeInForce::Day),
        (None | Some("" | "good_til_cancelled"), _) => Ok(TimeInForce::GoodTillCancel),
        (Some("immediate_or_cancel"), _) => Ok(TimeInForce::ImmediateOrCancel),
        (Some("fill_or_kill"), _) => Ok(TimeInForce::FillOrKill),
        (Some(_), _) => {
            let known = "good_til_cancelled, good_til_day, immediate_or_cancel or fill_or_kill";
            Err(RpcError::invalid("time_in_force", known))
        }
    }
}

/// `None` when nothing is said about it.
fn post_only(call: &Call<'_>) -> Result<Option<PostOnly>, RpcError> {
    let reject = call.params.boolean("reject_post_only")?;
    match (call.params.boolean("post_only")?, reject) {
        (Some(true), Some(true)) => Ok(Some(PostOnly::Reject)),
        (Some(true), _) => Ok(Some(PostOnly::Reprice)),
        (None | Some(false), Some(true)) => {
            let reason = "reject_post_only says how to refuse a post_only order; send post_only as well";
            Err(RpcError::param("unsupported_combination", "reject_post_only", reason))
        }
        (said, _) => Ok(said.map(|_| PostOnly::No)),
    }
}

/// A limit of zero or above the order is the engine's to refuse, as by any other entrance.
fn display(call: &Call<'_>, spec: &InstrumentSpec) -> Result<Option<Lots>, RpcError> {
    let read = |name: &'static str| {
        let Some(value) = call.params.decimal(name)? else { return Ok(None) };
        let count = value.in_steps_of(spec.lot).ok_or_else(|| {
            RpcError::param("display_not_in_lots", name, format!("{value} is not a multiple of {}", spec.lot))
        })?;
        let lots = u64::try_from(count).map(Lots);
        lots.map(Some).map_err(|_| RpcError::param("display_out_of_range", name, format!("{value} cannot be shown")))
    };
    match (read("display_amount")?, read("max_show")?) {
        (Some(display), Some(max_show)) if display != max_show => {
            Err(RpcError::invalid("max_show", "display_amount and max_show disagree; send one of them"))
        }
        (display, max_show) => Ok(display.or(max_show)),
    }
}

/// Only an order that trades at once or not at all can be held to a position that may change while it rests.
fn check_reduce_only(spec: &InstrumentSpec, order: &NewOrder) -> Done {
    if spec.is_spot() {
        let reason = "what one owns of a spot instrument is a balance; leave reduce_only out";
        return Err(RpcError::param("unsupported_combination", "reduce_only", reason));
    }
    if order.order_type != OrderType::Market && order.tif.rests() {
        return Err(resting_reduce_only());
    }
    Ok(())
}

fn resting_reduce_only() -> RpcError {
    let reason = "a resting order cannot follow the position; send it as market, immediate_or_cancel or fill_or_kill";
    RpcError::param("unsupported_combination", "reduce_only", reason)
}

/// `amount`, or `contracts`, or both if they agree.
fn lots(call: &Call<'_>, spec: &InstrumentSpec) -> Result<Option<Lots>, RpcError> {
    let amount = call.params.decimal("amount")?.map(|amount| steps(amount, spec.lot, "amount")).transpose()?;
    let contract = if spec.is_spot() { spec.lot } else { Decimal::new(1, 0) };
    let contracts = call.params.decimal("contracts")?.map(|count| steps(count, contract, "contracts")).transpose()?;
    match (amount, contracts) {
        (Some(amount), Some(contracts)) if amount != contracts => {
            Err(RpcError::invalid("contracts", "amount and contracts disagree; send one of them"))
        }
        (amount, contracts) => Ok(amount.or(contracts)),
    }
}

fn steps(value: Decimal, lot: Decimal, param: &'static str) -> Result<Lots, RpcError> {
    if value.mantissa <= 0 {
        return Err(RpcError::param("quantity_out_of_range", param, format!("{value} is not a positive amount")));
    }
    let count = value
        .in_steps_of(lot)
        .ok_or_else(|| RpcError::param("amount_not_in_lots", param, format!("{value} is not a multiple of {lot}")))?;
    match u64::try_from(count) {
        Ok(count) if count <= Lots::MAX_ORDER.0 => Ok(Lots(count)),
        _ => Err(RpcError::param("quantity_out_of_range", param, format!("{value} is more than one order may carry"))),
    }
}

fn price(call: &Call<'_>, spec: &InstrumentSpec) -> Result<Option<Ticks>, RpcError> {
    let Some(value) = call.params.decimal("price")? else { return Ok(None) };
    if value.mantissa <= 0 {
        return Err(RpcError::param("price_out_of_range", "price", format!("{value} is not a positive price")));
    }
    let count = value.in_steps_of(spec.tick).ok_or_else(|| {
        RpcError::param("price_wrong_tick", "price", format!("{value} is not a multiple of {}", spec.tick))
    })?;
    match i64::try_from(count) {
        Ok(count) if count <= Ticks::MAX_PRICE.0 => Ok(Some(Ticks(count))),
        _ => Err(RpcError::param("price_out_of_range", "price", format!("{value} is above what a book can hold"))),
    }
}

pub fn required_price(call: &Call<'_>, spec: &InstrumentSpec) -> Result<Ticks, RpcError> {
    price(call, spec)?.ok_or_else(|| RpcError::invalid("price", "a limit order needs a price"))
}
