//! Parameters of an order.
//!
//! Holds       a parameter that changes the trade is obeyed or refused by name, never ignored.

use std::borrow::Cow;

use crate::codec::{RpcError, objects, rules};
use pitwire_engine::OrderView;
use pitwire_model::{
    AccountId, Amend, Decimal, Expiry, InstrumentId, InstrumentSpec, Label, Lots, NewOrder, OrderType, PostOnly,
    Priority, Side, Ticks, TimeInForce, VenueNanos, parse_date,
};
use pitwire_projections::{OrderRecord, Place};

use crate::call::{Call, MethodResult};

/// Parameters of trigger orders.
const TRIGGER_VALUES: &[&str] = &["trigger", "trigger_price", "trigger_offset"];
/// Parameters for features that this venue does not have.
const FOREIGN_VALUES: &[&str] = &["advanced", "linked_order_type", "trigger_fill_condition", "otoco_config"];
/// Other exchanges' names of parameters, and the parameter of this dialect. Some clients send them
/// as they are; an order without its stop or without post-only would trade at once.
const FOREIGN_NAMES: &[(&str, &str)] = &[
    ("triggerPrice", "type stop_limit or stop_market with trigger_price"),
    ("stopPrice", "type stop_limit or stop_market with trigger_price"),
    ("stop_price", "type stop_limit or stop_market with trigger_price"),
    ("stopLossPrice", "type stop_limit or stop_market with trigger_price"),
    ("takeProfitPrice", "a limit order at that price"),
    ("stopLoss", "a second order of type stop_limit or stop_market"),
    ("takeProfit", "a second order of type limit"),
    ("trailingAmount", "type stop_limit or stop_market with trigger_price, and private/edit to move it"),
    ("trailingPercent", "type stop_limit or stop_market with trigger_price, and private/edit to move it"),
    ("timeInForce", "time_in_force"),
    ("postOnly", "post_only"),
    ("reduceOnly", "reduce_only"),
];
/// Lets a stop be elected at once if the last price has passed its trigger already.
const TRIGGER_AT_ONCE: &str = "pitwire_trigger_at_once";
const STOPS_ALONE: &str = "stops go by the last price here: type stop_market or stop_limit, trigger last_price";
/// Parameters of this venue have a second spelling with its prefix.
const HIDDEN: [&str; 2] = ["hidden", "pitwire_hidden"];
const MINIMUM: [&str; 2] = ["min_execution", "pitwire_minimum_execution"];
const TIF: [&str; 2] = ["tif_ext", "pitwire_time_in_force"];
const EXPIRES: [&str; 2] = ["expires_at", "pitwire_expires_at"];
/// The spellings of parameters that have several, each after the name that the engine's refusals
/// use. If a request has several spellings, the first one in the list counts.
const SPELLINGS: &[(&str, &[&str])] = &[
    ("amount", &["amount", "contracts"]),
    ("display_amount", &["display_amount", "max_show"]),
    ("min_execution", &MINIMUM),
    ("time_in_force", &[TIF[0], TIF[1], "time_in_force"]),
    ("expires_at", &EXPIRES),
    ("hidden", &HIDDEN),
    ("price", &["price", "trigger_price"]),
];

/// Reads a new order.
///
/// # Errors
/// A refusal that names the first parameter that is missing, malformed, foreign to the dialect, or
/// impossible with the others.
pub fn of_entry(
    call: &Call<'_>,
    account: AccountId,
    instrument: InstrumentId,
    side: Side,
) -> Result<NewOrder, RpcError> {
    refuse_foreign(call)?;
    let spec = call.spec(instrument)?;
    let lots = required_lots(call, spec)?;
    let order_type = order_type(call, spec, lots)?;
    let tif = time_in_force(call, order_type)?;
    let (label, client_order_id) = (call.label()?, client_order_id(call)?);
    // An order with its whole quantity on display is a plain limit order.
    let display = display(call, spec)?.filter(|display| *display != lots);
    let post_only = post_only(call)?.unwrap_or_default();
    let reduce_only = call.params.boolean("reduce_only")?.unwrap_or(false);
    if reduce_only && spec.is_spot() {
        let reason = "what one owns of a spot instrument is a balance; leave reduce_only out";
        return Err(RpcError::param("unsupported_combination", "reduce_only", reason));
    }
    Ok(NewOrder {
        account,
        instrument,
        side,
        order_type,
        lots,
        tif,
        display,
        post_only,
        reduce_only,
        label,
        client_order_id,
        ..NewOrder::PLAIN
    })
}

