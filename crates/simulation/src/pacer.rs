//! Slows a run down to a multiple of real time.
//!
//! Start at    [`Pacer::pause`].

use std::time::Duration;

use pitwire_model::VenueNanos;

/// Longest pause, so that a run reports its progress while it waits.
const LONGEST: Duration = Duration::from_millis(100);
/// Shortest pause. Shorter ones would take longer than they should.
const SHORTEST: Duration = Duration::from_millis(5);

/// Limits how many seconds of venue time pass in a second.
pub struct Pacer {
    start: VenueNanos,
    speed: u32,
}

impl Pacer {
    pub fn new(start: VenueNanos, speed: u32) -> Pacer {
        Pacer { start, speed: speed.max(1) }
    }

    /// Returns the time to wait before an event at `at` may happen, `elapsed` after the start of
    /// the run. Returns `None` if it may happen now. Ask again after the pause.
    pub fn pause(&self, at: VenueNanos, elapsed: Duration) -> Option<Duration> {
        let due = Duration::from_nanos(at.0.saturating_sub(self.start.0)) / self.speed;
        let left = due.saturating_sub(elapsed);
        (left >= SHORTEST).then(|| left.min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_waits_until_its_time_divided_by_the_speed() {
        let pacer = Pacer::new(VenueNanos(1_000_000_000), 10);
        let pause = |at_ms: u64, elapsed_ms: u64| {
            pacer.pause(VenueNanos(1_000_000_000 + at_ms * 1_000_000), Duration::from_millis(elapsed_ms))
        };
        assert_eq!(pause(0, 0), None);
        assert_eq!(pause(500, 10), Some(Duration::from_millis(40)));
        assert_eq!(pause(500, 46), None, "less than the shortest pause is left");
        assert_eq!(pause(500, 900), None, "the run is late");
        assert_eq!(pause(60_000, 10), Some(LONGEST));
        assert_eq!(pacer.pause(VenueNanos(0), Duration::ZERO), None, "before the start");
    }
}
