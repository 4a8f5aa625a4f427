//! The transport `ws`, which serves each shard on a separate WebSocket path.
//!
//! Does        makes frames of JSON arrays of objects; appends them to the shard's log, where the
//!             server thread (`serve`) finds them.
//! Holds       1. a frame is made once, however many readers it has;
//!             2. nothing waits for a reader except under `block`; a shard without readers keeps
//!                nothing.
//! Start at    [`WsTransport::put`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pitwire_feed::Object;
use pitwire_net::Waker;
use pitwire_websocket::{Opcode, write_header};

use crate::clock::mono_ns;
use crate::policy::SlowWorkerPolicy;
use crate::retained_log::{LogCursor, RetainedLog};
use crate::transport::{Transport, TransportSummary, TransportTotals};
use crate::transport_error::TransportError;

/// Size in bytes at which a frame is completed.
const FRAME_BYTES: usize = 64 * 1024;
/// Largest lag of a reader in bytes, under policies that do not set one.
const LOG_BYTES: u64 = 1 << 20;
/// Length of the longest frame header.
const HEADER_BYTES: usize = 10;
/// Interval at which a wait for a reader checks the stop flag.
const GLANCE: Duration = Duration::from_millis(50);

/// One shard, shared by the routing thread and the server thread.
pub(crate) struct ShardLog {
    state: Mutex<ShardState>,
    /// Under `block`: signals that the slowest reader has advanced.
    moved: Condvar,
}

pub(crate) struct ShardState {
    pub log: RetainedLog,
    pub readers: u32,
    /// Position of the slowest reader.
    pub slowest: LogCursor,
}

/// State shared by the routing thread and the server thread.
pub(crate) struct SharedShards {
    pub logs: Vec<ShardLog>,
    pub policy: SlowWorkerPolicy,
    pub gap_records: bool,
    /// Number of the feed's connection, for gap records.
    pub connection: AtomicU64,
    pub dropped: AtomicU64,
    pub gaps: AtomicU64,
    /// The server thread was woken for new frames and has not looked at the logs yet.
    is_signalled: AtomicBool,
    waker: Waker,
}

impl ShardLog {
    pub fn lock(&self) -> MutexGuard<'_, ShardState> {
        // A thread that panicked leaves complete frames only.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn has_moved(&self) {
        self.moved.notify_one();
    }
}

impl SharedShards {
    pub fn new(workers: u32, policy: SlowWorkerPolicy, gap_records: bool) -> Self {
        let limit = match policy {
            SlowWorkerPolicy::Spill { bytes } => bytes,
            _ => LOG_BYTES,
        };
        let shard = || ShardLog {
            state: Mutex::new(ShardState { log: RetainedLog::new(limit), readers: 0, slowest: LogCursor::default() }),
            moved: Condvar::new(),
        };
        SharedShards {
            logs: (0..workers).map(|_| shard()).collect(),
            policy,
            gap_records,
            connection: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            gaps: AtomicU64::new(0),
            is_signalled: AtomicBool::new(false),
            waker: Waker::default(),
        }
    }

    /// Returns the waker of the server thread.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Wakes the server thread to look at the logs. Does nothing if an earlier signal is still
    /// waiting for it.
    pub fn signal(&self) {
        if !self.is_signalled.swap(true, Ordering::SeqCst) {
            self.waker.wake();
        }
    }

    /// Says whether the server thread was signalled since the last call.
    pub fn take_signal(&self) -> bool {
        self.is_signalled.swap(false, Ordering::SeqCst)
    }
}

pub struct WsTransport {
    shards: Arc<SharedShards>,
    staged: Vec<FrameBuilder>,
    handed: u64,
    /// Objects of shards without readers.
    unread: u64,
    stop: Arc<AtomicBool>,
}

#[derive(Default)]
struct FrameBuilder {
    /// Space for the frame header, then the beginning of the array.
    bytes: Vec<u8>,
    objects: u64,
    notes: u64,
}

impl WsTransport {
    /// `stop`: set when the run is to end; from then on nothing waits for a reader.
    pub(crate) fn new(shards: Arc<SharedShards>, stop: Arc<AtomicBool>) -> Self {
        let staged = shards.logs.iter().map(|_| FrameBuilder::default()).collect();
        WsTransport { shards, staged, handed: 0, unread: 0, stop }
    }

