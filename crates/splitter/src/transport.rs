//! What the source asks of a way to hand objects to workers.
//!
//! Does        name the calls, the counts and the choices.
//! Leaves out  every way: pipes and rings are in `channels`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pitwire_feed::Object;

use crate::policy::SlowWorkerPolicy;
use crate::receive_area::{ReceiveArea, ReceiveBuffer};
use crate::stream_checker::StreamCounts;
use crate::transport_error::TransportError;
use crate::worker_process::WorkerProgram;

/// A way to hand objects to workers.
///
/// Nothing here blocks but under `--on-slow block`: a worker that does not
/// take what is its own is dealt with by the policy for slow workers, at the cost of nobody else.
pub trait Transport {
    /// HOT. Objects of `text`, in order; each goes to its worker. May keep nothing of `text` beyond the call.
    fn deal(&mut self, text: &[u8], objects: &[Object]);

    /// Where the next bytes of the feed are best received: workers are then referred to them. Everything received before has
    /// been dealt. None: anywhere.
    fn receive_buffer(&mut self) -> Option<ReceiveBuffer> {
        None
    }

    /// So many bytes have been received there; now they are dealt.
    fn commit_received(&mut self, _bytes: usize) {}

    /// A record of the splitter's own (a gap), for one worker, in its place among the objects.
    fn note(&mut self, worker: u32, record: &[u8]);

    /// Everything of one read has been dealt: hands over what is staged, wakes those who wait.
    fn hand_over(&mut self);

    /// The feed's n-th connection is open; gap records name it.
    fn connected(&mut self, _connection: u64) {}

    /// Whether [`Transport::hand_over`] should be called again soon though nothing new comes.
    fn is_behind(&self) -> bool {
        false
    }

    fn totals(&self) -> TransportTotals {
        TransportTotals::default()
    }

    /// Bytes that are a worker's and that it has not taken yet.
    fn lag_bytes(&mut self, _worker: u32) -> u64 {
        0
    }

    /// What the operator should read, once each; nothing has stopped for it.
    fn report(&mut self) -> Option<TransportError> {
        None
    }

    /// Why it cannot go on: nothing dealt from now on reaches anybody.
    fn failure(&self) -> Option<TransportError> {
        None
    }

    /// The end: hands over what is left while workers take it, for so long at most, then ends them.
    fn finish(&mut self, patience: Duration) -> Result<TransportSummary, TransportError>;
}

/// How workers are served.
#[derive(Clone, Debug)]
pub struct TransportOptions {
    pub workers: u32,
    pub policy: SlowWorkerPolicy,
    /// Whether a worker is told what it did not get.
    pub gap_records: bool,
    /// Who takes the records; without one, counters in this process.
    pub program: Option<WorkerProgram>,
    /// Pipes: whether pages are lent to the kernel rather than copied; by itself, they are lent to the counters, which are
    /// known to take copies. Who moves them on (splice, tee) would see them change.
    pub lend_pages: Option<bool>,
    /// Bytes of records of a ring; a power of two.
    pub ring_bytes: u64,
    /// Where rings are made.
    pub ring_directory: PathBuf,
    /// Rings refer to records in this memory.
    pub(crate) area: Option<Arc<ReceiveArea>>,
    /// Set when the run is to end: from then on nothing waits for a worker.
    pub stop: Arc<AtomicBool>,
}

impl TransportOptions {
    /// CounterThreads, a mebibyte a ring, 64 MiB of spill.
    pub fn new(workers: u32) -> Self {
        Self {
            workers,
            policy: SlowWorkerPolicy::default(),
            gap_records: true,
            program: None,
            lend_pages: None,
            ring_bytes: 1 << 20,
            ring_directory: PathBuf::from("/dev/shm"),
            area: None,
            stop: Arc::new(AtomicBool::new(false)),
        }
    }
}

impl TransportOptions {
    pub(crate) fn lends_pages(&self) -> bool {
        self.lend_pages.unwrap_or(self.program.is_none())
    }
}

/// What has become of everything dealt so far. `dealt = handed + dropped + conflated + spilled_now`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportTotals {
    /// Objects given to workers as they came.
    pub handed: u64,
    /// Gap records given to workers.
    pub gaps: u64,
    /// Objects that nobody got.
    pub dropped: u64,
    /// Objects that went through the queue of a slow worker.
    pub spilled: u64,
    /// Objects that lie in such queues.
    pub spilled_now: u64,
    /// Objects that a conflated record stands, or will stand, for.
    pub conflated: u64,
    /// How often the program has been started again.
    pub restarts: u64,
    /// Workers that are behind.
    pub behind: u32,
}

/// What is known when all is over.
#[derive(Clone, Debug, Default)]
pub struct TransportSummary {
    pub totals: TransportTotals,
    /// What each of the built-in counters counted; empty when a program took the records.
    pub counted: Vec<StreamCounts>,
    /// Of processors, by those counters.
    pub counters_cpu_ns: u64,
    /// How the program ended, in words.
    pub program: Option<String>,
}
