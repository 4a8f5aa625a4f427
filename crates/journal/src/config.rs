//! Sizes and intervals of a journal.

use crate::records::group::{BLOCK_BYTES, HEADER_BYTES, TRAILER_BYTES};

use crate::OpenError;

#[derive(Clone, Debug)]
pub struct JournalConfig {
    /// Size of new segments in bytes, a multiple of 4096. Existing segments keep their size.
    pub segment_bytes: u64,
    /// Largest group in bytes: a multiple of 4096, at least 8192, at most a segment.
    pub group_bytes: usize,
    /// Least time between two writes of the superblock, in nanoseconds.
    pub superblock_interval_ns: u64,
    /// Version of the rules of this build. A journal under newer rules is refused; a replay of a
    /// group under older rules reports it.
    pub rule_version: u16,
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self { segment_bytes: 64 << 20, group_bytes: 1 << 20, superblock_interval_ns: 5_000_000, rule_version: 2 }
    }
}

impl JournalConfig {
    /// Bytes of records that fit one group.
    pub(crate) const fn payload_limit(&self) -> usize {
        self.group_bytes.saturating_sub(HEADER_BYTES + TRAILER_BYTES)
    }

    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let block = BLOCK_BYTES as u64;
        let group = self.group_bytes as u64;
        if self.segment_bytes == 0 || !self.segment_bytes.is_multiple_of(block) {
            return Err(OpenError::BadConfig { what: "segment_bytes must be a multiple of 4096" });
        }
        if group < 2 * block || !group.is_multiple_of(block) || group > self.segment_bytes || group > 1 << 30 {
            return Err(OpenError::BadConfig {
                what: "group_bytes must be a multiple of 4096, at least 8192, at most segment_bytes and 1 GiB",
            });
        }
        Ok(())
    }
}
