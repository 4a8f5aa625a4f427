//! The venue's own timed commands: days and sessions, when a window closes, when an index is sampled.
//!
//! Holds       1. due times lie on venue-time boundaries, so that every gateway cuts windows alike;
//!             2. nothing is due in a quiet market but what its schedule says: an idle venue writes no log.

use pitwire_engine::Engine;
use pitwire_model::{Command, Event, InstrumentId, Phase, Stamped, VenueNanos};

use crate::calendar::Calendar;
use crate::session_scheduler::SessionScheduler;

const WINDOW_NS: u64 = 100_000_000;
const SECOND_NS: u64 = 1_000_000_000;

pub struct TimerQueue {
    /// `None` while nothing public has happened since the last one.
    window: Option<VenueNanos>,
    sample: Option<VenueNanos>,
    scheduler: SessionScheduler,
}

const fn boundary_after(at: VenueNanos, width_ns: u64) -> VenueNanos {
    VenueNanos((at.0 / width_ns + 1).saturating_mul(width_ns))
}

impl TimerQueue {
    /// Goes on from where an engine stands; what came due while nobody was there is due at once, and once only.
    /// `last_seen`: venue time of the engine's last command, zero for a fresh one.
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

    /// The next command, if it is due.
    pub fn take(&mut self, now: VenueNanos, engine: &Engine) -> Option<(VenueNanos, Command)> {
        let never = VenueNanos(u64::MAX);
        let (window, sample) = (self.window.unwrap_or(never), self.sample.unwrap_or(never));
        // At one instant days and sessions come first, then the index, then the window that shows all.
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

    /// What the schedule says is current for an instrument, and when that ends.
    pub fn scheduled(&self, instrument: InstrumentId, at: VenueNanos) -> (Phase, Option<VenueNanos>) {
        self.scheduler.scheduled(instrument, at)
    }

    fn arm_window(&mut self, at: VenueNanos) {
        self.window = Some(self.window.map_or(at, |armed| armed.min(at)));
    }

    /// Takes note of what a command did.
    pub fn observe(&mut self, stamped: &Stamped, events: &[Event], engine: &Engine) {
        self.scheduler.observe(stamped, events, engine);
        let at = stamped.at;
        for event in events {
            match event {
                Event::BookChanged { .. } | Event::PhaseChanged { .. } | Event::SessionChanged { .. } => {
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
