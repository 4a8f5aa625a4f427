//! The tables `events` and `instruments` of `pitwire export` in CSV.
//!
//! Start at    [`read_export`].

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;

use pitwire_failure::Failure;
use pitwire_model::{Lots, Phase, Side, Ticks, VenueNanos};
use serde_json::Value;

use crate::tape::{RecordedTape, RecordedTrade, TapeAction, TapeStep};

fn unreadable(what: String) -> Failure {
    Failure::new(format!("cannot read the export: {what}"))
        .remedy("give the directory that `pitwire export` wrote, with --format csv")
}

fn table(path: &Path) -> Result<csv::Reader<File>, Failure> {
    csv::Reader::from_path(path).map_err(|error| unreadable(format!("{}: {error}", path.display())))
}

/// Returns the number of an instrument in an export.
fn security_id(directory: &Path, instrument: &str) -> Result<String, Failure> {
    let path = directory.join("instruments.csv");
    let mut names = Vec::new();
    for record in table(&path)?.records() {
        let record = record.map_err(|error| unreadable(error.to_string()))?;
        let (id, name) = (record.get(0).unwrap_or_default(), record.get(1).unwrap_or_default());
        if name == instrument {
            return Ok(id.to_owned());
        }
        names.push(name.to_owned());
    }
    Err(Failure::new(format!("the export has no instrument {instrument:?}"))
        .remedy(format!("give one of {}", names.join(", "))))
}

/// Reads the orders of one instrument.
///
/// # Errors
///
/// Returns a failure if a table is missing or malformed, the instrument is unknown, or a time is
/// before that of an earlier row.
pub fn read_export(directory: &Path, instrument: &str) -> Result<RecordedTape, Failure> {
    let id = security_id(directory, instrument)?;
    let path = directory.join("events.csv");
    let mut reader = table(&path)?;
    let header = reader.headers().map_err(|error| unreadable(error.to_string()))?.clone();
    let place = |name: &str| {
        header.iter().position(|known| known == name).ok_or_else(|| unreadable(format!("there is no column {name}")))
    };
    let (time, kind, security, fields) = (place("TimeNs")?, place("Type")?, place("SecurityId")?, place("Fields")?);
    let seq = place("Seq")?;
    // Trades of no order on the tape, with their command: an uncross comes before its session.
    let mut uncross: (String, Vec<RecordedTrade>) = (String::new(), Vec::new());
    let mut tape = RecordedTape::default();
    let mut last = VenueNanos(0);
    // Orders of kinds that the replay does not know.
    let mut unknown: HashSet<u64> = HashSet::new();
    for (line, record) in (2_u64..).zip(reader.records()) {
        let record = record.map_err(|error| unreadable(error.to_string()))?;
        let field = |at: usize| record.get(at).unwrap_or_default();
        if field(security) != id {
            continue;
        }
        let malformed = || unreadable(format!("events.csv, line {line}"));
        let at = VenueNanos(field(time).parse().map_err(|_| malformed())?);
        if at < last {
            let what = format!("events.csv, line {line}: TimeNs {} is before that of an earlier row", at.0);
            return Err(unreadable(what));
        }
        last = at;
        let values: Value = serde_json::from_str(field(fields)).map_err(|_| malformed())?;
        let number = |name: &str| values[name].as_u64().ok_or_else(malformed);
        let price = |value: &Value| value.as_i64().map(Ticks).ok_or_else(malformed);
        match field(kind) {
            "accepted" => {
                let order = number("order")?;
                let Some(action) = entry(&values, order) else {
                    unknown.insert(order);
                    tape.unsupported += 1;
                    continue;
                };
                tape.steps.push(TapeStep { at, action, trades: Vec::new() });
            }
            "cancelled" if values["reason"] != "immediate_remainder" => {
                let id = number("order")?;
                if !unknown.contains(&id) {
                    tape.steps.push(TapeStep { at, action: TapeAction::Delete { id }, trades: Vec::new() });
                }
            }
            "amended" if !unknown.contains(&number("order")?) => {
                let action = TapeAction::Amend {
                    id: number("order")?,
                    price: price(&values["price"])?,
                    lots: Lots(number("lots")?),
                };
                tape.steps.push(TapeStep { at, action, trades: Vec::new() });
            }
            "session_changed" | "phase_changed" if values["from"] != values["to"] || values["to"].is_null() => {
                let name = values["to"].as_str().or(values["phase"].as_str());
                let to = Phase::ALL.into_iter().find(|phase| Some(phase.name()) == name).ok_or_else(malformed)?;
                let trades = if uncross.0 == field(seq) { std::mem::take(&mut uncross.1) } else { Vec::new() };
                tape.hidden_trades -= trades.len() as u64;
                tape.steps.push(TapeStep { at, action: TapeAction::Session { to }, trades });
            }
            "trade" => {
                let (maker, taker) = (number("maker")?, number("taker")?);
                let trade = RecordedTrade { maker, price: price(&values["price"])?, lots: Lots(number("lots")?) };
                let makes_it = |step: &&mut TapeStep| match step.action {
                    TapeAction::Enter { id, .. } | TapeAction::Amend { id, .. } => id == taker,
                    _ => false,
                };
                match tape.steps.last_mut().filter(makes_it) {
                    Some(step) if !unknown.contains(&maker) => step.trades.push(trade),
                    _ => {
                        tape.hidden_trades += 1;
                        if uncross.0 != field(seq) {
                            uncross = (field(seq).to_owned(), Vec::new());
                        }
                        if !unknown.contains(&maker) && !unknown.contains(&taker) {
                            uncross.1.push(trade);
                        }
                    }
                }
            }
            _ => {}
        }
    }
    Ok(tape)
}

/// Returns the entry of an order, if the replay supports its kind.
fn entry(values: &Value, id: u64) -> Option<TapeAction> {
    let side = match values["side"].as_str()? {
        "buy" => Side::Buy,
        "sell" => Side::Sell,
        _ => return None,
    };
    let order_type = &values["order_type"];
    let price = match (order_type.as_str(), order_type["is"].as_str()) {
        (Some("market"), _) => None,
        (None, Some("limit")) => Some(Ticks(order_type["price"].as_i64()?)),
        _ => return None,
    };
    let rests = match values["tif"].as_str()? {
        "ioc" => false,
        "gtc" | "day" => price.is_some(),
        _ => return None,
    };
    let lots = Lots(values["lots"].as_u64()?);
    values["display"].is_null().then_some(TapeAction::Enter { id, side, price, lots, rests })
}
