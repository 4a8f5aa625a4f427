//! Server latency of WebSocket requests, from receive to send, by stage.
//!
//! Costs       two clock readings per connection and loop turn, two per turn, and four histogram
//!             entries: about 150 ns in total, which the figures include.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use pitwire_net::ServerLatency;

/// The total, then its parts.
const STAGES: [&str; 4] = ["whole", "acting", "committing", "sending"];
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

pub struct LatencyHistograms {
    stages: [Histogram<u64>; STAGES.len()],
    sums_ns: [u64; STAGES.len()],
}

impl Default for LatencyHistograms {
    fn default() -> Self {
        // The histogram accepts these constant bounds.
        let histogram = || Histogram::new_with_bounds(1, 10_000_000_000, 2).expect("a histogram from 1 ns to 10 s");
        LatencyHistograms { stages: std::array::from_fn(|_| histogram()), sums_ns: [0; STAGES.len()] }
    }
}

impl LatencyHistograms {
    pub fn record(&mut self, latency: &ServerLatency) {
        let ServerLatency { requests, acting_ns, committing_ns, sending_ns } = *latency;
        let times = [latency.whole_ns(), acting_ns, committing_ns, sending_ns];
        for ((stage, sum), ns) in self.stages.iter_mut().zip(&mut self.sums_ns).zip(times) {
            stage.saturating_record_n(ns.max(1), u64::from(requests));
            *sum += ns * u64::from(requests);
        }
    }

    pub fn render(&self, out: &mut String) {
        let name = "pitwire_request_residence_seconds";
        // Writing to a String cannot fail.
        let _ = writeln!(out, "# HELP {name} From a request's read to the send of its answer, over WebSocket.");
        let _ = writeln!(out, "# TYPE {name} summary");
        let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        for ((stage, times), sum) in STAGES.iter().zip(&self.stages).zip(self.sums_ns) {
            for quantile in QUANTILES {
                let value = seconds(times.value_at_quantile(quantile));
                let _ = writeln!(out, "{name}{{stage=\"{stage}\",quantile=\"{quantile}\"}} {value}");
            }
            let _ = writeln!(out, "{name}_sum{{stage=\"{stage}\"}} {}", seconds(sum));
            let _ = writeln!(out, "{name}_count{{stage=\"{stage}\"}} {}", times.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_counts_and_stages_add_up() {
        let mut times = LatencyHistograms::default();
        times.record(&ServerLatency { requests: 3, acting_ns: 4_000, committing_ns: 1_000, sending_ns: 500 });
        times.record(&ServerLatency { requests: 1, acting_ns: 90_000, committing_ns: 0, sending_ns: 0 });
        let mut out = String::new();
        times.render(&mut out);
        let value = |row: &str| {
            let found =
                out.lines().find_map(|line| line.strip_prefix(&format!("pitwire_request_residence_seconds{row} ")));
            found.unwrap_or_else(|| panic!("no {row} in {out}")).parse::<f64>().unwrap()
        };
        assert!((value("_count{stage=\"whole\"}") - 4.0).abs() < 1e-12);
        assert!((value("_sum{stage=\"whole\"}") - 106.5e-6).abs() < 1e-12);
        assert!((value("{stage=\"whole\",quantile=\"0.5\"}") - 5.5e-6).abs() < 0.1e-6);
        assert!((value("{stage=\"acting\",quantile=\"0.999\"}") - 90e-6).abs() < 1e-6);
    }
}
