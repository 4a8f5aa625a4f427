//! Entering and amending orders. Cancels are in `cancel`, parameters in `order_parameters`.
//!
//! Holds       1. an order that is entered again under the same `client_order_id` is the first one,
//!                whatever else the request says: the answer shows its current state;
//!             2. a request whose `valid_until` has passed does not reach the market.

use crate::codec::{Json, RpcError, objects, rules};
use pitwire_engine::{Engine, OrderView};
use pitwire_model::{
    AccountId, Amend, Command, Decimal, Event, InstrumentId, Label, Lots, NewOrder, OrderId, OrderType, Phase, Reject,
    Side, SignaturePurpose, SpentSignature, Ticks, TimeInForce, VenueDay, format_date,
};
use pitwire_projections::{AccountBook, OrderRecord, OrderState, parts};

use super::cancel_on_disconnect;
use super::order_parameters;
use crate::account_objects::order_moment;
use crate::call::{Call, MethodResult};
use crate::login::Login;
use crate::long_answer::{FillFilter, FillList, LongWork};
use crate::spent_signatures;

/// Enters an order, or answers with the first one of the same `client_order_id`.
///
/// # Errors
/// A refusal without a login, if a parameter is missing or wrong, if `valid_until` or the trigger
/// price has passed, if a reduce-only order would not reduce, or if the engine refuses the order.
pub fn enter(call: &mut Call<'_>, side: Side) -> MethodResult {
    let account = call.account()?;
    let number = order_parameters::client_order_id(call)?;
    if let Some(first) = entered_before(call, account, number.as_str()) {
        return write_entered(call, account, first);
    }
    order_parameters::check_valid_until(call, call.wall_ms)?;
    let instrument = call.instrument_id()?;
    let order = order_parameters::of_entry(call, account, instrument, side)?;
    if let Some(stop) = order.order_type.stop_price() {
        order_parameters::check_trigger_ahead(call, instrument, side, stop)?;
    } else if order.reduce_only {
        check_reduces(call, &order)?;
    }
    enter_and_answer(call, order)
}

fn enter_and_answer(call: &mut Call<'_>, order: NewOrder) -> MethodResult {
    let account = order.account;
    let id = submit_order(call, order)?;
    write_outcome(call, account, id)
}

/// Returns the order that an account has already entered under this `client_order_id`.
pub(super) fn entered_before(call: &Call<'_>, account: AccountId, number: &str) -> Option<OrderId> {
    let book = call.venue.views().account(account).filter(|_| !number.is_empty());
    book.and_then(|book| book.by_client_order_id(number))
}

/// Refuses a reduce-only order that reduces no position. The engine would refuse it, too, but then
/// the refusal would be journaled.
fn check_reduces(call: &Call<'_>, order: &NewOrder) -> MethodResult {
    let holder = call.venue.engine().account(order.account);
    let held = holder.map_or(0, |holder| holder.position(order.instrument).lots);
    let reduces = if order.side == Side::Buy { held < 0 } else { held > 0 };
    if reduces {
        return Ok(());
    }
    let reason = "there is no position on the other side of this order";
    Err(RpcError::param("nothing_to_reduce", "reduce_only", reason))
}

impl Call<'_> {
    /// Submits a command. If the journal fails, the venue ends and this answer is never sent.
    pub(super) fn submit(&mut self, command: Command) -> Result<OrderId, RpcError> {
        if let Some(name) = self.venue.refuses(&command) {
            return Err(RpcError::named(name));
        }
        if matches!(command, Command::Enter(_) | Command::Amend(_) | Command::ReportTrade(_)) {
            order_parameters::check_valid_until(self, self.wall_ms_now())?;
            self.spend_signature()?;
        }
        match self.venue.submit(command) {
            Ok(seq) => Ok(OrderId(seq.0)),
            Err(error) => {
                self.log_failed = true;
                Err(RpcError::new("internal_error", error.to_string()))
            }
        }
    }

    /// Spends the signature of a signed request, which may enter or amend one order once.
    fn spend_signature(&mut self) -> MethodResult {
        let Ok(Some(Login { account, signature: Some(digest), .. })) = self.login else { return Ok(()) };
        if !self.state.refuses_replays {
            return Ok(());
        }
        let (used_ms, purpose) = (self.clock.wall_ms(), SignaturePurpose::Order);
        let spent = SpentSignature { digest, account, used_ms, purpose };
        spent_signatures::check_order(self.venue.views().signatures(), &spent)?;
        self.submit(Command::SpendSignature(spent)).map(|_| ())
    }
}

