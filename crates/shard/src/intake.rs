//! Records out of a stream that arrives in pieces.
//!
//! Does        keep what is not whole yet; hand out each whole record once.
//! Holds       memory is fixed but for a record longer than it, up to [`STREAM_RECORD_MAX`].
//! Leaves out  reading the pipe: the caller fills [`Intake::space`].

use crate::Fault;
use crate::layout::{LENGTH_BYTES, STREAM_RECORD_MAX};

pub struct Intake {
    bytes: Box<[u8]>,
    from: usize,
    to: usize,
    /// Stream position of `from`.
    position: u64,
}

impl Intake {
    /// `capacity`: how much one read can bring at most; 256 KiB is a good size.
    pub fn new(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity.max(64)].into_boxed_slice(), from: 0, to: 0, position: 0 }
    }

    /// Where the next bytes go; never empty after [`Intake::take`].
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.bytes[self.to..]
    }

    /// So many bytes of [`Intake::space`] have been filled.
    pub fn filled(&mut self, bytes: usize) {
        self.to = (self.to + bytes).min(self.bytes.len());
    }

    /// Whether the stream could end here: no half record is held.
    pub fn is_whole(&self) -> bool {
        self.from == self.to
    }

    /// Each whole record, in order; how many.
    pub fn take(&mut self, mut each: impl FnMut(&[u8])) -> Result<u64, Fault> {
        let mut taken = 0;
        loop {
            let held = &self.bytes[self.from..self.to];
            let Some((length, rest)) = held.split_first_chunk::<LENGTH_BYTES>() else { break };
            let found = u32::from_le_bytes(*length);
            let length = found as usize;
            if length > STREAM_RECORD_MAX {
                return Err(Fault::Length { found, at: self.position });
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

    /// What is held goes to the front; the rest is enough for a record of `wanted` bytes.
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
