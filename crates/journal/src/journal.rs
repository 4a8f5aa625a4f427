//! The journal that is being written: append, commit, rotate.

use std::{
    collections::{BTreeSet, VecDeque},
    io,
    sync::Arc,
};

use crate::records::{JournalPosition, NamedSnapshot, Superblock, encode_command, fits};
use crate::{Log, LogError, OutputHash, Storage};
use pitwire_model::{Command, Seq, SequencedCommand};

use crate::{
    History, JournalConfig,
    batch::{ChainEnd, GroupBatch},
    names,
    spare::{PrepareSegment, PreparedSegment, Segment, prepare},
    superblock::SuperblockFile,
    tail,
};

/// Segments prepared ahead: the next one, and one more that is kept for cancels when no further
/// segment can be made.
pub(crate) const SEGMENTS_AHEAD: usize = 2;

/// The commands that the journal still has disk space for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalSpace {
    Orders,
    /// No further segment can be made: only commands that reduce risk are accepted.
    CancelsOnly,
    Nothing,
}

/// A commit that is written and not yet known to be durable.
#[derive(Clone, Copy)]
pub(crate) struct UnfinishedCommit {
    pub last: Seq,
    /// Position after its last group.
    pub end: JournalPosition,
}

/// The venue's log of commands. One thread owns it.
pub struct Journal {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) config: JournalConfig,
    pub(crate) active: Segment,
    /// Prepared and named segments in order; the next one to be written first.
    pub(crate) ahead: VecDeque<Segment>,
    pub(crate) is_preparing: bool,
    /// Whether the last attempt to make a segment failed.
    pub(crate) is_short_of_space: bool,
    pub(crate) superblock: SuperblockFile,
    pub(crate) batch: GroupBatch,
    pub(crate) record: Vec<u8>,
    pub(crate) chain: ChainEnd,
    /// Position after the last durable group.
    pub(crate) committed: JournalPosition,
    pub(crate) appended: Seq,
    pub(crate) durable: Seq,
    /// The commit whose sync has not been reported.
    pub(crate) unfinished: Option<UnfinishedCommit>,
    pub(crate) is_poisoned: bool,
    /// Commands that the log itself says to skip.
    pub(crate) quarantined: BTreeSet<Seq>,
}

impl Journal {
    /// Position after the last durable group. It belongs into the metadata of a snapshot of
    /// `durable_position()`, or of any later command that is durable when the snapshot is written.
    pub fn position(&self) -> JournalPosition {
        self.committed
    }

    pub fn config(&self) -> &JournalConfig {
        &self.config
    }

    /// Whether the open group is nearly full. A caller that commits now keeps the output hash of
    /// every group; otherwise one commit writes several groups.
    pub fn needs_commit(&self) -> bool {
        self.batch.open_payload() >= self.config.payload_limit() / 2
    }

    /// Bytes that can be written before another segment must be made.
    pub fn remaining_bytes(&self) -> u64 {
        let ahead: u64 = self.ahead.iter().map(|segment| segment.bytes).sum();
        self.active.bytes.saturating_sub(self.active.offset) + ahead
    }

    /// Returns which commands may be accepted now. A margin of two groups is kept for commands of
    /// the venue itself, so that a commit never needs a segment that cannot be made.
    pub fn space(&self) -> JournalSpace {
        let margin = self.batch.bytes() + 2 * self.config.group_bytes as u64;
        match self.is_short_of_space {
            false => JournalSpace::Orders,
            true if self.remaining_bytes() > margin => JournalSpace::CancelsOnly,
            true => JournalSpace::Nothing,
        }
    }

    /// Returns the part that is durable now, for another thread to read.
    pub fn history(&self) -> History {
        History {
            storage: Arc::clone(&self.storage),
            config: self.config.clone(),
            end: self.committed,
            quarantined: self.quarantined.clone(),
            named: self.superblock.current().snapshots,
        }
    }