    fn stage(&mut self, worker: usize, record: &[u8]) {
        let staged = &mut self.staged[worker];
        if staged.bytes.is_empty() {
            staged.bytes.resize(HEADER_BYTES, 0);
            staged.bytes.push(b'[');
        } else {
            staged.bytes.push(b',');
        }
        staged.bytes.extend_from_slice(record);
        if staged.bytes.len() >= FRAME_BYTES {
            self.put(worker);
        }
    }

    /// Completes the frame and appends it to the log.
    fn put(&mut self, worker: usize) {
        let FrameBuilder { bytes, objects, notes } = &mut self.staged[worker];
        if bytes.is_empty() {
            return;
        }
        bytes.push(b']');
        let mut header = Vec::with_capacity(HEADER_BYTES);
        write_header(&mut header, Opcode::Text, bytes.len() - HEADER_BYTES);
        let start = HEADER_BYTES - header.len();
        bytes[start..HEADER_BYTES].copy_from_slice(&header);
        let shard = &self.shards.logs[worker];
        let mut state = shard.lock();
        if state.readers == 0 {
            self.unread += *objects;
        } else {
            let frame_bytes = (bytes.len() - start) as u64;
            while self.shards.policy == SlowWorkerPolicy::Block
                && state.readers > 0
                && state.log.would_overrun(frame_bytes, state.slowest)
                && !self.stop.load(Ordering::Relaxed)
            {
                self.shards.signal();
                state = shard.moved.wait_timeout(state, GLANCE).unwrap_or_else(PoisonError::into_inner).0;
            }
            state.log.push(Arc::from(&bytes[start..]), *objects);
            self.handed += *objects;
            self.shards.gaps.fetch_add(*notes, Ordering::Relaxed);
        }
        bytes.clear();
        (*objects, *notes) = (0, 0);
    }
}

impl Transport for WsTransport {
    fn send_objects(&mut self, text: &[u8], objects: &[Object]) {
        for object in objects {
            let worker = object.worker as usize;
            self.staged[worker].objects += 1;
            self.stage(worker, &text[object.start as usize..object.end as usize]);
        }
    }

    fn send_note(&mut self, worker: u32, record: &[u8]) {
        self.staged[worker as usize].notes += 1;
        self.stage(worker as usize, record);
    }

    fn hand_over(&mut self) {
        (0..self.staged.len()).for_each(|worker| self.put(worker));
        self.shards.signal();
    }

    fn connected(&mut self, connection: u64) {
        self.shards.connection.store(connection, Ordering::Relaxed);
    }

    fn totals(&self) -> TransportTotals {
        TransportTotals {
            handed: self.handed,
            dropped: self.unread + self.shards.dropped.load(Ordering::Relaxed),
            gaps: self.shards.gaps.load(Ordering::Relaxed),
            ..TransportTotals::default()
        }
    }

    fn pending_bytes(&mut self, worker: u32) -> u64 {
        let Some(shard) = self.shards.logs.get(worker as usize) else { return 0 };
        let state = shard.lock();
        if state.readers == 0 { 0 } else { state.log.waiting_bytes(state.slowest) }
    }

    fn finish(&mut self, patience: Duration) -> Result<TransportSummary, TransportError> {
        self.hand_over();
        let until_ns = mono_ns() + u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX / 2);
        let is_waiting = |shards: &SharedShards| {
            shards.logs.iter().any(|shard| {
                let state = shard.lock();
                state.readers > 0 && state.log.waiting_bytes(state.slowest) > 0
            })
        };
        while is_waiting(&self.shards) && mono_ns() < until_ns {
            self.shards.signal();
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(TransportSummary { totals: self.totals(), ..TransportSummary::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gap records count as given to workers only if the shard has a reader.
    #[test]
    fn objects_without_readers_count_as_dropped() {
        let shared = Arc::new(SharedShards::new(2, SlowWorkerPolicy::Drop, true));
        let mut shards = WsTransport::new(Arc::clone(&shared), Arc::new(AtomicBool::new(false)));
        shared.logs[1].lock().readers = 1;
        for worker in 0..2 {
            shards.send_objects(b"{}", &[Object { start: 0, end: 2, worker }]);
            shards.send_note(worker, b"{\"ev\":\"gap\"}");
        }
        assert_eq!(shards.totals().gaps, 0, "not before they are handed over");
        shards.hand_over();
        let expected = TransportTotals { handed: 1, dropped: 1, gaps: 1, ..TransportTotals::default() };
        assert_eq!(shards.totals(), expected);
        shards.hand_over();
        assert_eq!(shards.totals(), expected);
    }
}