/// Submits an order whose parameters are checked, and returns its number.
///
/// # Errors
/// A refusal of the venue or of the engine, with the rule that decided.
pub(super) fn submit_order(call: &mut Call<'_>, mut order: NewOrder) -> Result<OrderId, RpcError> {
    let account = order.account;
    order.session = call.session.id;
    order.cancel_on_disconnect = cancel_on_disconnect::settled(call.state, call.session, account);
    check_open_orders(call, account, parts(order.lots, order.display).min(MAX_PARTS))?;
    if order.order_type.stop_price().is_some() {
        check_stop_orders(call, account)?;
    }
    let asked = RejectContext::of_entry(&order);
    let id = call.submit(Command::Enter(order))?;
    if let Some(Event::Rejected { reason, .. }) = call.venue.events().first() {
        return Err(explained(call, *reason, &asked));
    }
    call.session.on_disconnect.entered.insert(account);
    Ok(id)
}

/// Most parts of an iceberg. The engine refuses more with its own reason, because the smallest
/// display is 1 % of the quantity.
const MAX_PARTS: u64 = 100;

/// Checks that an account may have `more` open orders, where an iceberg counts as its parts. This
/// bounds the trades that one command can make with the orders of one account.
///
/// The engine counts orders, and checks only the limit that an operator has set for the account.
/// Without icebergs that limit is left to the engine, which accepts orders that act at once.
fn check_open_orders(call: &Call<'_>, account: AccountId, more: u64) -> MethodResult {
    let Some(holder) = call.venue.engine().account(account) else { return Ok(()) };
    let own_max = holder.spec.settings.max_open_orders;
    let max = own_max.unwrap_or(call.state.max_open_orders);
    let book = call.venue.views().account(account);
    let open = book.map_or(u64::from(holder.open_orders()), AccountBook::open_parts);
    let has_icebergs = more > 1 || open > u64::from(holder.open_orders());
    if open.saturating_add(more) <= u64::from(max) || (own_max.is_some() && !has_icebergs) {
        return Ok(());
    }
    Err(RpcError::from(Reject::TooManyOpenOrders).with_limit(Decimal::new(i128::from(max), 0)))
}

/// Checks that an account may have one more stop order that waits for its trigger price. One trade
/// can elect all of them, and their execution delays all clients. If an operator has limited the
/// open orders of the account, that limit holds instead of this one.
fn check_stop_orders(call: &Call<'_>, account: AccountId) -> MethodResult {
    let holder = call.venue.engine().account(account);
    let has_own_max = holder.is_some_and(|holder| holder.spec.settings.max_open_orders.is_some());
    let max = call.state.max_stop_orders;
    let waiting = call.venue.views().account(account).map_or(0, AccountBook::waiting_stops);
    if has_own_max || waiting < u64::from(max) {
        return Ok(());
    }
    Err(RpcError::named("too_many_stop_orders").with_limit(Decimal::new(i128::from(max), 0)))
}

/// The properties of an order that a reject is explained with.
struct RejectContext {
    account: AccountId,
    instrument: InstrumentId,
    side: Side,
    order_type: OrderType,
    price: Option<Ticks>,
    is_iceberg: bool,
    lots: Lots,
    tif: TimeInForce,
}

impl RejectContext {
    fn of_entry(order: &NewOrder) -> Self {
        let NewOrder { account, instrument, side, order_type, lots, tif, .. } = *order;
        let price = order_type.limit_price();
        RejectContext { account, instrument, side, order_type, price, is_iceberg: order.display.is_some(), lots, tif }
    }

