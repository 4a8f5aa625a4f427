//! Which part of each file belongs to a copy of a directory that a venue may be writing.

use crate::Recovery;
use crate::names::{SUPERBLOCK, UNFINISHED, archive, parse_segment, parse_snapshot};

/// The part of a file that a copy contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPart {
    /// Not part of the log at the moment of the inspection, or under construction.
    Nothing,
    /// The bytes before this offset, and zeros after it, where later groups may be in progress.
    ZerosFrom(u64),
    Everything,
}

impl Recovery {
    /// Returns the part of the file `name` that belongs to a copy of the log as it was inspected.
    ///
    /// Copy the superblock before the inspection: its watermark must not be newer than the log.
    pub fn copy_part(&self, name: &str) -> CopyPart {
        if name == SUPERBLOCK || name.ends_with(UNFINISHED) {
            return CopyPart::Nothing;
        }
        if parse_snapshot(name).is_some_and(|seq| seq > self.last) {
            return CopyPart::Nothing;
        }
        match parse_segment(name) {
            Some(number) if number > self.end.segment => CopyPart::Nothing,
            Some(number) if number == self.end.segment => CopyPart::ZerosFrom(self.end.offset),
            _ => CopyPart::Everything,
        }
    }

    /// Returns the name that the segment `name` gets when the venue compresses it. `None` if `name`
    /// is not a plain segment. A copier that no longer finds the segment copies this file.
    pub fn compressed_name(name: &str) -> Option<String> {
        parse_segment(name).map(archive)
    }

    /// Name of the file to copy before the inspection.
    pub const FIRST_COPIED: &'static str = SUPERBLOCK;
}
