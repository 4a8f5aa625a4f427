//! Latencies that the screen measures itself, and the rate of updates.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Newest round trips of the curve.
const REMEMBERED: usize = 120;
/// Window of the rate of updates.
const RATE_WINDOW: Duration = Duration::from_secs(5);

/// Durations since the start, in microseconds.
#[derive(Debug)]
pub struct LatencyWindow {
    /// Absent if the memory for it was refused.
    histogram: Option<Histogram<u64>>,
    latest: Option<Duration>,
    recent_us: VecDeque<u64>,
}

impl Default for LatencyWindow {
    fn default() -> Self {
        // One minute, in 64 steps from one power of two to the next.
        let histogram = Histogram::new_with_bounds(1, 60_000_000, 2).ok();
        LatencyWindow { histogram, latest: None, recent_us: VecDeque::new() }
    }
}

impl LatencyWindow {
    pub fn record(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(micros);
        }
        self.latest = Some(took);
        self.recent_us.push_back(micros);
        if self.recent_us.len() > REMEMBERED {
            self.recent_us.pop_front();
        }
    }

    pub fn count(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::len)
    }

    pub fn latest(&self) -> Option<Duration> {
        self.latest
    }

    /// Returns the value below which this share of the values lies. `None` without values.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let histogram = self.histogram.as_ref().filter(|histogram| !histogram.is_empty())?;
        Some(Duration::from_micros(histogram.value_at_quantile(share)))
    }

    /// Returns the newest values in microseconds, oldest first.
    pub fn recent_us(&self) -> impl ExactSizeIterator<Item = u64> {
        self.recent_us.iter().copied()
    }
}

/// Counts the messages of the last seconds.
#[derive(Clone, Debug, Default)]
pub struct MessageRate {
    times: VecDeque<Instant>,
}

impl MessageRate {
    pub fn record(&mut self, at: Instant) {
        self.times.push_back(at);
        self.forget(at);
    }

    /// Returns the messages per second at a time.
    pub fn per_second(&mut self, at: Instant) -> usize {
        self.forget(at);
        self.times.len() / usize::try_from(RATE_WINDOW.as_secs()).unwrap_or(1)
    }

    /// Returns the time since the last message.
    pub fn silence(&self, at: Instant) -> Option<Duration> {
        self.times.back().map(|last| at.saturating_duration_since(*last))
    }

    /// Removes old messages, but never the last one.
    fn forget(&mut self, at: Instant) {
        while self.times.len() > 1 && at.saturating_duration_since(self.times[0]) > RATE_WINDOW {
            self.times.pop_front();
        }
    }
}

/// Formats a duration in the unit that gives one to three digits before the point.
pub fn duration_text(duration: Duration) -> String {
    let micros = duration.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{}.{} ms", micros / 1_000, micros / 100 % 10),
        10_000..1_000_000 => format!("{} ms", micros / 1_000),
        _ => format!("{}.{} s", micros / 1_000_000, micros / 100_000 % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_come_from_all_values_and_the_curve_from_the_newest() {
        let mut latencies = LatencyWindow::default();
        assert_eq!((latencies.quantile(0.5), latencies.count()), (None, 0));
        (1..=200).for_each(|millis| latencies.record(Duration::from_millis(millis)));
        let median = latencies.quantile(0.5).unwrap().as_secs_f64() * 1e3;
        assert!((99.0..=101.5).contains(&median), "{median}");
        assert_eq!(latencies.recent_us().next(), Some(81_000));
        assert_eq!((latencies.count(), latencies.latest()), (200, Some(Duration::from_millis(200))));
    }

    #[test]
    fn rate_counts_a_window_and_silence_counts_on() {
        let start = Instant::now();
        let mut rate = MessageRate::default();
        assert_eq!(rate.silence(start), None);
        (0..50).for_each(|tenths| rate.record(start + Duration::from_millis(tenths * 100)));
        let end = start + Duration::from_millis(4_900);
        assert_eq!((rate.per_second(end), rate.silence(end)), (10, Some(Duration::ZERO)));
        let later = end + Duration::from_secs(100);
        assert_eq!((rate.per_second(later), rate.silence(later)), (0, Some(Duration::from_secs(100))));
    }

    #[test]
    fn durations_have_few_digits() {
        for (micros, expected) in [(7, "7 µs"), (1_940, "1.9 ms"), (52_000, "52 ms"), (61_250_000, "61.2 s")] {
            assert_eq!(duration_text(Duration::from_micros(micros)), expected);
        }
    }
}