    fn of_edit(live: &OrderView, record: Option<&OrderRecord>, amend: &Amend) -> Self {
        let OrderView { account, instrument, side, tif, .. } = *live;
        let order_type = record.map_or(OrderType::Limit { price: live.price }, |record| record.order_type);
        let price = Some(amend.price);
        RejectContext {
            account,
            instrument,
            side,
            order_type,
            price,
            is_iceberg: live.display.is_some(),
            lots: amend.lots,
            tif,
        }
    }
}

/// Turns a reject of the engine into an error with the compared numbers and the rule that decided.
fn explained(call: &Call<'_>, reason: Reject, asked: &RejectContext) -> RpcError {
    let engine = call.venue.engine();
    let mut error = RpcError::from(reason);
    error.param = error.param.map(|param| order_parameters::sent_name(call, deciding_param(reason, asked, param)));
    if let Some(limit) = limit_of(engine, reason, asked) {
        error = error.with_limit(limit);
    }
    let Some(market) = engine.market(asked.instrument) else { return error };
    let (session, tif) = (market.phase().name(), asked.tif.name());
    let order_type = rules::type_word(asked.order_type, asked.is_iceberg);
    let (what, rule) = match reason {
        Reject::TifNotAllowedForType => {
            (format!("{order_type} x {tif}"), rules::type_rule(asked.order_type, asked.is_iceberg, asked.tif))
        }
        Reject::TifNotAllowedInSession => {
            (format!("{session} x {tif}"), rules::session_tif_rule(market.phase(), asked.tif))
        }
        Reject::TypeNotAllowedInSession => (
            format!("{session} x {order_type}"),
            rules::session_type_rule(market.phase(), asked.order_type, asked.is_iceberg),
        ),
        Reject::NotOpen => (format!("the session is {session}"), None),
        Reject::PostOnlyNotAllowed if market.phase() != Phase::Continuous => {
            error.reason = format!("the session is {session}: only continuous trading takes post-only orders");
            return error;
        }
        Reject::ExpiryPassed | Reject::ExpiryTooFar => (expiry_words(engine, asked.tif), None),
        Reject::NoAuctionScheduled => (format!("{tif} in {session}"), None),
        _ => return error,
    };
    match rule {
        Some(rule) => {
            error.reason = format!("{what}: {}", rule.text);
            error.with_rule(&rule.id)
        }
        None => {
            error.reason = format!("{what}: {}", error.reason);
            error
        }
    }
}

