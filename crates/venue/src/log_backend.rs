//! The log of a venue: a journal on disk, or nothing at all.

use pitwire_journal::Journal;
use pitwire_journal::{Log, LogError, OutputHash};
use pitwire_model::{Seq, SequencedCommand};

pub enum LogBackend {
    Disk(Box<Journal>),
    /// Nothing survives the process. `/healthz`, `/metrics` and the start message report it.
    Memory {
        appended: Seq,
        committed: Seq,
    },
}

impl LogBackend {
    pub fn memory() -> Self {
        LogBackend::Memory { appended: Seq(0), committed: Seq(0) }
    }

    pub fn journal(&self) -> Option<&Journal> {
        match self {
            LogBackend::Disk(journal) => Some(journal),
            LogBackend::Memory { .. } => None,
        }
    }

    pub fn journal_mut(&mut self) -> Option<&mut Journal> {
        match self {
            LogBackend::Disk(journal) => Some(journal),
            LogBackend::Memory { .. } => None,
        }
    }
}

impl Log for LogBackend {
    fn append(&mut self, entry: &SequencedCommand) -> Result<(), LogError> {
        match self {
            LogBackend::Disk(journal) => journal.append(entry),
            LogBackend::Memory { appended, .. } => {
                *appended = entry.seq;
                Ok(())
            }
        }
    }

    fn commit(&mut self, output: OutputHash) -> Result<Seq, LogError> {
        match self {
            LogBackend::Disk(journal) => journal.commit(output),
            LogBackend::Memory { appended, committed } => {
                *committed = *appended;
                Ok(*committed)
            }
        }
    }

    fn durable_position(&self) -> Seq {
        match self {
            LogBackend::Disk(journal) => journal.durable_position(),
            LogBackend::Memory { committed, .. } => *committed,
        }
    }

    fn follow_from(&self, from: Seq, visit: &mut dyn FnMut(SequencedCommand)) -> Result<(), LogError> {
        match self {
            LogBackend::Disk(journal) => journal.follow_from(from, visit),
            LogBackend::Memory { .. } => Ok(()),
        }
    }
}
