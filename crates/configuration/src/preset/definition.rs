//! The type of a preset: a setup, the start of its venue time, its order flow and its logins.

use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_model::{Command, VenueNanos};
use pitwire_schedule::VenueCalendar;

use crate::plan::setup_commands;
use crate::setup::Setup;

/// A setup with the logins and the order flow that belong to it.
pub struct Preset {
    pub name: &'static str,
    pub setup: Setup,
    /// Start of venue time, in seconds after midnight. `None` starts at the wall clock's time.
    pub starts: Option<u32>,
    /// Event rate of the order flow, in percent of its default.
    pub flow_percent: u32,
    /// Venue time that a fresh venue simulates before it serves, in seconds.
    pub warm_up_s: u32,
    /// Client ids and their public secrets, for a venue without real members.
    pub logins: Vec<(String, String)>,
}

impl Preset {
    /// Returns the start of venue time: the preset's time of day on the day of `wall` or on the
    /// next trading day. An unfinished day continues at `last_seen`.
    pub fn start(&self, calendar: &VenueCalendar, wall: VenueNanos, last_seen: VenueNanos) -> VenueNanos {
        match self.starts {
            Some(seconds) => calendar.starting(wall, last_seen, seconds),
            None => wall.max(last_seen),
        }
    }

    /// Returns the commands that a fresh venue begins with.
    ///
    /// # Errors
    ///
    /// Returns a failure if a definition is malformed.
    pub fn commands(&self) -> Result<Vec<Command>, Failure> {
        setup_commands(&self.setup, &Engine::new())
    }
}
