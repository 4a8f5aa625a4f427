//! Why a journal cannot be opened, where exactly, and what to do about it.

use std::{fmt, io};

use crate::records::{DecodeError, FORMAT_VERSION, GroupFault, SNAPSHOT_VERSION};
use pitwire_model::Seq;

use crate::names;

/// The position of a byte in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPlace {
    pub segment: u32,
    pub offset: u64,
}

impl fmt::Display for LogPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", names::segment(self.segment), self.offset)
    }
}

#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    Io {
        doing: &'static str,
        file: String,
        source: io::Error,
    },
    BadConfig {
        what: &'static str,
    },
    /// Commands up to `watermark` were acknowledged, but the group here, which contains or precedes
    /// `next`, is damaged.
    DamagedBelowWatermark {
        place: LogPlace,
        next: Seq,
        watermark: Seq,
        fault: GroupFault,
    },
    /// A group before the snapshot that a start would use is damaged. Everything after it is whole.
    DamagedHistory {
        place: LogPlace,
        snapshot: Seq,
        /// The segment in which the log continues after the snapshot.
        start_segment: u32,
        fault: GroupFault,
    },
    /// A compressed segment cannot be read. A start does not need it.
    DamagedArchive {
        segment: u32,
        why: String,
    },
    /// Nothing here is known to have been acknowledged, but a power cut cannot leave such a group.
    DamagedTail {
        place: LogPlace,
        next: Seq,
        watermark: Seq,
        fault: GroupFault,
    },
    /// The group is whole but does not continue the chain.
    BrokenChain {
        place: LogPlace,
        expected_group: u64,
        found_group: u64,
    },
    /// Nothing is written here, but the next segment starts with a later group.
    MissingGroups {
        place: LogPlace,
        next_segment: u32,
        expected_group: u64,
        found_group: u64,
    },
    /// The group is whole, but one of its records cannot be read.
    BadRecord {
        place: LogPlace,
        why: DecodeError,
    },
    /// The log ends before a command that was acknowledged.
    EndsEarly {
        place: LogPlace,
        last: Seq,
        watermark: Seq,
    },
    MissingSegment {
        segment: u32,
    },
    MissingSuperblock,
    DamagedSuperblock,
    /// The log no longer starts with the first command, and no snapshot can be read.
    NoUsableSnapshot {
        first_segment: u32,
        damaged: Vec<String>,
    },
    /// The log no longer starts with the first command, and the newest whole snapshot has the
    /// layout of an earlier build.
    OlderSnapshot {
        file: String,
        found: u16,
        first_segment: u32,
    },
    NewerFormat {
        file: String,
        found: u16,
        /// The version of this kind of file that this build writes.
        known: u16,
    },
    /// Written by an earlier build, whose records this one cannot read.
    OlderFormat {
        file: String,
        found: u16,
    },
    NewerRules {
        file: String,
        found: u16,
        known: u16,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Io { doing, file, source } => write!(f, "{doing} {file}: {source}"),
            OpenError::BadConfig { what } => write!(f, "journal configuration: {what}"),
            OpenError::DamagedBelowWatermark { place, next, watermark, fault } => write!(
                f,
                "{place}: {fault}; command {next} belongs here and commands up to {watermark} were acknowledged"
            ),
            OpenError::DamagedHistory { place, snapshot, fault, .. } => {
                write!(f, "{place}: {fault}; acknowledged commands stand here, before {}", names::snapshot(*snapshot))
            }
            OpenError::DamagedArchive { segment, why } => {
                write!(f, "{} is damaged: {why}; acknowledged commands are in it", names::archive(*segment))
            }
            OpenError::DamagedTail { place, next, watermark, fault } => write!(
                f,
                "{place}: {fault}; this is after the last command known to be acknowledged ({watermark}, next is \
                 {next}), but an interrupted write does not look like this"
            ),
            OpenError::BrokenChain { place, expected_group, found_group } => write!(
                f,
                "{place}: group {found_group} stands where group {expected_group} belongs, or does not continue the \
                 hash chain"
            ),
            OpenError::MissingGroups { place, next_segment, expected_group, found_group } => write!(
                f,
                "{place}: group {expected_group} belongs here, where nothing stands, or at the beginning of {}, where \
                 group {found_group} stands",
                names::segment(*next_segment)
            ),
            OpenError::BadRecord { place, why } => write!(f, "{place}: the group is whole but {why}"),
            OpenError::EndsEarly { place, last, watermark } => {
                write!(f, "{place}: the log ends with command {last}, but commands up to {watermark} were acknowledged")
            }
            OpenError::MissingSegment { segment } => write!(f, "{} is missing", names::segment(*segment)),
            OpenError::MissingSuperblock => write!(f, "{} is missing", names::SUPERBLOCK),
            OpenError::DamagedSuperblock => write!(f, "{}: neither of its two slots is whole", names::SUPERBLOCK),
            OpenError::NoUsableSnapshot { first_segment, damaged } => write!(
                f,
                "the log begins with {} and no snapshot can be read (damaged: {})",
                names::segment(*first_segment),
                if damaged.is_empty() { "none there".to_owned() } else { damaged.join(", ") }
            ),
            OpenError::OlderSnapshot { file, found, first_segment } => write!(
                f,
                "{file} has layout version {found}, this build knows {SNAPSHOT_VERSION}, and the log, which begins with \
                 {}, does not reach back to the first command",
                names::segment(*first_segment)
            ),
            OpenError::NewerFormat { file, found, known } => {
                write!(f, "{file} has format version {found}; this build knows {known}")
            }
            OpenError::OlderFormat { file, found } => {
                write!(f, "{file} has format version {found}; this build knows {FORMAT_VERSION}")
            }
            OpenError::NewerRules { file, found, known } => {
                write!(f, "{file} was written under rules version {found}; this build knows {known}")
            }
        }
    }
}

