//! Orders in and changed; how they go out is in `cancelling`.

use pitwire_jsonrpc::{Json, RpcError, objects};
use pitwire_model::{
    AccountId, Amend, Command, Decimal, Event, InstrumentId, InstrumentSpec, Label, Lots, NewOrder, OrderId, OrderType,
    Priority, Side, Ticks, TimeInForce,
};
use pitwire_views::{Liquidity, OrderRecord, OrderState, UserTrade};

use super::Done;
use crate::desk::Call;

/// Parameters that change what is bought. Refused when set, for ignoring them would be a lie.
const REFUSED_FLAGS: &[&str] = &["post_only", "reject_post_only", "reduce_only", "mmp"];
const REFUSED_VALUES: &[&str] = &[
    "display_amount",
    "max_show",
    "trigger",
    "trigger_price",
    "trigger_offset",
    "valid_until",
    "advanced",
    "linked_order_type",
    "trigger_fill_condition",
    "otoco_config",
];

pub fn enter(call: &mut Call<'_>, side: Side) -> Done {
    let account = call.account()?;
    let instrument = call.instrument_id()?;
    let order = read_order(call, account, instrument, side)?;
    submit_order(call, order)
}

fn read_order(call: &Call<'_>, account: AccountId, instrument: InstrumentId, side: Side) -> Result<NewOrder, RpcError> {
    refuse_unsupported(call)?;
    let spec = call.spec(instrument)?;
    let lots = required_lots(call, spec)?;
    let order_type = match call.params.text("type")?.as_deref() {
        None | Some("" | "limit") => OrderType::Limit { price: required_price(call, spec)? },
        Some("market") => OrderType::Market,
        Some(
            known @ ("stop_limit" | "stop_market" | "take_limit" | "take_market" | "trailing_stop" | "market_limit"),
        ) => {
            return Err(RpcError::param("not_implemented", "type", format!("{known} orders come with the rulebook")));
        }
        Some(_) => return Err(RpcError::invalid("type", "type is limit or market")),
    };
    let tif = match (call.params.text("time_in_force")?.as_deref(), order_type) {
        (None | Some(""), OrderType::Market) | (Some("good_til_day"), _) => TimeInForce::Day,
        (None | Some("" | "good_til_cancelled"), _) => TimeInForce::GoodTillCancel,
        (Some("immediate_or_cancel"), _) => TimeInForce::ImmediateOrCancel,
        (Some("fill_or_kill"), _) => {
            let reason = "fill_or_kill comes with the full trading API; use immediate_or_cancel";
            return Err(RpcError::param("not_implemented", "time_in_force", reason));
        }
        (Some(_), _) => {
            let known = "good_til_cancelled, good_til_day or immediate_or_cancel";
            return Err(RpcError::invalid("time_in_force", known));
        }
    };
    let label = call.label()?;
    Ok(NewOrder { id: OrderId::ZERO, account, instrument, side, order_type, lots, tif, label, ..NewOrder::PLAIN })
}

fn refuse_unsupported(call: &Call<'_>) -> Done {
    for flag in REFUSED_FLAGS {
        if call.params.boolean(flag)? == Some(true) {
            return Err(unsupported(flag));
        }
    }
    match REFUSED_VALUES.iter().find(|name| call.params.has(name)) {
        Some(name) => Err(unsupported(name)),
        None => Ok(()),
    }
}

