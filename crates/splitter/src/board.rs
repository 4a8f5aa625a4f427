//! What the splitter tells those who watch it: a snapshot, some times a second.
//!
//! Holds       the splitter never waits for a watcher: a board that is being read is posted the next time.
//! Start at    [`Board`].

use std::sync::{Mutex, PoisonError};

use crate::stats::{Lag, Received};
use crate::transport::Totals;

/// Octaves of microseconds of the lag's histogram: below 1, 2, 4 … 65,536 µs and above.
pub const OCTAVES: usize = 18;

#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub mono_ns: u64,
    pub is_connected: bool,
    pub totals: Received,
    pub dealt: Totals,
    pub unusual: u64,
    pub no_sym: u64,
    /// Bytes that each worker has not taken yet.
    pub waiting_bytes: Vec<u64>,
    pub lag: Lag,
    pub lag_octaves: [u64; OCTAVES],
    /// What happened last to the connection.
    pub news: String,
}

#[derive(Debug, Default)]
pub struct Board(Mutex<Snapshot>);

impl Board {
    pub fn post(&self, fill: impl FnOnce(&mut Snapshot)) {
        if let Ok(mut snapshot) = self.0.try_lock() {
            fill(&mut snapshot);
        }
    }

    pub fn read(&self) -> Snapshot {
        // A watcher that panicked while reading has changed nothing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
