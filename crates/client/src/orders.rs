//! Orders as a client describes them, under the dialect's names.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::{Error, Number, VenueConnection};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Buy,
    Sell,
}

impl Side {
    pub const fn method(self) -> &'static str {
        match self {
            Side::Buy => "private/buy",
            Side::Sell => "private/sell",
        }
    }
}

/// The eleven times in force. A venue of the plain dialect knows the first four.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeInForce {
    GoodTillCancelled,
    Day,
    ImmediateOrCancel,
    FillOrKill,
    /// Until the end of a date, such as `2026-01-31`.
    GoodTillDate(String),
    /// Until a venue time, in milliseconds since 1970.
    GoodTillTime(u64),
    OpeningAuction,
    AnyAuction,
    IntradayAuction,
    ClosingAuction,
    ClosingPriceCross,
}

impl TimeInForce {
    /// Returns the dialect's word, or `None` if only `tif_ext` expresses it.
    const fn dialect_word(&self) -> Option<&'static str> {
        match self {
            TimeInForce::GoodTillCancelled => Some("good_til_cancelled"),
            TimeInForce::Day => Some("good_til_day"),
            TimeInForce::ImmediateOrCancel => Some("immediate_or_cancel"),
            TimeInForce::FillOrKill => Some("fill_or_kill"),
            _ => None,
        }
    }

    const fn extended_word(&self) -> Option<&'static str> {
        match self {
            TimeInForce::GoodTillDate(_) => Some("gtd"),
            TimeInForce::GoodTillTime(_) => Some("gtt"),
            TimeInForce::OpeningAuction => Some("opg"),
            TimeInForce::AnyAuction => Some("gfa"),
            TimeInForce::IntradayAuction => Some("gfx"),
            TimeInForce::ClosingAuction => Some("atc"),
            TimeInForce::ClosingPriceCross => Some("cpx"),
            _ => None,
        }
    }

    fn expires_at(&self) -> Option<String> {
        match self {
            TimeInForce::GoodTillDate(date) => Some(date.clone()),
            TimeInForce::GoodTillTime(at_ms) => Some(at_ms.to_string()),
            _ => None,
        }
    }
}

/// The price that a trigger follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TriggerPrice {
    #[default]
    Last,
    Mark,
    Index,
}

/// The type of an order with its prices.
#[derive(Clone, Debug)]
pub enum OrderType {
    Limit {
        price: Number,
    },
    Market,
    /// A limit order that no public channel displays. Without a minimum it executes as a whole.
    Hidden {
        price: Number,
        minimum_execution: Option<Number>,
    },
    /// Becomes a market order, or with a price a limit order, when the price reaches the trigger.
    Stop {
        trigger: Number,
        price: Option<Number>,
        by: TriggerPrice,
    },
    /// As a stop, on the favourable side of the price.
    Take {
        trigger: Number,
        price: Option<Number>,
        by: TriggerPrice,
    },
    /// A stop whose trigger follows the price at this distance.
    TrailingStop {
        offset: Number,
        by: TriggerPrice,
    },
}

/// Whether an order may trade on entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PostOnly {
    #[default]
    No,
    /// The venue moves a price that would trade.
    Reprice,
    /// The venue refuses a price that would trade.
    Reject,
}

/// A new order.
///
/// ```
/// use pitwire_client::{OrderRequest, OrderType, Side, TimeInForce};
///
/// let limit = OrderType::Limit { price: "60000.50".parse()? };
/// let mut order = OrderRequest::new(Side::Buy, "BTC_USDC", "0.25".parse()?, limit);
/// order.time_in_force = Some(TimeInForce::Day);
/// let params = serde_json::to_string(&order.params()).unwrap();
/// assert!(params.starts_with(r#"{"instrument_name":"BTC_USDC","amount":0.25,"type":"limit""#));
/// assert!(params.ends_with(r#","price":60000.50,"time_in_force":"good_til_day"}"#));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct OrderRequest {
    pub side: Side,
    pub instrument: String,
    pub amount: Number,
    pub order_type: OrderType,
    /// `None` leaves the choice to the venue.
    pub time_in_force: Option<TimeInForce>,
    /// Displayed amount of an iceberg.
    pub display_amount: Option<Number>,
    pub post_only: PostOnly,
    pub reduce_only: bool,
    pub label: Option<String>,
    /// Number by which a venue that knows the parameter recognises a request that arrives twice.
    /// Each order needs its own.
    pub client_order_id: Option<String>,
    /// The venue refuses the order if it reads it later, in milliseconds of its wall clock.
    pub valid_until_ms: Option<i64>,
}

