//! Results of a venue as text columns, with every number as the venue wrote it.

use std::collections::BTreeMap;

use pitwire_client::Value;
use serde::Deserialize;
use serde_json::value::RawValue;

use pitwire_terminal::output::printable;
use pitwire_terminal::text_table::{CellColour, TextTable};

type Object<'a> = BTreeMap<&'a str, &'a RawValue>;
type ShowResult = Result<String, serde_json::Error>;

const ORDER: &[&str] = &[
    "order_id",
    "instrument_name",
    "direction",
    "order_type",
    "price",
    "amount",
    "filled_amount",
    "average_price",
    "time_in_force",
    "order_state",
    "label",
];
const FILL: &[&str] = &["trade_id", "instrument_name", "direction", "price", "amount", "liquidity"];
const POSITION: &[&str] =
    &["instrument_name", "direction", "size", "average_price", "mark_price", "floating_profit_loss", "initial_margin"];
const SUMMARY: &[&str] = &["currency", "balance", "equity", "available_funds", "initial_margin"];

/// Formats a new or edited order with its trades.
///
/// # Errors
/// If the result is not JSON of this form.
pub fn outcome(result: &str) -> ShowResult {
    #[derive(Deserialize)]
    struct OrderOutcome<'a> {
        #[serde(borrow)]
        order: Object<'a>,
        #[serde(borrow, default)]
        trades: Vec<Object<'a>>,
    }
    let outcome: OrderOutcome<'_> = serde_json::from_str(result)?;
    let mut text = table(ORDER, &[outcome.order]);
    if !outcome.trades.is_empty() {
        text.push('\n');
        text += &table(FILL, &outcome.trades);
    }
    Ok(text)
}

/// Formats one order.
///
/// # Errors
/// If the result is not JSON of this form.
pub fn order(result: &str) -> ShowResult {
    Ok(table(ORDER, &[serde_json::from_str(result)?]))
}

/// Formats a list of orders.
///
/// # Errors
/// If the result is not JSON of this form.
pub fn orders(result: &str) -> ShowResult {
    listed(ORDER, serde_json::from_str(result)?, "no open orders")
}

/// Formats the positions that are not flat.
///
/// # Errors
/// If the result is not JSON of this form.
pub fn positions(result: &str) -> ShowResult {
    let mut held: Vec<Object<'_>> = serde_json::from_str(result)?;
    held.retain(|position| field(position, "direction") != "zero");
    listed(POSITION, held, "no open positions")
}

/// Formats the balances that are not zero.
///
/// # Errors
/// If the result is not JSON of this form.
pub fn balances(result: &str) -> ShowResult {
    #[derive(Deserialize)]
    struct Summaries<'a> {
        #[serde(borrow)]
        summaries: Vec<Object<'a>>,
    }
    let mut held: Vec<Object<'_>> = serde_json::from_str::<Summaries<'_>>(result)?.summaries;
    let is_something = |text: String| text.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    held.retain(|summary| is_something(field(summary, "balance")) || is_something(field(summary, "equity")));
    listed(SUMMARY, held, "no balances")
}

/// Formats a book: bids on the left, asks on the right, best first.
///
/// # Errors
/// If the result is not JSON of this form.
pub fn book(result: &str) -> ShowResult {
    #[derive(Deserialize)]
    struct BookRow<'a> {
        #[serde(borrow)]
        bids: Vec<Vec<&'a RawValue>>,
        #[serde(borrow)]
        asks: Vec<Vec<&'a RawValue>>,
    }
    let book: BookRow<'_> = serde_json::from_str(result)?;
    // A level is a price and an amount.
    let cell = |side: &[Vec<&RawValue>], row: usize, column: usize| {
        side.get(row).and_then(|level| level.get(column)).map_or(String::new(), |raw| plain(raw))
    };
    let mut table = TextTable::new(&["amount", "bid", "ask", "amount"]);
    let rows = book.bids.len().max(book.asks.len());
    for row in 0..rows {
        table.coloured_row(vec![
            (cell(&book.bids, row, 1), CellColour::Plain),
            (cell(&book.bids, row, 0), CellColour::Buy),
            (cell(&book.asks, row, 0), CellColour::Sell),
            (cell(&book.asks, row, 1), CellColour::Plain),
        ]);
    }
    Ok(if rows == 0 { "the book is empty".into() } else { table.text() })
}

