//! Where commands go before anything is said about them: the disk, or, by an explicit choice, memory.

use pitwire_journal::Journal;
use pitwire_journal::{Log, LogError, OutputHash};
use pitwire_model::{Seq, Stamped};

pub enum Ledger {
    Disk(Box<Journal>),
    /// Nothing survives the process. Every status says so.
    Memory {
        appended: Seq,
        committed: Seq,
    },
}

impl Ledger {
    pub fn memory() -> Self {
        Ledger::Memory { appended: Seq(0), committed: Seq(0) }
    }

    pub fn journal(&self) -> Option<&Journal> {
        match self {
            Ledger::Disk(journal) => Some(journal),
            Ledger::Memory { .. } => None,
        }
    }

    pub fn journal_mut(&mut self) -> Option<&mut Journal> {
        match self {
            Ledger::Disk(journal) => Some(journal),
            Ledger::Memory { .. } => None,
        }
    }
}

impl Log for Ledger {
    fn append(&mut self, entry: &Stamped) -> Result<(), LogError> {
        match self {
            Ledger::Disk(journal) => journal.append(entry),
            Ledger::Memory { appended, .. } => {
                *appended = entry.seq;
                Ok(())
            }
        }
    }

    fn commit(&mut self, output: OutputHash) -> Result<Seq, LogError> {
        match self {
            Ledger::Disk(journal) => journal.commit(output),
            Ledger::Memory { appended, committed } => {
                *committed = *appended;
                Ok(*committed)
            }
        }
    }

    fn durable_position(&self) -> Seq {
        match self {
            Ledger::Disk(journal) => journal.durable_position(),
            Ledger::Memory { committed, .. } => *committed,
        }
    }

    fn follow_from(&self, from: Seq, visit: &mut dyn FnMut(Stamped)) -> Result<(), LogError> {
        match self {
            Ledger::Disk(journal) => journal.follow_from(from, visit),
            Ledger::Memory { .. } => Ok(()),
        }
    }
}
