//! Requests as calls of the JSON-RPC dialect, and its answers as messages.

use std::collections::BTreeMap;
use std::fmt::Write;

use pitwire_client::Error;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::codec::{FixedDecimal, Text};
use crate::messages::*;

/// Instrument names by number.
#[derive(Debug, Default)]
pub(crate) struct Instruments {
    entries: BTreeMap<u32, InstrumentEntry>,
    ids: BTreeMap<String, u32>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct InstrumentEntry {
    instrument_name: String,
    instrument_id: u32,
    tick_size: RawNumber,
    min_trade_amount: RawNumber,
}

impl Instruments {
    pub fn of(entries: Vec<InstrumentEntry>) -> Self {
        let mut instruments = Instruments::default();
        for entry in entries {
            instruments.ids.insert(entry.instrument_name.clone(), entry.instrument_id);
            instruments.entries.insert(entry.instrument_id, entry);
        }
        instruments
    }

    /// Returns the name of an instrument by its number.
    ///
    /// # Errors
    /// `not_found` if no instrument has the number.
    pub fn name(&self, id: u32) -> Result<&str, Rejection> {
        self.entries
            .get(&id)
            .map(|entry| entry.instrument_name.as_str())
            .ok_or_else(|| Rejection::unknown_instrument(id))
    }

    /// Returns the tick and the smallest quantity of an instrument. Each is `None` if it has more
    /// than eight decimals.
    pub fn steps(&self, id: u32) -> Option<(Option<FixedDecimal>, Option<FixedDecimal>)> {
        self.entries.get(&id).map(|entry| (decimal(&entry.tick_size), decimal(&entry.min_trade_amount)))
    }

    fn id(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }
}

/// Why a request is refused, in the words of a [`Reject`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub code: i32,
    pub name: String,
    pub reason: String,
    pub remedy: String,
}

impl Rejection {
    /// Code of an unknown instrument.
    pub const NOT_FOUND: i32 = 13020;

    /// A message that cannot be decoded or that a client must not send.
    pub fn invalid(reason: impl Into<String>, remedy: &str) -> Self {
        Rejection { code: -32602, name: "invalid_params".into(), reason: reason.into(), remedy: remedy.into() }
    }

    pub fn unknown_instrument(id: impl std::fmt::Display) -> Self {
        Rejection {
            code: Self::NOT_FOUND,
            name: "not_found".into(),
            reason: format!("no instrument has the number {id}"),
            remedy: "Take instrument_id from public/get_instruments.".into(),
        }
    }

    pub fn reject(self, request_id: u64, template_id: u16) -> SbeMessage {
        let Rejection { code, name, reason, remedy } = self;
        Reject { sequence: 0, request_id, template_id, code, name, reason, remedy }.into()
    }
}

impl From<Error> for Rejection {
    fn from(error: Error) -> Self {
        let remedy = error.remedy();
        match error {
            Error::Venue(refusal) => {
                let code = i32::try_from(refusal.code).unwrap_or(i32::MIN);
                let reason = refusal.data.reason.clone().unwrap_or_else(|| refusal.message.clone());
                Rejection { code, name: refusal.message, reason, remedy }
            }
            error if error.had_no_effect() => {
                Rejection { code: -32000, name: "not_sent".into(), reason: error.to_string(), remedy }
            }
            error => Rejection { code: -32000, name: "unanswered".into(), reason: error.to_string(), remedy },
        }
    }
}

/// The parameters of a call, as JSON text. Decimals keep their digits.
struct Params(String);

impl Params {
    fn new() -> Self {
        Params("{".into())
    }

    fn raw(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        let comma = if self.0.len() > 1 { "," } else { "" };
        let _ = write!(self.0, "{comma}\"{name}\":{value}");
        self
    }

    fn text(self, name: &str, value: &str) -> Self {
        self.raw(name, serde_json::Value::from(value))
    }

    fn decimal(self, name: &str, value: Option<FixedDecimal>) -> Self {
        match value {
            Some(value) => self.raw(name, value),
            None => self,
        }
    }

    fn flag(self, name: &str, value: Flag) -> Self {
        match value {
            Flag::Yes => self.raw(name, true),
            Flag::No => self,
        }
    }

