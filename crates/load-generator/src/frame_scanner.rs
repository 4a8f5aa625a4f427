//! A server's frames (RFC 6455 section 5), with little memory per connection.
//!
//! Does        returns the piece at the front of the received bytes: a message, a part of one, or a
//!             control frame.
//! Holds       1. the state between two reads is 8 bytes; the caller keeps incomplete bytes and
//!                puts them in front of the next;
//!             2. a long message is not kept: the caller sees its start, and the rest is counted as
//!                it arrives.
//! Leaves out  UTF-8 of text messages: checking it costs more than reading, and the tests of
//!             servers cover it.
//! Start at    [`FrameScanner::take`].

use pitwire_websocket::Violation;

/// From this length in bytes only the start of a message is examined, and its parts are not
/// collected.
pub const LONG_BYTES: u32 = 4 * 1024;
/// How many bytes of a long message are examined.
pub const LOOK_BYTES: usize = 512;
/// Largest valid frame, in bytes.
pub const MOST_BYTES: u64 = 1 << 30;
const MOST_COLLECTED: u32 = 16 << 20;

const FINAL: u8 = 0x80;
const COMPRESSED: u8 = 0x40;
const MASKED: u8 = 0x80;

/// The state of one connection between two reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameScanner {
    /// Payload bytes to come of a long frame whose start was returned.
    missing: u32,
    /// A fragmented message is in progress.
    is_mid_message: bool,
    /// permessage-deflate was negotiated.
    pub may_compress: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum FramePiece<'a> {
    /// A message in one frame. `payload` is the whole, or the received part of a long one; `bytes`
    /// is its full length.
    Message {
        payload: &'a [u8],
        bytes: u32,
        is_whole: bool,
        is_compressed: bool,
    },
    /// One whole frame of a fragmented message.
    Fragment {
        payload: &'a [u8],
        begins: bool,
        ends: bool,
        is_compressed: bool,
    },
    /// The last byte of a long message whose start was returned.
    Ended,
    Ping(&'a [u8]),
    Pong,
    Close(&'a [u8]),
}

struct Header {
    first: u8,
    length: u32,
    bytes: usize,
}

impl FrameScanner {
    /// HOT. Returns the piece at the front of `input` and how many bytes it used. Without a piece,
    /// more must be received behind the unused bytes.
    ///
    /// # Errors
    /// The server violated the protocol, or announced a message above a limit.
    #[inline]
    pub fn take<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Option<FramePiece<'a>>), Violation> {
        if self.missing > 0 {
            return Ok(self.skip(input));
        }
        let Some(header) = parse(input)? else { return Ok((0, None)) };
        let (first, opcode) = (header.first, header.first & 0x0F);
        let rest = &input[header.bytes..];
        let here = rest.len().min(header.length as usize);
        let is_whole = here == header.length as usize;
        let is_compressed = first & COMPRESSED != 0;
        if is_compressed && (!self.may_compress || opcode == 0 || opcode >= 8) {
            return Err(Violation::ReservedBits);
        }
        if opcode >= 8 {
            return control(&header, rest, is_whole);
        }
        if (opcode == 0) != self.is_mid_message {
            return Err(if opcode == 0 { Violation::StrayContinuation } else { Violation::Interrupted });
        }
        let (payload, used) = (&rest[..here], header.bytes + here);
        if opcode == 0 || first & FINAL == 0 {
            return self.fragment(&header, payload, is_whole, is_compressed);
        }
        if is_whole {
            let piece = FramePiece::Message { payload, bytes: header.length, is_whole, is_compressed };
            return Ok((used, Some(piece)));
        }
        if header.length < LONG_BYTES || here < LOOK_BYTES || is_compressed {
            return if is_compressed { collectable(header.length) } else { Ok((0, None)) };
        }
        self.missing = header.length - u32::try_from(here).unwrap_or(header.length);
        Ok((used, Some(FramePiece::Message { payload, bytes: header.length, is_whole, is_compressed })))
    }

    fn skip<'a>(&mut self, input: &'a [u8]) -> (usize, Option<FramePiece<'a>>) {
        let here = u32::try_from(input.len()).unwrap_or(u32::MAX).min(self.missing);
        self.missing -= here;
        (here as usize, (self.missing == 0).then_some(FramePiece::Ended))
    }

    fn fragment<'a>(
        &mut self,
        header: &Header,
        payload: &'a [u8],
        is_whole: bool,
        is_compressed: bool,
    ) -> Result<(usize, Option<FramePiece<'a>>), Violation> {
        if !is_whole {
            return collectable(header.length);
        }
        let (begins, ends) = (!self.is_mid_message, header.first & FINAL != 0);
        self.is_mid_message = !ends;
        let piece = FramePiece::Fragment { payload, begins, ends, is_compressed };
        Ok((header.bytes + payload.len(), Some(piece)))
    }
}

