//! Compresses a message once for all subscribers that agreed to permessage-deflate.
//!
//! Holds       Each message is compressed on its own, so the same bytes serve a subscriber that
//!             came later.
//! Costs       About 200 KiB per delivery thread from the first such subscriber on, and one
//!             compression per format.
//! Start at    [`Compressor::frame`].

use pitwire_websocket::{Deflater, Opcode, Policy};

use crate::frame::Frame;

/// Window sizes that we agree to: 4 KiB, which suffices for small messages, and the least one for
/// clients that ask for less.
pub const POLICY: Policy = Policy { windows: &[12, NARROW_BITS] };
pub const NARROW_BITS: u8 = 9;
/// Compression level: fast, because the delivery thread compresses every message.
const LEVEL: u32 = 3;

#[derive(Default)]
pub struct Compressor {
    deflaters: [Option<Box<Deflater>>; 2],
    whole: Vec<u8>,
    framed: Vec<u8>,
}

impl Compressor {
    /// Returns the encoded frame. The payload stays uncompressed if compression does not make it
    /// smaller.
    pub fn frame(&mut self, is_narrow: bool, opcode: Opcode, parts: &Frame<'_>) -> &[u8] {
        self.whole.clear();
        for part in [parts.opening, parts.payload, parts.closing] {
            self.whole.extend_from_slice(part);
        }
        self.framed.clear();
        let bits = if is_narrow { NARROW_BITS } else { POLICY.agreed().server_class() };
        let deflater = &mut self.deflaters[usize::from(is_narrow)];
        let deflater = deflater.get_or_insert_with(|| Box::new(Deflater::new(LEVEL, bits)));
        deflater.write_frame(&mut self.framed, opcode, &self.whole);
        &self.framed
    }
}