    fn end(mut self) -> Box<RawValue> {
        self.0.push('}');
        RawValue::from_string(self.0).expect("names are literals and values are JSON")
    }
}

/// A call of the dialect.
pub(crate) struct DialectCall {
    pub method: &'static str,
    pub params: Box<RawValue>,
}

impl EntryTimeInForce {
    const fn word(self) -> Option<&'static str> {
        Some(match self {
            EntryTimeInForce::Default => return None,
            EntryTimeInForce::Day => "day",
            EntryTimeInForce::Gtc => "gtc",
            EntryTimeInForce::Gtd => "gtd",
            EntryTimeInForce::Gtt => "gtt",
            EntryTimeInForce::Ioc => "ioc",
            EntryTimeInForce::Fok => "fok",
            EntryTimeInForce::Opg => "opg",
            EntryTimeInForce::Gfa => "gfa",
            EntryTimeInForce::Gfx => "gfx",
            EntryTimeInForce::Atc => "atc",
            EntryTimeInForce::Cpx => "cpx",
        })
    }
}

pub(crate) fn new_order(order: &NewOrder, instruments: &Instruments) -> Result<DialectCall, Rejection> {
    let method = match order.side {
        OrderSide::Buy => "private/buy",
        OrderSide::Sell => "private/sell",
    };
    let order_type = match order.order_type {
        EntryType::Market => "market",
        EntryType::Limit => "limit",
        EntryType::StopMarket => "stop_market",
        EntryType::StopLimit => "stop_limit",
    };
    let mut params = Params::new()
        .text("instrument_name", instruments.name(order.instrument_id)?)
        .text("type", order_type)
        .decimal("amount", order.quantity)
        .decimal("price", order.price)
        .decimal("trigger_price", order.trigger_price)
        .decimal("display_amount", order.display_quantity)
        .decimal("min_execution", order.minimum_quantity)
        .flag("hidden", order.hidden)
        .flag("post_only", order.post_only)
        .flag("reject_post_only", order.post_only);
    if !order.client_order_id.as_str().is_empty() {
        params = params.text("client_order_id", order.client_order_id.as_str());
    }
    if let Some(word) = order.time_in_force.word() {
        params = params.text("time_in_force", word);
    }
    if order.expires > 0 {
        let digits = order.expires.to_string();
        // A date with other than eight digits goes to the venue unchanged, which refuses it.
        let is_date = order.time_in_force == EntryTimeInForce::Gtd && digits.len() == 8;
        let expires = if is_date { format!("{}-{}-{}", &digits[..4], &digits[4..6], &digits[6..]) } else { digits };
        params = params.text("expires_at", &expires);
    }
    Ok(DialectCall { method, params: params.end() })
}

pub(crate) fn amend(order: &AmendOrder) -> DialectCall {
    let params = Params::new()
        .text("order_id", &order.order_id.to_string())
        .decimal("amount", order.quantity)
        .decimal("price", order.price)
        .decimal("trigger_price", order.trigger_price)
        .decimal("display_amount", order.display_quantity)
        .decimal("min_execution", order.minimum_quantity);
    DialectCall { method: "private/edit", params: params.end() }
}

pub(crate) fn cancel(order: &CancelOrder) -> DialectCall {
    DialectCall { method: "private/cancel", params: Params::new().text("order_id", &order.order_id.to_string()).end() }
}

pub(crate) fn mass_cancel(cancel: &MassCancel, instruments: &Instruments) -> Result<DialectCall, Rejection> {
    Ok(match cancel.scope {
        MassCancelScope::All => DialectCall { method: "private/cancel_all", params: Params::new().end() },
        MassCancelScope::Instrument => {
            let params = Params::new().text("instrument_name", instruments.name(cancel.instrument_id)?);
            DialectCall { method: "private/cancel_all_by_instrument", params: params.end() }
        }
    })
}

