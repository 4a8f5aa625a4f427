//! Workers in this process that count and verify what they get.
//!
//! Does        take records in bulk from pipes or rings; count, add checksums up, check each symbol's sequence.
//! Holds       a symbol's number that skips some without a gap record since its last one is a loss.
//! Leaves out  judging the text of a trade: what has no sequence number is counted and not checked.
//! Start at    [`CounterThreads::start`]; [`StreamChecker`] for what is counted.

mod readers;

use std::thread::JoinHandle;

use crate::clock::thread_cpu_ns;
use crate::stream_checker::StreamCounts;
use crate::transport_error::TransportError;
use crate::worker_ends::WorkerEnds;

/// A few threads, each with its share of the workers: they read in bulk, and the feed and the splitter want a core each.
pub(crate) struct CounterThreads {
    threads: Vec<JoinHandle<(Vec<StreamCounts>, u64)>>,
}

/// What all of them found, by worker, and what they used of processors for it.
#[derive(Debug, Default)]
pub(crate) struct CounterResults {
    pub counted: Vec<StreamCounts>,
    pub cpu_ns: u64,
}

/// The feed's and the splitter's.
const CORES_OF_OTHERS: usize = 2;
/// Counting a trade costs about as much as dealing it: more would only take turns.
const MOST_THREADS: usize = 4;

type Share = Box<dyn FnOnce() -> Vec<StreamCounts> + Send>;

impl CounterThreads {
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

    /// Waits until they have read everything; their channels have ended.
    pub fn finish(self) -> CounterResults {
        self.threads.into_iter().fold(CounterResults::default(), |mut found, thread| {
            let (counted, cpu_ns) = thread.join().unwrap_or_default();
            found.counted.extend(counted);
            found.cpu_ns += cpu_ns;
            found
        })
    }
}

/// What is to be read in runs of about equal length, one a thread.
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
