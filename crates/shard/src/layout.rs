//! Where what lies: records in a stream, records and positions in a ring. Said in words in `docs/splitter.md`.
//!
//! Does        name the numbers.
//! Leaves out  reading and writing them.

/// The bytes `PWRING01`, read as a little-endian number.
pub const MAGIC: u64 = u64::from_le_bytes(*b"PWRING01");
pub const VERSION: u32 = 1;
/// Of a ring that may refer to records in an area beside it.
pub const VERSION_REFERRING: u32 = 2;
/// Bytes before the records: one page.
pub const RECORDS_AT: u32 = 4096;

pub const AT_MAGIC: usize = 0;
pub const AT_VERSION: usize = 8;
pub const AT_RECORDS_AT: usize = 12;
pub const AT_CAPACITY: usize = 16;
pub const AT_WORKER: usize = 24;
pub const AT_WORKERS: usize = 28;
pub const AT_STARTED_NS: usize = 32;
/// Version 2: bytes of the area, and the name of its file beside the ring's, ended by a zero.
pub const AT_AREA_BYTES: usize = 40;
pub const AT_AREA_NAME: usize = 512;
pub const AREA_NAME_BYTES: usize = 256;
pub const AT_HEAD: usize = 128;
pub const AT_BELL: usize = 136;
pub const AT_STATE: usize = 140;
pub const AT_TAIL: usize = 256;
pub const AT_SLEEPING: usize = 264;

pub const STATE_LIVE: u32 = 0;
pub const STATE_ENDED: u32 = 1;

/// In place of a length: the rest up to the end of the ring is empty.
pub const WRAP: u32 = u32::MAX;
/// Version 2: in a length that is not [`WRAP`], the record lies in the area; its offset there follows instead of its bytes.
pub const REFERENCE: u32 = 1 << 31;
/// What a reference takes in a ring: length and offset.
pub const REFERENCE_BYTES: usize = 8;
/// A record begins at a multiple of this.
pub const ALIGNMENT: usize = 8;
/// Bytes of a record's length.
pub const LENGTH_BYTES: usize = 4;
/// The smallest ring: a record of a kibibyte fits.
pub const CAPACITY_MIN: u64 = 4096;
/// The largest: lengths stay far below [`WRAP`], positions far below overflow.
pub const CAPACITY_MAX: u64 = 1 << 32;

/// Longest record of a stream: what a feed's object may have at most, with room for a note.
pub const STREAM_RECORD_MAX: usize = 8 << 20;

/// Bytes that a record of `len` takes in a ring.
pub const fn footprint(len: usize) -> usize {
    (LENGTH_BYTES + len + (ALIGNMENT - 1)) & !(ALIGNMENT - 1)
}

/// Longest record of a ring: with its length, a quarter of it.
pub const fn ring_record_max(capacity: u64) -> u64 {
    capacity / 4 - LENGTH_BYTES as u64
}