impl OpenError {
    /// The next step for the operator. Printed under every report.
    pub const fn remedy(&self) -> &'static str {
        match self {
            OpenError::Io { .. } => {
                "look at the disk and at the directory's permissions, then start again; nothing was changed"
            }
            OpenError::BadConfig { .. } => "correct the setting and start again; nothing was read or changed",
            OpenError::DamagedHistory { place, start_segment, .. } if place.segment < *start_segment => {
                "restore the whole directory from a backup with pitwire restore, or this segment from a copy of the \
                 same journal; or, to do without what is older than that snapshot, move the segments up to this one \
                 and the older snapshots elsewhere: from the snapshot on all is whole"
            }
            OpenError::DamagedArchive { .. } => {
                "restore this file from a backup of the same journal (pitwire restore); or, to do without the history \
                 up to it, move this file and the segments before it elsewhere: a venue starts without them, and \
                 export, verify and explain then begin at the oldest snapshot"
            }
            OpenError::DamagedHistory { .. }
            | OpenError::DamagedBelowWatermark { .. }
            | OpenError::BrokenChain { .. } => {
                "acknowledged commands stand here, so do not cut it; restore the whole directory from a backup with \
                 pitwire restore: segments, snapshots, superblock, credentials.sealed and configuration.json of one \
                 moment belong together"
            }
            OpenError::MissingGroups { .. } => {
                "acknowledged commands stand here, so do not cut them; restore the whole directory from a backup with \
                 pitwire restore"
            }
            OpenError::DamagedTail { .. } => {
                "keep a copy of the directory, test the disk, and restore this segment from a copy; cutting it would \
                 be a guess"
            }
            OpenError::BadRecord { .. } => {
                "the bytes are as they were written, so the build is the suspect: start the build that wrote them and \
                 report this"
            }
            OpenError::EndsEarly { .. } => {
                "restore all files together from one backup (pitwire restore): segments, snapshots, superblock, \
                 credentials.sealed and configuration.json; do not mix files of different times"
            }
            OpenError::MissingSegment { .. } => "restore the missing segment from a copy; the ones after it need it",
            OpenError::MissingSuperblock => {
                "restore the superblock from the copy of the segments; without it the end of the log is unknown"
            }
            OpenError::DamagedSuperblock => {
                "restore the superblock from a copy, an older one will do; without it the end of the log is unknown"
            }
            OpenError::NoUsableSnapshot { .. } => {
                "restore a snapshot from a copy, or the segments from the first one on"
            }
            OpenError::OlderSnapshot { .. } => {
                "it was made by an earlier build and is not damaged: restore the segments from the first one on from a \
                 copy, or export with that build and start with a fresh --data directory"
            }
            OpenError::OlderFormat { .. } => {
                "it was made by an earlier build and is not damaged: export with that build, or start with a fresh \
                 --data directory"
            }
            OpenError::NewerFormat { .. } | OpenError::NewerRules { .. } => {
                "start the newer build that wrote it; nothing here is damaged"
            }
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Io { source, .. } => Some(source),
            OpenError::BadRecord { why, .. } => Some(why),
            _ => None,
        }
    }
}

impl From<OpenError> for pitwire_failure::Failure {
    fn from(error: OpenError) -> Self {
        pitwire_failure::Failure::new(error.to_string()).remedy(error.remedy())
    }
}

/// Adds the file and the operation to an error of the storage.
pub(crate) fn while_doing<'a>(doing: &'static str, file: &'a str) -> impl Fn(io::Error) -> OpenError + use<'a> {
    move |source| OpenError::Io { doing, file: file.to_owned(), source }
}