/// Reads an amendment. An absent parameter leaves the order as it is.
///
/// # Errors
/// A refusal that names the first parameter that is malformed, cannot be amended, or is not a
/// multiple of its step.
pub fn of_edit(call: &Call<'_>, live: &OrderView, record: Option<&OrderRecord>) -> Result<Amend, RpcError> {
    refuse_foreign(call)?;
    let is_reduce_only = record.is_some_and(|record| record.reduce_only);
    if call.params.boolean("reduce_only")?.is_some_and(|asked| asked != is_reduce_only) {
        let reason = "an order stays reduce-only or not; cancel it and enter another one";
        return Err(RpcError::param("unsupported_combination", "reduce_only", reason));
    }
    let market = call.market(live.instrument)?;
    if rules::session(market.phase()).is_none_or(|row| row.amend) {
        // If the session accepts no amendments, the engine says so first.
        check_unchanged(call, live, record)?;
    }
    let spec = &market.spec;
    let before = record.map_or(PostOnly::No, |record| record.post_only);
    Ok(Amend {
        account: live.account,
        order: live.id,
        price: price(call, spec)?.unwrap_or(live.price),
        lots: lots(call, spec)?.unwrap_or(live.ordered),
        priority: Priority::KeepWhenReduced,
        display: display(call, spec)?,
        post_only: post_only(call)?.unwrap_or(before),
        stop: stop_price(call, spec)?,
        minimum_execution: minimum_execution(call, spec)?,
        expiry: expiry(call)?,
    })
}

/// Refuses a request whose `valid_until` has passed. Checked when the request is read and again
/// before it reaches the market.
///
/// # Errors
/// `timed_out` if it has passed, a refusal if it is not a whole number.
pub fn check_valid_until(call: &Call<'_>, now_ms: u64) -> MethodResult {
    let Some(until_ms) = call.params.integer("valid_until")? else { return Ok(()) };
    if u64::try_from(until_ms).is_ok_and(|until_ms| now_ms <= until_ms) {
        return Ok(());
    }
    Err(RpcError::param("timed_out", "valid_until", format!("it is {now_ms} ms, valid_until is {until_ms}")))
}

/// Returns the spelling of a parameter that the client used, for refusals.
pub fn sent_name(call: &Call<'_>, name: &'static str) -> &'static str {
    let is_sent = |name: &'static str| matches!(call.params.text(name), Ok(Some(text)) if !text.is_empty());
    let spellings = SPELLINGS.iter().find(|(of, _)| *of == name).map_or(&[][..], |(_, spellings)| spellings);
    spellings.iter().copied().find(|spelling| is_sent(spelling)).unwrap_or(name)
}

/// Reads `client_order_id`; empty if it is absent.
///
/// # Errors
/// A refusal if it is longer than [`Label::MAX_BYTES`].
pub fn client_order_id(call: &Call<'_>) -> Result<Label, RpcError> {
    let text = call.params.text("client_order_id")?.unwrap_or_default();
    let most = Label::MAX_BYTES;
    let why = || format!("a client_order_id has at most {most} bytes of UTF-8; this one has {}", text.len());
    Label::new(&text).ok_or_else(|| RpcError::invalid("client_order_id", why()))
}

fn refuse_foreign(call: &Call<'_>) -> MethodResult {
    if call.params.boolean("mmp")? == Some(true) {
        return Err(unsupported("mmp"));
    }
    if let Some((name, instead)) = FOREIGN_NAMES.iter().find(|(name, _)| call.params.has(name)) {
        return Err(RpcError::param(
            "unsupported_combination",
            name,
            format!("{name} is no parameter here; send {instead}"),
        ));
    }
    match FOREIGN_VALUES.iter().find(|name| call.params.has(name)) {
        Some(name) => Err(unsupported(name)),
        None => Ok(()),
    }
}

fn unsupported(name: &'static str) -> RpcError {
    RpcError::param("unsupported_combination", name, format!("{name} is not supported by this version"))
}

