//! Frames of either side (RFC 6455 section 5), however they are split into reads.
//!
//! Does        Finds which received bytes are payload of a message. Collects the bodies of control
//!             frames.
//! Holds       1. A violation is found at the same byte however the stream is split.
//!             2. A frame or message above its limit is refused by its header, before any payload
//!                is stored.
//! Leaves out  Unmasking and UTF-8 (see [`crate::Decoder`]), and inflating.
//! Costs       About 100 bytes per connection and 125 for control bodies. No allocation.
//! Start at    [`Frames::next`].

use crate::violation::Violation;

const HEADER_BYTES_MAX: usize = 14;
const CONTROL_BYTES_MAX: usize = 125;

/// Limits on received messages. Beyond them the connection fails.
#[derive(Clone, Copy, Debug)]
pub struct MessageLimits {
    /// Most payload bytes of one frame, and of one message after inflating.
    pub message_bytes: usize,
    pub fragments: u32,
}

impl Default for MessageLimits {
    fn default() -> Self {
        MessageLimits { message_bytes: 32 * 1024, fragments: 64 }
    }
}

/// The side that sends the frames. A client masks each frame, a server masks none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Client,
    Server,
}

/// The next part of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    Data(Data),
    /// A complete control frame. Its body is [`Frames::control_body`].
    Control(Control),
}

/// Payload of a message: `start..end` of the received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    pub start: usize,
    pub end: usize,
    pub is_text: bool,
    /// The message is compressed (RFC 7692).
    pub is_deflated: bool,
    pub begins_message: bool,
    pub ends_message: bool,
    /// Masking key for the byte at `start` and those after it. Zero for a server's frames.
    pub mask: [u8; 4],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    Ping,
    Pong,
    Close,
}

#[derive(Clone, Copy, Debug)]
enum FrameKind {
    Data { begins_message: bool },
    Control(Control),
}

#[derive(Clone, Copy, Debug)]
struct Header {
    is_final: bool,
    kind: FrameKind,
    payload_bytes: u64,
    mask: [u8; 4],
}

/// A message that has begun and not ended.
#[derive(Clone, Copy, Debug)]
struct PartialMessage {
    is_text: bool,
    is_deflated: bool,
    /// Bytes announced by the headers up to now.
    bytes: u64,
    fragments: u32,
}

/// The framing state of one connection.
#[derive(Debug)]
pub struct Frames {
    peer: Peer,
    may_deflate: bool,
    frame_bytes_max: u64,
    message_bytes_max: u64,
    fragments_max: u32,
    /// Largest message in one frame that the fast path handles.
    whole_bytes_max: usize,
    /// A header that was split between two reads.
    header: [u8; HEADER_BYTES_MAX],
    header_bytes: u8,
    control_bytes: u8,
    control: [u8; CONTROL_BYTES_MAX],
    /// The frame whose payload is being received, and the number of missing bytes.
    frame: Option<Header>,
    missing_bytes: u64,
    message: Option<PartialMessage>,
    data_frames: u64,
}

impl Frames {
    /// Accepts messages and frames within `limits`.
    pub fn new(peer: Peer, limits: MessageLimits) -> Self {
        let bytes = limits.message_bytes as u64;
        Frames { message_bytes_max: bytes, fragments_max: limits.fragments, ..Frames::endless(peer, bytes) }
    }

    /// Accepts messages of any length, in frames of at most `frame_bytes_max` bytes. For callers
    /// that do not store messages.
    pub fn endless(peer: Peer, frame_bytes_max: u64) -> Self {
        Frames {
            peer,
            may_deflate: false,
            frame_bytes_max,
            message_bytes_max: u64::MAX,
            fragments_max: u32::MAX,
            whole_bytes_max: usize::try_from(frame_bytes_max).unwrap_or(usize::MAX),
            header: [0; HEADER_BYTES_MAX],
            header_bytes: 0,
            control_bytes: 0,
            control: [0; CONTROL_BYTES_MAX],
            frame: None,
            missing_bytes: 0,
            message: None,
            data_frames: 0,
        }
    }

    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Allows compressed messages after the handshake agreed on them.
    pub fn allow_deflate(&mut self) {
        self.may_deflate = true;
    }

    /// Resets the state for a new connection. The message count continues.
    pub fn restart(&mut self) {
        (self.header_bytes, self.control_bytes, self.missing_bytes) = (0, 0, 0);
        (self.frame, self.message) = (None, None);
    }

    pub fn data_frames(&self) -> u64 {
        self.data_frames
    }

    /// Whether a message has begun and not ended.
    pub fn is_mid_message(&self) -> bool {
        self.message.is_some()
    }

    /// Whether a frame or a fragmented message has begun and not ended.
    pub fn is_unfinished(&self) -> bool {
        self.header_bytes > 0 || self.frame.is_some() || self.message.is_some()
    }

    pub fn control_body(&self) -> &[u8] {
        &self.control[..usize::from(self.control_bytes)]
    }

