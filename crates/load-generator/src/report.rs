//! The result of a run, of one thread or of all.
//!
//! Does        holds counters and latencies, and merges those of several threads and processes.
//! Start at    [`LoadReport`].

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::machine_load::MachineLoad;
use crate::open_failure::OpenFailure;
use crate::spread::DeliverySpread;

/// Largest recorded latency, in nanoseconds. Larger ones count as this.
const MOST_NS: u64 = 3_600_000_000_000;
/// Above this part of the time, running or waiting for a processor, a generator thread is the
/// bottleneck.
const BOUND: f64 = 0.9;

/// Counters of a run. `late` and the counters of answers cover healthy readers only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadCounters {
    pub opened: u64,
    /// Connections that never opened.
    pub failed: u64,
    /// Healthy readers whose connection ended early, by the server or after a protocol violation.
    pub ended_early: u64,
    /// Slow and stopped readers whose connection the server ended.
    pub faulty_ended: u64,
    /// Connections that were open while measuring and received nothing.
    pub silent: u64,
    /// Messages received while measuring, and their payload bytes.
    pub deliveries: u64,
    pub bytes: u64,
    /// Those of `deliveries` that went to slow readers.
    pub slow_deliveries: u64,
    pub late: u64,
    /// Those of `late` that were due more than a second before the end and had not arrived by then.
    pub undelivered: u64,
    pub lost: u64,
    pub conflated: u64,
    pub gap_notices: u64,
    pub duplicated: u64,
    /// Messages without a sequence number.
    pub unnumbered: u64,
    /// Messages without a due time, or with one of another clock.
    pub untimed: u64,
    /// Answers of the wrong size or content, or out of order.
    pub malformed: u64,
    pub sent: u64,
    /// Messages that were due while their connection was not open.
    pub unsent: u64,
    pub reads: u64,
    /// Failed attempts to open a connection again during a storm.
    pub storm_retries: u64,
    pub violations: u64,
}

impl LoadCounters {
    pub fn add(&mut self, other: &LoadCounters) {
        let pairs: [(&mut u64, u64); 22] = [
            (&mut self.opened, other.opened),
            (&mut self.failed, other.failed),
            (&mut self.ended_early, other.ended_early),
            (&mut self.faulty_ended, other.faulty_ended),
            (&mut self.silent, other.silent),
            (&mut self.deliveries, other.deliveries),
            (&mut self.bytes, other.bytes),
            (&mut self.slow_deliveries, other.slow_deliveries),
            (&mut self.late, other.late),
            (&mut self.undelivered, other.undelivered),
            (&mut self.lost, other.lost),
            (&mut self.conflated, other.conflated),
            (&mut self.gap_notices, other.gap_notices),
            (&mut self.duplicated, other.duplicated),
            (&mut self.unnumbered, other.unnumbered),
            (&mut self.untimed, other.untimed),
            (&mut self.malformed, other.malformed),
            (&mut self.sent, other.sent),
            (&mut self.unsent, other.unsent),
            (&mut self.reads, other.reads),
            (&mut self.storm_retries, other.storm_retries),
            (&mut self.violations, other.violations),
        ];
        for (mine, theirs) in pairs {
            *mine += theirs;
        }
    }
}

/// Latencies from the intended send to the read of the last byte, in nanoseconds, with three
/// digits.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "Vec<(u64, u64)>", from = "Vec<(u64, u64)>")]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        // The bounds are constants in order and three digits are allowed, so this cannot fail.
        Latencies(Histogram::new_with_bounds(1, MOST_NS, 3).unwrap_or_else(|_| unreachable!()))
    }
}

impl Latencies {
    #[inline]
    pub fn record(&mut self, ns: i64) {
        self.0.saturating_record(u64::try_from(ns).unwrap_or(0));
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the latency at a percentile in microseconds, or `None` if nothing was recorded.
    #[allow(clippy::cast_precision_loss)]
    pub fn percentile_us(&self, percent: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(percent / 100.0) as f64 / 1e3)
    }

    #[allow(clippy::cast_precision_loss)]
    pub fn max_us(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.max() as f64 / 1e3)
    }

    pub fn merge(&mut self, other: &Latencies) {
        for value in other.0.iter_recorded() {
            self.0.saturating_record_n(value.value_iterated_to(), value.count_at_value());
        }
    }
}

impl From<Latencies> for Vec<(u64, u64)> {
    fn from(latencies: Latencies) -> Self {
        latencies.0.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
    }
}

impl From<Vec<(u64, u64)>> for Latencies {
    fn from(pairs: Vec<(u64, u64)>) -> Self {
        let mut latencies = Latencies::default();
        for (value, count) in pairs {
            latencies.0.saturating_record_n(value, count);
        }
        latencies
    }
}

/// A reason why connections did not open, and how many it concerns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureCount {
    pub cause: String,
    pub remedy: String,
    pub count: u64,
}

/// CPU use of the load client while measuring.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GeneratorLoad {
    pub threads: usize,
    pub cpu_ns: u64,
    /// Largest part of the time that a thread ran, and that a thread waited for a processor.
    pub busy: f64,
    pub waiting: f64,
    /// The largest sum of both over all threads.
    pub demand: f64,
}

impl GeneratorLoad {
    pub fn is_bound(&self) -> bool {
        self.demand > BOUND
    }