fn order_type(call: &Call<'_>, spec: &InstrumentSpec, lots: Lots) -> Result<OrderType, RpcError> {
    let hidden = hidden(call)?.unwrap_or(false);
    let word = call.params.text("type")?;
    let order_type = match word.as_deref() {
        None | Some("" | "limit") if hidden => {
            // Without a minimum, a hidden order executes as a whole or not at all.
            let minimum_execution = minimum_execution(call, spec)?.unwrap_or(lots);
            OrderType::Hidden { price: required_price(call, spec)?, minimum_execution }
        }
        None | Some("" | "limit") => OrderType::Limit { price: required_price(call, spec)? },
        Some("market") => OrderType::Market,
        Some("stop_market") => OrderType::Stop { stop: required_stop(call, spec)? },
        Some("stop_limit") => {
            OrderType::StopLimit { stop: required_stop(call, spec)?, price: required_price(call, spec)? }
        }
        Some("take_limit" | "take_market" | "trailing_stop") => {
            return Err(RpcError::param("not_implemented", "type", STOPS_ALONE));
        }
        Some("market_limit") => {
            let instead = "send a limit order at the other side's best, or immediate_or_cancel";
            return Err(RpcError::param("not_implemented", "type", instead));
        }
        Some(_) => {
            return Err(RpcError::invalid("type", "type is limit, market, stop_limit or stop_market"));
        }
    };
    check_belongs(call, order_type, hidden)?;
    Ok(order_type)
}

fn hidden(call: &Call<'_>) -> Result<Option<bool>, RpcError> {
    match (call.params.boolean(HIDDEN[0])?, call.params.boolean(HIDDEN[1])?) {
        (Some(one), Some(other)) if one != other => {
            Err(RpcError::invalid(HIDDEN[1], format!("{} and {} disagree; send one of them", HIDDEN[0], HIDDEN[1])))
        }
        (one, other) => Ok(one.or(other)),
    }
}

/// Refuses parameters that belong to another type of order, because ignoring them would change what
/// is traded.
fn check_belongs(call: &Call<'_>, order_type: OrderType, hidden: bool) -> MethodResult {
    let is_hidden = matches!(order_type, OrderType::Hidden { .. });
    if hidden && !is_hidden {
        return Err(stray(HIDDEN[0], "limit orders"));
    }
    if let Some((name, _)) = either(call, MINIMUM)?.filter(|_| !is_hidden) {
        return Err(stray(name, "hidden orders"));
    }
    if order_type.stop_price().is_none()
        && let Some(name) = TRIGGER_VALUES.iter().find(|name| call.params.has(name))
    {
        return Err(stray(name, "type stop_market or stop_limit"));
    }
    Ok(())
}

/// Accepts the one trigger that stops use and refuses every other.
fn check_trigger(call: &Call<'_>) -> MethodResult {
    if call.params.has("trigger_offset") {
        return Err(RpcError::param("not_implemented", "trigger_offset", STOPS_ALONE));
    }
    match call.params.text("trigger")?.as_deref() {
        None | Some("" | "last_price") => Ok(()),
        Some("index_price" | "mark_price") => Err(RpcError::param("not_implemented", "trigger", STOPS_ALONE)),
        Some(_) => Err(RpcError::invalid("trigger", "trigger is last_price")),
    }
}

fn stop_price(call: &Call<'_>, spec: &InstrumentSpec) -> Result<Option<Ticks>, RpcError> {
    check_trigger(call)?;
    ticks(call, spec, "trigger_price", "trigger_price_wrong_tick")
}

/// Refuses a trigger price that the last price has passed already, as the dialect does, unless the
/// caller asks for an election at once.
///
/// # Errors
/// `trigger_passed` with the last price.
pub fn check_trigger_ahead(call: &Call<'_>, instrument: InstrumentId, side: Side, stop: Ticks) -> MethodResult {
    let Some(last) = call.market(instrument)?.last() else { return Ok(()) };
    let is_passed = match side {
        Side::Buy => last >= stop,
        Side::Sell => last <= stop,
    };
    if !is_passed || call.params.boolean(TRIGGER_AT_ONCE)? == Some(true) {
        return Ok(());
    }
    let spec = call.spec(instrument)?;
    let (word, beyond) = if side == Side::Buy { ("buy", "above") } else { ("sell", "below") };
    let reason = format!("the trigger price of a {word} stop must be {beyond} the last price");
    Err(RpcError::param("trigger_passed", "trigger_price", reason).with_limit(spec.price(last)))
}

fn required_stop(call: &Call<'_>, spec: &InstrumentSpec) -> Result<Ticks, RpcError> {
    stop_price(call, spec)?.ok_or_else(no_stop)
}

/// Reads the minimum execution size. The engine refuses zero, as for every transport.
fn minimum_execution(call: &Call<'_>, spec: &InstrumentSpec) -> Result<Option<Lots>, RpcError> {
    let Some((name, text)) = either(call, MINIMUM)? else { return Ok(None) };
    minimum_lots(decimal(name, &text)?, spec, name).map(Some)
}

