//! Checks that the expectation of a scenario has the shape of an outcome. A misspelled key would
//! otherwise go unnoticed.

use pitwire_model::ReportEnd;
use serde_json::Value;

use crate::json::{Node, ScenarioError};
use crate::rules::Contracts;
use crate::words::{is_derivation, is_reason_of_leaving, session_named};

const OF_EXPECTATIONS: &str = "rulebook: 19, expect";
const KEYS: [&str; 12] = [
    "trades",
    "book",
    "parked",
    "unelected",
    "rejected",
    "price",
    "closing",
    "steps",
    "off_book",
    "waiting",
    "last_price",
    "holdings",
];
const TRADE: [&str; 4] = ["buy", "sell", "qty", "price"];
const OFF_BOOK: [&str; 6] = ["id", "buy", "sell", "qty", "price", "number"];
const ROW: [&str; 4] = ["id", "qty", "price", "hidden"];

pub(crate) fn check_expectation(node: Node<'_>, steps: usize) -> Result<Value, ScenarioError> {
    let node = node.under(OF_EXPECTATIONS);
    let members = node.members(&KEYS)?;
    if let Some(trades) = members.get("trades") {
        for trade in trades.items()? {
            shape(trade, &TRADE)?;
        }
    }
    if let Some(book) = members.get("book") {
        let sides = book.members(&["bids", "offers"])?;
        for row in [sides.get("bids"), sides.get("offers")].into_iter().flatten().map(Node::items) {
            for row in row? {
                shape(row, &ROW)?;
            }
        }
    }
    for list in ["parked", "unelected", "rejected", "waiting"].iter().filter_map(|key| members.get(key)) {
        list.items()?.into_iter().try_for_each(|id| id.text().map(drop))?;
    }
    for price in ["price", "last_price"].iter().filter_map(|key| members.get(key)) {
        price.number(0)?;
    }
    if let Some(off_book) = members.get("off_book") {
        off_book.items()?.into_iter().try_for_each(|trade| shape(trade, &OFF_BOOK))?;
    }
    if let Some(holdings) = members.get("holdings") {
        for holding in holdings.any_members()? {
            shape(holding, &["goods", "money"])?;
        }
    }
    if let Some(closing) = members.get("closing") {
        shape(closing, &["price", "derivation"])?;
        if let Some(derivation) = closing.members(&["price", "derivation"])?.get("derivation")
            && !is_derivation(&derivation.text()?)
        {
            return Err(derivation.fault(format!("unknown derivation {}", derivation.shortened())));
        }
    }
    if let Some(list) = members.get("steps") {
        let judged = list.items()?;
        if judged.len() != steps {
            return Err(
                list.fault(format!("{} entries for {steps} steps; an empty object is not judged", judged.len()))
            );
        }
        for step in judged {
            if let Some(events) = step.members(&["events"])?.get("events") {
                events.items()?.into_iter().try_for_each(event)?;
            }
        }
    }
    node.value()
}

/// Checks that an object has only the keys in `keys` and that each value has the type that its key
/// requires.
fn shape(node: Node<'_>, keys: &[&str]) -> Result<(), ScenarioError> {
    let members = node.members(keys)?;
    for (key, value) in keys.iter().filter_map(|key| members.get(key).map(|value| (*key, value))) {
        match key {
            "qty" | "volume" | "number" => _ = value.number(0)?,
            "price" | "imbalance" | "goods" | "money" => _ = value.number(i64::MIN)?,
            "hidden" | "kept_priority" | "open" => _ = value.truth()?,
            _ => _ = value.text()?,
        }
    }
    Ok(())
}

fn event(node: Node<'_>) -> Result<(), ScenarioError> {
    const EVENTS: [(&str, &[&str]); 16] = [
        ("accepted", &["type", "id"]),
        ("rejected", &["type", "id", "reason", "rule"]),
        ("parked", &["type", "id", "qty"]),
        ("injected", &["type", "id", "qty"]),
        ("triggered", &["type", "id"]),
        ("trade", &["type", "buy", "sell", "qty", "price"]),
        ("cancelled", &["type", "id", "qty"]),
        ("expired", &["type", "id", "qty", "reason"]),
        ("amended", &["type", "id", "price", "qty", "kept_priority"]),
        ("indicative", &["type", "price", "volume", "imbalance"]),
        ("session", &["type", "to"]),
        ("breaker", &["type", "price"]),
        ("reporting", &["type", "open"]),
        ("reported", &["type", "id"]),
        ("report_ended", &["type", "id", "reason"]),
        ("off_book_trade", &["type", "id", "buy", "sell", "qty", "price", "number"]),
    ];
    const ANY: [&str; 16] = [
        "type",
        "id",
        "reason",
        "rule",
        "qty",
        "buy",
        "sell",
        "price",
        "kept_priority",
        "volume",
        "imbalance",
        "to",
        "at",
        "derivation",
        "open",
        "number",
    ];
    let kind = node.members(&ANY)?.need("type")?;
    let word = kind.text()?;
    let Some((_, keys)) = EVENTS.iter().find(|(name, _)| *name == word) else {
        let names = EVENTS.map(|(name, _)| name).join(", ");
        return Err(kind.fault(format!("unknown event {word:?}; one of {names}")));
    };
    shape(node, keys)?;
    let members = node.members(keys)?;
    if let Some(reason) = members.get("reason") {
        let named = reason.text()?;
        let known = match word.as_str() {
            "rejected" => Contracts::get().knows(&named),
            "report_ended" => ReportEnd::ALL.iter().any(|end| end.name() == named),
            _ => is_reason_of_leaving(&named),
        };
        if !known {
            return Err(reason.fault(format!("unknown reason {named:?} of {word}")));
        }
    }
    if let Some(to) = members.get("to")
        && session_named(&to.text()?).is_none()
    {
        return Err(to.fault(format!("unknown session {}", to.shortened())));
    }
    Ok(())
}
