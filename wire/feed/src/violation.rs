//! What a server may not send.
//!
//! Does        name each breach of RFC 6455 that a client must answer by failing the connection.
//! Leaves out  sending the close frame.

use std::fmt;

/// Why the connection cannot go on. Display says what came and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    ReservedBits,
    ReservedOpcode(u8),
    MaskedFrame,
    /// A length with its top bit set, or spelt in more bytes than it needs.
    Length,
    /// A frame above [`FRAME_BYTES_MAX`].
    FrameTooLong(u64),
    ControlTooLong,
    ControlFragmented,
    /// A continuation where no message has begun.
    StrayContinuation,
    /// A new message inside a fragmented one.
    Interrupted,
    CloseBody,
    CloseCode(u16),
    CloseReason,
    NotUtf8,
}

/// No feed sends such a frame: a length like that is a stream out of step, and would swallow the feed in silence.
pub const FRAME_BYTES_MAX: u64 = 1 << 30;

impl Violation {
    /// The close code of RFC 6455 section 7.4 that answers it.
    pub fn close_code(self) -> u16 {
        match self {
            Violation::NotUtf8 | Violation::CloseReason => 1007,
            Violation::FrameTooLong(_) => 1009,
            _ => 1002,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server broke the WebSocket protocol: ")?;
        match self {
            Violation::ReservedBits => f.write_str("a frame with reserved bits, though no extension was agreed")?,
            Violation::ReservedOpcode(opcode) => write!(f, "a frame with the reserved opcode {opcode}")?,
            Violation::MaskedFrame => f.write_str("a masked frame, which only a client may send")?,
            Violation::Length => {
                f.write_str("a frame length that is not written in the fewest bytes, or above 2^63")?
            }
            Violation::FrameTooLong(bytes) => write!(f, "a frame of {bytes} bytes; the limit is {FRAME_BYTES_MAX}")?,
            Violation::ControlTooLong => f.write_str("a control frame of more than 125 bytes")?,
            Violation::ControlFragmented => f.write_str("a fragmented control frame")?,
            Violation::StrayContinuation => f.write_str("a continuation where no message has begun")?,
            Violation::Interrupted => f.write_str("a new message inside a fragmented one")?,
            Violation::CloseBody => f.write_str("a close frame with a body of one byte")?,
            Violation::CloseCode(code) => write!(f, "a close frame with the code {code}, which may not be sent")?,
            Violation::CloseReason => f.write_str("a close reason that is not UTF-8")?,
            Violation::NotUtf8 => f.write_str("a text message that is not UTF-8")?,
        }
        f.write_str("; check that the URL leads to a WebSocket feed, and what stands in between")
    }
}

impl std::error::Error for Violation {}
