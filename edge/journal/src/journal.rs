//! The log being written: append, commit, rotate.

use std::{io, sync::Arc};

use pitwire_log::{JournalPosition, Superblock, encode_command, fits};
use pitwire_model::{Seq, Stamped};
use pitwire_ports::{Log, LogError, OutputHash, Storage};

use crate::{
    JournalConfig,
    batch::{Batch, ChainEnd},
    names,
    spare::{PrepareSegment, PreparedSegment, Segment, prepare},
    superblock::SuperblockFile,
    tail,
};

/// The venue's log. One thread owns it.
pub struct Journal {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) config: JournalConfig,
    pub(crate) active: Segment,
    pub(crate) spare: Option<Segment>,
    pub(crate) is_preparing: bool,
    pub(crate) superblock: SuperblockFile,
    pub(crate) batch: Batch,
    pub(crate) record: Vec<u8>,
    pub(crate) chain: ChainEnd,
    /// Behind the last durable group.
    pub(crate) committed: JournalPosition,
    pub(crate) appended: Seq,
    pub(crate) durable: Seq,
    pub(crate) is_poisoned: bool,
}

impl Journal {
    /// Behind the last durable group: what goes into the meta of a snapshot of `durable_position()`, or of any
    /// later command that is durable by the time the snapshot is written.
    pub fn position(&self) -> JournalPosition {
        self.committed
    }

    pub fn config(&self) -> &JournalConfig {
        &self.config
    }

    /// Whether the open group is nearly full. A caller that commits then keeps every group's output hash; one that
    /// does not is served all the same, by several groups in one commit.
    pub fn needs_commit(&self) -> bool {
        self.batch.open_payload() >= self.config.payload_limit() / 2
    }

    /// What can still be written before another segment must be made.
    pub fn remaining_bytes(&self) -> u64 {
        let spare = self.spare.as_ref().map_or(0, |spare| spare.bytes);
        self.active.bytes.saturating_sub(self.active.offset) + spare
    }

    /// The job of making the next segment, when there is none and nobody is making it. Its outcome goes to
    /// [`Self::segment_ready`]. A host that never asks pays for the making inside a commit.
    pub fn segment_wanted(&mut self) -> Option<PrepareSegment> {
        if self.spare.is_some() || self.is_preparing || self.is_poisoned {
            return None;
        }
        self.is_preparing = true;
        let storage = Arc::clone(&self.storage);
        Some(PrepareSegment { storage, number: self.active.number + 1, bytes: self.config.segment_bytes })
    }

    /// Takes the outcome of a [`PrepareSegment`]. An error (no space, say) is handed back; the journal is as it was
    /// and will want a segment again.
    pub fn segment_ready(&mut self, outcome: Result<PreparedSegment, LogError>) -> Result<(), LogError> {
        self.is_preparing = false;
        let prepared = outcome?;
        if self.spare.is_none() {
            self.spare = Some(prepared.name(self.storage.as_ref(), self.active.number + 1)?);
        }
        Ok(())
    }

    /// When [`Self::write_superblock_if_due`] will next have something to do; `None` while it is up to date.
    pub fn superblock_due_ns(&self) -> Option<u64> {
        let is_due = self.superblock.current().watermark != self.durable;
        is_due.then(|| self.superblock.due_ns(self.config.superblock_interval_ns))
    }

    /// Writes the watermark to the superblock unless that was done a moment ago. To be called often enough that the
    /// superblock is never more than 10 ms behind; costs one write and one sync of another file.
    pub fn write_superblock_if_due(&mut self, now_ns: u64) -> Result<bool, LogError> {
        self.check_health()?;
        match self.superblock_due_ns() {
            Some(due) if now_ns >= due => self.write_superblock(Some(now_ns)).map(|()| true),
            _ => Ok(false),
        }
    }

    /// A clean end: commits nothing, leaves the superblock up to date.
    pub fn close(mut self) -> Result<(), LogError> {
        self.check_health()?;
        if self.superblock_due_ns().is_some() {
            self.write_superblock(None)?;
        }
        Ok(())
    }

