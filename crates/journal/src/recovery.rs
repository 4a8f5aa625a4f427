//! The result of inspecting a directory: the basis of a start and of `verify`.

use std::collections::BTreeSet;
use std::fmt;

use pitwire_model::Seq;

use crate::names;
use crate::records::{GroupFault, Hash, JournalPosition, SnapshotFault, SnapshotMeta, Superblock};

/// The snapshot from which the log is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAt {
    /// The newest one, as a start does: it replays least.
    NewestSnapshot,
    /// The oldest one, as `verify` does: everything that is kept, from the first command if the
    /// journal reaches back to it.
    Oldest,
}

#[derive(Clone, Debug)]
pub struct RecoveredSnapshot {
    pub meta: SnapshotMeta,
    pub payload: Vec<u8>,
    /// The hash at the end of its file.
    pub hash: Hash,
}

/// A snapshot that was not used: it is damaged, has an earlier layout, or was not written by the
/// venue. An older one, or the log from its start, was used instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedSnapshot {
    pub name: String,
    pub fault: SnapshotFault,
}

impl fmt::Display for DamagedSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DamagedSnapshot { name, fault } = self;
        match fault {
            SnapshotFault::OlderFormat { .. } => {
                write!(f, "{name} was passed over: {fault}; what it holds was made again from the log")
            }
            SnapshotFault::Replaced | SnapshotFault::Unnamed => {
                write!(f, "{name} was not used: {fault}; an older one, or the log from its beginning, was used")
            }
            _ => write!(f, "{name} is damaged ({fault}); an older one, or the log from its beginning, was used"),
        }
    }
}

/// The remains of the last, unacknowledged commit after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TornTail {
    pub segment: u32,
    pub offset: u64,
    /// Bytes from the offset to the end of the written data.
    pub bytes: u64,
    pub fault: GroupFault,
}

impl fmt::Display for TornTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = names::segment(self.segment);
        write!(f, "{name} at byte {}: {} bytes of an unacknowledged commit, {}", self.offset, self.bytes, self.fault)
    }
}

/// The content of a directory.
#[derive(Debug)]
pub struct Recovery {
    /// Whether nothing was ever written here.
    pub is_fresh: bool,
    pub snapshot: Option<RecoveredSnapshot>,
    pub damaged_snapshots: Vec<DamagedSnapshot>,
    /// Every other readable snapshot after the one used, for a verifier to compare with. Filled
    /// only by [`StartAt::Oldest`].
    pub later_snapshots: Vec<RecoveredSnapshot>,
    pub torn: Option<TornTail>,
    /// The newest command that is whole in the log.
    pub last: Seq,
    /// The newest command that is proven to have been durable before this opening.
    pub watermark: Seq,
    /// Rule versions of the groups in the tail, in order, without repetition.
    pub rule_versions: Vec<u16>,
    /// Commands of the tail that a later command says to skip.
    pub quarantined: BTreeSet<Seq>,
    pub(crate) start: JournalPosition,
    pub(crate) end: JournalPosition,
    pub(crate) last_segment: u32,
    pub(crate) superblock: Option<Superblock>,
}

impl Recovery {
    /// The command before the first one of the tail.
    pub fn base(&self) -> Seq {
        self.snapshot.as_ref().map_or(Seq(0), |snapshot| snapshot.meta.seq)
    }

    /// The segment in which the tail starts.
    pub fn start_segment(&self) -> u32 {
        self.start.segment
    }

    /// The end of the log.
    pub fn end(&self) -> JournalPosition {
        self.end
    }

    pub(crate) fn fresh() -> Self {
        Recovery {
            is_fresh: true,
            snapshot: None,
            damaged_snapshots: Vec::new(),
            later_snapshots: Vec::new(),
            torn: None,
            last: Seq(0),
            watermark: Seq(0),
            rule_versions: Vec::new(),
            quarantined: BTreeSet::new(),
            start: JournalPosition::START,
            end: JournalPosition::START,
            last_segment: 0,
            superblock: None,
        }
    }
}