    fn merge(&mut self, other: &GeneratorLoad) {
        self.threads += other.threads;
        self.cpu_ns += other.cpu_ns;
        self.busy = self.busy.max(other.busy);
        self.waiting = self.waiting.max(other.waiting);
        self.demand = self.demand.max(other.demand);
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LoadReport {
    pub counters: LoadCounters,
    pub latencies: Latencies,
    /// Latencies until the bytes reached our socket, for a sample of the same messages. This is the
    /// server's part.
    pub arrivals: Latencies,
    pub spread: DeliverySpread,
    /// From the due time of our messages until they were sent.
    pub schedule_lateness: Latencies,
    pub generator: GeneratorLoad,
    pub machine: MachineLoad,
    pub failures: Vec<FailureCount>,
    /// Close codes from the server, and how often. 1006 stands for none.
    pub closes: BTreeMap<u16, u64>,
    /// Protocol violations of the server, each listed once.
    pub violations: Vec<String>,
    /// How long it took until every connection was open, and until all were open again after a
    /// storm.
    pub opening_ns: u64,
    pub storm_ns: Option<u64>,
    /// How long the run measured, in nanoseconds.
    pub measured_ns: u64,
    /// When the run ended. The spread of messages that were due shortly before is incomplete.
    pub end_ns: i64,
}

impl LoadReport {
    pub fn failed(&mut self, refusal: &OpenFailure) {
        self.failed_as(&refusal.to_string(), refusal.remedy(), 1);
    }

    fn failed_as(&mut self, cause: &str, remedy: &str, count: u64) {
        match self.failures.iter_mut().find(|known| known.cause == cause) {
            Some(known) => known.count += count,
            None => self.failures.push(FailureCount { cause: cause.into(), remedy: remedy.into(), count }),
        }
    }

    pub fn closed(&mut self, code: u16) {
        *self.closes.entry(code).or_default() += 1;
    }

    pub fn violation(&mut self, what: &str) {
        self.counters.violations += 1;
        if !self.violations.iter().any(|known| known == what) {
            self.violations.push(what.into());
        }
    }

    /// Adds the report of another thread or process of the same run.
    pub fn merge(&mut self, other: LoadReport) {
        self.counters.add(&other.counters);
        self.latencies.merge(&other.latencies);
        self.arrivals.merge(&other.arrivals);
        self.spread.merge(other.spread);
        self.schedule_lateness.merge(&other.schedule_lateness);
        self.generator.merge(&other.generator);
        self.machine.merge(other.machine);
        for failures in &other.failures {
            self.failed_as(&failures.cause, &failures.remedy, failures.count);
        }
        for (code, count) in other.closes {
            *self.closes.entry(code).or_default() += count;
        }
        for what in other.violations {
            if !self.violations.contains(&what) {
                self.violations.push(what);
            }
        }
        self.opening_ns = self.opening_ns.max(other.opening_ns);
        self.storm_ns = self.storm_ns.max(other.storm_ns);
        self.measured_ns = self.measured_ns.max(other.measured_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
    }

    /// Returns the median and the 99th percentile of the time between the first and the last
    /// connection that received a sampled message, in microseconds. `None` if connections have
    /// separate sequence numbers.
    pub fn spread_us(&self) -> Option<(f64, f64)> {
        self.of_spread(DeliverySpread::widths_ns)
    }

    /// Returns the same percentiles of the time from when a message was due until the last
    /// connection had it.
    pub fn last_us(&self) -> Option<(f64, f64)> {
        self.of_spread(DeliverySpread::last_delivery_ns)
    }

    #[allow(clippy::cast_precision_loss)]
    fn of_spread(&self, ascending_ns: impl Fn(&DeliverySpread, i64) -> Vec<i64>) -> Option<(f64, f64)> {
        if self.spread.has_conflict() {
            return None;
        }
        let all = ascending_ns(&self.spread, self.end_ns.saturating_sub(crate::plan::LATE_NS));
        let at = |part: usize| all.get((all.len() * part / 100).min(all.len().saturating_sub(1)));
        Some((*at(50)? as f64 / 1e3, *at(99)? as f64 / 1e3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_merge_after_serialisation() {
        let part = |ns: i64, refused: u64| {
            let mut report = LoadReport { opening_ns: 5, ..LoadReport::default() };
            report.latencies.record(ns);
            report.counters.deliveries = 1;
            report.generator = GeneratorLoad { threads: 1, cpu_ns: 10, busy: 0.5, waiting: 0.1, demand: 0.6 };
            for _ in 0..refused {
                report.failed(&OpenFailure::Silent);
            }
            report.closed(1013);
            report
        };
        let mut whole = part(1_000, 1);
        let written = serde_json::to_string(&part(3_000_000, 2)).unwrap();
        whole.merge(serde_json::from_str(&written).unwrap());
        assert_eq!((whole.counters.deliveries, whole.latencies.count(), whole.closes[&1013]), (2, 2, 2));
        assert_eq!((whole.generator.threads, whole.generator.cpu_ns, whole.failures[0].count), (2, 20, 3));
        // Three digits of precision.
        assert!((whole.latencies.max_us().unwrap() - 3_000.0).abs() < 3.0);
        assert!((whole.latencies.percentile_us(50.0).unwrap() - 1.0).abs() < 0.001);
        assert!(!whole.generator.is_bound());
    }

    #[test]
    fn latencies_out_of_range_are_clamped() {
        let mut latencies = Latencies::default();
        latencies.record(-5);
        latencies.record(i64::MAX);
        assert_eq!(latencies.count(), 2);
        assert_eq!(Latencies::default().percentile_us(99.0), None);
    }
}