/// Returns the parameter that a reject is about. A hidden order and an iceberg are limit orders
/// with one more parameter, and that one decides where a session does not take them.
fn deciding_param(reason: Reject, asked: &RejectContext, param: &'static str) -> &'static str {
    match (reason, asked.order_type) {
        (Reject::TypeNotAllowedInSession, OrderType::Hidden { .. }) => "hidden",
        (Reject::TypeNotAllowedInSession, OrderType::Limit { .. }) if asked.is_iceberg => "display_amount",
        _ => param,
    }
}

/// Describes the last expiry that an order may have.
fn expiry_words(engine: &Engine, tif: TimeInForce) -> String {
    const MOST_DAYS: u32 = 90;
    match tif {
        TimeInForce::GoodTillTime { .. } => {
            format!("the venue day closes at {} ms", engine.day_closes().as_millis())
        }
        _ => {
            let day = engine.day();
            let last = VenueDay(day.0.saturating_add(MOST_DAYS));
            format!("the venue day is {}, ninety days later {}", format_date(day), format_date(last))
        }
    }
}

fn limit_of(engine: &Engine, reason: Reject, asked: &RejectContext) -> Option<Decimal> {
    let market = engine.market(asked.instrument)?;
    let (spec, limits) = (&market.spec, market.spec.limits);
    let whole = |count: u32| Decimal::new(i128::from(count), 0);
    match reason {
        Reject::QuantityOutOfRange => Some(spec.amount(Lots::MAX_ORDER)),
        Reject::QuantityAboveLimit => limits.max_lots.map(|lots| spec.amount(lots)),
        Reject::QuantityBelowReserve => spec.rules.as_ref()?.minimum_reserve.map(|lots| spec.amount(lots)),
        Reject::MinimumExecutionOutOfRange => {
            let least = spec.rules.as_ref().and_then(|rules| rules.minimum_reserve);
            Some(spec.amount(least.unwrap_or(Lots(1))))
        }
        Reject::DisplayOutOfRange => Some(spec.amount(market.rules().min_display(asked.lots))),
        Reject::NotionalAboveLimit => {
            let valued_in = if spec.is_spot() { spec.quote() } else { spec.base() };
            Some(Decimal::new(limits.max_notional_units?, engine.currency(valued_in)?.decimals))
        }
        Reject::PriceAboveCollar | Reject::PriceBelowCollar | Reject::PriceOutsideBand => {
            let (lowest, highest) = market.price_limits();
            let is_too_low = match asked.price {
                Some(price) => price < lowest,
                None => asked.side == Side::Sell,
            };
            Some(spec.price(if is_too_low { lowest } else { highest? }))
        }
        Reject::TooManyOpenOrders => engine.account(asked.account)?.spec.settings.max_open_orders.map(whole),
        Reject::BookFull => Some(whole(spec.max_resting_orders)),
        _ => None,
    }
}

/// Answers with the order as it stands and its fills of the last command.
fn write_outcome(call: &mut Call<'_>, account: AccountId, id: OrderId) -> MethodResult {
    // The order trades as taker first. Once it rests, events of the same command may make it a
    // maker. A trade of the account with itself is two fills.
    let fills_of_account = |event: &Event| match event {
        Event::Trade { taker_account, maker_account, .. } => {
            usize::from(*taker_account == account) + usize::from(*maker_account == account)
        }
        _ => 0,
    };
    let fills = call.venue.events().iter().map(fills_of_account).sum();
    write_order_and_fills(call, account, id, |list| list.of_outcome(fills))
}

/// Answers with an order that was entered before: its current state and all its fills.
fn write_entered(call: &mut Call<'_>, account: AccountId, id: OrderId) -> MethodResult {
    write_order_and_fills(call, account, id, |list| list)
}

fn write_order_and_fills(
    call: &mut Call<'_>,
    account: AccountId,
    id: OrderId,
    select: impl FnOnce(FillList) -> FillList,
) -> MethodResult {
    let Call { venue, out, .. } = call;
    let (engine, book) = (venue.engine(), venue.views().account(account));
    let record = book.and_then(|book| book.order(id)).ok_or_else(no_history)?;
    let market = engine.market(record.instrument).ok_or_else(no_history)?;
    Json::new(out).object(|j| {
        j.key("order");
        objects::order(j, &market.spec, record, order_moment(engine, record));
        j.key("trades").array(|_| {});
    });
    // The fills follow before the end of the list and of the object.
    out.truncate(out.len() - 2);
    let list = select(FillList::new(book, FillFilter::of_order(id), ["]}", "]}"]));
    call.answer_with(LongWork::Fills(list))
}

/// The error for house accounts, which keep no order history and so cannot trade over the API.
pub fn no_history() -> RpcError {
    RpcError::new("internal_error", "this account keeps no order history")
}

/// Reads `order_id`. Ids of this venue are numbers; some clients put a currency in front, as in
/// `ETH-123`.
///
/// # Errors
/// A refusal if it is missing or malformed, `unknown_order` if the number exceeds 64 bits.
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
    // A number too long for 64 bits is well-formed and belongs to no order.
    let parsed = digits.parse().map(OrderId);
    parsed.map_err(|_| RpcError::param("unknown_order", "order_id", format!("no order {:?}", shown())))
}