    /// HOT. Returns the next piece of `received[*at..]`, or `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// The peer violated the protocol.
    #[inline]
    pub fn next(&mut self, received: &[u8], at: &mut usize) -> Result<Option<Piece>, Violation> {
        match self.whole_message(received, at) {
            Some(data) => Ok(Some(Piece::Data(data))),
            None => self.next_of_any(received, at),
        }
    }

    /// HOT. Handles the common case: a complete message in one frame.
    #[inline]
    fn whole_message(&mut self, received: &[u8], at: &mut usize) -> Option<Data> {
        let data = self.peek(received, *at)?;
        *at = data.end;
        self.pass(1);
        Some(data)
    }

    /// HOT. Returns the message in one frame that begins at `at`, if it is complete and no frame
    /// has begun before. `None` means only that the caller has to use [`Frames::next`].
    #[inline]
    pub fn peek(&self, received: &[u8], at: usize) -> Option<Data> {
        if self.is_unfinished() {
            return None;
        }
        let header = received.get(at..)?.first_chunk::<4>()?;
        let (is_masked, is_text) = (header[1] & 0x80 != 0, header[0] == 0x81);
        if (!is_text && header[0] != 0x82) || is_masked != (self.peer == Peer::Client) {
            return None;
        }
        let (length, mut start) = match header[1] & 0x7F {
            127 => return None,
            126 => (usize::from(u16::from_be_bytes([header[2], header[3]])), at + 4),
            short => (usize::from(short), at + 2),
        };
        let is_minimal = length > 125 || start == at + 2;
        let mut mask = [0; 4];
        if is_masked {
            mask = *received.get(start..)?.first_chunk::<4>()?;
            start += 4;
        }
        let end = start + length;
        if !is_minimal || length > self.whole_bytes_max || end > received.len() {
            return None;
        }
        Some(Data { start, end, is_text, is_deflated: false, begins_message: true, ends_message: true, mask })
    }

    /// Counts frames that the caller has taken after peeking.
    #[inline]
    pub fn pass(&mut self, frames: u64) {
        self.data_frames += frames;
    }