/// Converts a minimum execution size.
///
/// # Errors
/// A refusal if it is below zero or not a multiple of the lot.
pub fn minimum_lots(value: Decimal, spec: &InstrumentSpec, name: &'static str) -> Result<Lots, RpcError> {
    let count = value.in_steps_of(spec.lot).ok_or_else(|| {
        RpcError::param("amount_not_in_lots", name, format!("{value} is not a multiple of {}", spec.lot))
    })?;
    u64::try_from(count)
        .map(Lots)
        .map_err(|_| RpcError::param("minimum_execution_out_of_range", name, format!("{value} is below zero")))
}

fn decimal(name: &'static str, text: &str) -> Result<Decimal, RpcError> {
    Decimal::parse(text).map_err(|_| RpcError::invalid(name, format!("{name} is a decimal number")))
}

/// Reads a parameter under either of its two names. Both may be present if they agree.
fn either<'c>(
    call: &'c Call<'_>,
    [name, also]: [&'static str; 2],
) -> Result<Option<(&'static str, Cow<'c, str>)>, RpcError> {
    let given = |name| Ok::<_, RpcError>(call.params.text(name)?.filter(|text| !text.is_empty()));
    match (given(name)?, given(also)?) {
        (Some(one), Some(other)) if one != other => {
            Err(RpcError::invalid(also, format!("{name} and {also} disagree; send one of them")))
        }
        (Some(text), _) => Ok(Some((name, text))),
        (None, Some(text)) => Ok(Some((also, text))),
        (None, None) => Ok(None),
    }
}

/// The time in force that a word means. Those with an expiry do not have their date or time yet.
#[derive(Clone, Copy)]
enum Word {
    Whole(TimeInForce),
    Date,
    Time,
}

fn tif_word(text: &str) -> Option<Word> {
    Some(match text.to_ascii_lowercase().as_str() {
        "day" | "good_til_day" => Word::Whole(TimeInForce::Day),
        "gtc" | "good_til_cancelled" => Word::Whole(TimeInForce::GoodTillCancel),
        "ioc" | "immediate_or_cancel" => Word::Whole(TimeInForce::ImmediateOrCancel),
        "fok" | "fill_or_kill" => Word::Whole(TimeInForce::FillOrKill),
        "gtd" => Word::Date,
        "gtt" => Word::Time,
        "opg" => Word::Whole(TimeInForce::OpeningCall),
        "gfa" => Word::Whole(TimeInForce::AnyCall),
        "gfx" => Word::Whole(TimeInForce::IntradayCall),
        "atc" => Word::Whole(TimeInForce::ClosingCall),
        "cpx" => Word::Whole(TimeInForce::ClosingCross),
        _ => return None,
    })
}

const TIF_WORDS: &str = "good_til_cancelled, good_til_day, immediate_or_cancel or fill_or_kill; in tif_ext also day, gtc, \
                         gtd, gtt, ioc, fok, opg, gfa, gfx, atc or cpx";

/// Reads the time in force: this venue's parameter, else the dialect's.
fn given_tif<'c>(call: &'c Call<'_>) -> Result<Option<(&'static str, Cow<'c, str>)>, RpcError> {
    if let Some(given) = either(call, TIF)? {
        return Ok(Some(given));
    }
    let text = call.params.text("time_in_force")?.filter(|text| !text.is_empty());
    Ok(text.map(|text| ("time_in_force", text)))
}

fn time_in_force(call: &Call<'_>, order_type: OrderType) -> Result<TimeInForce, RpcError> {
    let is_market = order_type == OrderType::Market;
    let Some((name, text)) = given_tif(call)? else {
        refuse_expiry(call)?;
        return Ok(if is_market { TimeInForce::Day } else { TimeInForce::GoodTillCancel });
    };
    match tif_word(&text).ok_or_else(|| RpcError::invalid(name, TIF_WORDS))? {
        Word::Date => match expiry(call)? {
            Some(Expiry::Day(day)) => Ok(TimeInForce::GoodTillDate { day }),
            _ => Err(RpcError::invalid(EXPIRES[0], "gtd needs expires_at, a date as 2026-01-31")),
        },
        Word::Time => match expiry(call)? {
            Some(Expiry::Time(at)) => Ok(TimeInForce::GoodTillTime { at }),
            _ => Err(RpcError::invalid(EXPIRES[0], "gtt needs expires_at, in milliseconds of venue time")),
        },
        Word::Whole(tif) => {
            refuse_expiry(call)?;
            // The dialect's default, which clients also send with market orders. A market order
            // never rests, so it is a day order.
            let is_default = name == "time_in_force" && text == "good_til_cancelled";
            Ok(if is_market && is_default { TimeInForce::Day } else { tif })
        }
    }
}

