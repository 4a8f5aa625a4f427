//! The record that says something is missing.
//!
//! Does        `{"ev":"gap","sym":"","conn":n,"at_ns":…}`, with what is known of the loss.
//! Leaves out  when one is due: see `crates/splitter`.

use std::fmt::Write;

/// A break in what a worker gets: of the feed, or because it did not take what was its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Number of the connection to the feed, from 1.
    pub connection: u64,
    /// Realtime, nanoseconds since 1970.
    pub at_ns: u64,
    /// Objects that were this worker's and that it did not get.
    pub dropped: Option<u64>,
    /// How often its program has been started again.
    pub restarts: Option<u64>,
}

impl Gap {
    pub fn text(&self) -> String {
        let mut text = format!("{{\"ev\":\"gap\",\"sym\":\"\",\"conn\":{},\"at_ns\":{}", self.connection, self.at_ns);
        for (name, value) in [("dropped", self.dropped), ("restarts", self.restarts)] {
            if let Some(value) = value {
                // Writing into a string cannot fail.
                let _ = write!(text, ",\"{name}\":{value}");
            }
        }
        text.push('}');
        text
    }
}