pub(crate) fn market_query(query: &MarketQuery, instruments: &Instruments) -> Result<DialectCall, Rejection> {
    let params = Params::new().text("instrument_name", instruments.name(query.instrument_id)?);
    Ok(match query.subject {
        QuerySubject::BestPrices => {
            DialectCall { method: "public/get_order_book", params: params.raw("depth", 1).end() }
        }
        QuerySubject::Book => {
            DialectCall { method: "public/get_order_book", params: params.raw("depth", query.depth).end() }
        }
        QuerySubject::Vwap => DialectCall { method: "public/pitwire_get_statistics", params: params.end() },
        QuerySubject::Status => DialectCall { method: "public/pitwire_get_session", params: params.end() },
    })
}

type RawNumber = Option<Box<RawValue>>;

fn decimal(number: &RawNumber) -> Option<FixedDecimal> {
    FixedDecimal::parse(number.as_ref()?.get())
}

/// An order as the dialect reports it.
#[derive(Debug, Deserialize)]
pub(crate) struct OrderState {
    pub order_id: String,
    order_state: String,
    instrument_name: String,
    direction: String,
    price: RawNumber,
    amount: RawNumber,
    filled_amount: RawNumber,
    #[serde(default)]
    pub client_order_id: String,
    #[serde(default)]
    replaced: bool,
    #[serde(default)]
    last_update_timestamp: u64,
    #[serde(default)]
    cancel_reason: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct OrderAnswer {
    pub order: OrderState,
}

#[derive(Debug, Deserialize)]
struct OwnTrade {
    order_id: String,
    trade_seq: u64,
    timestamp: u64,
    price: RawNumber,
    amount: RawNumber,
    liquidity: String,
}

/// The data of `user.changes`.
#[derive(Debug, Deserialize)]
pub(crate) struct AccountChanges {
    #[serde(default)]
    trades: Vec<OwnTrade>,
    #[serde(default)]
    orders: Vec<OrderState>,
}

impl OrderState {
    fn status(&self) -> Option<OrderStatus> {
        Some(match self.order_state.as_str() {
            "open" => OrderStatus::Open,
            "filled" => OrderStatus::Filled,
            "cancelled" => OrderStatus::Cancelled,
            "untriggered" => OrderStatus::Untriggered,
            "triggered" => OrderStatus::Triggered,
            "rejected" => OrderStatus::Rejected,
            _ => return None,
        })
    }

    /// Returns the answer to a request that entered or changed the order.
    pub fn accepted(&self, request_id: u64) -> Option<SbeMessage> {
        let accepted = OrderAccepted {
            sequence: 0,
            request_id,
            order_id: self.order_id.parse().ok()?,
            client_order_id: Text::new(&self.client_order_id),
            status: self.status()?,
            quantity: decimal(&self.amount),
            filled_quantity: decimal(&self.filled_amount),
        };
        Some(accepted.into())
    }

    /// Returns a report about the order, with no fill.
    fn report(&self, execution_type: ExecutionType, instruments: &Instruments) -> Option<ExecutionReport> {
        Some(ExecutionReport {
            sequence: 0,
            execution_type,
            status: self.status()?,
            side: if self.direction == "buy" { OrderSide::Buy } else { OrderSide::Sell },
            liquidity: LiquidityFlag::None,
            instrument_id: instruments.id(&self.instrument_name)?,
            order_id: self.order_id.parse().ok()?,
            client_order_id: Text::new(&self.client_order_id),
            price: decimal(&self.price),
            quantity: decimal(&self.amount),
            filled_quantity: decimal(&self.filled_amount),
            last_price: None,
            last_quantity: None,
            trade_sequence: 0,
            transact_time_ms: self.last_update_timestamp,
            cancel_reason: Text::new(&self.cancel_reason),
        })
    }

