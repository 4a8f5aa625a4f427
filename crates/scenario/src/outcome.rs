//! The outcome of a scenario in the terms of the scenario format, and its comparison with the
//! expectation.

use serde::Serialize;
use serde_json::Value;

use crate::off_book_state::{OffBookOutcome, OffBookRow};
use crate::script::Scenario;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    pub name: String,
    pub pass: bool,
    pub steps: Vec<StepOutcome>,
    pub trades: Vec<TradeRow>,
    pub book: Book,
    pub parked: Vec<String>,
    pub unelected: Vec<String>,
    /// Names of the refused entries, amends, cancels, reports and answers, in order. Names can
    /// repeat.
    pub rejected: Vec<String>,
    /// Price of the last uncross.
    pub price: Option<i64>,
    pub closing: Option<ClosingPrice>,
    /// Off-book results. `None` if the scenario has neither off-book trades nor funds.
    #[serde(flatten)]
    pub off_book: Option<OffBookOutcome>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StepOutcome {
    pub events: Vec<StepEvent>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TradeRow {
    pub buy: String,
    pub sell: String,
    pub qty: u64,
    pub price: i64,
}

/// Both sides of the book, best order first, in the order of execution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Book {
    pub bids: Vec<Row>,
    pub offers: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    pub id: String,
    /// Open quantity in lots. For an iceberg it includes the undisplayed part.
    pub qty: u64,
    /// Limit price; `None` for a market order.
    pub price: Option<i64>,
    pub hidden: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClosingPrice {
    pub price: i64,
    pub derivation: String,
}

/// One effect of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepEvent {
    Accepted {
        id: String,
    },
    Rejected {
        /// Name of the refused order or report; `None` for a session change or a change of the
        /// trade reporting hours.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        reason: &'static str,
        rule: String,
    },
    Parked {
        id: String,
        qty: u64,
    },
    Injected {
        id: String,
    },
    Triggered {
        id: String,
    },
    Trade(TradeRow),
    Cancelled {
        id: String,
        qty: u64,
    },
    Expired {
        id: String,
        qty: u64,
        reason: &'static str,
    },
    Amended {
        id: String,
        price: Option<i64>,
        qty: u64,
        kept_priority: bool,
    },
    Indicative {
        price: Option<i64>,
        volume: u64,
        imbalance: i64,
    },
    Session {
        to: &'static str,
    },
    Breaker {
        price: i64,
    },
    Reporting {
        open: bool,
    },
    Reported {
        id: String,
    },
    ReportEnded {
        id: String,
        reason: &'static str,
    },
    OffBookTrade(OffBookRow),
}

impl Scenario {
    /// Returns one line per difference from the expectation. Keys that the scenario omits are not
    /// compared; lists must match in full.
    pub fn differences(&self, outcome: &Outcome) -> Vec<String> {
        let mut differences = Vec::new();
        match serde_json::to_value(outcome) {
            Ok(got) => compare(&self.expect, &got, &mut differences),
            Err(error) => differences.push(format!("the outcome is not JSON: {error}")),
        }
        differences
    }
}

/// Compares two JSON values depth first. It uses an explicit stack instead of recursion.
fn compare(expected: &Value, got: &Value, differences: &mut Vec<String>) {
    let mut pending = vec![(String::new(), expected, got)];
    while let Some((place, expected, got)) = pending.pop() {
        match (expected, got) {
            (Value::Object(wanted), Value::Object(_)) => {
                for (key, value) in wanted.iter().rev() {
                    let dot = if place.is_empty() { "" } else { "." };
                    pending.push((format!("{place}{dot}{key}"), value, got.get(key).unwrap_or(&Value::Null)));
                }
            }
            (Value::Array(wanted), Value::Array(given)) if wanted.len() == given.len() => {
                for (at, (one, other)) in wanted.iter().zip(given).enumerate().rev() {
                    pending.push((format!("{place}[{at}]"), one, other));
                }
            }
            _ if expected == got => {}
            _ => differences.push(format!("{place}: expected {expected}, got {got}")),
        }
    }
}
