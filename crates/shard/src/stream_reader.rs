//! Records from a stream that arrives in pieces.
//!
//! Does        keeps incomplete records and returns each whole record once.
//! Holds       memory is fixed, except for a record longer than the buffer, up to
//!             [`STREAM_RECORD_MAX`].
//! Leaves out  reading the pipe: the caller fills [`StreamReader::space`].

use crate::fault::RingFault;
use crate::layout::{LENGTH_BYTES, STREAM_RECORD_MAX};

pub struct StreamReader {
    bytes: Box<[u8]>,
    from: usize,
    to: usize,
    /// Position of `from` in the stream.
    position: u64,
}

impl StreamReader {
    /// Creates a buffer of `capacity` bytes, the most that one read can return. 256 KiB is a good
    /// size.
    pub fn new(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity.max(64)].into_boxed_slice(), from: 0, to: 0, position: 0 }
    }

    /// Returns where the next bytes go. Never empty after [`StreamReader::take`].
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.bytes[self.to..]
    }

    /// Notes that `bytes` bytes of [`StreamReader::space`] were filled.
    pub fn filled(&mut self, bytes: usize) {
        self.to = (self.to + bytes).min(self.bytes.len());
    }

    /// Returns whether the stream may end here, without an incomplete record.
    pub fn is_whole(&self) -> bool {
        self.from == self.to
    }

    /// Calls `each` for every whole record, in order, and returns how many there were.
    ///
    /// # Errors
    /// A length exceeds [`STREAM_RECORD_MAX`].
    pub fn take(&mut self, mut each: impl FnMut(&[u8])) -> Result<u64, RingFault> {
        let mut taken = 0;
        loop {
            let held = &self.bytes[self.from..self.to];
            let Some((length, rest)) = held.split_first_chunk::<LENGTH_BYTES>() else { break };
            let found = u32::from_le_bytes(*length);
            let length = found as usize;
            if length > STREAM_RECORD_MAX {
                return Err(RingFault::Length { found, at: self.position });
            }
            let Some(record) = rest.get(..length) else {
                self.make_room(LENGTH_BYTES + length);
                return Ok(taken);
            };
            each(record);
            taken += 1;
            self.from += LENGTH_BYTES + length;
            self.position += (LENGTH_BYTES + length) as u64;
        }
        self.make_room(LENGTH_BYTES);
        Ok(taken)
    }

    /// Moves the kept bytes to the front and ensures room for a record of `wanted` bytes.
    fn make_room(&mut self, wanted: usize) {
        self.bytes.copy_within(self.from..self.to, 0);
        self.to -= self.from;
        self.from = 0;
        if wanted > self.bytes.len() {
            let mut larger = vec![0; wanted].into_boxed_slice();
            larger[..self.to].copy_from_slice(&self.bytes[..self.to]);
            self.bytes = larger;
        }
    }
}

#[cfg(test)]
mod tests;
