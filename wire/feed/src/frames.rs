//! Server-to-client frames (RFC 6455 section 5), however they are cut into reads.
//!
//! Does        say which bytes of what was received are payload of a message, and collect bodies of control frames.
//! Holds       a violation is found at the same byte however the stream is cut.
//! Leaves out  UTF-8 of text messages, which `cutter` checks beside its scan.
//! Start at    [`Frames::next`].

use crate::violation::{FRAME_BYTES_MAX, Violation};

const HEADER_BYTES_MAX: usize = 10;
const CONTROL_BYTES_MAX: usize = 125;

/// What comes next in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    Data(Data),
    /// Its body is [`Frames::control_body`].
    Control(Control),
}

/// Payload of a message: `start..end` of what was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    pub start: usize,
    pub end: usize,
    pub is_text: bool,
    pub begins_message: bool,
    pub ends_message: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    Ping,
    Pong,
    Close,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Data { begins_message: bool },
    Control(Control),
}

#[derive(Clone, Copy, Debug)]
struct Header {
    is_final: bool,
    kind: Kind,
    payload_bytes: u64,
}

/// The framing state of one connection.
#[derive(Debug)]
pub struct Frames {
    /// A header that a read has cut.
    header: [u8; HEADER_BYTES_MAX],
    header_bytes: usize,
    /// The frame whose payload is being received, and how much of that is missing.
    frame: Option<Header>,
    missing_bytes: u64,
    /// Whether the message that has begun and not ended is text.
    message_is_text: Option<bool>,
    control: [u8; CONTROL_BYTES_MAX],
    control_bytes: usize,
    data_frames: u64,
}

impl Frames {
    pub fn new() -> Self {
        Frames {
            header: [0; HEADER_BYTES_MAX],
            header_bytes: 0,
            frame: None,
            missing_bytes: 0,
            message_is_text: None,
            control: [0; CONTROL_BYTES_MAX],
            control_bytes: 0,
            data_frames: 0,
        }
    }

    /// A new connection; the count goes on.
    pub fn restart(&mut self) {
        *self = Frames { data_frames: self.data_frames, ..Frames::new() };
    }

    pub fn data_frames(&self) -> u64 {
        self.data_frames
    }

    pub fn control_body(&self) -> &[u8] {
        &self.control[..self.control_bytes]
    }

    /// HOT. The next piece of `received[*at..]`, or `None` when more has to be received first.
    pub fn next(&mut self, received: &[u8], at: &mut usize) -> Result<Option<Piece>, Violation> {
        loop {
            let frame = match self.frame {
                Some(frame) => frame,
                None => match self.begin(received, at)? {
                    Some(frame) => frame,
                    None => return Ok(None),
                },
            };
            let here = received.len() - *at;
            let taken = usize::try_from(self.missing_bytes).map_or(here, |missing| missing.min(here));
            if taken == 0 && self.missing_bytes > 0 {
                return Ok(None);
            }
            let start = *at;
            *at += taken;
            self.missing_bytes -= taken as u64;
            let is_whole = self.missing_bytes == 0;
            if is_whole {
                self.frame = None;
            }
            match frame.kind {
                Kind::Data { begins_message } => {
                    return Ok(Some(Piece::Data(self.data(frame, begins_message, start, *at, is_whole))));
                }
                Kind::Control(control) => {
                    self.control[self.control_bytes..self.control_bytes + taken].copy_from_slice(&received[start..*at]);
                    self.control_bytes += taken;
                    if is_whole {
                        return Ok(Some(Piece::Control(control)));
                    }
                }
            }
        }
    }

    fn data(&mut self, frame: Header, begins_message: bool, start: usize, end: usize, is_whole: bool) -> Data {
        let is_text = self.message_is_text == Some(true);
        let ends_message = frame.is_final && is_whole;
        if ends_message {
            self.message_is_text = None;
        }
        if begins_message && !is_whole {
            // What follows of this frame does not begin the message again.
            self.frame = Some(Header { kind: Kind::Data { begins_message: false }, ..frame });
        }
        Data { start, end, is_text, begins_message, ends_message }
    }

