//! The layout of records in a stream, and of records and positions in a ring.
//! `docs/splitter-formats.md` describes it.
//!
//! Does        defines the constants.
//! Leaves out  reading and writing.

/// The bytes `PWRING01`, read as a little-endian number.
pub const MAGIC: u64 = u64::from_le_bytes(*b"PWRING01");
pub const VERSION: u32 = 1;
/// Version of a ring that may refer to records in an area beside it.
pub const VERSION_REFERRING: u32 = 2;
/// Size of the header in bytes: one page.
pub const RECORDS_AT: u32 = 4096;

pub const AT_MAGIC: usize = 0;
pub const AT_VERSION: usize = 8;
pub const AT_RECORDS_AT: usize = 12;
pub const AT_CAPACITY: usize = 16;
pub const AT_WORKER: usize = 24;
pub const AT_WORKERS: usize = 28;
pub const AT_STARTED_NS: usize = 32;
/// Version 2: size of the area in bytes, and the zero-terminated name of its file in the ring's
/// directory.
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

/// In place of a length: the rest of the ring up to its end is unused.
pub const WRAP: u32 = u32::MAX;
/// Version 2: flag in a length other than [`WRAP`]. The record is in the area, and its offset
/// follows the length.
pub const REFERENCE: u32 = 1 << 31;
/// Size of a reference in a ring: length and offset.
pub const REFERENCE_BYTES: usize = 8;
/// Every record begins at a multiple of this.
pub const ALIGNMENT: usize = 8;
/// Size of a record's length.
pub const LENGTH_BYTES: usize = 4;
/// Smallest ring, in bytes. Holds a record of one KiB.
pub const CAPACITY_MIN: u64 = 4096;
/// Largest ring, in bytes. Lengths stay far below [`WRAP`], and positions far below overflow.
pub const CAPACITY_MAX: u64 = 1 << 32;

/// Longest record of a stream, in bytes: the longest object of a feed, with room for more.
pub const STREAM_RECORD_MAX: usize = 8 << 20;

/// Returns how many bytes a record of `len` bytes occupies in a ring.
pub const fn footprint(len: usize) -> usize {
    (LENGTH_BYTES + len + (ALIGNMENT - 1)) & !(ALIGNMENT - 1)
}

/// Returns the longest record of a ring: a quarter of it, including its length.
pub const fn ring_record_max(capacity: u64) -> u64 {
    capacity / 4 - LENGTH_BYTES as u64
}
