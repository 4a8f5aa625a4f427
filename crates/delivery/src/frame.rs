//! Encoded WebSocket frames: headers and parts.
//!
//! Start at    [`FrameHeader::new`].

use pitwire_websocket::Opcode;

/// Header of a WebSocket frame: at most ten bytes, on the stack.
#[derive(Clone, Copy, Debug)]
pub struct FrameHeader {
    bytes: [u8; 10],
    len: u8,
}

impl FrameHeader {
    /// Header of one whole, unmasked frame with `len` payload bytes. `is_deflated` sets RSV1.
    #[allow(clippy::cast_possible_truncation)]
    pub fn new(opcode: Opcode, len: usize, is_deflated: bool) -> Self {
        let mut bytes = [0; 10];
        bytes[0] = 0x80 | opcode as u8 | if is_deflated { 0x40 } else { 0 };
        let used = match len {
            0..=125 => {
                bytes[1] = len as u8;
                2
            }
            126..=0xFFFF => {
                bytes[1] = 126;
                bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
                4
            }
            _ => {
                bytes[1] = 127;
                bytes[2..].copy_from_slice(&(len as u64).to_be_bytes());
                10
            }
        };
        FrameHeader { bytes, len: used }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The parts of one frame in order: the header, the payload, and the envelope around the payload.
pub struct Frame<'a> {
    pub header: FrameHeader,
    pub opening: &'a [u8],
    pub payload: &'a [u8],
    pub closing: &'a [u8],
}

impl Frame<'_> {
    /// Appends the whole frame to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        for part in [self.header.as_bytes(), self.opening, self.payload, self.closing] {
            out.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_headers_have_three_length_forms() {
        for (len, deflated, expected) in [
            (5_usize, false, vec![0x81, 5]),
            (125, true, vec![0xC1, 125]),
            (126, false, vec![0x81, 126, 0, 126]),
            (65_535, false, vec![0x81, 126, 0xFF, 0xFF]),
            (65_536, false, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            assert_eq!(FrameHeader::new(Opcode::Text, len, deflated).as_bytes(), expected, "{len}");
        }
    }
}
