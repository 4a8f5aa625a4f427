//! The venue's own timed commands: when a window closes, an index is sampled, a day ends.
//!
//! Holds       1. due times lie on venue-time boundaries, so that every gateway cuts windows alike;
//!             2. nothing is due in a quiet market but the day's end: an idle venue writes no log.

use pitwire_model::{Command, Event, VenueNanos};

const WINDOW_NS: u64 = 100_000_000;
const SECOND_NS: u64 = 1_000_000_000;
const DAY_NS: u64 = 86_400 * SECOND_NS;

#[derive(Clone, Copy, Debug)]
pub struct Timetable {
    /// `None` while nothing public has happened since the last one.
    window: Option<VenueNanos>,
    sample: Option<VenueNanos>,
    day: VenueNanos,
}

const fn boundary_after(at: VenueNanos, width_ns: u64) -> VenueNanos {
    VenueNanos((at.0 / width_ns + 1) * width_ns)
}

impl Timetable {
    /// A day that ended while nobody was there is ended at once, and once only.
    pub fn starting(now: VenueNanos, last_seen: VenueNanos) -> Self {
        let day = if last_seen == VenueNanos::ZERO { now } else { last_seen };
        Timetable { window: None, sample: None, day: boundary_after(day, DAY_NS) }
    }

    pub fn next_due(&self) -> VenueNanos {
        self.next().0
    }

    fn next(&self) -> (VenueNanos, Command) {
        let never = VenueNanos(u64::MAX);
        let (window, sample) = (self.window.unwrap_or(never), self.sample.unwrap_or(never));
        // At one instant the day's end comes first, then the index, then the window that shows both.
        if self.day <= sample && self.day <= window {
            (self.day, Command::EndDay)
        } else if sample <= window {
            (sample, Command::SampleIndex)
        } else {
            (window, Command::CloseWindow)
        }
    }

    /// The next command, if it is due.
    pub fn take(&mut self, now: VenueNanos) -> Option<(VenueNanos, Command)> {
        let (due, command) = self.next();
        if due > now {
            return None;
        }
        match command {
            Command::EndDay => self.day = boundary_after(now.max(due), DAY_NS),
            Command::SampleIndex => self.sample = None,
            _ => self.window = None,
        }
        Some((due, command))
    }

    fn arm_window(&mut self, at: VenueNanos) {
        self.window = Some(self.window.map_or(at, |armed| armed.min(at)));
    }

    /// Takes note of what a command made public.
    pub fn observe(&mut self, at: VenueNanos, events: &[Event]) {
        for event in events {
            match event {
                Event::BookChanged { .. } | Event::PhaseChanged { .. } => {
                    self.arm_window(boundary_after(at, WINDOW_NS));
                    self.sample.get_or_insert(boundary_after(at, SECOND_NS));
                }
                Event::IndexSampled { .. } => self.arm_window(boundary_after(at, WINDOW_NS)),
                // The slower channels wait for the turn of the second, whatever else happens until then.
                Event::WindowClosed if !at.0.is_multiple_of(SECOND_NS) => {
                    self.arm_window(boundary_after(at, SECOND_NS))
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pitwire_model::InstrumentId;

    const BUSY: &[Event] = &[Event::BookChanged { instrument: InstrumentId(0), change_id: 1 }];

    fn due(table: &mut Timetable, now: u64) -> Vec<(u64, &'static str)> {
        std::iter::from_fn(|| table.take(VenueNanos(now)))
            .map(|(at, command)| {
                let name = match command {
                    Command::CloseWindow => "window",
                    Command::SampleIndex => "sample",
                    _ => "day",
                };
                (at.0, name)
            })
            .collect()
    }

    #[test]
    fn a_quiet_market_costs_nothing_and_a_busy_one_is_cut_on_boundaries() {
        let mut table = Timetable::starting(VenueNanos(250_000_000), VenueNanos(0));
        assert_eq!(due(&mut table, 10 * SECOND_NS), []);
        table.observe(VenueNanos(250_000_000), BUSY);
        table.observe(VenueNanos(290_000_000), BUSY);
        assert_eq!(due(&mut table, 299_999_999), []);
        assert_eq!(due(&mut table, 300_000_000), [(300_000_000, "window")]);
        // The window's own event arms the one that ends the second; an earlier one may still come between.
        table.observe(VenueNanos(300_000_000), &[Event::WindowClosed]);
        table.observe(VenueNanos(450_000_000), BUSY);
        assert_eq!(due(&mut table, 600_000_000), [(500_000_000, "window")]);
        table.observe(VenueNanos(500_000_000), &[Event::WindowClosed]);
        assert_eq!(due(&mut table, 2 * SECOND_NS), [(SECOND_NS, "sample"), (SECOND_NS, "window")]);
        table.observe(VenueNanos(SECOND_NS), &[Event::WindowClosed]);
        assert_eq!(due(&mut table, 20 * SECOND_NS), []);
    }

    #[test]
    fn days_that_passed_unseen_end_once() {
        let mut table = Timetable::starting(VenueNanos(5 * DAY_NS + 7), VenueNanos(2 * DAY_NS + 7));
        assert_eq!(due(&mut table, 5 * DAY_NS + 7), [(3 * DAY_NS, "day")]);
        assert_eq!(table.next_due(), VenueNanos(6 * DAY_NS));
    }
}
