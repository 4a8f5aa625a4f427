//! Counters of the proxy, and the end of its faults.
//!
//! Start at    [`FaultCounts`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pitwire_fault_script::FaultKind;

/// Counters of connections, messages and faults.
#[derive(Debug)]
pub struct FaultCounts {
    connections: AtomicU64,
    messages: AtomicU64,
    faults: [AtomicU64; FaultKind::COUNT],
    is_healed: AtomicBool,
    active_until: Option<Instant>,
}

impl FaultCounts {
    /// Creates counters. Faults end after `lasts`, if it is given.
    pub(crate) fn new(lasts: Option<Duration>) -> Self {
        FaultCounts {
            connections: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            faults: Default::default(),
            is_healed: AtomicBool::new(false),
            active_until: lasts.and_then(|lasts| Instant::now().checked_add(lasts)),
        }
    }

    /// Returns whether messages still suffer faults.
    pub(crate) fn is_active(&self) -> bool {
        !self.is_healed.load(Ordering::Relaxed) && self.active_until.is_none_or(|until| Instant::now() < until)
    }

    pub(crate) fn count(&self, kind: FaultKind) {
        self.faults[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_message(&self) {
        self.messages.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection and returns its number.
    pub(crate) fn count_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Ends all faults.
    pub(crate) fn heal(&self) {
        self.is_healed.store(true, Ordering::Relaxed);
    }

    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Returns the messages of both directions, without control frames.
    pub fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    pub fn faults(&self, kind: FaultKind) -> u64 {
        self.faults[kind as usize].load(Ordering::Relaxed)
    }
}
