//! A group: the commands of one commit, framed so that damage, a lost sector and a torn write can
//! be distinguished.
//!
//! Layout      0   8   magic "PITWGRP\n"
//!             8   u16 format version
//!             10  u16 rule version
//!             12  u32 flags: bit 0, the output hash is there
//!             16  u64 group number, from 1, without holes
//!             24  u64 seq of the first command
//!             32  u32 commands
//!             36  u32 payload bytes
//!             40  u32 bytes of the whole group, a multiple of 4096
//!             44  u32 zero
//!             48  u64 durable watermark when the group was written
//!             56  32  BLAKE3 of the whole previous group, zeros before the first
//!             88  32  output chain after the last command
//!             120 u32 crc32c of the whole group, with this field as zeros
//!             124 u32 crc32c of bytes 0..120
//!             128     payload: records of commands
//!                     padding 0xA5
//!             -16 8   magic "PITWEND\n"
//!             -8  u64 group number
//!             Offsets 0 to 12 and 124 never move, in any version: so a newer format can be
//!             recognised from damage.
//! Holds       1. no 512-byte sector of a whole group is all zeros, and a segment is zeros where
//!                nothing was written. So a zero sector means "never reached the disk", and
//!                anything else that is wrong is damage;
//!             2. each group holds the hash of the one before, so no group can be removed, moved or
//!                replaced.
//! Costs       one crc32c and one BLAKE3 over the group.
//! Start at    [`seal_group`] and [`read_group`].

use std::{fmt, ops::Range};

use pitwire_model::Seq;

use crate::records::{
    FORMAT_VERSION, Hash,
    bytes::{DecodeError, Reader, Writer},
};

pub const BLOCK_BYTES: usize = 4096;
pub const SECTOR_BYTES: usize = 512;
pub const HEADER_BYTES: usize = 128;
pub const TRAILER_BYTES: usize = 16;

const MAGIC: &[u8; 8] = b"PITWGRP\n";
const TRAILER_MAGIC: &[u8; 8] = b"PITWEND\n";
const PADDING: u8 = 0xA5;
const HAS_OUTPUT: u32 = 1;
const CHECKSUM_AT: usize = 120;
const HEADER_CHECKSUM_AT: usize = 124;

/// Fields of a group besides its payload.
#[derive(Clone, Debug)]
pub struct GroupSeal {
    pub rule_version: u16,
    pub number: u64,
    pub first: Seq,
    pub commands: u32,
    pub watermark: Seq,
    pub previous: Hash,
    /// Missing only in a group that was sealed because it was full, before the end of its commit.
    pub output: Option<Hash>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupHeader {
    pub rule_version: u16,
    pub number: u64,
    pub first: Seq,
    pub commands: u32,
    pub payload_bytes: usize,
    pub group_bytes: usize,
    pub watermark: Seq,
    pub previous: Hash,
    pub output: Option<Hash>,
}

impl GroupHeader {
    /// The last command of the group, or the one before the first if it is empty.
    pub fn last(&self) -> Seq {
        Seq(self.first.0.saturating_add(u64::from(self.commands)).saturating_sub(1))
    }

    /// Range of the records within the group.
    pub fn payload_range(&self) -> Range<usize> {
        HEADER_BYTES..HEADER_BYTES.saturating_add(self.payload_bytes)
    }
}

/// A whole group whose checksums and framing are right.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    pub header: GroupHeader,
    pub payload: &'a [u8],
    /// Hash that the next group must name as its previous.
    pub hash: Hash,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupFault {
    /// The file ends before the group does.
    Short,
    /// A sector of the group is still zero. Offset in bytes from the start of the group.
    LostSector {
        at: usize,
    },
    /// The last sixteen bytes are still zero.
    LostTrailer,
    BadMagic,
    BadHeaderChecksum,
    BadChecksum,
    /// Lengths or markers contradict one another although the checksums are right.
    BadFrame,
    /// Not damaged: a newer build wrote it.
    NewerFormat {
        found: u16,
    },
    /// Not damaged: a build before this format wrote it.
    OlderFormat {
        found: u16,
    },
}

impl GroupFault {
    /// Whether an interrupted write can look like this.
    pub const fn is_torn(self) -> bool {
        matches!(self, GroupFault::Short | GroupFault::LostSector { .. } | GroupFault::LostTrailer)
    }
}

impl fmt::Display for GroupFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupFault::Short => write!(f, "the file ends inside the group"),
            GroupFault::LostSector { at } => write!(f, "the sector at byte {at} of the group was never written"),
            GroupFault::LostTrailer => write!(f, "the end of the group was never written"),
            GroupFault::BadMagic => write!(f, "no group begins here"),
            GroupFault::BadHeaderChecksum => write!(f, "the header's checksum is wrong"),
            GroupFault::BadChecksum => write!(f, "the group's checksum is wrong"),
            GroupFault::BadFrame => write!(f, "the group's lengths contradict one another"),
            GroupFault::NewerFormat { found } | GroupFault::OlderFormat { found } => {
                write!(f, "format version {found}, and this build knows {FORMAT_VERSION}")
            }
        }
    }
}

