//! Decodes frames to messages: incremental, bounded, strict.
//!
//! Does        Unmasks, inflates and collects the payloads that [`Frames`] finds, and returns each
//!             message when it is complete.
//! Holds       1. Invalid UTF-8 is found at its first wrong byte, also inside a frame.
//!             2. At most one message is stored, and never more than its limit is inflated.
//! Start at    [`Decoder::decode`].

use std::fmt;

use crate::deflate::Inflater;
use crate::encode::CloseCode;
use crate::extension::DeflateAgreement;
use crate::frames::{Control, Data, Frames, MessageLimits, Peer, Piece, close_body, unmask};
use crate::utf8::{Utf8, ValidPart};
use crate::violation::Violation;

#[derive(Debug, PartialEq, Eq)]
pub enum IncomingMessage<'a> {
    Text(&'a str),
    Binary(&'a [u8]),
    Ping(&'a [u8]),
    Pong,
    /// The peer's close code, if it sent one.
    Close(Option<u16>),
}

/// A [`Violation`] with the close code that answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolError {
    pub code: CloseCode,
    pub reason: &'static str,
}

impl From<Violation> for ProtocolError {
    fn from(violation: Violation) -> Self {
        ProtocolError { code: violation.code(), reason: violation.reason() }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)
    }
}

impl std::error::Error for ProtocolError {}

/// Capacity in bytes that an unused message buffer keeps.
const KEPT_BYTES: usize = 4 * 1024;

/// The receiving state of one connection.
#[derive(Debug)]
pub struct Decoder {
    frames: Frames,
    utf8: Utf8,
    /// Payload of the message being collected, unmasked and inflated.
    message: Vec<u8>,
    message_bytes_max: usize,
    inflation: Option<Box<Inflation>>,
}

/// How compressed messages are read. The inflater exists within a message, and between messages
/// only if the peer may refer to earlier ones.
#[derive(Debug)]
struct Inflation {
    window_bits: u8,
    keeps_context: bool,
    inflater: Option<Inflater>,
}

impl Decoder {
    /// Creates a decoder for a client's frames.
    pub fn new(limits: MessageLimits) -> Self {
        Decoder::on(Peer::Client, limits)
    }

    /// Creates a decoder for a server's frames.
    pub fn of_server(limits: MessageLimits) -> Self {
        Decoder::on(Peer::Server, limits)
    }

    fn on(peer: Peer, limits: MessageLimits) -> Self {
        Decoder {
            frames: Frames::new(peer, limits),
            utf8: Utf8::default(),
            message: Vec::new(),
            message_bytes_max: limits.message_bytes,
            inflation: None,
        }
    }

    /// Accepts compressed messages if the handshake agreed on them.
    #[must_use]
    pub fn with_deflate(mut self, agreed: Option<&DeflateAgreement>) -> Self {
        if let Some(agreed) = agreed {
            let (window_bits, keeps_context) = agreed.of(self.frames.peer());
            self.frames.allow_deflate();
            self.inflation = Some(Box::new(Inflation { window_bits, keeps_context, inflater: None }));
        }
        self
    }

    /// Whether a message has begun and not ended. Control frames may come in between.
    pub fn is_mid_message(&self) -> bool {
        self.frames.is_mid_message()
    }

    /// Whether a message or a frame of any kind has begun and not ended.
    pub fn is_unfinished(&self) -> bool {
        self.frames.is_unfinished()
    }

    /// Frees a large buffer. Call this after the last decoded message has been processed.
    pub fn forget(&mut self) {
        if !self.frames.is_unfinished() && self.message.capacity() > KEPT_BYTES {
            self.message = Vec::new();
        }
    }

    /// Reads from the front of `input` up to the end of a message or control frame. Returns the
    /// number of bytes read and what they completed. Reads all of `input` if they completed
    /// nothing.
    ///
    /// # Errors
    ///
    /// The peer violated the protocol. The connection must be closed with the error's code.
    pub fn decode(&mut self, input: &[u8]) -> Result<(usize, Option<IncomingMessage<'_>>), ProtocolError> {
        let mut at = 0;
        while let Some(piece) = self.frames.next(input, &mut at)? {
            match piece {
                Piece::Data(data) => {
                    self.take(input, data)?;
                    if data.ends_message {
                        return Ok((at, Some(self.whole(data)?)));
                    }
                }
                Piece::Control(control) => return Ok((at, Some(self.control(control)?))),
            }
        }
        Ok((at, None))
    }

    fn control(&self, control: Control) -> Result<IncomingMessage<'_>, Violation> {
        let body = self.frames.control_body();
        Ok(match control {
            Control::Ping => IncomingMessage::Ping(body),
            Control::Pong => IncomingMessage::Pong,
            Control::Close => IncomingMessage::Close(close_body(body)?.0),
        })
    }

    fn take(&mut self, input: &[u8], data: Data) -> Result<(), Violation> {
        if data.begins_message {
            self.message.clear();
            self.utf8.restart();
        }
        let begun = self.message.len();
        if data.is_deflated {
            self.inflate(input, data)?;
        } else {
            self.message.extend_from_slice(&input[data.start..data.end]);
            unmask(&mut self.message[begun..], data.mask);
        }
        // A message that arrives in one piece is checked by `whole`.
        let is_cut = !(data.begins_message && data.ends_message);
        if data.is_text && is_cut && self.utf8.check(&self.message[begun..]) != ValidPart::Whole {
            return Err(Violation::NotUtf8);
        }
        Ok(())
    }

    fn inflate(&mut self, input: &[u8], data: Data) -> Result<(), Violation> {
        // `Frames` refuses a compressed message if compression was not agreed.
        let Some(inflation) = &mut self.inflation else { return Err(Violation::ReservedBits) };
        let Inflation { window_bits, keeps_context, inflater } = inflation.as_mut();
        let state = inflater.get_or_insert_with(|| Inflater::new(*window_bits));
        let (mut scratch, most) = ([0; 1024], self.message_bytes_max);
        let mut mask = data.mask;
        for part in input[data.start..data.end].chunks(scratch.len()) {
            let plain = &mut scratch[..part.len()];
            plain.copy_from_slice(part);
            unmask(plain, mask);
            mask.rotate_left(part.len() % 4);
            state.inflate(plain, &mut self.message, most)?;
        }
        if data.ends_message {
            state.finish(&mut self.message, most)?;
            if !*keeps_context {
                *inflater = None;
            }
        }
        Ok(())
    }

    fn whole(&self, data: Data) -> Result<IncomingMessage<'_>, Violation> {
        if !data.is_text {
            return Ok(IncomingMessage::Binary(&self.message));
        }
        std::str::from_utf8(&self.message).map(IncomingMessage::Text).map_err(|_| Violation::NotUtf8)
    }
}
