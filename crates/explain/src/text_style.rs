//! The units of the texts of notes.
//!
//! Leaves out  the texts themselves: `view_text`.

use std::fmt;
use std::sync::Arc;

/// Returns the offset of local time from UTC in seconds, at a time in nanoseconds since 1970.
pub type UtcOffset = Arc<dyn Fn(u64) -> i64 + Send + Sync>;

/// The units of the texts. The numbers of a note are always ticks, lots and nanoseconds of UTC.
#[derive(Clone, Default)]
pub struct TextStyle {
    /// Whether texts give ticks and lots instead of prices and amounts.
    pub raw: bool,
    /// `None` writes times in UTC.
    pub utc_offset: Option<UtcOffset>,
}

impl fmt::Debug for TextStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextStyle").field("raw", &self.raw).finish_non_exhaustive()
    }
}

/// Writes a count with its noun: `1 order`, `2 orders`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
