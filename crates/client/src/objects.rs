//! Orders, fills and positions as the venue reports them. Unknown fields are ignored.

use serde::Deserialize;

use crate::decimal::Value;

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
