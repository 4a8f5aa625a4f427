//! A thread that syncs the commits of a journal, one at a time.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

use pitwire_journal::{LogError, SyncJob, SyncedCommit};

/// Runs the syncs of a journal beside the thread that appends. It ends when it is dropped.
pub struct SyncThread {
    jobs: Sender<SyncJob>,
    done: Receiver<Result<SyncedCommit, LogError>>,
}

impl Default for SyncThread {
    fn default() -> Self {
        let (jobs, waiting) = channel::<SyncJob>();
        let (report, done) = channel();
        thread::spawn(move || {
            for job in waiting {
                if report.send(job.run()).is_err() {
                    break;
                }
            }
        });
        SyncThread { jobs, done }
    }
}

impl SyncThread {
    /// Starts a sync.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread has ended.
    pub fn start(&self, job: SyncJob) -> Result<(), LogError> {
        self.jobs.send(job).map_err(|_| LogError::Poisoned)
    }

    /// Returns the outcome of the sync if it has ended.
    pub fn poll(&self) -> Option<Result<SyncedCommit, LogError>> {
        match self.done.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(LogError::Poisoned)),
        }
    }

    /// Waits for the outcome of the sync.
    ///
    /// # Errors
    ///
    /// Returns the error of the sync.
    pub fn wait(&self) -> Result<SyncedCommit, LogError> {
        self.done.recv().unwrap_or(Err(LogError::Poisoned))
    }
}
