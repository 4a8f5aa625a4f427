//! Latency histograms and the figures printed from them.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// A histogram of latencies in nanoseconds, from 1 ns to ten minutes.
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// Creates an empty histogram.
    pub fn new() -> Self {
        // The histogram accepts these constants.
        Latencies(Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("a histogram from 1 ns to ten minutes"))
    }

    /// Adds one latency. Values outside the bounds count as the nearest bound.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    /// Adds all latencies of another histogram.
    pub fn add(&mut self, other: &Latencies) {
        // Both histograms have the same bounds.
        let _ = self.0.add(&other.0);
    }

    /// Returns the histogram, in nanoseconds.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }

    /// Returns the latency at a quantile between 0 and 1, in nanoseconds.
    pub fn at(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile)
    }

    /// Returns count, percentiles and maximum as JSON, in microseconds.
    pub fn figures(&self) -> Value {
        json!({
            "count": self.0.len(), "p50_us": us(self.at(0.5)), "p90_us": us(self.at(0.9)), "p99_us": us(self.at(0.99)),
            "p999_us": us(self.at(0.999)), "max_us": us(self.0.max()),
        })
    }
}

/// Converts a duration to nanoseconds, at most `u64::MAX`.
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Converts nanoseconds to microseconds with one decimal.
#[allow(clippy::cast_precision_loss)]
pub fn us(ns: u64) -> f64 {
    (ns as f64 / 100.0).round() / 10.0
}

/// Returns the ratio with three decimals.
#[allow(clippy::cast_precision_loss)]
pub fn ratio(of: u64, to: u64) -> f64 {
    (of as f64 / to.max(1) as f64 * 1000.0).round() / 1000.0
}

/// Returns the middle value, or 0 if there is none.
pub fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_value_and_ratios_are_rounded() {
        assert_eq!(median(vec![9, 1, 5]), 5);
        assert_eq!(median(Vec::new()), 0);
        assert!((ratio(5, 4) - 1.25).abs() < f64::EPSILON);
        assert!((us(1_949) - 1.9).abs() < f64::EPSILON);
    }
}
