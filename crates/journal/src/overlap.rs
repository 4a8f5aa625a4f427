//! A commit in two steps: its groups are written by the journal's thread and synced by another.
//!
//! Does        let the venue execute the next commands while the disk syncs the last ones.
//! Holds       1. nothing of a commit is durable, and nothing of it may be acknowledged, before
//!                [`Journal::finish_commit`] has returned;
//!             2. one commit is unfinished at a time. So a crash leaves no other state of the disk
//!                than during a commit in one step.
//! Start at    [`Journal::start_commit`].

use pitwire_model::Seq;

use crate::{File, Journal, LogError, OutputHash};

/// The job of syncing the groups of one commit. May run on any thread.
pub struct SyncJob {
    file: Box<dyn File>,
    name: String,
    /// Last command of the commit.
    last: Seq,
}

/// The proof that a [`SyncJob`] succeeded.
pub struct SyncedCommit {
    last: Seq,
}

impl SyncJob {
    /// Returns once the commit would survive a power cut.
    ///
    /// # Errors
    ///
    /// Returns the I/O error of the sync. The journal accepts nothing after it got this outcome.
    pub fn run(mut self) -> Result<SyncedCommit, LogError> {
        match self.file.sync() {
            Ok(()) => Ok(SyncedCommit { last: self.last }),
            Err(source) => Err(LogError::Io { doing: "sync", file: self.name, source }),
        }
    }
}

impl Journal {
    /// Writes everything appended and returns the job that makes it durable, or `None` if nothing
    /// was appended. Its outcome goes to [`Self::finish_commit`]. Meanwhile further commands may be
    /// appended, and they belong to the next commit. `output` is as in [`Log::commit`].
    ///
    /// [`Log::commit`]: crate::Log::commit
    ///
    /// # Errors
    ///
    /// Returns an error if the commit before is not finished, or if the groups cannot be written.
    /// The journal accepts nothing after a failed write.
    pub fn start_commit(&mut self, output: OutputHash) -> Result<Option<SyncJob>, LogError> {
        self.check_health()?;
        self.check_finished()?;
        if self.batch.is_empty() {
            return Ok(None);
        }
        let started = self.write_and_duplicate(output);
        self.poison_on_error(started).map(Some)
    }

    fn write_and_duplicate(&mut self, output: OutputHash) -> Result<SyncJob, LogError> {
        let unfinished = self.write_commit(output)?;
        let name = self.active.name.clone();
        let file = self.active.file.duplicate();
        let file = file.map_err(|source| LogError::Io { doing: "duplicate", file: name.clone(), source })?;
        self.unfinished = Some(unfinished);
        Ok(SyncJob { file, name, last: unfinished.last })
    }

    /// Takes the outcome of the [`SyncJob`] and returns the number of the last durable command.
    ///
    /// # Errors
    ///
    /// Returns the error of the sync, or an error if an operator deleted or replaced the segment.
    /// The journal then accepts nothing, and nothing of the commit may be acknowledged.
    pub fn finish_commit(&mut self, outcome: Result<SyncedCommit, LogError>) -> Result<Seq, LogError> {
        self.check_health()?;
        let finished = outcome.and_then(|synced| {
            let unfinished = self.unfinished.take().filter(|unfinished| unfinished.last == synced.last);
            self.accept_commit(unfinished.ok_or(LogError::Unfinished)?)
        });
        self.poison_on_error(finished)?;
        Ok(self.durable)
    }

    /// Refuses a commit while another one is not finished.
    pub(crate) fn check_finished(&self) -> Result<(), LogError> {
        if self.unfinished.is_some() { Err(LogError::Unfinished) } else { Ok(()) }
    }
}