/// The parameters of a new order as they are sent. Absent ones are omitted, because a venue may
/// refuse a parameter that it does not know.
#[derive(Debug, Default, Serialize)]
pub struct OrderParams<'a> {
    instrument_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<&'a Number>,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    price: Option<&'a Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_execution: Option<&'a Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger_price: Option<&'a Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger_offset: Option<&'a Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_in_force: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tif_ext: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    display_amount: Option<&'a Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    post_only: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reject_post_only: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reduce_only: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_order_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    valid_until: Option<i64>,
}

impl OrderRequest {
    pub fn new(side: Side, instrument: impl Into<String>, amount: Number, order_type: OrderType) -> Self {
        OrderRequest {
            side,
            instrument: instrument.into(),
            amount,
            order_type,
            time_in_force: None,
            display_amount: None,
            post_only: PostOnly::No,
            reduce_only: false,
            label: None,
            client_order_id: None,
            valid_until_ms: None,
        }
    }

    /// Returns the parameters of the call.
    pub fn params(&self) -> OrderParams<'_> {
        let tif = self.time_in_force.as_ref();
        let params = OrderParams {
            instrument_name: &self.instrument,
            amount: Some(&self.amount),
            time_in_force: tif.and_then(TimeInForce::dialect_word),
            tif_ext: tif.and_then(TimeInForce::extended_word),
            expires_at: tif.and_then(TimeInForce::expires_at),
            display_amount: self.display_amount.as_ref(),
            post_only: (self.post_only != PostOnly::No).then_some(true),
            reject_post_only: (self.post_only == PostOnly::Reject).then_some(true),
            reduce_only: self.reduce_only.then_some(true),
            label: self.label.as_deref(),
            client_order_id: self.client_order_id.as_deref(),
            valid_until: self.valid_until_ms,
            ..OrderParams::default()
        };
        match &self.order_type {
            OrderType::Limit { price } => OrderParams { r#type: "limit", price: Some(price), ..params },
            OrderType::Market => OrderParams { r#type: "market", ..params },
            OrderType::Hidden { price, minimum_execution } => OrderParams {
                r#type: "limit",
                price: Some(price),
                hidden: Some(true),
                min_execution: minimum_execution.as_ref(),
                ..params
            },
            OrderType::Stop { trigger, price, by } | OrderType::Take { trigger, price, by } => OrderParams {
                r#type: match (&self.order_type, price) {
                    (OrderType::Stop { .. }, Some(_)) => "stop_limit",
                    (OrderType::Stop { .. }, None) => "stop_market",
                    (_, Some(_)) => "take_limit",
                    (_, None) => "take_market",
                },
                price: price.as_ref(),
                trigger_price: Some(trigger),
                trigger: Some(by.word()),
                ..params
            },
            OrderType::TrailingStop { offset, by } => OrderParams {
                r#type: "trailing_stop",
                trigger_offset: Some(offset),
                trigger: Some(by.word()),
                ..params
            },
        }
    }
}

impl TriggerPrice {
    const fn word(self) -> &'static str {
        match self {
            TriggerPrice::Last => "last_price",
            TriggerPrice::Mark => "mark_price",
            TriggerPrice::Index => "index_price",
        }
    }
}

/// Parameters of `private/edit`.
#[derive(Debug, Serialize)]
pub struct EditRequest<'a> {
    pub order_id: &'a str,
    /// The new total amount, with the filled part.
    pub amount: &'a Number,
    pub price: &'a Number,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<i64>,
}