impl From<DecodeError> for GroupFault {
    fn from(_: DecodeError) -> Self {
        GroupFault::Short
    }
}

/// Size on disk of a group with this many bytes of records.
pub const fn group_bytes(payload_bytes: usize) -> usize {
    (HEADER_BYTES + payload_bytes + TRAILER_BYTES).next_multiple_of(BLOCK_BYTES)
}

/// Reserves room for a header, which the records follow. Returns the offset of the group.
pub fn begin_group(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.resize(start + HEADER_BYTES, 0);
    start
}

/// Seals the group that starts at `start` and reaches to the end of `out`. Returns its hash.
pub fn seal_group(out: &mut Vec<u8>, start: usize, seal: &GroupSeal) -> Hash {
    let payload_bytes = out.len().saturating_sub(start + HEADER_BYTES);
    let whole = group_bytes(payload_bytes);
    out.resize(start + whole - TRAILER_BYTES, PADDING);
    let mut w = Writer::new(out);
    w.put_raw(TRAILER_MAGIC);
    w.put_u64(seal.number);
    let header = encode_header(seal, payload_bytes, whole);
    let Some(group) = out.get_mut(start..) else { return [0; 32] };
    overwrite(group, 0, &header);
    overwrite(group, HEADER_CHECKSUM_AT, &crc32c::crc32c(&header).to_le_bytes());
    let checksum = checksum_of(group);
    overwrite(group, CHECKSUM_AT, &checksum.to_le_bytes());
    *blake3::hash(group).as_bytes()
}

fn encode_header(seal: &GroupSeal, payload_bytes: usize, whole: usize) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    let mut w = Writer::new(&mut header);
    w.put_raw(MAGIC);
    w.put_u16(FORMAT_VERSION);
    w.put_u16(seal.rule_version);
    w.put_u32(if seal.output.is_some() { HAS_OUTPUT } else { 0 });
    w.put_u64(seal.number);
    w.put_u64(seal.first.0);
    w.put_u32(seal.commands);
    w.put_count(payload_bytes);
    w.put_count(whole);
    w.put_u32(0);
    w.put_u64(seal.watermark.0);
    w.put_raw(&seal.previous);
    w.put_raw(&seal.output.unwrap_or_default());
    header
}

fn overwrite(bytes: &mut [u8], at: usize, with: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + with.len()) {
        place.copy_from_slice(with);
    }
}

fn checksum_of(group: &[u8]) -> u32 {
    let (before, rest) = group.split_at(CHECKSUM_AT.min(group.len()));
    let after = rest.get(4..).unwrap_or_default();
    let sum = crc32c::crc32c_append(crc32c::crc32c(before), &[0; 4]);
    crc32c::crc32c_append(sum, after)
}

