//! The set-up of a venue: presets, the configuration file, and the commands that apply them.
//!
//! Does        read definitions by name, and turn them into journaled commands and a trading
//!             calendar.
//! Holds       1. applying a setup twice equals applying it once;
//!             2. whatever a setup does not name stays as it is, including changes made by
//!                operators.
//! Leaves out  when to apply a setup: `crates/venue`.
//! Start at    [`Setup`], then [`setup_commands`] and [`Preset`].

mod file;
mod plan;
mod preset;
mod rules;
#[cfg(test)]
mod schedule_tests;
mod setup;
mod system_random;

pub use file::read_setup;
pub use plan::setup_commands;
pub use preset::{Preset, PresetName, demo, house_accounts};
pub use rules::{AllocationDef, RulesDef};
pub use setup::{
    AccountDef, CurrencyDef, InstrumentDef, InstrumentKindName, LimitsDef, SegmentDef, SelfMatchDef, Setup,
};
pub use system_random::random_below;
