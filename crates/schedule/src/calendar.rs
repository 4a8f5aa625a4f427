//! A calendar as the session scheduler reads it: the time at which each session begins.
//!
//! Holds       the boundaries of a day are in order. They lie from the close of the previous day,
//!             inclusive, to the day's own close, exclusive.
//! Leaves out  time zones and files: implementations of [`Calendar`] have them.

use std::sync::Arc;

use pitwire_model::{Phase, RemainingSessions, VenueDay, VenueNanos};

/// A time that never comes: later than every time in a calendar.
pub(crate) const NEVER: VenueNanos = VenueNanos(u64::MAX);

/// The start of a session, which is also the end of the session before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    pub at: VenueNanos,
    /// Random end of the session before, in nanoseconds. The boundary lies between `at` and this
    /// much later.
    pub spread_ns: u64,
    pub to: Phase,
}

/// Answers the session scheduler's questions about days and sessions.
pub trait Calendar: Send {
    /// Returns the venue day that contains a time.
    fn day_of(&self, at: VenueNanos) -> VenueDay;
    /// Returns the end of a venue day, which is the start of the next one.
    fn closes(&self, day: VenueDay) -> VenueNanos;
    /// Returns the number of the schedule that an instrument follows, or `None` if it trades
    /// continuously forever.
    fn schedule_of(&self, instrument: &str) -> Option<usize>;
    /// Returns a schedule's boundaries of a day, or none if the day is not a trading day.
    fn boundaries(&self, schedule: usize, day: VenueDay) -> Arc<[Boundary]>;
    /// Returns the hours of a day in which off-book trades may be reported: start and end. The end
    /// is at most the day's close.
    fn reporting(&self, _schedule: usize, _day: VenueDay) -> Option<(VenueNanos, VenueNanos)> {
        None
    }
    /// Returns a random number of nanoseconds from zero to `most_ns`.
    fn draw(&mut self, most_ns: u64) -> u64;
}

/// A calendar of UTC days without schedules: every instrument trades continuously forever.
#[derive(Clone, Copy, Debug, Default)]
pub struct ContinuousCalendar;

const DAY_NS: u64 = 86_400_000_000_000;

impl Calendar for ContinuousCalendar {
    fn day_of(&self, at: VenueNanos) -> VenueDay {
        VenueDay(u32::try_from(at.0 / DAY_NS).unwrap_or(u32::MAX))
    }

    fn closes(&self, day: VenueDay) -> VenueNanos {
        VenueNanos((u64::from(day.0) + 1).saturating_mul(DAY_NS))
    }

    fn schedule_of(&self, _: &str) -> Option<usize> {
        None
    }

    fn boundaries(&self, _: usize, _: VenueDay) -> Arc<[Boundary]> {
        Arc::new([])
    }

    fn draw(&mut self, _: u64) -> u64 {
        0
    }
}

/// Counts the sessions of each kind in a part of a plan. A count above 255 is reported as 255.
pub fn counted(boundaries: &[Boundary]) -> RemainingSessions {
    let mut remaining = RemainingSessions::default();
    for boundary in boundaries {
        let count = &mut remaining.counts[boundary.to as usize];
        *count = count.saturating_add(1);
    }
    remaining
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_beyond_the_representable_time_never_close() {
        assert_eq!(ContinuousCalendar.closes(VenueDay(213_502)), VenueNanos(213_503 * DAY_NS));
        for day in [213_503, u32::MAX] {
            assert_eq!(ContinuousCalendar.closes(VenueDay(day)), VenueNanos(u64::MAX), "{day}");
        }
    }
}