/// Asks for more bytes of a frame that is kept until it is whole.
fn collectable<'a>(length: u32) -> Result<(usize, Option<FramePiece<'a>>), Violation> {
    if length > MOST_COLLECTED {
        return Err(Violation::MessageTooLong);
    }
    Ok((0, None))
}

fn control<'a>(header: &Header, rest: &'a [u8], is_whole: bool) -> Result<(usize, Option<FramePiece<'a>>), Violation> {
    if header.first & FINAL == 0 {
        return Err(Violation::ControlFragmented);
    }
    if header.length > 125 {
        return Err(Violation::ControlTooLong);
    }
    if !is_whole {
        return Ok((0, None));
    }
    let body = &rest[..header.length as usize];
    let piece = match header.first & 0x0F {
        0x9 => FramePiece::Ping(body),
        0xA => FramePiece::Pong,
        _ => FramePiece::Close(body),
    };
    Ok((header.bytes + body.len(), Some(piece)))
}

#[inline]
fn parse(input: &[u8]) -> Result<Option<Header>, Violation> {
    let [first, second, rest @ ..] = input else { return Ok(None) };
    let (first, second) = (*first, *second);
    if first & 0x30 != 0 {
        return Err(Violation::ReservedBits);
    }
    if !matches!(first & 0x0F, 0x0..=0x2 | 0x8..=0xA) {
        return Err(Violation::ReservedOpcode(first & 0x0F));
    }
    if second & MASKED != 0 {
        return Err(Violation::MaskedFrame);
    }
    let (length, bytes, least) = match (second, rest) {
        (126, [a, b, ..]) => (u64::from(u16::from_be_bytes([*a, *b])), 4, 126),
        (127, [a, b, c, d, e, f, g, h, ..]) => (u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]), 10, 0x1_0000),
        (126 | 127, _) => return Ok(None),
        (short, _) => (u64::from(short), 2, 0),
    };
    if length < least || length >> 63 != 0 {
        return Err(Violation::Length);
    }
    match u32::try_from(length) {
        Ok(length) if u64::from(length) <= MOST_BYTES => Ok(Some(Header { first, length, bytes })),
        _ => Err(Violation::FrameTooLong(length)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![first];
        match payload.len() {
            n @ 0..=125 => out.push(u8::try_from(n).unwrap()),
            n @ 126..=0xFFFF => {
                out.push(126);
                out.extend(u16::try_from(n).unwrap().to_be_bytes());
            }
            n => {
                out.push(127);
                out.extend((n as u64).to_be_bytes());
            }
        }
        out.extend(payload);
        out
    }

    /// Receives `stream` in reads of `step` bytes. Returns each piece as a word.
    fn read(stream: &[u8], step: usize, may_compress: bool) -> String {
        let mut frames = FrameScanner { may_compress, ..FrameScanner::default() };
        let (mut kept, mut words) = (Vec::new(), Vec::new());
        for piece in stream.chunks(step) {
            kept.extend_from_slice(piece);
            let mut at = 0;
            loop {
                match frames.take(&kept[at..]) {
                    Err(violation) => {
                        words.push(format!("!{}", violation.close_code()));
                        return words.join(" ");
                    }
                    Ok((used, piece)) => {
                        match piece {
                            None if used == 0 => break,
                            None => {}
                            Some(FramePiece::Message { bytes, payload, is_whole, is_compressed }) => {
                                assert!(is_whole || payload.len() >= LOOK_BYTES);
                                let mark = if is_compressed { "z" } else { "" };
                                words.push(format!("{mark}m{bytes}{}", if is_whole { "" } else { "…" }));
                            }
                            Some(FramePiece::Fragment { payload, begins, ends, .. }) => {
                                words.push(format!("f{}{}{}", payload.len(), u8::from(begins), u8::from(ends)));
                            }
                            Some(FramePiece::Ended) => {
                                let last = words.pop().unwrap();
                                words.push(last.trim_end_matches('…').to_owned());
                            }
                            Some(FramePiece::Ping(body)) => words.push(format!("ping{}", body.len())),
                            Some(FramePiece::Pong) => words.push("pong".into()),
                            Some(FramePiece::Close(body)) => words.push(format!("close{}", body.len())),
                        }
                        at += used;
                    }
                }
            }
            kept.drain(..at);
            assert!(kept.len() < LONG_BYTES as usize + 14, "kept {}", kept.len());
        }
        words.join(" ")
    }

    #[test]
    fn frames_are_the_same_for_every_read_size() {
        let long = vec![b'x'; 70_000];
        let stream = [
            frame(0x81, b"hello"),
            frame(0x82, &long[..300]),
            frame(0x89, b"p"),
            frame(0x01, b"ab"),
            frame(0x8A, b""),
            frame(0x00, b"c"),
            frame(0x80, b""),
            frame(0x81, &long),
            frame(0x81, &long[..4_096]),
            frame(0x81, b""),
            frame(0x88, &[3, 232]),
        ]
        .concat();
        let expected = "m5 m300 ping1 f210 pong f100 f001 m70000 m4096 m0 close2";
        for step in [1, 2, 3, 7, 511, 513, 1_000, 4_097, 70_003, stream.len()] {
            assert_eq!(read(&stream, step, false), expected, "in reads of {step}");
        }
    }

    #[test]
    fn protocol_violations_are_refused() {
        for (name, stream, expected) in [
            ("masked", vec![0x81, 0x81, 0, 0, 0, 0, b'a'], "!1002"),
            ("reserved bit", frame(0x91, b"a"), "!1002"),
            ("compressed unasked", frame(0xC1, b"a"), "!1002"),
            ("opcode 3", frame(0x83, b"a"), "!1002"),
            ("opcode 11", frame(0x8B, b"a"), "!1002"),
            ("fragmented ping", frame(0x09, b"a"), "!1002"),
            ("ping of 126", frame(0x89, &[b'a'; 126]), "!1002"),
            ("stray continuation", frame(0x80, b"a"), "!1002"),
            ("message in a message", [frame(0x01, b"a"), frame(0x81, b"b")].concat(), "f110 !1002"),
            ("125 in three bytes", vec![0x81, 126, 0, 125], "!1002"),
            ("65,535 in nine bytes", vec![0x81, 127, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF], "!1002"),
            ("2^63", vec![0x81, 127, 0x80, 0, 0, 0, 0, 0, 0, 0], "!1002"),
            ("2 GiB", vec![0x81, 127, 0, 0, 0, 0, 0x80, 0, 0, 0], "!1009"),
            ("a fragment of 32 MiB", vec![0x01, 127, 0, 0, 0, 0, 2, 0, 0, 0], "!1009"),
        ] {
            assert_eq!(read(&stream, 1, false), expected, "{name}");
            assert_eq!(read(&stream, stream.len(), false), expected, "{name}");
        }
    }

    #[test]
    fn compressed_messages_are_returned_whole() {
        let body = vec![b'x'; 6_000];
        let stream = frame(0xC1, &body[..2_000]);
        for step in [1, 100, stream.len()] {
            assert_eq!(read(&stream, step, true), "zm2000");
        }
        assert_eq!(read(&frame(0xC0, b"a"), 1, true), "!1002", "only the first frame carries the bit");
        assert_eq!(read(&frame(0xC9, b"a"), 1, true), "!1002", "no control frame does");
    }
}