    /// Takes a header from `received[*at..]`, with what an earlier read left of it.
    fn begin(&mut self, received: &[u8], at: &mut usize) -> Result<Option<Header>, Violation> {
        let rest = &received[*at..];
        let parsed = if self.header_bytes == 0 && rest.len() >= HEADER_BYTES_MAX {
            let parsed = self.parse(rest)?;
            *at += parsed.map_or(0, |(_, used)| used);
            parsed
        } else {
            self.collect(received, at)?
        };
        let Some((header, _)) = parsed else { return Ok(None) };
        self.header_bytes = 0;
        match header.kind {
            Kind::Data { .. } => self.data_frames += 1,
            Kind::Control(_) => self.control_bytes = 0,
        }
        self.missing_bytes = header.payload_bytes;
        self.frame = Some(header);
        Ok(Some(header))
    }

    /// Byte by byte into `header`, until it says a whole header.
    fn collect(&mut self, received: &[u8], at: &mut usize) -> Result<Option<(Header, usize)>, Violation> {
        while let Some(byte) = received.get(*at) {
            self.header[self.header_bytes] = *byte;
            self.header_bytes += 1;
            *at += 1;
            let header = self.header;
            if let Some(parsed) = self.parse(&header[..self.header_bytes])? {
                return Ok(Some(parsed));
            }
        }
        Ok(None)
    }

    /// The header at the front of `bytes` and its length; `None` when it is not whole yet.
    fn parse(&mut self, bytes: &[u8]) -> Result<Option<(Header, usize)>, Violation> {
        let [first, second, ..] = *bytes else { return Ok(None) };
        if first & 0x70 != 0 {
            return Err(Violation::ReservedBits);
        }
        let is_final = first & 0x80 != 0;
        let kind = self.kind(first & 0x0F)?;
        if second & 0x80 != 0 {
            return Err(Violation::MaskedFrame);
        }
        let short = second & 0x7F;
        if let Kind::Control(_) = kind {
            if !is_final {
                return Err(Violation::ControlFragmented);
            }
            if usize::from(short) > CONTROL_BYTES_MAX {
                return Err(Violation::ControlTooLong);
            }
        }
        let Some((payload_bytes, used)) = payload_length(short, bytes)? else { return Ok(None) };
        if let (Kind::Data { begins_message: true }, opcode) = (kind, first & 0x0F) {
            self.message_is_text = Some(opcode == 0x1);
        }
        Ok(Some((Header { is_final, kind, payload_bytes }, used)))
    }

    fn kind(&self, opcode: u8) -> Result<Kind, Violation> {
        match (opcode, self.message_is_text.is_some()) {
            (0x0, true) => Ok(Kind::Data { begins_message: false }),
            (0x0, false) => Err(Violation::StrayContinuation),
            (0x1 | 0x2, false) => Ok(Kind::Data { begins_message: true }),
            (0x1 | 0x2, true) => Err(Violation::Interrupted),
            (0x8, _) => Ok(Kind::Control(Control::Close)),
            (0x9, _) => Ok(Kind::Control(Control::Ping)),
            (0xA, _) => Ok(Kind::Control(Control::Pong)),
            _ => Err(Violation::ReservedOpcode(opcode)),
        }
    }
}

/// The payload's length and where it begins, or `None` when more bytes are needed.
fn payload_length(short: u8, bytes: &[u8]) -> Result<Option<(u64, usize)>, Violation> {
    let (length, used, least) = match (short, bytes) {
        (126, [_, _, a, b, ..]) => (u64::from(u16::from_be_bytes([*a, *b])), 4, 126),
        (127, [_, _, a, b, c, d, e, f, g, h, ..]) => {
            (u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]), 10, 0x1_0000)
        }
        (126 | 127, _) => return Ok(None),
        (short, _) => (u64::from(short), 2, 0),
    };
    if length < least || length >> 63 != 0 {
        return Err(Violation::Length);
    }
    if length > FRAME_BYTES_MAX {
        return Err(Violation::FrameTooLong(length));
    }
    Ok(Some((length, used)))
}

/// The code and the reason in the body of a close frame.
pub fn close_body(body: &[u8]) -> Result<(Option<u16>, &[u8]), Violation> {
    match body {
        [] => Ok((None, &[])),
        [_] => Err(Violation::CloseBody),
        [high, low, reason @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
                return Err(Violation::CloseCode(code));
            }
            std::str::from_utf8(reason).map_err(|_| Violation::CloseReason)?;
            Ok((Some(code), reason))
        }
    }
}
