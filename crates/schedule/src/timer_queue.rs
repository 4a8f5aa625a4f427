//! The venue's own timed commands: days and sessions, market data windows, index samples.
//!
//! Holds       1. due times lie on multiples of the interval in venue time, so that every gateway
//!                cuts the same windows;
//!             2. an idle market has no timer except those of its schedule, so an idle venue writes
//!                no log.

use pitwire_engine::Engine;
use pitwire_model::{Command, Event, InstrumentId, Phase, SequencedCommand, VenueNanos};

use crate::calendar::Calendar;
use crate::session_scheduler::SessionScheduler;

const WINDOW_NS: u64 = 100_000_000;
const SECOND_NS: u64 = 1_000_000_000;

pub struct TimerQueue {
    /// End of the current market data window. `None` if nothing public has happened since the last
    /// one.
    window: Option<VenueNanos>,
    sample: Option<VenueNanos>,
    scheduler: SessionScheduler,
}

const fn boundary_after(at: VenueNanos, width_ns: u64) -> VenueNanos {
    VenueNanos((at.0 / width_ns + 1).saturating_mul(width_ns))
}

impl TimerQueue {
    /// Continues from the engine's current state. What came due while the venue did not run is due
    /// now, once.
    ///
    /// `last_seen` is the venue time of the engine's last command, zero for a fresh venue.
    pub fn starting(calendar: Box<dyn Calendar>, engine: &Engine, now: VenueNanos, last_seen: VenueNanos) -> Self {
        TimerQueue {
            window: None,
            sample: None,
            scheduler: SessionScheduler::starting(calendar, engine, now, last_seen),
        }
    }

    pub fn next_due(&self) -> VenueNanos {
        let windows = self.window.into_iter().chain(self.sample);
        windows.fold(self.scheduler.next_due(), VenueNanos::min)
    }

    /// Returns the next command that is due by `now`, and its due time.
    pub fn take(&mut self, now: VenueNanos, engine: &Engine) -> Option<(VenueNanos, Command)> {
        let never = VenueNanos(u64::MAX);
        let (window, sample) = (self.window.unwrap_or(never), self.sample.unwrap_or(never));
        // At one time the order is: days and sessions, then the index sample, then the window that
        // shows both.
        let first = window.min(sample);
        if let Some(taken) = self.scheduler.take(now.min(first), engine) {
            return Some(taken);
        }
        if first > now {
            return None;
        }
        if sample <= window {
            self.sample = None;
            return Some((sample, Command::SampleIndex));
        }
        self.window = None;
        Some((window, Command::CloseWindow))
    }

    /// Returns the session that the schedule prescribes for an instrument, and its end.
    pub fn scheduled(&self, instrument: InstrumentId, at: VenueNanos) -> (Phase, Option<VenueNanos>) {
        self.scheduler.scheduled(instrument, at)
    }

    fn arm_window(&mut self, at: VenueNanos) {
        self.window = Some(self.window.map_or(at, |armed| armed.min(at)));
    }

    /// Arms timers after a command.
    pub fn observe(&mut self, stamped: &SequencedCommand, events: &[Event], engine: &Engine) {
        self.scheduler.observe(stamped, events, engine);
        let at = stamped.at;
        for event in events {
            match event {
                Event::BookChanged { .. } | Event::PhaseChanged { .. } | Event::SessionChanged { .. } => {
                    self.arm_window(boundary_after(at, WINDOW_NS));
                    self.sample.get_or_insert(boundary_after(at, SECOND_NS));
                }
                Event::IndexSampled { .. } => self.arm_window(boundary_after(at, WINDOW_NS)),
                // The 1 s channels wait for the end of the second.
                Event::WindowClosed if !at.0.is_multiple_of(SECOND_NS) => {
                    self.arm_window(boundary_after(at, SECOND_NS))
                }
                _ => {}
            }
        }
    }
}