    /// Returns the job of preparing a segment, if one is missing and no job runs. Its outcome goes
    /// to [`Self::segment_ready`]. A server that never asks pays for the preparation inside a
    /// commit.
    pub fn segment_wanted(&mut self) -> Option<PrepareSegment> {
        if self.ahead.len() >= SEGMENTS_AHEAD || self.is_preparing || self.is_poisoned {
            return None;
        }
        self.is_preparing = true;
        let storage = Arc::clone(&self.storage);
        Some(PrepareSegment { storage, number: self.next_segment(), bytes: self.config.segment_bytes })
    }

    fn next_segment(&self) -> u32 {
        self.ahead.back().map_or(self.active.number, |last| last.number) + 1
    }

    /// Takes the outcome of a [`PrepareSegment`]. Until a segment is ready, [`Self::space`] is for
    /// cancels only.
    ///
    /// # Errors
    ///
    /// Returns the error of the job, for example when the disk is full. The journal is unchanged
    /// and will ask for a segment again.
    pub fn segment_ready(&mut self, outcome: Result<PreparedSegment, LogError>) -> Result<(), LogError> {
        self.is_preparing = false;
        let number = self.next_segment();
        let named = outcome.and_then(|prepared| prepared.name(self.storage.as_ref(), number));
        let is_short = named.is_err();
        let taken = named.map(|segment| self.ahead.push_back(segment));
        self.is_short_of_space = is_short || (self.is_short_of_space && self.ahead.len() < SEGMENTS_AHEAD);
        taken
    }

    /// When [`Self::write_superblock_if_due`] is due next, in nanoseconds; `None` while the
    /// superblock is up to date.
    pub fn superblock_due_ns(&self) -> Option<u64> {
        let is_due = self.superblock.current().watermark != self.durable;
        is_due.then(|| self.superblock.due_ns(self.config.superblock_interval_ns))
    }

