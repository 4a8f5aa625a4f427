//! One explanation.

use pitwire_model::{Seq, VenueNanos};
use pitwire_scenario::{date_text, time_text};
use serde::Serialize;
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Note {
    /// Number of the command that caused it.
    pub seq: u64,
    pub at_ns: u64,
    pub what: &'static str,
    /// The section of the rulebook, or the id of a table cell.
    pub rule: String,
    pub text: String,
    pub numbers: Map<String, Value>,
}

impl Note {
    pub(crate) fn new(seq: Seq, at: VenueNanos, what: &'static str, rule: &str, text: impl Into<String>) -> Note {
        Note { seq: seq.0, at_ns: at.0, what, rule: rule.to_owned(), text: text.into(), numbers: Map::new() }
    }

    #[must_use]
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Note {
        self.numbers.insert(key.to_owned(), value.into());
        self
    }

    /// Formats the note as one line of text.
    pub fn line(&self) -> String {
        let day = u32::try_from(self.at_ns / (86_400 * 1_000_000_000)).unwrap_or(u32::MAX);
        format!(
            "{} {} command {}: {}: {} [{}]",
            date_text(day),
            time_text(self.at_ns),
            self.seq,
            self.what,
            self.text,
            self.rule
        )
    }
}
