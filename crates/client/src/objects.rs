//! Orders, fills and positions as the venue reports them. Unknown fields are ignored.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::decimal::Value;

/// Reads a price. Some orders have a word in its place, such as `market_price`: it reads as `None`.
fn price_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    let raw = <Option<&RawValue>>::deserialize(deserializer)?;
    Ok(raw.and_then(|raw| Value::parse(raw.get())))
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Order {
    pub order_id: String,
    pub instrument_name: String,
    /// `buy` or `sell`.
    pub direction: String,
    /// The dialect's word, such as `open`, `filled` or `cancelled`.
    pub order_state: String,
    pub amount: Value,
    /// Some venues omit it for an order that waits for its trigger.
    #[serde(default)]
    pub filled_amount: Value,
    #[serde(default)]
    pub label: String,
    /// The dialect's word, such as `limit` or `stop_market`.
    #[serde(default)]
    pub order_type: String,
    /// The limit price. A market order has none, or the average price of its fills.
    #[serde(default, deserialize_with = "price_or_none")]
    pub price: Option<Value>,
    /// The price at which a stop becomes an order.
    #[serde(default, deserialize_with = "price_or_none")]
    pub trigger_price: Option<Value>,
    /// The dialect's word, such as `good_til_day`.
    #[serde(default)]
    pub time_in_force: String,
    /// The time in force in the words of this venue, if the dialect has none for it.
    pub tif_ext: Option<String>,
    /// Whether no public channel displays the order.
    #[serde(default)]
    pub hidden: bool,
    /// Visible amount that trades before this order at its price. It is as old as the report,
    /// because the venue sends no notice when it changes. Only this venue reports it.
    #[serde(default, deserialize_with = "price_or_none")]
    pub queue_ahead: Option<Value>,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub last_update_timestamp: i64,
}

impl Order {
    /// Returns whether the order may still trade. A `speed_bumped` order waits at the venue before
    /// it may trade.
    pub fn is_open(&self) -> bool {
        matches!(self.order_state.as_str(), "open" | "untriggered" | "triggered" | "speed_bumped")
    }
}

/// A fill of an own order.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Fill {
    pub trade_id: String,
    pub order_id: String,
    pub instrument_name: String,
    pub price: Value,
    pub amount: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Position {
    pub instrument_name: String,
    /// `buy`, `sell` or `zero`.
    pub direction: String,
    pub size: Value,
    #[serde(default, deserialize_with = "price_or_none")]
    pub average_price: Option<Value>,
    /// Profit at the mark price, in the settlement currency.
    #[serde(default, deserialize_with = "price_or_none")]
    pub floating_profit_loss: Option<Value>,
}

/// The answer to a new or edited order.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OrderOutcome {
    pub order: Order,
    #[serde(default)]
    pub trades: Vec<Fill>,
}

/// The data of `user.changes`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct AccountChanges {
    #[serde(default)]
    pub orders: Vec<Order>,
    #[serde(default)]
    pub trades: Vec<Fill>,
    #[serde(default)]
    pub positions: Vec<Position>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_without_a_price_has_none() {
        let order = |price: &str| -> Order {
            let text = format!(
                r#"{{"order_id":"1","instrument_name":"X","direction":"buy","order_state":"open","amount":5{price}}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        assert_eq!(order(r#","price":10.50"#).price, Value::parse("10.5"));
        for absent in ["", r#","price":"market_price""#, r#","price":null"#] {
            assert_eq!(order(absent).price, None, "{absent}");
        }
    }
}
