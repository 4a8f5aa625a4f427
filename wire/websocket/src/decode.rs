//! Frames to messages: incremental, bounded, strict.

use std::fmt;

use crate::encode::CloseCode;

/// What a peer may send before it is cut off.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Payload bytes of one frame, and of one message.
    pub message_bytes: usize,
    pub fragments: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { message_bytes: 32 * 1024, fragments: 64 }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Incoming<'a> {
    Text(&'a str),
    Binary(&'a [u8]),
    Ping(&'a [u8]),
    Pong,
    /// The peer's close code, if it gave one.
    Close(Option<u16>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolError {
    pub code: CloseCode,
    pub reason: &'static str,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)
    }
}

impl std::error::Error for ProtocolError {}

const fn violation(reason: &'static str) -> ProtocolError {
    ProtocolError { code: CloseCode::Protocol, reason }
}

/// The receiving state of one connection.
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    /// Unmasked payload of the message being collected, and whether it is text.
    message: Vec<u8>,
    collecting: Option<bool>,
    fragments: u32,
    control: Vec<u8>,
}

struct Frame<'a> {
    fin: bool,
    opcode: u8,
    mask: [u8; 4],
    payload: &'a [u8],
    bytes: usize,
}

impl Decoder {
    pub fn new(limits: Limits) -> Self {
        Decoder { limits, message: Vec::new(), collecting: None, fragments: 0, control: Vec::new() }
    }

    /// Whether a fragmented message has begun and not ended.
    pub fn is_mid_message(&self) -> bool {
        self.collecting.is_some()
    }

    /// Takes one frame from the front of `input`: how many bytes it used (0: more are needed) and the message it
    /// completed, if it did. After an error the connection must be closed with the error's code.
    pub fn decode(&mut self, input: &[u8]) -> Result<(usize, Option<Incoming<'_>>), ProtocolError> {
        let Some(frame) = self.parse(input)? else { return Ok((0, None)) };
        let bytes = frame.bytes;
        let message = if frame.opcode >= 0x8 { Some(self.control(&frame)?) } else { self.data(&frame)? };
        Ok((bytes, message))
    }

    fn parse<'a>(&self, input: &'a [u8]) -> Result<Option<Frame<'a>>, ProtocolError> {
        let [first, second, ..] = *input else { return Ok(None) };
        if first & 0x70 != 0 {
            return Err(violation("reserved bits are set: no extension was agreed"));
        }
        let (fin, opcode) = (first & 0x80 != 0, first & 0x0F);
        if !matches!(opcode, 0x0..=0x2 | 0x8..=0xA) {
            return Err(violation("unknown opcode"));
        }
        if second & 0x80 == 0 {
            return Err(violation("frames from a client must be masked"));
        }
        let Some((len, header)) = payload_length(second & 0x7F, input)? else { return Ok(None) };
        if opcode >= 0x8 && (len > 125 || !fin) {
            return Err(violation("a control frame must be whole and at most 125 bytes"));
        }
        if len > self.limits.message_bytes as u64 {
            return Err(ProtocolError { code: CloseCode::TooBig, reason: "frame above 32 KiB" });
        }
        let len = usize::try_from(len).map_err(|_| violation("frame length"))?;
        let (Some(mask), Some(payload)) = (input.get(header..header + 4), input.get(header + 4..header + 4 + len))
        else {
            return Ok(None);
        };
        let mask = [mask[0], mask[1], mask[2], mask[3]];
        Ok(Some(Frame { fin, opcode, mask, payload, bytes: header + 4 + len }))
    }

    fn control(&mut self, frame: &Frame<'_>) -> Result<Incoming<'_>, ProtocolError> {
        self.control.clear();
        unmask(&mut self.control, frame);
        match frame.opcode {
            0x9 => Ok(Incoming::Ping(&self.control)),
            0xA => Ok(Incoming::Pong),
            _ => close_code(&self.control).map(Incoming::Close),
        }
    }

    fn data(&mut self, frame: &Frame<'_>) -> Result<Option<Incoming<'_>>, ProtocolError> {
        let text = match (frame.opcode, self.collecting) {
            (0x0, None) => return Err(violation("continuation without a beginning")),
            (0x0, Some(text)) => text,
            (_, Some(_)) => return Err(violation("a new message inside a fragmented one")),
            (opcode, None) => {
                self.message.clear();
                self.fragments = 0;
                opcode == 0x1
            }
        };
        self.fragments += 1;
        if self.fragments > self.limits.fragments {
            return Err(ProtocolError { code: CloseCode::Policy, reason: "more than 64 fragments in one message" });
        }
        if self.message.len() + frame.payload.len() > self.limits.message_bytes {
            return Err(ProtocolError { code: CloseCode::TooBig, reason: "message above 32 KiB" });
        }
        unmask(&mut self.message, frame);
        if !frame.fin {
            self.collecting = Some(text);
            return Ok(None);
        }
        self.collecting = None;
        if !text {
            return Ok(Some(Incoming::Binary(&self.message)));
        }
        match std::str::from_utf8(&self.message) {
            Ok(text) => Ok(Some(Incoming::Text(text))),
            Err(_) => Err(ProtocolError { code: CloseCode::BadText, reason: "a text message must be UTF-8" }),
        }
    }
}

/// The payload length and where the mask begins, or `None` when more bytes are needed.
fn payload_length(short: u8, input: &[u8]) -> Result<Option<(u64, usize)>, ProtocolError> {
    match short {
        126 => Ok(input.get(2..4).map(|b| (u64::from(u16::from_be_bytes([b[0], b[1]])), 4))),
        127 => {
            let Some(bytes) = input.get(2..10).and_then(|b| <[u8; 8]>::try_from(b).ok()) else { return Ok(None) };
            let len = u64::from_be_bytes(bytes);
            if len >> 63 != 0 { Err(violation("frame length has its top bit set")) } else { Ok(Some((len, 10))) }
        }
        len => Ok(Some((u64::from(len), 2))),
    }
}

/// Eight bytes at a time: this is done to every byte that comes in.
fn unmask(out: &mut Vec<u8>, frame: &Frame<'_>) {
    let start = out.len();
    out.extend_from_slice(frame.payload);
    let [a, b, c, d] = frame.mask;
    let word = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = out[start..].as_chunks_mut::<8>();
    for bytes in words {
        *bytes = (u64::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
    }
    rest.iter_mut().zip(frame.mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
}

fn close_code(payload: &[u8]) -> Result<Option<u16>, ProtocolError> {
    match payload {
        [] => Ok(None),
        [_] => Err(violation("a close code has two bytes")),
        [high, low, reason @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            let legal = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
            if !legal {
                return Err(violation("a close code that may not be sent"));
            }
            match std::str::from_utf8(reason) {
                Ok(_) => Ok(Some(code)),
                Err(_) => Err(ProtocolError { code: CloseCode::BadText, reason: "a close reason must be UTF-8" }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [0x37, 0xfa, 0x21, 0x3d];
        let mut out = vec![first];
        match payload.len() {
            len @ 0..=125 => out.push(0x80 | u8::try_from(len).unwrap()),
            len => {
                out.push(0x80 | 126);
                out.extend(u16::try_from(len).unwrap().to_be_bytes());
            }
        }
        out.extend(mask);
        out.extend(payload.iter().zip(mask.iter().cycle()).map(|(b, m)| b ^ m));
        out
    }

    /// Feeds bytes in pieces of `step` and renders what comes out, one word a message.
    fn run(bytes: &[u8], step: usize) -> String {
        let (mut decoder, mut buffer, mut out) = (Decoder::new(Limits::default()), Vec::new(), Vec::new());
        for piece in bytes.chunks(step) {
            buffer.extend_from_slice(piece);
            loop {
                match decoder.decode(&buffer) {
                    Ok((0, None)) => break,
                    Ok((used, message)) => {
                        if let Some(message) = message {
                            out.push(match message {
                                Incoming::Text(text) => format!("text:{text}"),
                                Incoming::Binary(bytes) => format!("binary:{}", bytes.len()),
                                Incoming::Ping(bytes) => format!("ping:{}", String::from_utf8_lossy(bytes)),
                                Incoming::Pong => "pong".into(),
                                Incoming::Close(code) => format!("close:{}", code.unwrap_or(0)),
                            });
                        }
                        buffer.drain(..used);
                    }
                    Err(error) => {
                        out.push(format!("!{}", error.code as u16));
                        return out.join(" ");
                    }
                }
            }
        }
        out.join(" ")
    }

    #[test]
    fn messages_come_out_whole_however_they_arrive() {
        let long = "x".repeat(300);
        let table: Vec<(Vec<u8>, String)> = vec![
            // RFC 6455 section 5.7: a single-frame masked text message.
            (vec![0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58], "text:Hello".into()),
            (masked(0x81, long.as_bytes()), format!("text:{long}")),
            ([masked(0x01, b"Hel"), masked(0x89, b"p"), masked(0x80, b"lo")].concat(), "ping:p text:Hello".into()),
            (masked(0x82, &[0xFF, 0]), "binary:2".into()),
            (masked(0x8A, b"unasked"), "pong".into()),
            (masked(0x88, &[0x03, 0xE8]), "close:1000".into()),
            (masked(0x88, &[]), "close:0".into()),
            // A character split over two fragments is legal.
            ([masked(0x01, &[0xC3]), masked(0x80, &[0xA9])].concat(), "text:é".into()),
        ];
        for (bytes, expected) in &table {
            for step in [1, 2, 3, 7, bytes.len()] {
                assert_eq!(&run(bytes, step), expected, "in pieces of {step}");
            }
        }
    }

    #[test]
    fn violations_close_with_the_code_the_rfc_gives_them() {
        let unmasked = vec![0x81, 0x01, b'a'];
        let table: Vec<(&str, Vec<u8>, &str)> = vec![
            ("unmasked", unmasked, "!1002"),
            ("reserved bit", masked(0xC1, b"a"), "!1002"),
            ("reserved opcode", masked(0x83, b"a"), "!1002"),
            ("reserved control opcode", masked(0x8B, b"a"), "!1002"),
            ("fragmented ping", masked(0x09, b"a"), "!1002"),
            ("long ping", masked(0x89, &[b'a'; 126]), "!1002"),
            ("lone continuation", masked(0x80, b"a"), "!1002"),
            ("message in message", [masked(0x01, b"a"), masked(0x81, b"b")].concat(), "!1002"),
            ("bad UTF-8", masked(0x81, &[0xFF]), "!1007"),
            ("close of one byte", masked(0x88, &[3]), "!1002"),
            ("close 1005", masked(0x88, &[0x03, 0xED]), "!1002"),
            ("close 999", masked(0x88, &[0x03, 0xE7]), "!1002"),
            ("close with bad UTF-8", masked(0x88, &[0x03, 0xE8, 0xFF]), "!1007"),
            ("frame too big", vec![0x81, 0xFE, 0x80, 0x01, 0, 0, 0, 0], "!1009"),
            ("length with top bit", vec![0x81, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "!1002"),
            ("message too big", [masked(0x01, &[b'a'; 20_000]), masked(0x80, &[b'a'; 20_000])].concat(), "!1009"),
            ("too many fragments", [masked(0x01, b"a"), masked(0x00, b"a").repeat(64)].concat(), "!1008"),
        ];
        for (name, bytes, expected) in &table {
            assert_eq!(&run(bytes, bytes.len()), expected, "{name}");
        }
    }
}
