//! The container of a snapshot: its position in the log, the hash chains there, and an opaque
//! payload.
//!
//! Layout      0   8   magic "PITWSNAP"
//!             8   u16 layout version: of snapshots alone, see [`SNAPSHOT_VERSION`]
//!             10  u16 rule version
//!             12  u32 zero
//!             16  u64 seq: the last command that the payload contains
//!             24  u64 at: its venue time
//!             32  u32 segment  \
//!             36  u32 zero      | the journal position from which replay goes on: every command
//!                 after `seq`
//!             40  u64 offset    | stands there or later (commands up to `seq` found there are
//!                 skipped)
//!             48  u64 number of the group that begins there
//!             56  u64 seq of the first command in it
//!             64  32  BLAKE3 of the group before it
//!             96  32  output chain
//!             128 u64 commands   136 u64 events   144 u64 orders   152 u64 trades
//!             160     the tape's hash as it stands: see `stream`
//!             then    u64 payload bytes, and the payload
//!             -32 32  BLAKE3 of everything before
//!             Offsets 0 to 10 and the closing hash never move.

use std::fmt;

use pitwire_model::{Seq, VenueNanos};

use crate::records::{
    Hash,
    bytes::{DecodeError, Reader, Writer},
    chain::ChainState,
};

/// Version of this container and of the payload that `image` writes. An older snapshot is ignored
/// if the log before it is kept; a newer one is refused. Version 2 had no sessions, trading rules
/// or off-book orders. Version 3 had no sum of lots / price in candles.
pub const SNAPSHOT_VERSION: u16 = 4;
const MAGIC: &[u8; 8] = b"PITWSNAP";
/// Most bytes of the file besides the payload, with every subtree and a whole unit of the tape's
/// hash.
const MOST_HEADER_BYTES: usize = 168 + 12 + 50 * 32 + (16 << 10);
const HASH_BYTES: usize = 32;

/// A boundary between two groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalPosition {
    pub segment: u32,
    pub offset: u64,
    /// Number of the group that starts here.
    pub group: u64,
    /// Seq of its first command.
    pub next: Seq,
    /// Hash of the group that ends here.
    pub previous: Hash,
}

impl JournalPosition {
    /// Before the first group of the first segment.
    pub const START: JournalPosition =
        JournalPosition { segment: 1, offset: 0, group: 1, next: Seq(1), previous: [0; 32] };
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotMeta {
    pub rule_version: u16,
    pub seq: Seq,
    pub at: VenueNanos,
    pub position: JournalPosition,
    pub chain: ChainState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotFault {
    Short,
    BadMagic,
    BadHash,
    /// The hash is right, but the length inside contradicts the file's.
    BadLength,
    NewerFormat {
        found: u16,
    },
    OlderFormat {
        found: u16,
    },
    /// The file is whole, but the superblock names another hash for it.
    Replaced,
    /// The file is whole, but the superblock does not name it.
    Unnamed,
}

impl fmt::Display for SnapshotFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotFault::Short => write!(f, "the file is too short to be a snapshot"),
            SnapshotFault::BadMagic => write!(f, "the file is not a snapshot"),
            SnapshotFault::BadHash => write!(f, "the file's hash is wrong"),
            SnapshotFault::BadLength => write!(f, "the payload's length contradicts the file's"),
            SnapshotFault::Replaced => write!(f, "its hash is not the one that the superblock names"),
            SnapshotFault::Unnamed => write!(f, "the superblock does not name it"),
            SnapshotFault::NewerFormat { found } | SnapshotFault::OlderFormat { found } => {
                write!(f, "its layout is version {found}, and this build knows {SNAPSHOT_VERSION}")
            }
        }
    }
}

impl From<DecodeError> for SnapshotFault {
    fn from(_: DecodeError) -> Self {
        SnapshotFault::Short
    }
}

/// Encodes the whole file.
pub fn encode_snapshot(meta: &SnapshotMeta, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(MOST_HEADER_BYTES + payload.len() + HASH_BYTES);
    let mut w = Writer::new(&mut out);
    w.put_raw(MAGIC);
    w.put_u16(SNAPSHOT_VERSION);
    w.put_u16(meta.rule_version);
    w.put_u32(0);
    w.put_u64(meta.seq.0);
    w.put_u64(meta.at.0);
    w.put_u32(meta.position.segment);
    w.put_u32(0);
    w.put_u64(meta.position.offset);
    w.put_u64(meta.position.group);
    w.put_u64(meta.position.next.0);
    w.put_raw(&meta.position.previous);
    meta.chain.put(&mut w);
    w.put_u64(payload.len() as u64);
    w.put_raw(payload);
    let hash = blake3::hash(&out);
    out.extend_from_slice(hash.as_bytes());
    out
}

/// Returns the hash at the end of a file that [`decode_snapshot`] accepts.
pub fn closing_hash(file: &[u8]) -> Hash {
    file.last_chunk().copied().unwrap_or_default()
}

/// Checks the whole file and returns its parts.
///
/// # Errors
///
/// Returns the fault: a wrong length or hash, an earlier layout, or a bad value.
pub fn decode_snapshot(file: &[u8]) -> Result<(SnapshotMeta, &[u8]), SnapshotFault> {
    let (body, hash) = file.split_last_chunk::<HASH_BYTES>().ok_or(SnapshotFault::Short)?;
    let mut r = Reader::new(body);
    if r.take_raw(8)? != MAGIC {
        return Err(SnapshotFault::BadMagic);
    }
    if blake3::hash(body).as_bytes() != hash {
        return Err(SnapshotFault::BadHash);
    }
    let version = r.take_u16()?;
    if version > SNAPSHOT_VERSION {
        return Err(SnapshotFault::NewerFormat { found: version });
    }
    if version < SNAPSHOT_VERSION {
        return Err(SnapshotFault::OlderFormat { found: version });
    }
    let meta = take_meta(&mut r)?;
    let payload_bytes = r.take_u64()?;
    if usize::try_from(payload_bytes) != Ok(r.remaining()) {
        return Err(SnapshotFault::BadLength);
    }
    Ok((meta, r.take_raw(r.remaining())?))
}

fn take_meta(r: &mut Reader<'_>) -> Result<SnapshotMeta, SnapshotFault> {
    let rule_version = r.take_u16()?;
    r.take_u32()?;
    let (seq, at) = (Seq(r.take_u64()?), VenueNanos(r.take_u64()?));
    let segment = r.take_u32()?;
    r.take_u32()?;
    let (offset, group, next) = (r.take_u64()?, r.take_u64()?, Seq(r.take_u64()?));
    let position = JournalPosition { segment, offset, group, next, previous: r.take_array()? };
    Ok(SnapshotMeta { rule_version, seq, at, position, chain: ChainState::take(r)? })
}
