//! Byte layouts of the journal and of snapshots: records, groups, hash chains.
//!
//! Does        turn commands into records and back, turn events into their canonical bytes, and
//!             frame records into groups, superblocks and snapshots. Every layout is little-endian
//!             and is given with its offsets at the head of its module.
//! Holds       1. decoding never panics and never allocates more than the length of its input;
//!             2. one value has one encoding: decoding and encoding again gives the same bytes;
//!             3. a whole group has no 512-byte sector of zeros, so a lost sector can be
//!                distinguished from a written one.
//! Leaves out  files, segments and recovery: see the rest of this crate.
//! Costs       one pass over the bytes; BLAKE3 over each group and over the output of the commands
//!             of a commit.
//! Start at    [`command`], then [`group`].

pub mod bytes;
pub mod chain;
pub mod command;
pub mod event;
pub mod group;
pub mod image;
pub mod snapshot;
pub mod stream;
pub mod superblock;

pub use bytes::{DecodeError, Reader, Writer};
pub use chain::{ChainState, OutputChain};
pub use command::{decode_command, encode_command, fits};
pub use event::{encode_event, encode_public_event};
pub use group::{Group, GroupFault, GroupHeader, GroupSeal};
pub use snapshot::{JournalPosition, SNAPSHOT_VERSION, SnapshotFault, SnapshotMeta};
pub use stream::StreamHash;
pub use superblock::{NamedSnapshot, NamedSnapshots, Superblock, SuperblockFault};

/// Version of records, groups and superblocks, written into each container; any other version is
/// refused. Snapshots have [`SNAPSHOT_VERSION`], because their content can be recomputed from the
/// log.
pub const FORMAT_VERSION: u16 = 2;

/// A BLAKE3 hash.
pub type Hash = [u8; 32];
