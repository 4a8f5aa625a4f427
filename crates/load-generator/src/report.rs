//! What came of a run, of one thread or of all.
//!
//! Does        counters and latencies that can be added up, over threads and over processes.
//! Start at    [`Report`].

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;
use crate::spread::Spread;

/// Above this a latency is counted as this.
const MOST_NS: u64 = 3_600_000_000_000;
/// A generator thread that has or wants the processor more than this part of the time is the bottleneck.
const BOUND: f64 = 0.9;

/// Events of a run. Latencies, `late` and what came of answers are of healthy readers only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub opened: u64,
    /// Never opened.
    pub failed: u64,
    /// Healthy readers that the server, or a breach of the protocol, ended before their time.
    pub ended_early: u64,
    /// Slow and stopped readers that the server ended.
    pub faulty_ended: u64,
    /// Opened while it lasted, and never got anything.
    pub silent: u64,
    /// Messages while it lasted, and their payload.
    pub deliveries: u64,
    pub bytes: u64,
    /// Of those, to slow readers.
    pub slow_deliveries: u64,
    pub late: u64,
    /// Of `late`: due more than a second before the end, and not there at the end.
    pub undelivered: u64,
    pub lost: u64,
    pub conflated: u64,
    pub gap_notices: u64,
    pub duplicated: u64,
    /// Without a sequence number.
    pub unnumbered: u64,
    /// Without a time, or with one that cannot be meant.
    pub untimed: u64,
    /// Answers of another size or content than was asked for, or out of order.
    pub malformed: u64,
    pub sent: u64,
    /// Due while their connection was not open.
    pub unsent: u64,
    pub reads: u64,
    /// Attempts that failed while a storm lasted, and were made again.
    pub storm_retries: u64,
    pub breaches: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
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
            (&mut self.breaches, other.breaches),
        ];
        for (mine, theirs) in pairs {
            *mine += theirs;
        }
    }
}

/// From the intended send to the read that brought the last byte, in nanoseconds, to three digits.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "Vec<(u64, u64)>", from = "Vec<(u64, u64)>")]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        // The bounds are constants that are in order, and three digits are allowed: it cannot fail.
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

    /// Of so many in a hundred; nothing if there is none.
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

/// Why connections did not open, and how many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    pub cause: String,
    pub remedy: String,
    pub count: u64,
}

/// What the load client itself spent while it lasted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Generator {
    pub threads: usize,
    pub cpu_ns: u64,
    /// Of the busiest thread: the part of the time it ran, and the part it waited for a processor.
    pub busy: f64,
    pub waiting: f64,
    /// Running and waiting together, of the thread where they are the most.
    pub wanting: f64,
}

impl Generator {
    pub fn is_bound(&self) -> bool {
        self.wanting > BOUND
    }

    fn merge(&mut self, other: &Generator) {
        self.threads += other.threads;
        self.cpu_ns += other.cpu_ns;
        self.busy = self.busy.max(other.busy);
        self.waiting = self.waiting.max(other.waiting);
        self.wanting = self.wanting.max(other.wanting);
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    pub tally: Tally,
    pub latencies: Latencies,
    /// Until they were at our socket, of a sample of the same: the server's part. The rest waited for us.
    pub arrivals: Latencies,
    pub spread: Spread,
    pub generator: Generator,
    pub failures: Vec<Failures>,
    /// Close codes that servers gave, and how often. 1006: none.
    pub closes: BTreeMap<u16, u64>,
    /// What a server sent that it may not, once each.
    pub breaches: Vec<String>,
    /// Until every connection was open, and until it was open again after a storm.
    pub opening_ns: u64,
    pub storm_ns: Option<u64>,
    /// How long it was measured.
    pub lasted_ns: u64,
    /// The run's end: of messages that were due later, the spread is not whole.
    pub end_ns: i64,
}

impl Report {
    pub fn failed(&mut self, refusal: &Refusal) {
        self.failed_as(&refusal.to_string(), refusal.remedy(), 1);
    }

    fn failed_as(&mut self, cause: &str, remedy: &str, count: u64) {
        match self.failures.iter_mut().find(|known| known.cause == cause) {
            Some(known) => known.count += count,
            None => self.failures.push(Failures { cause: cause.into(), remedy: remedy.into(), count }),
        }
    }

    pub fn closed(&mut self, code: u16) {
        *self.closes.entry(code).or_default() += 1;
    }

    pub fn breach(&mut self, what: &str) {
        self.tally.breaches += 1;
        if !self.breaches.iter().any(|known| known == what) {
            self.breaches.push(what.into());
        }
    }

    /// What another thread or process saw of the same run.
    pub fn merge(&mut self, other: Report) {
        self.tally.add(&other.tally);
        self.latencies.merge(&other.latencies);
        self.arrivals.merge(&other.arrivals);
        self.spread.merge(other.spread);
        self.generator.merge(&other.generator);
        for failures in &other.failures {
            self.failed_as(&failures.cause, &failures.remedy, failures.count);
        }
        for (code, count) in other.closes {
            *self.closes.entry(code).or_default() += count;
        }
        for what in other.breaches {
            if !self.breaches.contains(&what) {
                self.breaches.push(what);
            }
        }
        self.opening_ns = self.opening_ns.max(other.opening_ns);
        self.storm_ns = self.storm_ns.max(other.storm_ns);
        self.lasted_ns = self.lasted_ns.max(other.lasted_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
    }

    /// Half of the sampled messages, and all but one in a hundred, took at most so long from the first connection to the
    /// last. Nothing where connections do not number together.
    pub fn spread_us(&self) -> Option<(f64, f64)> {
        self.of_spread(Spread::widths_ns)
    }

    /// The same from when a message was due until the last connection had it.
    pub fn last_us(&self) -> Option<(f64, f64)> {
        self.of_spread(Spread::lasts_ns)
    }

    #[allow(clippy::cast_precision_loss)]
    fn of_spread(&self, ascending_ns: impl Fn(&Spread, i64) -> Vec<i64>) -> Option<(f64, f64)> {
        if self.spread.is_torn() {
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
    fn parts_add_up_even_when_they_were_written_down() {
        let part = |ns: i64, refused: u64| {
            let mut report = Report { opening_ns: 5, ..Report::default() };
            report.latencies.record(ns);
            report.tally.deliveries = 1;
            report.generator = Generator { threads: 1, cpu_ns: 10, busy: 0.5, waiting: 0.1, wanting: 0.6 };
            for _ in 0..refused {
                report.failed(&Refusal::Silent);
            }
            report.closed(1013);
            report
        };
        let mut whole = part(1_000, 1);
        let written = serde_json::to_string(&part(3_000_000, 2)).unwrap();
        whole.merge(serde_json::from_str(&written).unwrap());
        assert_eq!((whole.tally.deliveries, whole.latencies.count(), whole.closes[&1013]), (2, 2, 2));
        assert_eq!((whole.generator.threads, whole.generator.cpu_ns, whole.failures[0].count), (2, 20, 3));
        // Three digits of precision.
        assert!((whole.latencies.max_us().unwrap() - 3_000.0).abs() < 3.0);
        assert!((whole.latencies.percentile_us(50.0).unwrap() - 1.0).abs() < 0.001);
        assert!(!whole.generator.is_bound());
    }

    #[test]
    fn latencies_out_of_range_are_kept_at_its_ends() {
        let mut latencies = Latencies::default();
        latencies.record(-5);
        latencies.record(i64::MAX);
        assert_eq!(latencies.count(), 2);
        assert_eq!(Latencies::default().percentile_us(99.0), None);
    }
}
