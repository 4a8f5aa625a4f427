//! How trades form messages, and messages form frames.

use pitwire_websocket::{Opcode, write_frame, write_header};

use pitwire_random::SplitMix64;

/// Most trades of one message.
pub const MOST_TRADES: u64 = 100_000;
/// Most trades that a cutoff gathers.
pub const CUTOFF_MOST: u64 = 4_096;

/// The number of trades per message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSizes {
    Between {
        least: u64,
        most: u64,
    },
    /// Everything that is due within this time of the message's first trade.
    Cutoff {
        ns: u64,
    },
}

impl MessageSizes {
    pub fn draw(self, random: &mut SplitMix64) -> u64 {
        match self {
            MessageSizes::Between { least, most } if least == most => least,
            MessageSizes::Between { least, most } => random.between(least, most),
            MessageSizes::Cutoff { .. } => CUTOFF_MOST,
        }
    }
}

/// Starts a frame whose payload the caller appends to `out`. The result goes to [`end_frame`].
pub fn begin_frame(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    // Space for the usual header. Another length is corrected at the end.
    out.extend_from_slice(&[0; USUAL_HEADER]);
    start
}

const USUAL_HEADER: usize = 4;

pub fn end_frame(out: &mut Vec<u8>, start: usize, opcode: Opcode) {
    let payload = out.len() - start - USUAL_HEADER;
    if let (126..=0xFFFF, Ok(length)) = (payload, u16::try_from(payload)) {
        let [high, low] = length.to_be_bytes();
        out[start..start + USUAL_HEADER].copy_from_slice(&[0x80 | opcode as u8, 126, high, low]);
        return;
    }
    let mut header = Vec::with_capacity(10);
    write_header(&mut header, opcode, payload);
    out.splice(start..start + USUAL_HEADER, header);
}

/// Writes a message as frames of at most `most` bytes, with `between` behind the first one.
pub fn write_fragments(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8], most: usize, between: &[u8]) {
    if payload.is_empty() {
        write_frame(out, opcode, payload);
        out.extend_from_slice(between);
        return;
    }
    let mut pieces = payload.chunks(most.max(1)).peekable();
    let mut first = true;
    while let Some(piece) = pieces.next() {
        let start = out.len();
        write_frame(out, if first { opcode } else { Opcode::Continuation }, piece);
        if pieces.peek().is_some() {
            out[start] &= 0x7F;
        }
        if first {
            out.extend_from_slice(between);
        }
        first = false;
    }
}

/// Returns the messages in `out`: their payloads, and the offset in `out` of each payload byte.
/// Skips control frames.
pub fn messages(out: &[u8]) -> Vec<FramedMessage> {
    let mut messages: Vec<FramedMessage> = Vec::new();
    let mut at = 0;
    while let Some((header, length)) = frame_at(&out[at..]) {
        let opcode = out[at] & 0x0F;
        let payload = at + header..at + header + length;
        if opcode < 0x8 {
            if opcode != 0 {
                messages.push(FramedMessage { is_binary: opcode == 2, payload: Vec::new(), places: Vec::new() });
            }
            if let Some(message) = messages.last_mut() {
                message.payload.extend_from_slice(&out[payload.clone()]);
                message.places.extend(payload.clone());
            }
        }
        at = payload.end;
    }
    messages
}

/// Returns the end of the first frame that is not wholly before `at`.
pub fn frame_end(out: &[u8], at: usize) -> usize {
    let mut end = 0;
    while end < at {
        let Some((header, length)) = frame_at(&out[end..]) else { return out.len() };
        end += header + length;
    }
    end
}

pub struct FramedMessage {
    pub is_binary: bool,
    pub payload: Vec<u8>,
    pub places: Vec<usize>,
}

/// Returns the lengths of header and payload of the frame at the front. Our own frames are
/// complete.
fn frame_at(bytes: &[u8]) -> Option<(usize, usize)> {
    let (header, length) = match bytes.get(1)? & 0x7F {
        126 => (4, u64::from(u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?))),
        127 => (10, u64::from_be_bytes(*bytes.get(2..)?.first_chunk()?)),
        short => (2, u64::from(short)),
    };
    let length = usize::try_from(length).ok()?;
    (bytes.len() >= header + length).then_some((header, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(payload: &[u8]) -> Vec<u8> {
        let mut out = b"before".to_vec();
        let start = begin_frame(&mut out);
        out.extend_from_slice(payload);
        end_frame(&mut out, start, Opcode::Text);
        out.drain(..6);
        out
    }

    #[test]
    fn every_length_gets_its_header() {
        for (length, header) in [(0_usize, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
            let frame = framed(&vec![b'x'; length]);
            assert_eq!(frame.len(), header + length);
            assert_eq!(frame_at(&frame), Some((header, length)));
        }
        assert_eq!(framed(b"hi"), [0x81, 2, b'h', b'i']);
    }

    #[test]
    fn fragments_combine_to_the_message() {
        let payload: Vec<u8> = (0..=255).collect();
        for most in [1, 2, 7, 125, 255, 256, 300] {
            let mut out = Vec::new();
            write_fragments(&mut out, Opcode::Binary, &payload, most, &[0x89, 0]);
            let found = messages(&out);
            assert_eq!(found.len(), 1);
            assert!(found[0].is_binary);
            assert_eq!(found[0].payload, payload, "in pieces of {most}");
            let read: Vec<u8> = found[0].places.iter().map(|place| out[*place]).collect();
            assert_eq!(read, payload);
            // Only the last frame has the FIN bit.
            assert_eq!(out[0] & 0x80 != 0, most >= 256);
        }
    }
}
