//! Latency tables: as text and as JSON.

use pitwire_benchmarks::orders::Latencies;
use pitwire_terminal::text_table::TextTable;
use serde_json::{Map, Value, json};

/// The quantiles of every table, with their names.
pub const QUANTILES: [(f64, &str); 5] =
    [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99_9"), (0.9999, "p99_99")];
/// A quantile needs this many values above it.
const MIN_VALUES_ABOVE: f64 = 100.0;

/// Returns a quantile in microseconds, or `None` if too few values lie above it.
#[allow(clippy::cast_precision_loss)]
pub fn quantile_us(latencies: &Latencies, quantile: f64) -> Option<f64> {
    let values_above = latencies.histogram().len() as f64 * (1.0 - quantile);
    // The product has a rounding error below one millionth.
    (values_above > MIN_VALUES_ABOVE - 1e-6).then(|| microseconds(latencies.at(quantile)))
}

/// Converts nanoseconds to microseconds with two decimals.
#[allow(clippy::cast_precision_loss)]
pub fn microseconds(ns: u64) -> f64 {
    (ns as f64 / 10.0).round() / 100.0
}

/// Returns count, quantiles and maximum, in microseconds. A quantile with too few values is null.
pub fn json_of(latencies: &Latencies) -> Value {
    let mut fields = Map::new();
    fields.insert("count".into(), json!(latencies.histogram().len()));
    for (quantile, name) in QUANTILES {
        fields.insert(format!("{name}_us"), json!(quantile_us(latencies, quantile)));
    }
    fields.insert("max_us".into(), json!(microseconds(latencies.histogram().max())));
    Value::Object(fields)
}

/// Returns the cells of a row behind its name: count, quantiles and maximum.
pub fn cells(latencies: &Latencies) -> Vec<String> {
    let quantiles = QUANTILES.map(|(quantile, _)| quantile_us(latencies, quantile));
    let mut cells = vec![latencies.histogram().len().to_string()];
    cells.extend(quantiles.map(|us| us.map_or_else(|| "-".into(), |us| format!("{us:.1}"))));
    cells.push(format!("{:.1}", microseconds(latencies.histogram().max())));
    cells
}

/// Makes a table of latencies in microseconds.
pub fn table<'a>(head: &str, rows: impl IntoIterator<Item = (&'a str, &'a Latencies)>) -> String {
    let mut table = TextTable::new(&[head, "count", "p50", "p90", "p99", "p99.9", "p99.99", "max"]);
    for (name, latencies) in rows {
        table.row(std::iter::once(name.to_owned()).chain(cells(latencies)));
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_is_printed_only_with_100_values_above_it() {
        let mut latencies = Latencies::new();
        for value in 1..=9_999 {
            latencies.record(value);
        }
        assert!(quantile_us(&latencies, 0.9).is_some());
        assert_eq!(quantile_us(&latencies, 0.99), None);
        latencies.record(10_000);
        assert!(quantile_us(&latencies, 0.99).is_some());
        assert_eq!(json_of(&latencies)["p99_9_us"], Value::Null);
    }
}
