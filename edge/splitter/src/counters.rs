//! Workers in this process that count and verify what they get.
//!
//! Does        take records in bulk from pipes or rings; count, add checksums up, check each symbol's sequence.
//! Holds       a symbol's number that skips some without a gap record since its last one is a loss.
//! Leaves out  judging the text of a trade: what has no sequence number is counted and not checked.
//! Start at    [`Counters::start`]; [`Tally`] for what is counted.

mod intake;
mod tally;

pub use tally::Counted;
#[cfg(test)]
pub(crate) use tally::Tally;

use std::thread::JoinHandle;

use crate::lanes::Ends;
use crate::transport::Failure;

/// One thread for all of them: it reads in bulk, and another core is rarely to be had.
pub(crate) struct Counters {
    thread: Option<JoinHandle<Vec<Counted>>>,
}

impl Counters {
    pub fn start(ends: Ends) -> Result<Self, Failure> {
        let run: Box<dyn FnOnce() -> Vec<Counted> + Send> = match ends {
            Ends::Pipes(pipes) => {
                let mut pipes = intake::Pipes::open(pipes).map_err(cannot)?;
                Box::new(move || pipes.count())
            }
            Ends::Rings(paths) => {
                let mut rings = intake::Rings::open(&paths).map_err(cannot)?;
                Box::new(move || rings.count())
            }
        };
        let thread = std::thread::Builder::new().name("counters".into()).spawn(run).map_err(cannot)?;
        Ok(Self { thread: Some(thread) })
    }

    /// Waits until they have read everything; their lanes have ended.
    pub fn finish(mut self) -> Vec<Counted> {
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

fn cannot(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("cannot start the counters: {error}"), "allow more threads and open files (ulimit -u, -n)")
}
