//! The record that declares a gap.
//!
//! Does        writes `{"ev":"gap","sym":"","conn":n,"at_ns":…}` with the known facts about the
//!             loss.
//! Leaves out  when to send one: see `crates/splitter`.

use std::fmt::Write;

/// A gap in a worker's records: the feed's connection was lost, or the worker was too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapRecord {
    /// Number of the connection to the feed, from 1.
    pub connection: u64,
    /// Wall clock, nanoseconds since 1970.
    pub at_ns: u64,
    /// Objects of this worker that it did not receive.
    pub dropped: Option<u64>,
    /// How often the worker's program was restarted.
    pub restarts: Option<u64>,
}

impl GapRecord {
    pub fn text(&self) -> String {
        let mut text = format!("{{\"ev\":\"gap\",\"sym\":\"\",\"conn\":{},\"at_ns\":{}", self.connection, self.at_ns);
        for (name, value) in [("dropped", self.dropped), ("restarts", self.restarts)] {
            if let Some(value) = value {
                // Writing to a string cannot fail.
                let _ = write!(text, ",\"{name}\":{value}");
            }
        }
        text.push('}');
        text
    }
}
