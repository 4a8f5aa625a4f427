//! Compressed messages (permessage-deflate, RFC 7692 section 7.2).
//!
//! Does        Inflates a peer's messages in pieces, up to a limit. Compresses complete messages
//!             independently of each other, so that the bytes are the same for every peer with the
//!             same window.
//! Holds       At most the limit and one byte are inflated: a decompression bomb is found while it
//!             is small.
//! Leaves out  The parameters that both sides agree on: see `extension`.
//! Costs       About 48 KiB for an [`Inflater`] and 270 KiB for a [`Deflater`] with the largest
//!             window.
//! Start at    [`Inflater::inflate`], [`Deflater::write_frame`].

use std::fmt;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::encode::{Opcode, write_frame, write_header};
use crate::violation::Violation;

/// The end of a compressed message, which is not sent (RFC 7692 section 7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xFF, 0xFF];
/// Bytes inflated at a time.
const STEP_BYTES: usize = 16 * 1024;
/// The header bit of a compressed message.
const RSV1: u8 = 0x40;
/// Window sizes that zlib supports without a header. It can read a window of 2^8 but not write one.
const WINDOW_BITS: std::ops::RangeInclusive<u8> = 9..=15;

/// Inflates the messages of one peer.
pub struct Inflater {
    state: Decompress,
}

impl Inflater {
    /// Creates an inflater for a peer that refers back at most 2^`window_bits` bytes.
    pub fn new(window_bits: u8) -> Self {
        let bits = window_bits.clamp(*WINDOW_BITS.start(), *WINDOW_BITS.end());
        Inflater { state: Decompress::new_with_window_bits(false, bits) }
    }

    /// Inflates the next bytes of a message and appends the result to `out`, which may hold `most`
    /// bytes.
    ///
    /// # Errors
    ///
    /// The bytes are invalid, or `out` would exceed `most`.
    pub fn inflate(&mut self, mut input: &[u8], out: &mut Vec<u8>, most: usize) -> Result<(), Violation> {
        loop {
            let step = (most + 1).saturating_sub(out.len()).min(STEP_BYTES);
            if step == 0 {
                return Err(Violation::MessageTooLong);
            }
            out.reserve(step);
            let (before, had) = (self.state.total_in(), out.len());
            let status = self.state.decompress_vec(input, out, FlushDecompress::Sync);
            let used = usize::try_from(self.state.total_in() - before).unwrap_or(usize::MAX);
            input = input.get(used..).unwrap_or_default();
            match status {
                Err(_) => return Err(Violation::Deflate),
                // The sender has ended a stream. The next block begins another (RFC 7692 section
                // 7.2.3.4).
                Ok(Status::StreamEnd) => self.state.reset(false),
                Ok(Status::Ok | Status::BufError) => {}
            }
            if out.len() > most {
                return Err(Violation::MessageTooLong);
            }
            // All input is read, and all output has fitted.
            let is_settled = out.len() < out.capacity() || (out.len() == had && used == 0);
            if input.is_empty() && is_settled {
                return Ok(());
            }
            if used == 0 && out.len() == had {
                return Err(Violation::Deflate);
            }
        }
    }

    /// Ends a message.
    ///
    /// # Errors
    ///
    /// As for [`Self::inflate`].
    pub fn finish(&mut self, out: &mut Vec<u8>, most: usize) -> Result<(), Violation> {
        self.inflate(&TAIL, out, most)
    }

    /// Inflates a complete message that refers to no earlier one.
    ///
    /// # Errors
    ///
    /// As for [`Self::inflate`].
    pub fn inflate_whole(&mut self, payload: &[u8], out: &mut Vec<u8>, most: usize) -> Result<(), Violation> {
        self.state.reset(false);
        self.inflate(payload, out, most)?;
        self.finish(out, most)
    }
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inflater({} bytes in)", self.state.total_in())
    }
}

/// Compresses messages for all peers with the same window. No message refers to an earlier one.
pub struct Deflater {
    state: Compress,
    squeezed: Vec<u8>,
}

impl Deflater {
    /// Creates a deflater. `level` is 1 (fast) to 9 (small), `window_bits` 9 to 15.
    pub fn new(level: u32, window_bits: u8) -> Self {
        let bits = window_bits.clamp(*WINDOW_BITS.start(), *WINDOW_BITS.end());
        let state = Compress::new_with_window_bits(Compression::new(level.clamp(1, 9)), false, bits);
        Deflater { state, squeezed: Vec::new() }
    }

    /// Appends the payload of a compressed message. Returns false if zlib failed.
    pub fn deflate(&mut self, payload: &[u8], out: &mut Vec<u8>) -> bool {
        let begun = out.len();
        self.state.reset();
        let mut rest = payload;
        loop {
            out.reserve(rest.len() / 2 + 64);
            let before = self.state.total_in();
            let done = self.state.compress_vec(rest, out, FlushCompress::Sync);
            let used = usize::try_from(self.state.total_in() - before).unwrap_or(usize::MAX);
            rest = rest.get(used..).unwrap_or_default();
            if done.is_err() {
                out.truncate(begun);
                return false;
            }
            if rest.is_empty() && out.len() < out.capacity() {
                break;
            }
        }
        if out[begun..].ends_with(&TAIL) {
            out.truncate(out.len() - TAIL.len());
        }
        if out.len() == begun {
            // An empty message is an empty block (RFC 7692 section 7.2.3.6).
            out.push(0);
        }
        true
    }

    /// Appends one complete frame of a server: compressed if that makes it smaller, otherwise as it
    /// is. A peer that agreed to compression must accept both.
    pub fn write_frame(&mut self, out: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
        let mut squeezed = std::mem::take(&mut self.squeezed);
        squeezed.clear();
        if self.deflate(payload, &mut squeezed) && squeezed.len() < payload.len() {
            let header = out.len();
            write_header(out, opcode, squeezed.len());
            out[header] |= RSV1;
            out.extend_from_slice(&squeezed);
        } else {
            write_frame(out, opcode, payload);
        }
        self.squeezed = squeezed;
    }
}

impl fmt::Debug for Deflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deflater")
    }
}
