//! Statistics that the splitter shares with its observers, several times a second.
//!
//! Holds       the splitter never waits for an observer: if the statistics are being read, it
//!             updates them next time.
//! Start at    [`SharedStats`].

use std::sync::{Mutex, PoisonError};

use crate::stats::{FeedTotals, HandOverLag};
use crate::transport::TransportTotals;

/// Buckets of the lag histogram by octaves of microseconds: below 1, 2, 4 … 65,536 µs and above.
pub const LAG_OCTAVES: usize = 18;

#[derive(Clone, Debug, Default)]
pub struct SplitterStats {
    pub mono_ns: u64,
    pub is_connected: bool,
    pub totals: FeedTotals,
    pub dealt: TransportTotals,
    pub unusual: u64,
    pub no_sym: u64,
    /// Bytes that each worker has not taken.
    pub waiting_bytes: Vec<u64>,
    pub lag: HandOverLag,
    pub lag_octaves: [u64; LAG_OCTAVES],
    /// The latest event of the connection.
    pub news: String,
}

#[derive(Debug, Default)]
pub struct SharedStats(Mutex<SplitterStats>);

impl SharedStats {
    pub fn post(&self, fill: impl FnOnce(&mut SplitterStats)) {
        if let Ok(mut snapshot) = self.0.try_lock() {
            fill(&mut snapshot);
        }
    }

    pub fn read(&self) -> SplitterStats {
        // An observer that panicked while reading changed nothing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