fn is_currency(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns why an order of this account cannot be amended or cancelled: it is closed, or unknown.
pub fn not_live(call: &Call<'_>, account: AccountId, id: OrderId, filled: &'static str) -> RpcError {
    let known = call.venue.views().account(account).and_then(|book| book.order(id));
    match known.map(|order| order.state) {
        Some(OrderState::Filled) => RpcError::param(filled, "order_id", format!("order {id} has filled")),
        Some(_) => RpcError::param("already_closed", "order_id", format!("order {id} has been cancelled")),
        None => RpcError::param("unknown_order", "order_id", format!("no order {id}")),
    }
}

/// Amends an order by its id.
///
/// # Errors
/// A refusal if the id is malformed, if the order is not open or not the caller's own, if a
/// parameter is wrong, or if the engine refuses the amendment.
pub fn edit(call: &mut Call<'_>) -> MethodResult {
    let id = order_id(call)?;
    edit_order(call, id)
}

/// Amends the one open order with a label.
///
/// # Errors
/// `unknown_order` without such an order, `non_unique_label` with several, and the errors of
/// [`edit`].
pub fn edit_by_label(call: &mut Call<'_>) -> MethodResult {
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

fn edit_order(call: &mut Call<'_>, id: OrderId) -> MethodResult {
    order_parameters::check_valid_until(call, call.wall_ms)?;
    let account = amend_order(call, id, order_parameters::of_edit)?;
    write_outcome(call, account, id)
}

/// Amends an order of the caller as `amend` says, and returns the account.
///
/// # Errors
/// A refusal if the order is not open or not the caller's own, the errors of `amend`, and a refusal
/// of the venue or of the engine.
pub(super) fn amend_order(
    call: &mut Call<'_>,
    id: OrderId,
    amend: impl FnOnce(&Call<'_>, &OrderView, Option<&OrderRecord>) -> Result<Amend, RpcError>,
) -> Result<AccountId, RpcError> {
    let account = call.account()?;
    let live = call.venue.engine().order(id).filter(|order| order.account == account);
    let live = live.ok_or_else(|| not_live(call, account, id, "already_filled"))?;
    let record = call.venue.views().account(account).and_then(|book| book.order(id));
    let amend = amend(call, &live, record)?;
    let asked = RejectContext::of_edit(&live, record, &amend);
    if let Some(stop) = amend.stop {
        order_parameters::check_trigger_ahead(call, live.instrument, live.side, stop)?;
    }
    let parts_before = record.map_or(1, OrderRecord::parts);
    let parts_after = parts(amend.lots, amend.display.or(live.display)).min(MAX_PARTS);
    if parts_after > parts_before {
        check_open_orders(call, account, parts_after - parts_before)?;
    }
    call.submit(Command::Amend(amend))?;
    if let Some(Event::AmendRefused { reason, .. }) = call.venue.events().first() {
        return Err(explained(call, *reason, &asked));
    }
    Ok(account)
}

/// Closes a perpetual position with a market order, or with a limit order at `price`.
///
/// # Errors
/// A refusal without a login or a position, if a parameter is missing or wrong, or if the engine
/// refuses the order.
pub fn close_position(call: &mut Call<'_>) -> MethodResult {
    let account = call.account()?;
    let instrument = call.instrument_id()?;
    let held = call.venue.engine().account(account).map_or(0, |holder| holder.position(instrument).lots);
    if held == 0 {
        return Err(RpcError::param("unsupported_combination", "instrument_name", "there is no position to close"));
    }
    order_parameters::check_valid_until(call, call.wall_ms)?;
    let spec = call.spec(instrument)?;
    let order_type = match call.params.required("type")?.as_ref() {
        "limit" => OrderType::Limit { price: order_parameters::required_price(call, spec)? },
        "market" => OrderType::Market,
        _ => return Err(RpcError::invalid("type", "type is limit or market")),
    };
    let side = if held > 0 { Side::Sell } else { Side::Buy };
    let tif = if order_type == OrderType::Market { TimeInForce::Day } else { TimeInForce::GoodTillCancel };
    let lots = Lots(held.unsigned_abs());
    let label = Label::default();
    let reduce_only = true;
    let order = NewOrder { account, instrument, side, order_type, lots, tif, reduce_only, label, ..NewOrder::PLAIN };
    enter_and_answer(call, order)
}
