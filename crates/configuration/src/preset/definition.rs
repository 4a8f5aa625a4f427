//! The type of a preset: a setup, the start of its venue time, its order flow and its logins.

use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_model::{Command, VenueNanos};
use pitwire_schedule::VenueCalendar;

use crate::plan::setup_commands;
use crate::setup::{AccountDef, Setup};

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

    /// Leaves out the instruments that are not named. An empty list leaves out none.
    ///
    /// # Errors
    ///
    /// Returns a failure if the preset has no instrument of a name.
    pub fn keep_instruments(&mut self, names: &[String]) -> Result<(), Failure> {
        let all = &mut self.setup.instruments;
        if let Some(unknown) = names.iter().find(|name| all.iter().all(|def| def.name != **name)) {
            let known = all.iter().map(|def| def.name.as_str()).collect::<Vec<_>>().join(", ");
            let what = format!("the preset {} has no instrument {unknown:?}", self.name);
            return Err(Failure::usage(what).remedy(format!("give some of {known}")));
        }
        all.retain(|def| names.is_empty() || names.contains(&def.name));
        Ok(())
    }

    /// Replaces the accounts from which the order flow trades by `count` accounts of the same kind.
    pub fn set_house_accounts(&mut self, count: usize) {
        let accounts = &mut self.setup.accounts;
        let Some(model) = accounts.iter().find(|def| def.house).cloned() else { return };
        accounts.retain(|def| !def.house);
        accounts.extend((1..=count).map(|number| AccountDef { name: format!("house-{number:02}"), ..model.clone() }));
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
