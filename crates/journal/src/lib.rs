//! Segments, group commit, watermark, snapshots and recovery over the storage port.
//!
//! Does        keep the one log of commands: nothing it has answered for is lost by a power cut, and what a power
//!             cut did to the rest is found out and said.
//! Holds       1. a commit returns only after its groups are written and synced, in one write and one sync unless
//!                a segment ends in between;
//!             2. a group never straddles segments, and a segment is synced before the next one is begun: so only
//!                the last written segment can have a torn tail;
//!             3. opening syncs what it read before it calls it durable: what a killed process left in the page
//!                cache is not promised on the strength of having been seen;
//!             4. damage at or below the durable watermark is refused with segment and offset, never skipped. Above
//!                it a tail in which a sector never arrived (lost, or astray in another one's place) is cut and
//!                scrubbed; any other fault is refused;
//!             5. after a failed write or sync nothing is taken any more. That no further segment can be made is no
//!                failure: two are kept ready, and the last of them is for cancels until there is space again.
//! Leaves out  byte layouts (`crates/journal`), threads and locks (`crates/net`), replaying (the caller).
//! Costs       per commit one write, one sync, one crc32c and one BLAKE3 over the group; opening reads the log twice
//!             from the newest snapshot on: once to judge it, once to replay.
//! Start at    [`Journal::open`], then [`Journal`]'s `commit`. Crash tests: `testing/faulty-disk/tests`.

mod batch;
mod config;
mod error;
mod history;
mod inspect;
mod journal;
mod log;
mod names;
mod open;
pub mod records;
mod retention;
mod snapshots;
mod spare;
mod storage;
mod superblock;
mod tail;
mod walk;

pub use config::JournalConfig;
pub use error::{OpenError, Place};
pub use history::History;
pub use inspect::{DamagedSnapshot, RecoveredSnapshot, Recovery, StartAt, TornTail, inspect};
pub use journal::{Journal, Room};
pub use log::{Log, LogError, OutputHash};
pub use retention::{Removed, retain};
pub use snapshots::write_snapshot;
pub use spare::{PrepareSegment, PreparedSegment};
pub use storage::{File, Storage};
pub use tail::{GroupEnd, Tail, TailGroup};
