//! A schedule's day as the timetable sees it: at which instant which session begins.
//!
//! Holds       the boundaries of a day lie from the close of the day before up to, not including, its own close, in order.
//! Leaves out  calendars, time zones, files: whoever runs the venue has them, behind [`Calendar`].

use std::sync::Arc;

use pitwire_model::{Phase, RemainingSessions, VenueDay, VenueNanos};

/// A time that never comes: later than every time in a calendar.
pub(crate) const NEVER: VenueNanos = VenueNanos(u64::MAX);

/// A session begins, and the one before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    pub at: VenueNanos,
    /// The random end of the session before: the boundary comes from `at` to this much later.
    pub spread_ns: u64,
    pub to: Phase,
}

/// What the timetable asks of the world.
pub trait Calendar: Send {
    /// The venue day that an instant belongs to.
    fn day_of(&self, at: VenueNanos) -> VenueDay;
    /// When a venue day ends, and the next one begins.
    fn closes(&self, day: VenueDay) -> VenueNanos;
    /// The schedule that an instrument follows; `None` trades for ever.
    fn schedule_of(&self, instrument: &str) -> Option<usize>;
    /// A schedule's boundaries of a day; none on a day without trading.
    fn boundaries(&self, schedule: usize, day: VenueDay) -> Arc<[Boundary]>;
    /// When trades made beside the book may be reported on a day: from, and until, at most the day's close.
    fn reporting(&self, _schedule: usize, _day: VenueDay) -> Option<(VenueNanos, VenueNanos)> {
        None
    }
    /// A random time from zero to `most_ns`: from a seed, or from the operating system.
    fn draw(&mut self, most_ns: u64) -> u64;
}

/// Days of UTC, and no schedule: everything trades for ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unscheduled;

const DAY_NS: u64 = 86_400_000_000_000;

impl Calendar for Unscheduled {
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

/// How many of each session a stretch of a plan holds; more than 255 of one are told as 255.
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
    fn days_beyond_what_is_counted_close_at_no_time() {
        assert_eq!(Unscheduled.closes(VenueDay(213_502)), VenueNanos(213_503 * DAY_NS));
        for day in [213_503, u32::MAX] {
            assert_eq!(Unscheduled.closes(VenueDay(day)), VenueNanos(u64::MAX), "{day}");
        }
    }
}
