//! Venue time between two messages, and countdowns.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Shortest time between two messages from which a rate is measured.
const SPAN: Duration = Duration::from_secs(2);
/// Age at which a message no longer counts.
const KEEP: Duration = Duration::from_secs(30);

/// Estimates the venue's time. The venue's clock may run faster than this one or stand still, so
/// its rate is measured between messages.
#[derive(Clone, Debug, Default)]
pub struct MarketClock {
    /// Venue time in milliseconds, and the time of its receipt.
    readings: VecDeque<(i64, Instant)>,
}

impl MarketClock {
    /// Takes over a time that the venue has sent.
    pub fn synchronise(&mut self, venue_ms: i64, at: Instant) {
        // Venue time never goes back. A lower time comes from another venue.
        if self.readings.back().is_some_and(|(last_ms, _)| venue_ms < *last_ms) {
            self.readings.clear();
        }
        self.readings.push_back((venue_ms, at));
        while self.readings.len() > 2 && at.saturating_duration_since(self.readings[1].1) > KEEP {
            self.readings.pop_front();
        }
    }

    /// Returns the venue's time in milliseconds. `None` before the first message.
    pub fn now_ms(&self, at: Instant) -> Option<i64> {
        let (last_ms, last_at) = *self.readings.back()?;
        let (first_ms, first_at) = *self.readings.front()?;
        let span = last_at.saturating_duration_since(first_at);
        let passed_ms = milliseconds(at.saturating_duration_since(last_at));
        if span < SPAN {
            return Some(last_ms.saturating_add(passed_ms));
        }
        Some(
            last_ms
                .saturating_add(passed_ms.saturating_mul(last_ms.saturating_sub(first_ms)) / milliseconds(span).max(1)),
        )
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Formats the time until an end as `m:ss`, or as `h:mm:ss` from one hour on. A past end is 0:00.
pub fn countdown(left_ms: i64) -> String {
    let seconds = left_ms.max(0).saturating_add(999) / 1000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// Formats a time of day in UTC as `hh:mm:ss`.
pub fn time_of_day(at_ms: i64) -> String {
    let seconds = at_ms.div_euclid(1000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_follows_the_rate_of_the_venue() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut clock = MarketClock::default();
        assert_eq!(clock.now_ms(start), None);
        clock.synchronise(1_000, at(0));
        assert_eq!(clock.now_ms(at(5)), Some(6_000), "one to one until a rate is known");
        clock.synchronise(101_000, at(10));
        assert_eq!(clock.now_ms(at(11)), Some(111_000), "ten venue seconds in each");
        clock.synchronise(500, at(12));
        assert_eq!(clock.now_ms(at(13)), Some(1_500), "another venue");
    }

    #[test]
    fn venue_that_stands_still_has_a_countdown_that_stands_still() {
        let start = Instant::now();
        let mut clock = MarketClock::default();
        clock.synchronise(1_000, start);
        clock.synchronise(1_000, start + Duration::from_secs(3));
        assert_eq!(clock.now_ms(start + Duration::from_secs(60)), Some(1_000));
    }

    #[test]
    fn countdown_rounds_up_to_whole_seconds() {
        for (left_ms, expected) in [(-5, "0:00"), (1, "0:01"), (60_000, "1:00"), (3_599_001, "1:00:00")] {
            assert_eq!(countdown(left_ms), expected);
        }
        assert_eq!(countdown(i64::MAX).split(':').count(), 3);
        assert_eq!(time_of_day(86_400_000 + 3_661_000), "01:01:01");
        assert_eq!(time_of_day(-1), "23:59:59");
    }
}
