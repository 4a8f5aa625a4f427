//! State shared by the threads of all connections: the start of the feed's clock, and totals.
//!
//! Start at    [`SharedFeed::wait_for_start`].

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use pitwire_fault_script::{FaultKind, FaultScript, Injector};
use pitwire_net::{ServerConfig, monotonic_ns};

use super::arrivals::MessageTimes;
use super::relay::RelayLog;
use crate::recorder::RecordOptions;
use crate::trades::MessageSource;

/// Most connections at a time. Further ones are closed at once.
const CONNECTIONS_MAX: u32 = 256;
/// Longest wait before the stop flag is checked.
pub(super) const STOP_CHECK: Duration = Duration::from_millis(100);
/// Time from the last connection of `start_with` to the first message.
const START_DELAY_NS: u64 = 20_000_000;

/// Makes the feed's messages from the beginning, or returns why it cannot.
pub type SourceFactory = dyn Fn() -> Result<Box<dyn MessageSource>, String> + Send + Sync;

/// Content and times of a live feed.
pub struct LiveConfig {
    pub times: MessageTimes,
    /// The feed ends after this many messages.
    pub messages: Option<u64>,
    pub has_envelope: bool,
    pub faults: FaultScript,
    pub truth: Option<PathBuf>,
    /// Busy wait before a message is due.
    pub spin: Duration,
    /// Connections that the feed waits for before it starts its clock.
    pub start_with: u32,
    /// Splits each message into frames of at most this many payload bytes.
    pub fragment_bytes: Option<usize>,
    /// Compresses messages for readers that offer it.
    pub compresses: bool,
    /// Serves TLS if present.
    pub tls: Option<Arc<ServerConfig>>,
    /// A connection gets nothing before its first text message: its subscription.
    pub needs_subscription: bool,
    /// The server whose messages this feed sends on, instead of those of its source and its times.
    pub relay: Option<RecordOptions>,
}

/// State shared by the threads of all connections.
pub(super) struct SharedFeed {
    pub config: LiveConfig,
    pub source: Box<SourceFactory>,
    pub stop: AtomicBool,
    pub start: Mutex<FeedStart>,
    pub started: Condvar,
    pub totals: Mutex<LiveReport>,
    pub relayed: RelayLog,
}

#[derive(Default)]
pub(super) struct FeedStart {
    pub joined: u32,
    pub open: u32,
    /// When message 1 is due, once enough connections have joined.
    pub at_ns: Option<u64>,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC` at that time.
    pub realtime_offset_ns: u64,
}

/// Totals of a live feed at its end.
pub struct LiveReport {
    pub messages: u64,
    pub bytes: u64,
    pub connections: u32,
    pub refused: u32,
    /// `sent_ns` minus `due_ns` of every message sent.
    pub late_ns: Histogram<u64>,
    /// Faults injected, by kind.
    pub faults: Vec<(FaultKind, u64)>,
    /// Why the source failed, or why the truth log is incomplete.
    pub failure: Option<String>,
}

impl LiveReport {
    pub(super) fn new() -> Self {
        LiveReport {
            messages: 0,
            bytes: 0,
            connections: 0,
            refused: 0,
            late_ns: late_histogram(),
            faults: Injector::Feed.kinds().iter().map(|kind| (*kind, 0)).collect(),
            failure: None,
        }
    }
}

/// Three digits. More than an hour late counts as an hour.
pub(super) fn late_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("these bounds are in order")
}

impl SharedFeed {
    pub fn lock_start(&self) -> MutexGuard<'_, FeedStart> {
        self.start.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn totals(&self) -> MutexGuard<'_, LiveReport> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers a connection, or returns `None` if there are too many.
    pub fn next_connection(&self) -> Option<u32> {
        let mut start = self.lock_start();
        if start.open >= CONNECTIONS_MAX {
            return None;
        }
        start.open += 1;
        let mut totals = self.totals();
        totals.connections += 1;
        Some(totals.connections)
    }

    /// Waits until the feed's clock runs. Returns when message 1 is due and the offset of
    /// `CLOCK_REALTIME`; `None` if the server stops first.
    pub fn wait_for_start(&self, is_gone: &mut dyn FnMut() -> bool) -> Option<(u64, u64)> {
        let mut start = self.lock_start();
        start.joined += 1;
        if start.joined >= self.config.start_with && start.at_ns.is_none() {
            let now_ns = monotonic_ns();
            start.at_ns = Some(now_ns + START_DELAY_NS);
            start.realtime_offset_ns = realtime_ns().saturating_sub(now_ns);
            self.started.notify_all();
        }
        loop {
            if let Some(at_ns) = start.at_ns {
                return Some((at_ns, start.realtime_offset_ns));
            }
            if self.stop.load(Relaxed) || is_gone() {
                start.joined -= 1;
                return None;
            }
            let waited = self.started.wait_timeout(start, STOP_CHECK);
            start = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until the feed's clock runs, without joining. Returns false if the server stops first.
    pub fn wait_for_clock(&self) -> bool {
        let mut start = self.lock_start();
        while start.at_ns.is_none() {
            if self.stop.load(Relaxed) {
                return false;
            }
            start = self.started.wait_timeout(start, STOP_CHECK).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Returns whether the feed has a last message and every connection has ended.
    pub fn is_over(&self) -> bool {
        let start = self.lock_start();
        let has_end = self.config.messages.is_some() || self.config.relay.is_some();
        has_end && start.at_ns.is_some() && start.open == 0
    }

    /// Notes that the source failed, and stops the server.
    pub fn fail(&self, reason: String) {
        self.totals().failure.get_or_insert(reason);
        self.stop.store(true, Relaxed);
    }
}

pub(super) fn realtime_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanos)
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