    pub(crate) fn write_superblock(&mut self, now_ns: Option<u64>) -> Result<(), LogError> {
        let next = Superblock {
            generation: 0,
            watermark: self.durable,
            group: self.committed.group.saturating_sub(1),
            segment: self.committed.segment,
            offset: self.committed.offset,
            hash: self.committed.previous,
        };
        let written = self.superblock.write(next, now_ns);
        self.poison_on_error(written)
    }

    fn check_health(&self) -> Result<(), LogError> {
        if self.is_poisoned { Err(LogError::Poisoned) } else { Ok(()) }
    }

    fn poison_on_error<T>(&mut self, outcome: Result<T, LogError>) -> Result<T, LogError> {
        self.is_poisoned |= outcome.is_err();
        outcome
    }

    /// Puts the batch on the disk: one write and one sync, or as many more as segments end in it.
    fn write_batch(&mut self) -> Result<(), LogError> {
        let (mut from, mut is_dirty) = (0, false);
        while from < self.batch.sealed_bytes() {
            let room = self.active.bytes.saturating_sub(self.active.offset);
            let groups = self.batch.fitting(from, room);
            if groups.is_empty() {
                if is_dirty {
                    sync(&mut self.active)?;
                    is_dirty = false;
                }
                self.rotate()?;
                continue;
            }
            self.active.file.write_at(self.active.offset, groups).map_err(failed("write", &self.active.name))?;
            self.active.offset += groups.len() as u64;
            from += groups.len();
            is_dirty = true;
        }
        sync(&mut self.active)
    }

    /// Goes on in the next segment. The one left behind is synced.
    fn rotate(&mut self) -> Result<(), LogError> {
        let number = self.active.number + 1;
        self.active = match self.spare.take() {
            Some(spare) => spare,
            None => {
                let unfinished = names::unfinished(&names::segment(number));
                prepare(self.storage.as_ref(), unfinished, self.config.segment_bytes)?
                    .name(self.storage.as_ref(), number)?
            }
        };
        Ok(())
    }

    fn commit_batch(&mut self, output: OutputHash) -> Result<(), LogError> {
        self.batch.seal(&mut self.chain, Some(output.0));
        self.write_batch()?;
        self.batch.clear();
        self.durable = self.appended;
        self.chain.watermark = self.durable;
        self.committed = JournalPosition {
            segment: self.active.number,
            offset: self.active.offset,
            group: self.chain.group,
            next: self.durable.next(),
            previous: self.chain.previous,
        };
        Ok(())
    }
}

impl Log for Journal {
    fn append(&mut self, entry: &Stamped) -> Result<(), LogError> {
        self.check_health()?;
        let expected = self.appended.next();
        if entry.seq != expected {
            return Err(LogError::OutOfSequence { expected, got: entry.seq });
        }
        self.record.clear();
        encode_command(entry, &mut self.record);
        if !fits(&entry.command) || self.record.len() > self.config.payload_limit() {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "a name in it is too long to be journaled");
            return Err(LogError::Io { doing: "encode a command for", file: self.active.name.clone(), source });
        }
        if self.batch.open_payload() + self.record.len() > self.config.payload_limit() {
            self.batch.seal(&mut self.chain, None);
        }
        self.batch.push(entry.seq, &self.record);
        self.appended = entry.seq;
        Ok(())
    }

    fn commit(&mut self, output: OutputHash) -> Result<Seq, LogError> {
        self.check_health()?;
        if !self.batch.is_empty() {
            let outcome = self.commit_batch(output);
            self.poison_on_error(outcome)?;
        }
        Ok(self.durable)
    }

    fn durable_position(&self) -> Seq {
        self.durable
    }

    fn follow_from(&self, from: Seq, visit: &mut dyn FnMut(Stamped)) -> Result<(), LogError> {
        if from > self.durable {
            return Ok(());
        }
        tail::follow(self.storage.as_ref(), from, self.committed, visit).map_err(|error| LogError::Io {
            doing: "read back",
            file: "the journal".to_owned(),
            source: io::Error::other(error.to_string()),
        })
    }
}

fn sync(segment: &mut Segment) -> Result<(), LogError> {
    segment.file.sync().map_err(failed("sync", &segment.name))
}

fn failed<'a>(doing: &'static str, file: &'a str) -> impl FnOnce(io::Error) -> LogError + use<'a> {
    move |source| LogError::Io { doing, file: file.to_owned(), source }
}