    /// Writes the watermark to the superblock unless that was done less than an interval ago.
    /// Called often enough, the superblock is at most 10 ms behind. Costs one write and one sync of
    /// another file.
    ///
    /// # Errors
    ///
    /// Returns the error of the write or the sync. The journal then accepts nothing.
    pub fn write_superblock_if_due(&mut self, now_ns: u64) -> Result<bool, LogError> {
        self.check_health()?;
        match self.superblock_due_ns() {
            Some(due) if now_ns >= due => self.write_superblock(Some(now_ns)).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Closes the journal: commits nothing and writes the superblock.
    ///
    /// # Errors
    ///
    /// Returns the error of the superblock, or of an earlier write that failed, or an error if a
    /// commit is not finished.
    pub fn close(mut self) -> Result<(), LogError> {
        self.check_health()?;
        self.check_finished()?;
        if self.superblock_due_ns().is_some() {
            self.write_superblock(None)?;
        }
        Ok(())
    }

    /// Checks that the directory and the files that are written are in their place, for a venue
    /// without commits.
    ///
    /// # Errors
    ///
    /// Returns an error if an operator deleted or replaced one. The journal then accepts nothing.
    pub fn check_in_place(&mut self) -> Result<(), LogError> {
        let storage = self.storage.as_ref();
        let checked = self.active.check_in_place(storage).and_then(|()| self.superblock.check_in_place(storage));
        self.poison_on_error(checked)
    }

    pub(crate) fn write_superblock(&mut self, now_ns: Option<u64>) -> Result<(), LogError> {
        let next = Superblock {
            generation: 0,
            watermark: self.durable,
            group: self.committed.group.saturating_sub(1),
            segment: self.committed.segment,
            offset: self.committed.offset,
            hash: self.committed.previous,
            ..*self.superblock.current()
        };
        self.write_superblock_slot(next, now_ns)
    }

    /// Names a snapshot that [`write_snapshot`](crate::write_snapshot) wrote, so that the next
    /// start uses it. Costs one write and one sync of the superblock.
    ///
    /// # Errors
    ///
    /// Returns the error of the superblock. The journal then accepts nothing.
    pub fn name_snapshot(&mut self, newest: NamedSnapshot) -> Result<(), LogError> {
        self.check_health()?;
        let [before, _] = self.superblock.current().snapshots;
        let before = before.filter(|before| before.seq < newest.seq);
        let snapshots = [Some(newest), before];
        self.write_superblock_slot(Superblock { snapshots, ..*self.superblock.current() }, None)
    }

    pub(crate) fn write_superblock_slot(&mut self, next: Superblock, now_ns: Option<u64>) -> Result<(), LogError> {
        let written =
            self.superblock.check_in_place(self.storage.as_ref()).and_then(|()| self.superblock.write(next, now_ns));
        self.poison_on_error(written)
    }

    pub(crate) fn check_health(&self) -> Result<(), LogError> {
        if self.is_poisoned { Err(LogError::Poisoned) } else { Ok(()) }
    }

    pub(crate) fn poison_on_error<T>(&mut self, outcome: Result<T, LogError>) -> Result<T, LogError> {
        self.is_poisoned |= outcome.is_err();
        outcome
    }

    /// Writes the batch into the segments: one write, plus one write and one sync for every segment
    /// that ends in it. The last segment is not synced.
    fn write_batch(&mut self) -> Result<(), LogError> {
        let (mut from, mut is_dirty) = (0, false);
        while from < self.batch.sealed_bytes() {
            let free = self.active.bytes.saturating_sub(self.active.offset);
            let groups = self.batch.fitting(from, free);
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
        Ok(())
    }

    /// Continues in the next segment. The finished one is synced.
    fn rotate(&mut self) -> Result<(), LogError> {
        self.active.check_in_place(self.storage.as_ref())?;
        let number = self.active.number + 1;
        self.active = match self.ahead.pop_front() {
            Some(next) => next,
            None => {
                let unfinished = names::unfinished(&names::segment(number));
                prepare(self.storage.as_ref(), unfinished, self.config.segment_bytes)?
                    .name(self.storage.as_ref(), number)?
            }
        };
        Ok(())
    }

    fn commit_batch(&mut self, output: OutputHash) -> Result<(), LogError> {
        let unfinished = self.write_commit(output)?;
        sync(&mut self.active)?;
        self.accept_commit(unfinished)
    }

    /// Writes everything appended. It is durable after a sync of the active segment.
    pub(crate) fn write_commit(&mut self, output: OutputHash) -> Result<UnfinishedCommit, LogError> {
        self.batch.seal(&mut self.chain, Some(output.0));
        self.write_batch()?;
        self.batch.clear();
        let end = JournalPosition {
            segment: self.active.number,
            offset: self.active.offset,
            group: self.chain.group,
            next: self.appended.next(),
            previous: self.chain.previous,
        };
        Ok(UnfinishedCommit { last: self.appended, end })
    }

    /// Counts a commit as durable. Its segments are synced.
    pub(crate) fn accept_commit(&mut self, commit: UnfinishedCommit) -> Result<(), LogError> {
        // After the sync, so that nothing is acknowledged that the next start would not find.
        self.active.check_in_place(self.storage.as_ref())?;
        self.durable = commit.last;
        self.chain.watermark = commit.last;
        self.committed = commit.end;
        Ok(())
    }
}

impl Log for Journal {
    fn append(&mut self, entry: &SequencedCommand) -> Result<(), LogError> {
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
        if let Command::Quarantine { seq, .. } = entry.command {
            self.quarantined.insert(seq);
        }
        Ok(())
    }

    fn commit(&mut self, output: OutputHash) -> Result<Seq, LogError> {
        self.check_health()?;
        self.check_finished()?;
        if !self.batch.is_empty() {
            let outcome = self.commit_batch(output);
            self.poison_on_error(outcome)?;
        }
        Ok(self.durable)
    }

    fn durable_position(&self) -> Seq {
        self.durable
    }

    fn follow_from(&self, from: Seq, visit: &mut dyn FnMut(SequencedCommand)) -> Result<(), LogError> {
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
