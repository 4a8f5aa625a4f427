//! Reads the user's own orders from a CSV file.
//!
//! Start at    [`read_own_orders`].

use std::io::Read;

use pitwire_failure::Failure;
use pitwire_model::{Lots, Side, Ticks, VenueNanos};
use serde::Deserialize;

/// An order of the user.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnOrder {
    pub at: VenueNanos,
    pub side: Side,
    /// `None` for a market order.
    pub price: Option<Ticks>,
    pub lots: Lots,
    /// When the order is cancelled, if it still rests.
    pub cancel_at: Option<VenueNanos>,
}

/// A row of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OrderRow {
    #[serde(rename = "TimeNs")]
    time: u64,
    #[serde(rename = "Side")]
    side: String,
    #[serde(rename = "PriceTicks")]
    price: Option<i64>,
    #[serde(rename = "VolumeLots")]
    lots: u64,
    #[serde(rename = "CancelNs", default)]
    cancel: Option<u64>,
}

/// The columns of the file. The last one may be missing.
const COLUMNS: [&str; 5] = ["TimeNs", "Side", "PriceTicks", "VolumeLots", "CancelNs"];

/// Reads orders with the columns `TimeNs`, `Side` (`Buy` or `Sell`), `PriceTicks` (empty for a
/// market order), `VolumeLots` and the optional `CancelNs`. Returns them in order of time.
///
/// # Errors
///
/// Fails if a row is malformed or the header has other columns. The failure names the line.
pub fn read_own_orders(input: impl Read) -> Result<Vec<OwnOrder>, Failure> {
    let failed = |line: u64, what: String| {
        Failure::new(format!("cannot read the orders: line {line}: {what}"))
            .remedy("give the columns TimeNs, Side, PriceTicks, VolumeLots and CancelNs")
    };
    let mut reader = csv::Reader::from_reader(input);
    let head = reader.headers().map_err(|error| failed(1, error.to_string()))?.clone();
    if let Some(unknown) = head.iter().find(|column| !COLUMNS.contains(column)) {
        return Err(failed(1, format!("unknown column {unknown:?}")));
    }
    if let Some(missing) = COLUMNS[..4].iter().find(|column| !head.iter().any(|known| known == **column)) {
        return Err(failed(1, format!("no column {missing}")));
    }
    let mut orders = Vec::new();
    let mut record = csv::StringRecord::new();
    for line in 2_u64.. {
        let failed = |what: String| failed(line, what);
        if !reader.read_record(&mut record).map_err(|error| failed(csv_fault(&error)))? {
            break;
        }
        let row: OrderRow =
            record.deserialize(Some(&head)).map_err(|error| failed(field_fault(&error, &head, &record)))?;
        let side = match row.side.as_str() {
            "Buy" => Side::Buy,
            "Sell" => Side::Sell,
            other => return Err(failed(format!("Side is {other:?}, expected Buy or Sell"))),
        };
        if !(1..=Lots::MAX_ORDER.0).contains(&row.lots) {
            return Err(failed(format!("VolumeLots is {}, expected 1 to {}", row.lots, Lots::MAX_ORDER.0)));
        }
        if let Some(price) = row.price.filter(|price| !(1..=Ticks::MAX_PRICE.0).contains(price)) {
            return Err(failed(format!("PriceTicks is {price}, expected 1 to {}", Ticks::MAX_PRICE.0)));
        }
        orders.push(OwnOrder {
            at: VenueNanos(row.time),
            side,
            price: row.price.map(Ticks),
            lots: Lots(row.lots),
            cancel_at: row.cancel.map(VenueNanos),
        });
    }
    orders.sort_by_key(|order| order.at);
    Ok(orders)
}

/// Describes a row that is not valid CSV, or has too few or too many fields.
fn csv_fault(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("the row has {len} fields, expected {expected_len}")
        }
        _ => error.to_string(),
    }
}

/// Describes a field that is not a number.
fn field_fault(error: &csv::Error, head: &csv::StringRecord, record: &csv::StringRecord) -> String {
    let field = match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => err.field().and_then(|field| usize::try_from(field).ok()),
        _ => None,
    };
    match field.and_then(|field| Some((head.get(field)?, record.get(field)?))) {
        Some((column, value)) => format!("{column} is {value:?}, expected a whole number"),
        None => error.to_string(),
    }
}