/// Formats the volume-weighted average price of trades, as a table or as one line of JSON.
///
/// # Errors
/// If the result is not JSON of this form.
pub fn vwap(result: &str, as_json: bool) -> ShowResult {
    #[derive(Deserialize)]
    struct Trade {
        price: Value,
        amount: Value,
        timestamp: i64,
    }
    #[derive(Deserialize)]
    struct Trades {
        trades: Vec<Trade>,
    }
    let trades = serde_json::from_str::<Trades>(result)?.trades;
    if trades.is_empty() && !as_json {
        return Ok("no trades".into());
    }
    let volume = trades.iter().fold(Value::ZERO, |sum, trade| sum.plus(trade.amount));
    let turnover: f64 = trades.iter().map(|trade| trade.price.to_f64() * trade.amount.to_f64()).sum();
    let average = turnover / volume.to_f64();
    let first_ms = trades.iter().map(|trade| trade.timestamp).min();
    let last_ms = trades.iter().map(|trade| trade.timestamp).max();
    if as_json {
        let average = average.is_finite().then_some(average);
        return Ok(serde_json::json!({
            "vwap": average, "volume": volume.to_f64(), "trades": trades.len(),
            "first_timestamp": first_ms, "last_timestamp": last_ms,
        })
        .to_string());
    }
    let seconds = last_ms.zip(first_ms).map_or(0, |(last_ms, first_ms)| (last_ms - first_ms) / 1000);
    let mut table = TextTable::new(&["vwap", "volume", "trades", "seconds"]);
    table.row([format!("{average:.6}"), volume.to_string(), trades.len().to_string(), seconds.to_string()]);
    Ok(table.text())
}

fn listed(columns: &[&str], objects: Vec<Object<'_>>, none: &str) -> ShowResult {
    Ok(if objects.is_empty() { none.into() } else { table(columns, &objects) })
}

/// Formats objects as a table. Columns that no object has are omitted, because venues differ.
fn table(columns: &[&str], objects: &[Object<'_>]) -> String {
    let columns: Vec<&str> =
        columns.iter().copied().filter(|name| objects.iter().any(|object| !field(object, name).is_empty())).collect();
    let mut table = TextTable::new(&columns);
    for object in objects {
        table.row(columns.iter().map(|name| field(object, name)));
    }
    table.text()
}

fn field(object: &Object<'_>, name: &str) -> String {
    object.get(name).map_or(String::new(), |raw| plain(raw))
}

/// Formats a value: texts without quotes, numbers unchanged, null as nothing. Control characters
/// are removed.
fn plain(raw: &RawValue) -> String {
    let text = match raw.get() {
        "null" => String::new(),
        text if text.starts_with('"') => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
        text => text.into(),
    };
    printable(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_colours(shown: ShowResult) -> String {
        anstream::adapter::strip_str(&shown.unwrap()).to_string()
    }

    #[test]
    fn numbers_are_unchanged_and_aligned_to_the_right() {
        let answer = r#"[{"order_id":"7","price":3200.10,"amount":1e2,"label":"a\u001b[2J"},
                       {"order_id":"1234","price":99.5,"amount":5,"label":null}]"#;
        let expected =
            "order_id    price  amount  label\n       7  3200.10     1e2  a?[2J\n    1234     99.5       5\n";
        assert_eq!(without_colours(orders(answer)), expected);
        assert_eq!(orders("[]").unwrap(), "no open orders");
    }

    #[test]
    fn a_book_may_have_sides_of_unequal_depth() {
        let answer = r#"{"bids":[[10.5,3],[10.0,20]],"asks":[[11.0,1.25]]}"#;
        let expected = "amount   bid   ask  amount\n     3  10.5  11.0    1.25\n    20  10.0\n";
        assert_eq!(without_colours(book(answer)), expected);
        assert!(book(r#"{"bids":3}"#).is_err());
    }

    #[test]
    fn vwap_weighs_prices_by_their_amounts() {
        let trades =
            r#"{"trades":[{"price":10,"amount":3,"timestamp":5000},{"price":14,"amount":1,"timestamp":1000}]}"#;
        let expected = "     vwap  volume  trades  seconds\n11.000000       4       2        4\n";
        assert_eq!(without_colours(vwap(trades, false)), expected);
        let json: serde_json::Value = serde_json::from_str(&vwap(trades, true).unwrap()).unwrap();
        assert_eq!((json["vwap"].as_f64(), json["volume"].as_f64()), (Some(11.0), Some(4.0)));
        assert_eq!(vwap(r#"{"trades":[]}"#, false).unwrap(), "no trades");
        let json: serde_json::Value = serde_json::from_str(&vwap(r#"{"trades":[]}"#, true).unwrap()).unwrap();
        assert_eq!(json["vwap"], serde_json::Value::Null);
    }

    #[test]
    fn empty_balances_are_omitted() {
        let answer = r#"{"summaries":[{"currency":"ZAR","balance":5.00,"equity":5.00},{"currency":"BTC","balance":0.0,"equity":0}]}"#;
        assert_eq!(without_colours(balances(answer)), "currency  balance  equity\nZAR          5.00    5.00\n");
    }
}