    fn execution_type(&self) -> Option<ExecutionType> {
        Some(match self.status()? {
            OrderStatus::Open | OrderStatus::Untriggered if self.replaced => ExecutionType::Amended,
            OrderStatus::Open | OrderStatus::Untriggered => ExecutionType::New,
            OrderStatus::Triggered => ExecutionType::Triggered,
            OrderStatus::Cancelled => ExecutionType::Cancelled,
            OrderStatus::Rejected => ExecutionType::Rejected,
            OrderStatus::Filled => ExecutionType::Restated,
        })
    }
}

impl AccountChanges {
    /// Returns the execution reports of one notice: its fills in order, then the orders that a fill
    /// does not describe in full. Also returns the number of changes that the schema cannot
    /// express.
    pub fn reports(&self, instruments: &Instruments) -> (Vec<ExecutionReport>, u64) {
        let (mut reports, mut lost) = (Vec::new(), 0);
        for trade in &self.trades {
            let order = self.orders.iter().find(|order| order.order_id == trade.order_id);
            match order.and_then(|order| order.report(ExecutionType::Trade, instruments)) {
                Some(report) => reports.push(ExecutionReport {
                    liquidity: if trade.liquidity == "M" { LiquidityFlag::Added } else { LiquidityFlag::Removed },
                    last_price: decimal(&trade.price),
                    last_quantity: decimal(&trade.amount),
                    trade_sequence: trade.trade_seq,
                    transact_time_ms: trade.timestamp,
                    ..report
                }),
                None => lost += 1,
            }
        }
        for order in &self.orders {
            let has_fill = self.trades.iter().any(|trade| trade.order_id == order.order_id);
            if has_fill && order.order_state != "cancelled" {
                continue;
            }
            match order.execution_type().and_then(|kind| order.report(kind, instruments)) {
                Some(report) => reports.push(report),
                None => lost += 1,
            }
        }
        (reports, lost)
    }
}

#[derive(Debug, Deserialize)]
struct BookAnswer {
    bids: Vec<[Box<RawValue>; 2]>,
    asks: Vec<[Box<RawValue>; 2]>,
}

#[derive(Debug, Deserialize)]
struct StatisticsAnswer {
    vwap: RawNumber,
    bid_vwap: RawNumber,
    ask_vwap: RawNumber,
}

#[derive(Debug, Deserialize)]
struct SessionAnswer {
    session: String,
    state: String,
}

fn levels(side: OrderSide, levels: &[[Box<RawValue>; 2]]) -> impl Iterator<Item = SbeLevel> {
    levels.iter().map(move |[price, quantity]| SbeLevel {
        side,
        price: FixedDecimal::parse(price.get()),
        quantity: FixedDecimal::parse(quantity.get()),
    })
}

/// Returns the answer to a market query.
///
/// # Errors
///
/// Fails if the venue's answer has another form.
pub(crate) fn market_answer(query: &MarketQuery, json: &str) -> Result<SbeMessage, serde_json::Error> {
    let &MarketQuery { request_id, instrument_id, subject, .. } = query;
    // The log of the session numbers the message.
    let sequence = 0;
    Ok(match subject {
        QuerySubject::BestPrices => {
            let book: BookAnswer = serde_json::from_str(json)?;
            let best = |side, of: &[[Box<RawValue>; 2]]| levels(side, of).next();
            let (bid, ask) = (best(OrderSide::Buy, &book.bids), best(OrderSide::Sell, &book.asks));
            BestPrices {
                sequence,
                request_id,
                instrument_id,
                bid_price: bid.as_ref().and_then(|level| level.price),
                bid_quantity: bid.as_ref().and_then(|level| level.quantity),
                ask_price: ask.as_ref().and_then(|level| level.price),
                ask_quantity: ask.as_ref().and_then(|level| level.quantity),
            }
            .into()
        }
        QuerySubject::Book => {
            let book: BookAnswer = serde_json::from_str(json)?;
            let levels = levels(OrderSide::Buy, &book.bids).chain(levels(OrderSide::Sell, &book.asks)).collect();
            Book { sequence, request_id, instrument_id, levels }.into()
        }
        QuerySubject::Vwap => {
            let day: StatisticsAnswer = serde_json::from_str(json)?;
            let (trades, bid, ask) = (decimal(&day.vwap), decimal(&day.bid_vwap), decimal(&day.ask_vwap));
            Vwap { sequence, request_id, instrument_id, trades, bid, ask }.into()
        }
        QuerySubject::Status => {
            let SessionAnswer { session, state } = serde_json::from_str(json)?;
            let (session, state) = (Text::new(&session), Text::new(&state));
            InstrumentStatus { sequence, request_id, instrument_id, session, state }.into()
        }
    })
}
