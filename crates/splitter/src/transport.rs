//! The interface of transports, which send the splitter's objects to workers.
//!
//! Does        defines the trait, its options and its counts.
//! Leaves out  the implementations: pipes and rings are in `local`, WebSocket in `ws_transport`,
//!             NATS in `shard_publisher`.

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

/// A way to send objects to workers.
///
/// No method but `finish` blocks, except under `--on-slow block`. The policy for slow workers
/// handles a worker that does not take its objects, without delaying the others.
pub trait Transport {
    /// HOT. Sends each object of `text` to its worker, in order. Must not keep `text` beyond the
    /// call.
    fn send_objects(&mut self, text: &[u8], objects: &[Object]);

    /// Returns where to receive the next bytes of the feed, so that workers can refer to them, or
    /// `None` if any place will do. Called after everything received before was routed.
    fn receive_buffer(&mut self) -> Option<ReceiveBuffer> {
        None
    }

    /// Notes that `bytes` bytes were received there and will now be routed.
    fn commit_received(&mut self, _bytes: usize) {}

    /// Sends a record of the splitter itself (a gap) to one worker, in order with the objects.
    fn send_note(&mut self, worker: u32, record: &[u8]);

    /// Hands over everything that was sent since the last call, and wakes sleeping workers. Called
    /// once per read.
    fn hand_over(&mut self);

    /// Notes the number of the feed's connection, for gap records.
    fn connected(&mut self, _connection: u64) {}

    /// Returns whether [`Transport::hand_over`] must be called again soon even if nothing new
    /// arrives.
    fn has_pending(&self) -> bool {
        false
    }

    fn totals(&self) -> TransportTotals {
        TransportTotals::default()
    }

    /// Returns how many bytes a worker has not taken.
    fn pending_bytes(&mut self, _worker: u32) -> u64 {
        0
    }

    /// Returns the next warning for the operator, each one once. The transport continues.
    fn report(&mut self) -> Option<TransportError> {
        None
    }

    /// Returns why the transport cannot continue. After that no object reaches a worker.
    fn failure(&self) -> Option<TransportError> {
        None
    }

    /// Hands over the remaining records while workers take them, at most for `patience`, then ends
    /// the workers.
    ///
    /// # Errors
    /// Fails if the workers did not receive everything, or if their program failed.
    fn finish(&mut self, patience: Duration) -> Result<TransportSummary, TransportError>;
}

/// Options for serving workers.
#[derive(Clone, Debug)]
pub struct TransportOptions {
    pub workers: u32,
    pub policy: SlowWorkerPolicy,
    /// Whether workers receive gap records.
    pub gap_records: bool,
    /// The program that reads the records. `None` uses built-in counters.
    pub program: Option<WorkerProgram>,
    /// For pipes: whether to lend pages to the kernel instead of copying them. A reader that
    /// forwards pages (splice, tee) would see them change. `None` lends them only to the built-in
    /// counters, which copy the pages.
    pub lend_pages: Option<bool>,
    /// Size of a ring in bytes of records; a power of two.
    pub ring_bytes: u64,
    /// Directory of the rings.
    pub ring_directory: PathBuf,
    /// The memory that rings refer to.
    pub(crate) area: Option<Arc<ReceiveArea>>,
    /// Set when the run is to end. From then on nothing waits for a worker.
    pub stop: Arc<AtomicBool>,
}

impl TransportOptions {
    /// Returns the defaults: built-in counters, rings of one MiB, 64 MiB of spill.
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

/// Counts of all routed objects by result. `routed = handed + dropped + conflated + spilled_now`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportTotals {
    /// Objects given to workers unchanged.
    pub handed: u64,
    /// Gap records given to workers.
    pub gaps: u64,
    /// Objects that no worker received.
    pub dropped: u64,
    /// Objects that went through the queue of a slow worker.
    pub spilled: u64,
    /// Objects that are in such queues now.
    pub spilled_now: u64,
    /// Objects that a conflated record summarises, or will summarise.
    pub conflated: u64,
    /// How often the program was restarted.
    pub restarts: u64,
    /// Workers that are behind.
    pub behind: u32,
}

/// The final result of a transport.
#[derive(Clone, Debug, Default)]
pub struct TransportSummary {
    pub totals: TransportTotals,
    /// The counts of each built-in counter; empty if a program read the records.
    pub counted: Vec<StreamCounts>,
    /// CPU time of those counters, in nanoseconds.
    pub counters_cpu_ns: u64,
    /// How the program ended, in words.
    pub program: Option<String>,
}