fn unsupported(name: &'static str) -> RpcError {
    RpcError::param("unsupported_combination", name, format!("{name} is not supported by this version"))
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

fn required_lots(call: &Call<'_>, spec: &InstrumentSpec) -> Result<Lots, RpcError> {
    lots(call, spec)?.ok_or_else(|| RpcError::invalid("amount", "amount (or contracts) is required"))
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

fn required_price(call: &Call<'_>, spec: &InstrumentSpec) -> Result<Ticks, RpcError> {
    price(call, spec)?.ok_or_else(|| RpcError::invalid("price", "a limit order needs a price"))
}

impl Call<'_> {
    /// Submits a command; a log that fails ends the venue, and this answer is never sent.
    pub(super) fn submit(&mut self, command: Command) -> Result<OrderId, RpcError> {
        if let Some(name) = self.venue.refuses(&command) {
            return Err(RpcError::named(name));
        }
        match self.venue.submit(command) {
            Ok(seq) => Ok(OrderId(seq.0)),
            Err(error) => {
                self.log_failed = true;
                Err(RpcError::new("internal_error", error.to_string()))
            }
        }
    }
}

fn submit_order(call: &mut Call<'_>, order: NewOrder) -> Done {
    let account = order.account;
    let id = call.submit(Command::Enter(order))?;
    if let Some(Event::Rejected { reason, .. }) = call.venue.events().first() {
        return Err(RpcError::from(*reason));
    }
    write_outcome(call, account, id)
}

/// `{order, trades[]}`: the order as it stands, and the fills of the last command.
fn write_outcome(call: &mut Call<'_>, account: AccountId, id: OrderId) -> Done {
    let Call { venue, out, .. } = call;
    let fills =
        venue.events().iter().filter(|event| matches!(event, Event::Trade { taker, .. } if *taker == id)).count();
    let engine = venue.engine();
    let book = venue.views().account(account).ok_or_else(no_history)?;
    let record = book.order(id).ok_or_else(no_history)?;
    let market = engine.market(record.instrument).ok_or_else(no_history)?;
    let is_ours = |fill: &&UserTrade| fill.order == id && fill.liquidity == Liquidity::Taker;
    let mut trades: Vec<&UserTrade> = book.trades().iter().rev().filter(is_ours).take(fills).collect();
    trades.reverse();
    Json::new(out).object(|j| {
        j.key("order");
        objects::order(j, &market.spec, record);
        j.key("trades").array(|j| {
            for fill in trades {
                objects::user_trade(j, &market.spec, fill, engine.currencies());
            }
        });
    });
    Ok(())
}

/// House accounts keep no history, so they cannot trade over the API.
pub fn no_history() -> RpcError {
    RpcError::new("internal_error", "this account keeps no order history")
}

/// Ours are plain numbers; some clients put a currency before them, as in `ETH-123`.
pub fn order_id(call: &Call<'_>) -> Result<OrderId, RpcError> {
    let text = call.params.required("order_id")?;
    let shown = || text.chars().take(40).collect::<String>();
    let digits = match text.split_once('-') {
        Some((currency, digits)) if is_currency(currency) => digits,
        _ => text.as_ref(),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let reason = format!("{:?} is not a number, nor a currency and a number", shown());
        return Err(RpcError::param("invalid_order_id", "order_id", reason));
    }
    // A number too long for us is well-formed, and nobody's order.
    let parsed = digits.parse().map(OrderId);
    parsed.map_err(|_| RpcError::param("unknown_order", "order_id", format!("no order {:?}", shown())))
}

fn is_currency(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Why an order of this account cannot be changed or cancelled: finished, or never there.
pub fn not_live(call: &Call<'_>, account: AccountId, id: OrderId, filled: &'static str) -> RpcError {
    let known = call.venue.views().account(account).and_then(|book| book.order(id));
    match known.map(|order| order.state) {
        Some(OrderState::Filled) => RpcError::param(filled, "order_id", format!("order {id} has filled")),
        Some(_) => RpcError::param("already_closed", "order_id", format!("order {id} has been cancelled")),
        None => RpcError::param("unknown_order", "order_id", format!("no order {id}")),
    }
}

pub fn edit(call: &mut Call<'_>) -> Done {
    let id = order_id(call)?;
    edit_order(call, id)
}

pub fn edit_by_label(call: &mut Call<'_>) -> Done {
    let account = call.account()?;
    let label = call.required_label()?;
    let instrument = call.instrument_id()?;
    let book = call.venue.views().account(account).ok_or_else(no_history)?;
    let is_meant = |order: &&OrderRecord| order.instrument == instrument && order.label == label;
    let found: Vec<OrderId> = book.open_orders().filter(is_meant).map(|order| order.id).collect();
    match found[..] {
        [id] => edit_order(call, id),
        [] => Err(RpcError::param("unknown_order", "label", "no open order has this label")),
        _ => Err(RpcError::param("non_unique_label", "label", format!("{} open orders have this label", found.len()))),
    }
}

fn edit_order(call: &mut Call<'_>, id: OrderId) -> Done {
    let account = call.account()?;
    refuse_unsupported(call)?;
    let live = call.venue.engine().order(id).filter(|order| order.account == account);
    let live = live.ok_or_else(|| not_live(call, account, id, "already_filled"))?;
    let spec = call.spec(live.instrument)?;
    // What is not given stays as it is.
    let price = price(call, spec)?.unwrap_or(live.price);
    let lots = lots(call, spec)?.unwrap_or(live.ordered);
    let amend = Amend { account, order: id, price, lots, priority: Priority::KeepWhenReduced, ..Amend::PLAIN };
    call.submit(Command::Amend(amend))?;
    if let Some(Event::AmendRefused { reason, .. }) = call.venue.events().first() {
        return Err(RpcError::from(*reason));
    }
    write_outcome(call, account, id)
}

/// Brings a perpetual position to zero with a market order, or a limit order at `price`.
pub fn close_position(call: &mut Call<'_>) -> Done {
    let account = call.account()?;
    let instrument = call.instrument_id()?;
    let held = call.venue.engine().account(account).map_or(0, |holder| holder.position(instrument).lots);
    if held == 0 {
        return Err(RpcError::param("unsupported_combination", "instrument_name", "there is no position to close"));
    }
    let spec = call.spec(instrument)?;
    let order_type = match call.params.required("type")?.as_ref() {
        "limit" => OrderType::Limit { price: required_price(call, spec)? },
        "market" => OrderType::Market,
        _ => return Err(RpcError::invalid("type", "type is limit or market")),
    };
    let side = if held > 0 { Side::Sell } else { Side::Buy };
    let tif = if order_type == OrderType::Market { TimeInForce::Day } else { TimeInForce::GoodTillCancel };
    let lots = Lots(held.unsigned_abs());
    let label = Label::default();
    submit_order(
        call,
        NewOrder { id: OrderId::ZERO, account, instrument, side, order_type, lots, tif, label, ..NewOrder::PLAIN },
    )
}
