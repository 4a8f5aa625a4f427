//! The superblock: a separate file with the durable watermark of the journal and the hashes of its
//! newest snapshots.
//!
//! Does        hold two slots of 4 KiB, written in turn, so that a torn write leaves the other one
//!             whole.
//! Layout      a slot, at byte 4096 × (generation mod 2):
//!             0   8   magic "PITWSUP\n"
//!             8   u16 format version
//!             10  u16 zero
//!             12  u32 crc32c of the whole slot, with this field as zeros
//!             16  u64 generation, from 1
//!             24  u64 durable watermark: seq of the newest command known to be on disk
//!             32  u64 number of the group that holds it
//!             40  u32 segment in which that group ends
//!             44  u32 number of snapshots that it names, 0 to 2; 0 if an earlier build wrote it
//!             48  u64 offset at which it ends
//!             56  32  BLAKE3 of that group
//!             88      each named snapshot, newest first: u64 seq, and 32 bytes, the hash that ends
//!                     its file
//!             then    padding 0xA5 to 4096
//!             Offsets 0 to 16 never move.

use std::fmt;

use pitwire_model::Seq;

use crate::records::{
    FORMAT_VERSION, Hash,
    bytes::{DecodeError, Reader, Writer},
};

pub const SLOT_BYTES: usize = 4096;
pub const FILE_BYTES: usize = 2 * SLOT_BYTES;

const MAGIC: &[u8; 8] = b"PITWSUP\n";
const PADDING: u8 = 0xA5;
const CHECKSUM_AT: usize = 12;

/// A snapshot that the superblock names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedSnapshot {
    /// The last command in it.
    pub seq: Seq,
    /// The hash at the end of its file.
    pub hash: Hash,
}

/// The newest two snapshots, newest first. Empty if nothing has named a snapshot yet.
pub type NamedSnapshots = [Option<NamedSnapshot>; 2];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Superblock {
    pub generation: u64,
    pub watermark: Seq,
    pub group: u64,
    pub segment: u32,
    pub offset: u64,
    pub hash: Hash,
    pub snapshots: NamedSnapshots,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuperblockFault {
    /// Neither slot is whole.
    Damaged,
    NewerFormat {
        found: u16,
    },
    OlderFormat {
        found: u16,
    },
}

impl fmt::Display for SuperblockFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SuperblockFault::Damaged => write!(f, "neither slot is whole"),
            SuperblockFault::NewerFormat { found } | SuperblockFault::OlderFormat { found } => {
                write!(f, "format version {found}, and this build knows {FORMAT_VERSION}")
            }
        }
    }
}

impl From<DecodeError> for SuperblockFault {
    fn from(_: DecodeError) -> Self {
        SuperblockFault::Damaged
    }
}

impl Superblock {
    /// Offset of this generation's slot in the file.
    pub const fn slot_offset(&self) -> u64 {
        (self.generation % 2) * SLOT_BYTES as u64
    }

    /// Returns the slot's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut slot = Vec::with_capacity(SLOT_BYTES);
        let mut w = Writer::new(&mut slot);
        w.put_raw(MAGIC);
        w.put_u16(FORMAT_VERSION);
        w.put_u16(0);
        w.put_u32(0);
        w.put_u64(self.generation);
        w.put_u64(self.watermark.0);
        w.put_u64(self.group);
        w.put_u32(self.segment);
        w.put_u32(self.snapshots.iter().flatten().map(|_| 1).sum());
        w.put_u64(self.offset);
        w.put_raw(&self.hash);
        for named in self.snapshots.iter().flatten() {
            w.put_u64(named.seq.0);
            w.put_raw(&named.hash);
        }
        slot.resize(SLOT_BYTES, PADDING);
        let checksum = crc32c::crc32c(&slot);
        Writer::new(&mut slot).set_u32(CHECKSUM_AT, checksum);
        slot
    }

    /// Returns the newest whole slot of the file.
    ///
    /// # Errors
    ///
    /// Returns the fault if no slot is whole, or if a newer build wrote the file.
    pub fn decode_file(file: &[u8]) -> Result<Superblock, SuperblockFault> {
        let mut newest: Result<Superblock, SuperblockFault> = Err(SuperblockFault::Damaged);
        for slot in file.chunks(SLOT_BYTES).take(2) {
            match (Self::decode_slot(slot), &newest) {
                // A slot of a newer format outranks every slot that this build can read.
                (Err(fault @ SuperblockFault::NewerFormat { .. }), _) => return Err(fault),
                (Err(older @ SuperblockFault::OlderFormat { .. }), Err(_)) => newest = Err(older),
                (Err(_), _) => {}
                (Ok(found), Ok(known)) if known.generation >= found.generation => {}
                (Ok(found), _) => newest = Ok(found),
            }
        }
        newest
    }

    fn decode_slot(slot: &[u8]) -> Result<Superblock, SuperblockFault> {
        let mut r = Reader::new(slot);
        if slot.len() != SLOT_BYTES || r.take_raw(8)? != MAGIC {
            return Err(SuperblockFault::Damaged);
        }
        let version = r.take_u16()?;
        r.take_u16()?;
        let checksum = r.take_u32()?;
        if checksum != checksum_of(slot) {
            return Err(SuperblockFault::Damaged);
        }
        if version > FORMAT_VERSION {
            return Err(SuperblockFault::NewerFormat { found: version });
        }
        if version < FORMAT_VERSION {
            return Err(SuperblockFault::OlderFormat { found: version });
        }
        let (generation, watermark, group) = (r.take_u64()?, Seq(r.take_u64()?), r.take_u64()?);
        let (segment, named) = (r.take_u32()?, r.take_u32()?);
        let (offset, hash) = (r.take_u64()?, r.take_array()?);
        let mut snapshots = NamedSnapshots::default();
        let named = usize::try_from(named).map_err(|_| SuperblockFault::Damaged)?;
        for place in snapshots.get_mut(..named).ok_or(SuperblockFault::Damaged)? {
            *place = Some(NamedSnapshot { seq: Seq(r.take_u64()?), hash: r.take_array()? });
        }
        Ok(Superblock { generation, watermark, group, segment, offset, hash, snapshots })
    }
}

fn checksum_of(slot: &[u8]) -> u32 {
    let before = slot.get(..CHECKSUM_AT).unwrap_or_default();
    let after = slot.get(CHECKSUM_AT + 4..).unwrap_or_default();
    let sum = crc32c::crc32c_append(crc32c::crc32c(before), &[0; 4]);
    crc32c::crc32c_append(sum, after)
}
