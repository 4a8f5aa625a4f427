//! Built-in workers that count and verify what they receive.
//!
//! Does        reads records in bulk from pipes or rings; counts, sums checksums, checks each
//!             symbol's sequence.
//! Holds       a jump in a symbol's sequence numbers without a gap record is a loss.
//! Leaves out  validating trades: a record without a sequence number is counted and not checked.
//! Start at    [`CounterThreads::start`]; `StreamChecker` counts.

mod readers;

use std::thread::JoinHandle;

use crate::clock::thread_cpu_ns;
use crate::stream_checker::StreamCounts;
use crate::transport_error::TransportError;
use crate::worker_ends::WorkerEnds;

/// A few threads, each with some of the workers. They read in bulk, so few suffice.
pub(crate) struct CounterThreads {
    threads: Vec<JoinHandle<(Vec<StreamCounts>, u64)>>,
}

/// The counts of all workers, and the CPU time that counting took.
#[derive(Debug, Default)]
pub(crate) struct CounterResults {
    pub counted: Vec<StreamCounts>,
    pub cpu_ns: u64,
}

/// Cores that are left to the feed and to the splitter.
const CORES_OF_OTHERS: usize = 2;
/// Most threads. Counting a trade costs about as much as routing it, so more would only take turns.
const MOST_THREADS: usize = 4;

type Share = Box<dyn FnOnce() -> Vec<StreamCounts> + Send>;

impl CounterThreads {
    /// Starts threads that read and count everything that is sent to the workers.
    ///
    /// # Errors
    /// If a pipe or a ring cannot be opened, or a thread cannot be started.
    pub fn start(ends: WorkerEnds) -> Result<Self, TransportError> {
        let mut shares: Vec<Share> = Vec::new();
        match ends {
            WorkerEnds::Pipes(pipes) => {
                let workers = pipes.len();
                for share in shared(pipes) {
                    let mut pipes = readers::Pipes::open(share, workers).map_err(cannot)?;
                    shares.push(Box::new(move || pipes.count()));
                }
            }
            WorkerEnds::Rings(paths) => {
                let workers = paths.len();
                for share in shared(paths) {
                    let mut rings = readers::Rings::open(&share, workers).map_err(cannot)?;
                    shares.push(Box::new(move || rings.count()));
                }
            }
        }
        let start = |share: Share| {
            let run = move || {
                let counted = share();
                (counted, thread_cpu_ns())
            };
            std::thread::Builder::new().name("counters".into()).spawn(run)
        };
        Ok(Self { threads: shares.into_iter().map(start).collect::<Result<_, _>>().map_err(cannot)? })
    }

    /// Waits until the threads have read everything. The channels must have ended.
    pub fn finish(self) -> CounterResults {
        self.threads.into_iter().fold(CounterResults::default(), |mut found, thread| {
            let (counted, cpu_ns) = thread.join().unwrap_or_default();
            found.counted.extend(counted);
            found.cpu_ns += cpu_ns;
            found
        })
    }
}

/// Splits the workers into runs of about equal length, one per thread.
fn shared<T>(mut ends: Vec<T>) -> Vec<Vec<T>> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = cores.saturating_sub(CORES_OF_OTHERS).clamp(1, MOST_THREADS);
    let each = ends.len().div_ceil(threads).max(1);
    let mut shares = Vec::new();
    while !ends.is_empty() {
        let rest = ends.split_off(each.min(ends.len()));
        shares.push(std::mem::replace(&mut ends, rest));
    }
    shares
}

fn cannot(error: impl std::fmt::Display) -> TransportError {
    TransportError::new(
        format!("cannot start the counters: {error}"),
        "allow more threads and open files (ulimit -u, -n)",
    )
}
