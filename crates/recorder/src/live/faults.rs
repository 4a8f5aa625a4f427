//! The fault script: which messages a live feed delays, drops, repeats or spoils.
//!
//! Does        reads the script (TOML) and selects messages by number, or at random from a seed.
//! Holds       the selection depends only on script, seed, message number and connection.
//! Start at    [`FaultScript::parse`] and [`FaultScript::find`].

use std::time::Duration;

use pitwire_random::SplitMix64;
use serde::Deserialize;

/// The fault that is applied to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    Delay,
    Stall,
    Drop,
    Duplicate,
    Close,
    Reset,
    Rubbish,
    BadFrame,
    OmitTime,
    Silence,
}

impl FaultKind {
    pub const ALL: [FaultKind; 10] = [
        FaultKind::Delay,
        FaultKind::Stall,
        FaultKind::Drop,
        FaultKind::Duplicate,
        FaultKind::Close,
        FaultKind::Reset,
        FaultKind::Rubbish,
        FaultKind::BadFrame,
        FaultKind::OmitTime,
        FaultKind::Silence,
    ];

    /// Returns the name in the script and in the truth log.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Delay => "delay",
            FaultKind::Stall => "stall",
            FaultKind::Drop => "drop",
            FaultKind::Duplicate => "duplicate",
            FaultKind::Close => "close",
            FaultKind::Reset => "reset",
            FaultKind::Rubbish => "rubbish",
            FaultKind::BadFrame => "bad-frame",
            FaultKind::OmitTime => "omit-time",
            FaultKind::Silence => "silence",
        }
    }

    fn needs_duration(self) -> bool {
        matches!(self, FaultKind::Delay | FaultKind::Stall)
    }
}

/// The rules of a script. The default has none.
#[derive(Clone, Debug, Default)]
pub struct FaultScript {
    seed: u64,
    rules: Vec<FaultRule>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultRule {
    kind: FaultKind,
    #[serde(default)]
    at: Vec<u64>,
    share: Option<f64>,
    #[serde(default)]
    from: u64,
    #[serde(default = "last_sequence")]
    to: u64,
    #[serde(default)]
    ms: u64,
    connection: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    seed: Option<u64>,
    #[serde(default)]
    fault: Vec<FaultRule>,
}

fn last_sequence() -> u64 {
    u64::MAX
}

/// A fault of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub kind: FaultKind,
    /// Length of a delay or stall.
    pub duration: Duration,
}

impl FaultScript {
    /// Parses a script. `seed` applies if the script has none.
    ///
    /// # Errors
    /// The text is not TOML, has an unknown key or kind, or a rule that cannot be applied.
    pub fn parse(text: &str, seed: u64) -> Result<Self, String> {
        let script: Script = toml::from_str(text).map_err(|error| error.to_string())?;
        for (number, rule) in script.fault.iter().enumerate() {
            let number = number + 1;
            let wrong = |what: &str| Err(format!("fault {number} ({}): {what}", rule.kind.name()));
            match rule.share {
                Some(_) if !rule.at.is_empty() => return wrong("give either at or share, not both"),
                None if rule.at.is_empty() => return wrong("give at (a list of sequences) or share"),
                Some(share) if !(0.0..=1.0).contains(&share) => {
                    return wrong(&format!("share {share}: expected a number from 0 to 1"));
                }
                _ => {}
            }
            if rule.kind.needs_duration() && rule.ms == 0 {
                return wrong("ms is missing: expected milliseconds above 0");
            }
            if !rule.kind.needs_duration() && rule.ms != 0 {
                return wrong("ms applies only to delay and stall");
            }
        }
        Ok(FaultScript { seed: script.seed.unwrap_or(seed), rules: script.fault })
    }

    /// Returns the fault of a message on a connection.
    pub(super) fn find(&self, sequence: u64, connection: u32) -> Option<Fault> {
        let rule = self.rules.iter().zip(0_u64..).find(|(rule, number)| {
            rule.connection.is_none_or(|only| only == connection)
                && (rule.from..=rule.to).contains(&sequence)
                && rule.share.map_or_else(|| rule.at.contains(&sequence), |share| self.draw(*number, sequence) < share)
        });
        rule.map(|(rule, _)| Fault { kind: rule.kind, duration: Duration::from_millis(rule.ms) })
    }

    /// Draws a number from 0 to 1 for a rule and a message.
    #[allow(clippy::cast_precision_loss)] // 53 bits are kept.
    fn draw(&self, rule: u64, sequence: u64) -> f64 {
        let mut mixed = SplitMix64::new(self.seed ^ rule.rotate_left(48) ^ sequence);
        (mixed.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(script: &FaultScript, connection: u32, sequences: std::ops::RangeInclusive<u64>) -> Vec<(u64, FaultKind)> {
        sequences.filter_map(|n| Some((n, script.find(n, connection)?.kind))).collect()
    }

    #[test]
    fn listed_messages_are_selected_and_the_first_rule_applies() {
        let text =
            "[[fault]]\nkind = \"drop\"\nat = [3, 5]\n[[fault]]\nkind = \"omit-time\"\nat = [5, 6]\nconnection = 2\n";
        let script = FaultScript::parse(text, 1).unwrap();
        assert_eq!(kinds(&script, 1, 1..=9), [(3, FaultKind::Drop), (5, FaultKind::Drop)]);
        let second = [(3, FaultKind::Drop), (5, FaultKind::Drop), (6, FaultKind::OmitTime)];
        assert_eq!(kinds(&script, 2, 1..=9), second);
    }

    #[test]
    fn a_share_selects_about_that_many_within_its_range() {
        let text = "seed = 4\n[[fault]]\nkind = \"duplicate\"\nshare = 0.01\nfrom = 1001\nto = 101000\n";
        let script = FaultScript::parse(text, 1).unwrap();
        let found = kinds(&script, 1, 1..=200_000);
        // Mean 1,000, standard deviation 31.
        assert!((850..=1_150).contains(&found.len()), "{}", found.len());
        assert!(found.iter().all(|(n, _)| (1_001..=101_000).contains(n)));
        assert_eq!(found, kinds(&script, 2, 1..=200_000));
        let other = FaultScript::parse(&text.replace("seed = 4", "seed = 5"), 1).unwrap();
        assert_ne!(found, kinds(&other, 1, 1..=200_000));
    }

    #[test]
    fn bad_scripts_are_refused_with_the_reason() {
        for (text, expected) in [
            ("[[fault]]\nkind = \"explode\"\nat = [1]\n", "unknown variant `explode`"),
            ("[[fault]]\nkind = \"drop\"\nat = [1]\nwhy = 1\n", "unknown field `why`"),
            ("speed = 1\n", "unknown field `speed`"),
            ("[[fault]]\nkind = \"drop\"\n", "fault 1 (drop): give at"),
            ("[[fault]]\nkind = \"drop\"\nat = [1]\nshare = 0.5\n", "either at or share"),
            ("[[fault]]\nkind = \"drop\"\nshare = 1.5\n", "share 1.5"),
            ("[[fault]]\nkind = \"drop\"\nshare = nan\n", "share NaN"),
            ("[[fault]]\nkind = \"stall\"\nat = [1]\n", "ms is missing"),
            ("[[fault]]\nkind = \"drop\"\nat = [1]\nms = 5\n", "only to delay and stall"),
            ("fault", "TOML parse error"),
        ] {
            let error = FaultScript::parse(text, 1).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