/// Reads the header at the front of `bytes`; the first sector is enough. Judges only the header.
///
/// # Errors
///
/// Returns why there is no valid header, such as zeros or a wrong checksum.
pub fn read_header(bytes: &[u8]) -> Result<GroupHeader, GroupFault> {
    let head = bytes.get(..HEADER_BYTES).ok_or(GroupFault::Short)?;
    if is_zero(bytes.get(..SECTOR_BYTES).unwrap_or(bytes)) {
        return Err(GroupFault::LostSector { at: 0 });
    }
    let mut r = Reader::new(head);
    if r.take_raw(8)? != MAGIC {
        return Err(GroupFault::BadMagic);
    }
    let mut sum = Reader::new(head.get(HEADER_CHECKSUM_AT..).unwrap_or_default());
    if sum.take_u32()? != crc32c::crc32c(head.get(..CHECKSUM_AT).unwrap_or_default()) {
        return Err(GroupFault::BadHeaderChecksum);
    }
    let version = r.take_u16()?;
    if version > FORMAT_VERSION {
        return Err(GroupFault::NewerFormat { found: version });
    }
    if (1..FORMAT_VERSION).contains(&version) {
        return Err(GroupFault::OlderFormat { found: version });
    }
    let header = take_header(&mut r)?;
    if version == 0 || header.number == 0 || header.group_bytes != group_bytes(header.payload_bytes) {
        return Err(GroupFault::BadFrame);
    }
    Ok(header)
}

fn take_header(r: &mut Reader<'_>) -> Result<GroupHeader, GroupFault> {
    let rule_version = r.take_u16()?;
    let flags = r.take_u32()?;
    let number = r.take_u64()?;
    let first = Seq(r.take_u64()?);
    let commands = r.take_u32()?;
    let payload_bytes = usize::try_from(r.take_u32()?).map_err(|_| GroupFault::BadFrame)?;
    let group_bytes = usize::try_from(r.take_u32()?).map_err(|_| GroupFault::BadFrame)?;
    r.take_u32()?;
    let watermark = Seq(r.take_u64()?);
    let previous = r.take_array()?;
    let output: Hash = r.take_array()?;
    let output = (flags & HAS_OUTPUT != 0).then_some(output);
    Ok(GroupHeader { rule_version, number, first, commands, payload_bytes, group_bytes, watermark, previous, output })
}

/// Reads the group at the front of `bytes`.
///
/// A lost sector is looked for before the checksum is compared, because the difference decides
/// whether an unacknowledged tail is cut or the start is refused.
///
/// # Errors
///
/// Returns the fault of the header, a lost sector, or a checksum that differs.
pub fn read_group(bytes: &[u8]) -> Result<Group<'_>, GroupFault> {
    let header = read_header(bytes)?;
    let Some(group) = bytes.get(..header.group_bytes) else { return Err(GroupFault::Short) };
    if checksum_matches(group)? {
        check_trailer(group, header.number)?;
        let payload = group.get(header.payload_range()).ok_or(GroupFault::BadFrame)?;
        let hash = *blake3::hash(group).as_bytes();
        return Ok(Group { header, payload, hash });
    }
    if let Some(sector) = group.chunks(SECTOR_BYTES).position(is_zero) {
        return Err(GroupFault::LostSector { at: sector * SECTOR_BYTES });
    }
    match group.last_chunk::<TRAILER_BYTES>() {
        Some(trailer) if is_zero(trailer) => Err(GroupFault::LostTrailer),
        _ => Err(GroupFault::BadChecksum),
    }
}

fn checksum_matches(group: &[u8]) -> Result<bool, GroupFault> {
    let mut field = Reader::new(group.get(CHECKSUM_AT..).unwrap_or_default());
    Ok(field.take_u32()? == checksum_of(group))
}

fn check_trailer(group: &[u8], number: u64) -> Result<(), GroupFault> {
    let trailer = group.last_chunk::<TRAILER_BYTES>().ok_or(GroupFault::BadFrame)?;
    let mut r = Reader::new(trailer);
    if r.take_raw(8)? != TRAILER_MAGIC || r.take_u64()? != number {
        return Err(GroupFault::BadFrame);
    }
    Ok(())
}

/// Whether nothing was ever written here.
pub fn is_zero(bytes: &[u8]) -> bool {
    // In words, because recovery asks this about every unwritten byte of a segment.
    let words = bytes.chunks_exact(16);
    words.remainder().iter().all(|byte| *byte == 0) && words.into_iter().all(|word| word == [0; 16])
}