fn refuse_expiry(call: &Call<'_>) -> MethodResult {
    match either(call, EXPIRES)? {
        None => Ok(()),
        Some((name, _)) => Err(stray(name, "gtd or gtt")),
    }
}

/// Reads an expiry: a date, or milliseconds since 1970 of venue time.
fn expiry(call: &Call<'_>) -> Result<Option<Expiry>, RpcError> {
    let Some((name, text)) = either(call, EXPIRES)? else { return Ok(None) };
    if let Some(day) = parse_date(&text) {
        return Ok(Some(Expiry::Day(day)));
    }
    let ms = Decimal::parse(&text).ok().and_then(|value| value.in_steps_of(Decimal::new(1, 0)));
    let ns = ms.and_then(|ms| u64::try_from(ms).ok()).and_then(|ms| ms.checked_mul(1_000_000));
    let wrong = || RpcError::invalid(name, "a date as 2026-01-31, or milliseconds since 1970");
    ns.map(|ns| Some(Expiry::Time(VenueNanos(ns)))).ok_or_else(wrong)
}

/// Refuses a change of side, type, time in force or instrument. Repeating the current values is not
/// a change.
fn check_unchanged(call: &Call<'_>, live: &OrderView, record: Option<&OrderRecord>) -> MethodResult {
    let Some(record) = record else { return Ok(()) };
    let fixed = |name: &'static str| {
        Err(RpcError::param(
            "not_amendable",
            name,
            format!("{name} of an order never changes; cancel it and enter anew"),
        ))
    };
    if let Some(name) = call.params.text("instrument_name")?.filter(|name| !name.is_empty())
        && call.venue.engine().instrument_named(&name).is_none_or(|market| market.spec.id != live.instrument)
    {
        return fixed("instrument_name");
    }
    let side = if live.side == Side::Buy { "buy" } else { "sell" };
    if call.params.text("direction")?.is_some_and(|given| !given.is_empty() && given != side) {
        return fixed("direction");
    }
    if call
        .params
        .text("type")?
        .is_some_and(|given| !given.is_empty() && given != objects::order_type_name(record.order_type))
    {
        return fixed("type");
    }
    let is_hidden = record.minimum_execution().is_some();
    if hidden(call)?.is_some_and(|given| given != is_hidden) {
        return fixed(HIDDEN[0]);
    }
    match given_tif(call)? {
        Some((name, given)) if !is_word_of(record.tif, name, &given) => return fixed(name),
        _ => {}
    }
    check_has(call, record)
}

/// Refuses to amend a property that the order does not have.
fn check_has(call: &Call<'_>, record: &OrderRecord) -> MethodResult {
    let lacks = |name: &'static str| Err(not_amendable(name));
    if call.params.has("trigger_price") && record.place != Place::Unelected {
        return lacks("trigger_price");
    }
    match (either(call, MINIMUM)?, either(call, EXPIRES)?, record.tif) {
        (Some((name, _)), ..) if record.minimum_execution().is_none() => lacks(name),
        (_, Some(_), TimeInForce::GoodTillDate { .. } | TimeInForce::GoodTillTime { .. }) => Ok(()),
        (_, Some((name, _)), _) => lacks(name),
        _ => Ok(()),
    }
}

/// Whether a word means this time in force. The dialect's parameter also accepts its nearest word.
fn is_word_of(tif: TimeInForce, name: &str, given: &str) -> bool {
    let same = match tif_word(given) {
        Some(Word::Whole(word)) => word == tif,
        Some(Word::Date) => matches!(tif, TimeInForce::GoodTillDate { .. }),
        Some(Word::Time) => matches!(tif, TimeInForce::GoodTillTime { .. }),
        None => false,
    };
    same || (name == "time_in_force" && given == objects::tif_name(tif))
}

/// Reads `post_only`; `None` if it is absent.
fn post_only(call: &Call<'_>) -> Result<Option<PostOnly>, RpcError> {
    let reject = call.params.boolean("reject_post_only")?;
    match (call.params.boolean("post_only")?, reject) {
        (Some(true), Some(true)) => Ok(Some(PostOnly::Reject)),
        (Some(true), _) => Ok(Some(PostOnly::Reprice)),
        (None | Some(false), Some(true)) => {
            let reason = "reject_post_only says how to refuse a post_only order; send post_only as well";
            Err(RpcError::param("unsupported_combination", "reject_post_only", reason))
        }
        (given, _) => Ok(given.map(|_| PostOnly::No)),
    }
}

