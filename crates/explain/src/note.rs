//! One explanation.

use pitwire_model::Seq;
use pitwire_scenario::{date_text, time_text};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::venue_view::VenueView;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Note {
    /// Number of the command that caused it.
    pub seq: u64,
    /// Venue time in nanoseconds since 1970, UTC.
    pub at_ns: u64,
    /// `at_ns` in the venue's local time, in nanoseconds since 1970.
    #[serde(skip)]
    pub(crate) local_ns: u64,
    pub what: &'static str,
    /// The section of the rulebook, or the id of a table cell.
    pub rule: String,
    pub text: String,
    pub numbers: Map<String, Value>,
}

impl Note {
    pub(crate) fn new(seq: Seq, venue: &VenueView, what: &'static str, rule: &str, text: impl Into<String>) -> Note {
        let (at_ns, local_ns) = (venue.now.0, venue.local_ns(venue.now));
        Note { seq: seq.0, at_ns, local_ns, what, rule: rule.to_owned(), text: text.into(), numbers: Map::new() }
    }

    #[must_use]
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Note {
        self.numbers.insert(key.to_owned(), value.into());
        self
    }

    /// Formats the note as one line of text, with its local time.
    pub fn line(&self) -> String {
        let day = u32::try_from(self.local_ns / (86_400 * 1_000_000_000)).unwrap_or(u32::MAX);
        format!(
            "{} {} command {}: {}: {} [{}]",
            date_text(day),
            time_text(self.local_ns),
            self.seq,
            self.what,
            self.text,
            self.rule
        )
    }
}