    fn next_of_any(&mut self, received: &[u8], at: &mut usize) -> Result<Option<Piece>, Violation> {
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
                FrameKind::Data { begins_message } => {
                    return Ok(Some(Piece::Data(self.data(frame, begins_message, start, *at, is_whole))));
                }
                FrameKind::Control(control) => {
                    self.collect_control(&received[start..*at], frame, is_whole);
                    if is_whole {
                        return Ok(Some(Piece::Control(control)));
                    }
                }
            }
        }
    }

    fn data(&mut self, frame: Header, begins_message: bool, start: usize, end: usize, is_whole: bool) -> Data {
        let (is_text, is_deflated) = self.message.map_or((false, false), |it| (it.is_text, it.is_deflated));
        let ends_message = frame.is_final && is_whole;
        if ends_message {
            self.message = None;
        }
        if !is_whole {
            // The rest of this frame does not begin the message again, and its mask continues from
            // here.
            let mut mask = frame.mask;
            mask.rotate_left((end - start) % 4);
            self.frame = Some(Header { kind: FrameKind::Data { begins_message: false }, mask, ..frame });
        }
        Data { start, end, is_text, is_deflated, begins_message, ends_message, mask: frame.mask }
    }

    fn collect_control(&mut self, body: &[u8], frame: Header, is_whole: bool) {
        let begun = usize::from(self.control_bytes);
        // A control frame above 125 bytes was refused by its header.
        let place = &mut self.control[begun..begun + body.len()];
        place.copy_from_slice(body);
        unmask(place, frame.mask);
        self.control_bytes += u8::try_from(body.len()).unwrap_or(0);
        if !is_whole {
            let mut mask = frame.mask;
            mask.rotate_left(body.len() % 4);
            self.frame = Some(Header { mask, ..frame });
        }
    }

    /// Reads a header from `received[*at..]`, after the part in an earlier read.
    fn begin(&mut self, received: &[u8], at: &mut usize) -> Result<Option<Header>, Violation> {
        let rest = &received[*at..];
        let parsed = if self.header_bytes == 0 && rest.len() >= HEADER_BYTES_MAX {
            let parsed = self.parse(rest)?;
            *at += parsed.map_or(0, |(_, used)| used);
            parsed
        } else {
            self.collect_header(received, at)?
        };
        let Some((header, _)) = parsed else { return Ok(None) };
        self.header_bytes = 0;
        match header.kind {
            FrameKind::Data { .. } => self.data_frames += 1,
            FrameKind::Control(_) => self.control_bytes = 0,
        }
        self.missing_bytes = header.payload_bytes;
        self.frame = Some(header);
        Ok(Some(header))
    }

    /// Collects a header byte by byte until it is complete.
    fn collect_header(&mut self, received: &[u8], at: &mut usize) -> Result<Option<(Header, usize)>, Violation> {
        while let Some(byte) = received.get(*at) {
            self.header[usize::from(self.header_bytes)] = *byte;
            self.header_bytes += 1;
            *at += 1;
            let header = self.header;
            if let Some(parsed) = self.parse(&header[..usize::from(self.header_bytes)])? {
                return Ok(Some(parsed));
            }
        }
        Ok(None)
    }

    /// Parses the header at the front of `bytes`. Returns it with its length, or `None` if it is
    /// incomplete.
    fn parse(&mut self, bytes: &[u8]) -> Result<Option<(Header, usize)>, Violation> {
        let [first, second, ..] = *bytes else { return Ok(None) };
        let (is_final, opcode) = (first & 0x80 != 0, first & 0x0F);
        let is_deflated = first & 0x40 != 0;
        if first & 0x30 != 0 || (is_deflated && !(self.may_deflate && matches!(opcode, 0x1 | 0x2))) {
            return Err(Violation::ReservedBits);
        }
        let kind = self.kind(opcode)?;
        let is_masked = second & 0x80 != 0;
        match self.peer {
            Peer::Server if is_masked => return Err(Violation::MaskedFrame),
            Peer::Client if !is_masked => return Err(Violation::UnmaskedFrame),
            _ => {}
        }
        let short = second & 0x7F;
        if let FrameKind::Control(_) = kind {
            if !is_final {
                return Err(Violation::ControlFragmented);
            }
            if usize::from(short) > CONTROL_BYTES_MAX {
                return Err(Violation::ControlTooLong);
            }
        }
        let Some((payload_bytes, used)) = payload_length(short, bytes)? else { return Ok(None) };
        let message = self.judge_length(kind, opcode, is_deflated, payload_bytes)?;
        let (mask, used) = match (is_masked, bytes.get(used..used + 4)) {
            (false, _) => ([0; 4], used),
            (true, Some(&[a, b, c, d])) => ([a, b, c, d], used + 4),
            (true, _) => return Ok(None),
        };
        if message.is_some() {
            self.message = message;
        }
        Ok(Some((Header { is_final, kind, payload_bytes, mask }, used)))
    }

    fn kind(&self, opcode: u8) -> Result<FrameKind, Violation> {
        match (opcode, self.message.is_some()) {
            (0x0, true) => Ok(FrameKind::Data { begins_message: false }),
            (0x0, false) => Err(Violation::StrayContinuation),
            (0x1 | 0x2, false) => Ok(FrameKind::Data { begins_message: true }),
            (0x1 | 0x2, true) => Err(Violation::Interrupted),
            (0x8, _) => Ok(FrameKind::Control(Control::Close)),
            (0x9, _) => Ok(FrameKind::Control(Control::Ping)),
            (0xA, _) => Ok(FrameKind::Control(Control::Pong)),
            _ => Err(Violation::ReservedOpcode(opcode)),
        }
    }

    /// Returns the state of the message after this frame, or `None` for a control frame.
    #[inline]
    fn judge_length(
        &self,
        kind: FrameKind,
        opcode: u8,
        is_deflated: bool,
        payload_bytes: u64,
    ) -> Result<Option<PartialMessage>, Violation> {
        let FrameKind::Data { begins_message } = kind else { return Ok(None) };
        let begun = self.message.filter(|_| !begins_message);
        let fresh = PartialMessage { is_text: opcode == 0x1, is_deflated, bytes: 0, fragments: 0 };
        let mut message = begun.unwrap_or(fresh);
        message.bytes = message.bytes.saturating_add(payload_bytes);
        message.fragments = message.fragments.saturating_add(1);
        // Compressed data that does not shrink grows a little. The inflater checks the inflated
        // length.
        let room = |most: u64| if message.is_deflated { most.saturating_add(most / 64 + 64) } else { most };
        if payload_bytes > room(self.frame_bytes_max) {
            return Err(Violation::FrameTooLong(payload_bytes));
        }
        if message.bytes > room(self.message_bytes_max) {
            return Err(Violation::MessageTooLong);
        }
        if message.fragments > self.fragments_max {
            return Err(Violation::TooManyFragments);
        }
        Ok(Some(message))
    }
}

/// Returns the payload's length and the offset of the mask or the payload, or `None` if more bytes
/// are needed.
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
    Ok(Some((length, used)))
}

/// Removes the mask, eight bytes at a time. This runs for every byte that a client sends.
pub(crate) fn unmask(bytes: &mut [u8], mask: [u8; 4]) {
    let [a, b, c, d] = mask;
    let word = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for bytes in words {
        *bytes = (u64::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
    }
    rest.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
}

/// Returns the code and the reason in the body of a close frame.
///
/// # Errors
///
/// The code is not allowed, or the reason is not UTF-8.
pub fn close_body(body: &[u8]) -> Result<(Option<u16>, &str), Violation> {
    match body {
        [] => Ok((None, "")),
        [_] => Err(Violation::CloseBody),
        [high, low, reason @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
                return Err(Violation::CloseCode(code));
            }
            let reason = std::str::from_utf8(reason).map_err(|_| Violation::CloseReason)?;
            Ok((Some(code), reason))
        }
    }
}
