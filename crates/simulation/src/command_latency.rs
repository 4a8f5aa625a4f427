//! The time that a run spends in the engine for each command.
//!
//! Leaves out  the report, because a report depends on the tape only and these times do not.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longest time of the histogram, in nanoseconds. Longer times count as this one.
const MOST_NS: u64 = 60_000_000_000;
/// Least upper bound of a bar, in nanoseconds. Each bound is twice the one before.
const FIRST_BOUND_NS: u64 = 128;

/// A histogram of times.
#[derive(Clone, Debug)]
pub struct CommandLatency(Histogram<u64>);

impl CommandLatency {
    /// Returns an empty histogram with two significant digits. `None` would mean wrong constants.
    pub fn new() -> Option<CommandLatency> {
        Histogram::new_with_bounds(1, MOST_NS, 2).ok().map(CommandLatency)
    }

    pub fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(MOST_NS).max(1));
    }

    pub fn figures(&self) -> LatencyFigures {
        let mut bars = Vec::new();
        let (mut below_ns, mut from_ns) = (FIRST_BOUND_NS, 0);
        while from_ns < self.0.max() {
            let commands = self.0.count_between(from_ns, below_ns - 1);
            if commands > 0 || !bars.is_empty() {
                bars.push(LatencyBar { below_ns, commands });
            }
            (from_ns, below_ns) = (below_ns, below_ns.saturating_mul(2));
        }
        let at = |quantile: f64| self.0.value_at_quantile(quantile);
        LatencyFigures { p50_ns: at(0.5), p99_ns: at(0.99), p99_9_ns: at(0.999), max_ns: self.0.max(), bars }
    }
}

/// Times of the commands of a run, which depend on the machine.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyFigures {
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub p99_9_ns: u64,
    pub max_ns: u64,
    /// From the first time that occurred to the last.
    pub bars: Vec<LatencyBar>,
}

/// Commands whose time is below the bound of this bar, and at least the bound of the bar before.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyBar {
    pub below_ns: u64,
    pub commands: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_bar() {
        let mut latency = CommandLatency::new().unwrap();
        for ns in [1, 100, 200, 300, 5_000, 90_000_000_000] {
            latency.record(Duration::from_nanos(ns));
        }
        let LatencyFigures { bars, p50_ns, max_ns, .. } = latency.figures();
        assert_eq!(bars.iter().map(|bar| bar.commands).sum::<u64>(), 6);
        assert_eq!((bars[0].below_ns, bars[0].commands), (128, 2));
        assert_eq!((bars[1].below_ns, bars[1].commands), (256, 1));
        assert!((200..=203).contains(&p50_ns), "{p50_ns}");
        assert!(max_ns >= MOST_NS);
    }

    #[test]
    fn without_a_command_there_is_no_bar() {
        assert!(CommandLatency::new().unwrap().figures().bars.is_empty());
    }
}
