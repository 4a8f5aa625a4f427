//! Messages compressed once for everybody who can read them so (permessage-deflate).
//!
//! Holds       each message stands by itself, so the same bytes serve whoever came when.
//! Costs       some 200 KiB a hall, from the first reader on that agreed to it; a message is compressed once a class.
//! Start at    [`Compressor::frame`].

use pitwire_websocket::{Deflater, Opcode, Policy};

use crate::frame::Frame;

/// Four kilobytes: what clients ask for that are careful with their memory, and all that small messages have use for; and
/// the least there is, for whoever wants less.
pub const POLICY: Policy = Policy { windows: &[12, NARROW_BITS] };
pub const NARROW_BITS: u8 = 9;
/// Quick rather than small: it is done for every message, on the hall's thread.
const LEVEL: u32 = 3;

#[derive(Default)]
pub struct Compressor {
    deflaters: [Option<Box<Deflater>>; 2],
    whole: Vec<u8>,
    framed: Vec<u8>,
}

impl Compressor {
    /// The frame, ready for the wire; as it is where compressing does not make it smaller.
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
