//! Orders of the user, from a CSV file.
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

/// Reads orders with the columns `TimeNs`, `Side` (`Buy` or `Sell`), `PriceTicks` (empty for a
/// market order), `VolumeLots` and, if there is one, `CancelNs`. Returns them in order of time.
///
/// # Errors
///
/// Returns a failure with the line of a malformed row.
pub fn read_own_orders(input: impl Read) -> Result<Vec<OwnOrder>, Failure> {
    let mut orders = Vec::new();
    for (line, row) in (2_u64..).zip(csv::Reader::from_reader(input).into_deserialize::<OrderRow>()) {
        let failed = |what: String| {
            Failure::new(format!("cannot read the orders: line {line}: {what}"))
                .remedy("give the columns TimeNs, Side, PriceTicks, VolumeLots and CancelNs")
        };
        let row = row.map_err(|error| failed(error.to_string()))?;
        let side = match row.side.as_str() {
            "Buy" => Side::Buy,
            "Sell" => Side::Sell,
            other => return Err(failed(format!("Side is {other:?}, not Buy or Sell"))),
        };
        if !(1..=Lots::MAX_ORDER.0).contains(&row.lots) {
            return Err(failed(format!("VolumeLots is {}", row.lots)));
        }
        if row.price.is_some_and(|price| !(1..=Ticks::MAX_PRICE.0).contains(&price)) {
            return Err(failed("PriceTicks is out of range".into()));
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