/// Selects the orders of a mass cancel.
#[derive(Clone, Copy, Debug)]
pub enum Cancel<'a> {
    All,
    Instrument(&'a str),
    Currency(&'a str),
    Label(&'a str),
}

impl Cancel<'_> {
    /// Returns the method and its parameters.
    pub fn request(&self) -> (&'static str, serde_json::Value) {
        use serde_json::json;
        match self {
            Cancel::All => ("private/cancel_all", json!({})),
            Cancel::Instrument(name) => ("private/cancel_all_by_instrument", json!({"instrument_name": name})),
            Cancel::Currency(currency) => ("private/cancel_all_by_currency", json!({"currency": currency})),
            Cancel::Label(label) => ("private/cancel_by_label", json!({"label": label})),
        }
    }
}

impl VenueConnection {
    /// Enters an order. Returns the venue's answer with the order and its trades.
    ///
    /// # Errors
    ///
    /// As [`VenueConnection::call`].
    pub async fn enter(&self, order: &OrderRequest) -> Result<Box<RawValue>, Error> {
        self.call(order.side.method(), &order.params()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        text.parse().unwrap()
    }

    fn params(order_type: OrderType, tif: Option<TimeInForce>) -> String {
        let mut order = OrderRequest::new(Side::Sell, "X", number("1"), order_type);
        order.time_in_force = tif;
        let text = serde_json::to_string(&order.params()).unwrap();
        text.strip_prefix(r#"{"instrument_name":"X","amount":1,"type":"#).unwrap().to_owned()
    }

    #[test]
    fn every_order_type_has_its_parameters() {
        let by = TriggerPrice::Last;
        for (order_type, expected) in [
            (OrderType::Market, r#""market"}"#),
            (
                OrderType::Hidden { price: number("5"), minimum_execution: Some(number("2")) },
                r#""limit","price":5,"hidden":true,"min_execution":2}"#,
            ),
            (
                OrderType::Stop { trigger: number("4"), price: None, by },
                r#""stop_market","trigger":"last_price","trigger_price":4}"#,
            ),
            (
                OrderType::Stop { trigger: number("4"), price: Some(number("3")), by: TriggerPrice::Mark },
                r#""stop_limit","price":3,"trigger":"mark_price","trigger_price":4}"#,
            ),
            (
                OrderType::Take { trigger: number("4"), price: None, by: TriggerPrice::Index },
                r#""take_market","trigger":"index_price","trigger_price":4}"#,
            ),
            (
                OrderType::TrailingStop { offset: number("10"), by },
                r#""trailing_stop","trigger":"last_price","trigger_offset":10}"#,
            ),
        ] {
            assert_eq!(params(order_type, None), expected);
        }
    }

    #[test]
    fn every_time_in_force_has_its_word() {
        for (tif, expected) in [
            (TimeInForce::GoodTillCancelled, r#""time_in_force":"good_til_cancelled""#),
            (TimeInForce::Day, r#""time_in_force":"good_til_day""#),
            (TimeInForce::ImmediateOrCancel, r#""time_in_force":"immediate_or_cancel""#),
            (TimeInForce::FillOrKill, r#""time_in_force":"fill_or_kill""#),
            (TimeInForce::GoodTillDate("2026-12-31".into()), r#""tif_ext":"gtd","expires_at":"2026-12-31""#),
            (TimeInForce::GoodTillTime(1_700_000_000_000), r#""tif_ext":"gtt","expires_at":"1700000000000""#),
            (TimeInForce::OpeningAuction, r#""tif_ext":"opg""#),
            (TimeInForce::AnyAuction, r#""tif_ext":"gfa""#),
            (TimeInForce::IntradayAuction, r#""tif_ext":"gfx""#),
            (TimeInForce::ClosingAuction, r#""tif_ext":"atc""#),
            (TimeInForce::ClosingPriceCross, r#""tif_ext":"cpx""#),
        ] {
            assert_eq!(params(OrderType::Market, Some(tif)), format!(r#""market",{expected}}}"#));
        }
    }
}