/// Reads the displayed quantity. The engine refuses zero and more than the order, as for every
/// transport.
fn display(call: &Call<'_>, spec: &InstrumentSpec) -> Result<Option<Lots>, RpcError> {
    let read =
        |name: &'static str| call.params.decimal(name)?.map(|value| displayed_lots(value, spec, name)).transpose();
    match (read("display_amount")?, read("max_show")?) {
        (Some(display), Some(max_show)) if display != max_show => {
            Err(RpcError::invalid("max_show", "display_amount and max_show disagree; send one of them"))
        }
        (display, max_show) => Ok(display.or(max_show)),
    }
}

/// Converts a displayed quantity.
///
/// # Errors
/// A refusal if it is below zero or not a multiple of the lot.
pub fn displayed_lots(value: Decimal, spec: &InstrumentSpec, name: &'static str) -> Result<Lots, RpcError> {
    let count = value.in_steps_of(spec.lot).ok_or_else(|| {
        RpcError::param("display_not_in_lots", name, format!("{value} is not a multiple of {}", spec.lot))
    })?;
    u64::try_from(count)
        .map(Lots)
        .map_err(|_| RpcError::param("display_out_of_range", name, format!("{value} cannot be shown")))
}

/// Reads `amount` or `contracts`, or both if they agree.
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

/// Converts the quantity of an order.
///
/// # Errors
/// A refusal if it is not positive, not a multiple of the lot, or more than an order may have.
pub fn steps(value: Decimal, lot: Decimal, param: &'static str) -> Result<Lots, RpcError> {
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
    ticks(call, spec, "price", "price_wrong_tick")
}

fn ticks(
    call: &Call<'_>,
    spec: &InstrumentSpec,
    name: &'static str,
    off_tick: &'static str,
) -> Result<Option<Ticks>, RpcError> {
    call.params.decimal(name)?.map(|value| whole_ticks(value, spec, name, off_tick)).transpose()
}

/// Converts a price. `off_tick` is the error of a price between two ticks.
///
/// # Errors
/// A refusal if it is not positive, between two ticks, or above the highest price of a book.
pub fn whole_ticks(
    value: Decimal,
    spec: &InstrumentSpec,
    name: &'static str,
    off_tick: &'static str,
) -> Result<Ticks, RpcError> {
    if value.mantissa <= 0 {
        return Err(RpcError::param("price_out_of_range", name, format!("{value} is not a positive price")));
    }
    let count = value
        .in_steps_of(spec.tick)
        .ok_or_else(|| RpcError::param(off_tick, name, format!("{value} is not a multiple of {}", spec.tick)))?;
    match i64::try_from(count) {
        Ok(count) if count <= Ticks::MAX_PRICE.0 => Ok(Ticks(count)),
        _ => Err(RpcError::param("price_out_of_range", name, format!("{value} is above what a book can hold"))),
    }
}

/// Reads `amount` or `contracts`.
///
/// # Errors
/// A refusal if both are missing, or if the amount is not a multiple of its step.
pub fn required_lots(call: &Call<'_>, spec: &InstrumentSpec) -> Result<Lots, RpcError> {
    lots(call, spec)?.ok_or_else(no_amount)
}

/// Reads `price`.
///
/// # Errors
/// A refusal if it is missing or not a multiple of the tick size.
pub fn required_price(call: &Call<'_>, spec: &InstrumentSpec) -> Result<Ticks, RpcError> {
    price(call, spec)?.ok_or_else(no_price)
}

pub fn no_amount() -> RpcError {
    RpcError::invalid("amount", "amount (or contracts) is required")
}

pub fn no_price() -> RpcError {
    RpcError::invalid("price", "a limit order needs a price")
}

pub fn no_stop() -> RpcError {
    RpcError::invalid("trigger_price", "a stop needs a trigger_price")
}

/// The error for a parameter that belongs to another type of order.
pub fn stray(name: &'static str, goes_with: &str) -> RpcError {
    RpcError::param("unsupported_combination", name, format!("{name} goes with {goes_with}"))
}

/// The error for a property that cannot be amended, because the order does not have it.
pub fn not_amendable(name: &'static str) -> RpcError {
    RpcError::param("not_amendable", name, format!("this order has no {name}; cancel it and enter anew"))
}
