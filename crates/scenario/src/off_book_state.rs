//! Off-book state of a scenario, while it runs and at its end.

use std::collections::BTreeMap;

use pitwire_model::Seq;
use serde::Serialize;

/// Off-book state at the end of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OffBookOutcome {
    pub off_book: Vec<OffBookRow>,
    /// OffBookState that wait for the counterparty's answer, in order of report number.
    pub waiting: Vec<String>,
    /// Last price of the order book.
    pub last_price: Option<i64>,
    /// Final holdings of each named account.
    pub holdings: BTreeMap<String, Holding>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OffBookRow {
    /// Name of the report that led to the trade.
    pub id: String,
    /// Name of the buying account.
    pub buy: String,
    pub sell: String,
    pub qty: u64,
    pub price: i64,
    /// Number of the off-book trade, from 1. Off-book trades and book trades are counted
    /// separately.
    pub number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Holding {
    pub goods: i64,
    pub money: i64,
}

/// Off-book state while a scenario runs.
#[derive(Debug, Default)]
pub(crate) struct OffBookState {
    /// Maps a name in the scenario to the number of the latest report with that name.
    pub numbers: BTreeMap<String, Seq>,
    pub names: BTreeMap<Seq, String>,
    pub off_book: Vec<OffBookRow>,
}

/// Returns the key of a named account. The prefix separates it from the accounts of orders that
/// name none.
pub(crate) fn named(account: &str) -> String {
    format!("named {account}")
}
