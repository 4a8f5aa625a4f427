//! Ready-made setups.

mod definition;
mod demo;
mod jse;

use clap::ValueEnum;
use pitwire_engine::Engine;
use pitwire_model::{AccountId, Credit};

pub use definition::Preset;
pub use demo::demo;

/// The name of a preset on the command line.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PresetName {
    /// Eleven instruments with order flow; ten trade continuously, AUC_ZAR has an auction every
    /// three minutes
    Demo,
    /// A day of the Johannesburg exchange: every session, five segments
    Jse,
    /// Three instruments that trade continuously
    #[value(name = "crypto24x7")]
    Crypto,
}

impl PresetName {
    /// Returns the preset of a name on the command line.
    pub fn named(name: &str) -> Option<PresetName> {
        PresetName::from_str(name, false).ok()
    }

    /// Returns the names of all presets.
    pub fn names() -> impl Iterator<Item = String> {
        let values = PresetName::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        values.map(|value| value.get_name().to_owned())
    }

    /// Returns the preset with this name.
    pub fn preset(self) -> Preset {
        match self {
            PresetName::Demo => demo::demo(),
            PresetName::Jse => jse::jse(),
            PresetName::Crypto => demo::crypto(),
        }
    }
}

/// Returns the accounts with unlimited credit, from which the resident flow trades.
pub fn house_accounts(engine: &Engine) -> Vec<AccountId> {
    let unlimited = engine.accounts().iter().filter(|account| account.spec.credit == Credit::Unlimited);
    unlimited.map(|account| account.spec.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::setup_commands;
    use pitwire_model::{Event, Phase, Seq, SequencedCommand, VenueNanos};

    #[test]
    fn demo_setup_applies_once_and_then_is_complete() {
        let demo = demo();
        let mut engine = Engine::new();
        for (seq, command) in (1..).zip(demo.commands().unwrap()) {
            let mut events = Vec::new();
            engine.apply(&SequencedCommand { seq: Seq(seq), at: VenueNanos(0), command: command.clone() }, &mut events);
            assert!(!events.iter().any(|event| matches!(event, Event::CommandRefused { .. })), "{command:?}");
        }
        assert_eq!(engine.markets().len(), 11);
        let closed: Vec<&str> = engine
            .markets()
            .iter()
            .filter(|market| market.phase() != Phase::Continuous)
            .map(|market| market.spec.name.as_str())
            .collect();
        assert_eq!(closed, ["AUC_ZAR"], "opened by its schedule");
        let zar = engine.currency_named("ZAR").unwrap().id;
        assert_eq!(engine.available(AccountId(0), zar), 1_000_000_000, "ten million rand in cents");
        let shares = engine.currency_named("NPN").unwrap().id;
        assert_eq!(engine.available(AccountId(1), shares), 10_000);
        assert_eq!(house_accounts(&engine).len(), 12);
        assert_eq!(setup_commands(&demo.setup, &engine).unwrap(), []);
    }
}
