//! The journal: records, segments, group commit, snapshots and recovery over a storage trait.
//!
//! Does        keep the one log of commands. Nothing that it acknowledged is lost by a power cut,
//!             and the effects of a power cut on the rest are detected and reported.
//! Holds       1. a commit returns only after its groups are written and synced, with one write and
//!                one sync unless a segment ends in between. In two steps it lets commands be
//!                appended during the sync, and its second step returns only after the sync;
//!             2. a group never crosses segments, and a segment is synced before the next one is
//!                started, so only the last written segment can have a torn tail;
//!             3. opening syncs the data that it read before it calls it durable, because data that
//!                a killed process left in the page cache may not be on disk yet;
//!             4. damage at or below the durable watermark is refused with segment and offset,
//!                never skipped. Above it, a tail in which a sector never arrived (lost, or written
//!                to another place) is cut and overwritten with zeros; every other fault is
//!                refused;
//!             5. a commit fails if an operator has deleted or replaced the segment or the
//!                directory;
//!             6. after a failed write or sync the journal accepts nothing. Failure to make a
//!                further segment is not fatal: two are prepared ahead, and the last one is kept
//!                for cancels until there is space again.
//!             7. a segment before the second newest snapshot may be compressed. It is never
//!                written again, and a start needs it only if both snapshots are unreadable.
//! Leaves out  threads and locks, and replaying: the caller does both.
//! Costs       per commit one write, one sync, one CRC-32C and one BLAKE3 over the group. Opening
//!             reads the log twice from the newest snapshot on: once to judge it, once to replay
//!             it.
//! Start at    [`Journal::open`], then [`Journal`]'s `commit`. Byte layouts are in [`records`],
//!             crash tests in `testing/faulty-disk/tests`.

mod archive;
mod batch;
mod config;
mod copy_plan;
mod error;
mod history;
mod inspect;
mod journal;
mod keep;
mod log;
mod names;
mod open;
mod overlap;
pub mod records;
mod recovery;
mod retention;
mod snapshots;
mod spare;
mod storage;
mod superblock;
mod tail;
mod walk;

pub use archive::compress_segments;
pub use config::JournalConfig;
pub use copy_plan::CopyPart;
pub use error::{LogPlace, OpenError};
pub use history::History;
pub use inspect::inspect;
pub use journal::{Journal, JournalSpace};
pub use keep::{Keep, Surplus, surplus};
pub use log::{Log, LogError, OutputHash};
pub use overlap::{SyncJob, SyncedCommit};
pub use recovery::{DamagedSnapshot, RecoveredSnapshot, Recovery, StartAt, TornTail};
pub use retention::{RemovedFiles, retain};
pub use snapshots::write_snapshot;
pub use spare::{PrepareSegment, PreparedSegment};
pub use storage::{File, FileIdentity, Storage};
pub use tail::{GroupEnd, Tail, TailGroup};
