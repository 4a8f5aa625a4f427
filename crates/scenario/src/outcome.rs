//! What came of a scenario, in the words of its format, and how it compares with what was expected.

use serde::Serialize;
use serde_json::Value;

use crate::beside::{Beside, OffBookRow};
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
    /// One name for each refused entry, amend, cancel, report or answer.
    pub rejected: Vec<String>,
    /// Of the last uncross.
    pub price: Option<i64>,
    pub closing: Option<Closing>,
    /// Only of a scenario that has trades made beside the book, or funds.
    #[serde(flatten)]
    pub beside: Option<Beside>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StepOutcome {
    pub events: Vec<Happening>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TradeRow {
    pub buy: String,
    pub sell: String,
    pub qty: u64,
    pub price: i64,
}

/// Best first, as the market would take them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Book {
    pub bids: Vec<Row>,
    pub offers: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    pub id: String,
    /// Open, an iceberg's whole.
    pub qty: u64,
    /// None: a market order.
    pub price: Option<i64>,
    pub hidden: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Closing {
    pub price: i64,
    pub derivation: String,
}

/// What a step caused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Happening {
    Accepted {
        id: String,
    },
    Rejected {
        /// None: a session change, or the hours of trade reporting.
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
    /// What was expected and did not come, a line each. Keys that the scenario lacks are not judged; lists are whole.
    pub fn differences(&self, outcome: &Outcome) -> Vec<String> {
        let mut differences = Vec::new();
        match serde_json::to_value(outcome) {
            Ok(got) => compare(&self.expect, &got, &mut differences),
            Err(error) => differences.push(format!("the outcome is not JSON: {error}")),
        }
        differences
    }
}

/// Depth first, by a list of what is still to be compared.
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
