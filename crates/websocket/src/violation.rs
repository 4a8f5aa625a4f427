//! Protocol violations by a peer.
//!
//! Does        Names each violation of RFC 6455 and RFC 7692 that fails the connection, with its
//!             close code (RFC 6455 section 7.4.1).
//! Leaves out  Sending the close frame.

use std::fmt;

use crate::encode::CloseCode;

/// Why a connection fails. `Display` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A reserved bit that no extension defines, or that this frame must not have.
    ReservedBits,
    ReservedOpcode(u8),
    /// A server sent a masked frame.
    MaskedFrame,
    /// A client sent an unmasked frame.
    UnmaskedFrame,
    /// A length with its top bit set, or encoded in more bytes than it needs.
    Length,
    FrameTooLong(u64),
    MessageTooLong,
    TooManyFragments,
    ControlTooLong,
    ControlFragmented,
    /// A continuation frame without a message.
    StrayContinuation,
    /// A new message inside a fragmented one.
    Interrupted,
    CloseBody,
    CloseCode(u16),
    CloseReason,
    NotUtf8,
    /// A compressed message that cannot be inflated.
    Deflate,
}

impl Violation {
    /// Returns the close code that answers it.
    pub fn code(self) -> CloseCode {
        match self {
            Violation::NotUtf8 | Violation::CloseReason | Violation::Deflate => CloseCode::BadText,
            Violation::FrameTooLong(_) | Violation::MessageTooLong => CloseCode::TooBig,
            Violation::TooManyFragments => CloseCode::Policy,
            _ => CloseCode::Protocol,
        }
    }

    pub fn close_code(self) -> u16 {
        self.code() as u16
    }

    /// Returns the reason for the close frame.
    pub fn reason(self) -> &'static str {
        match self {
            Violation::ReservedBits => "a frame with reserved bits that no extension gives a meaning",
            Violation::ReservedOpcode(_) => "a frame with a reserved opcode",
            Violation::MaskedFrame => "a masked frame, which only a client may send",
            Violation::UnmaskedFrame => "frames from a client must be masked",
            Violation::Length => "a frame length that is not written in the fewest bytes, or above 2^63",
            Violation::FrameTooLong(_) => "a frame above the limit",
            Violation::MessageTooLong => "a message above the limit",
            Violation::TooManyFragments => "a message in too many fragments",
            Violation::ControlTooLong => "a control frame of more than 125 bytes",
            Violation::ControlFragmented => "a fragmented control frame",
            Violation::StrayContinuation => "a continuation where no message has begun",
            Violation::Interrupted => "a new message inside a fragmented one",
            Violation::CloseBody => "a close frame with a body of one byte",
            Violation::CloseCode(_) => "a close frame with a code that may not be sent",
            Violation::CloseReason => "a close reason that is not UTF-8",
            Violation::NotUtf8 => "a text message that is not UTF-8",
            Violation::Deflate => "a compressed message that cannot be inflated",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())?;
        match self {
            Violation::ReservedOpcode(opcode) => write!(f, " ({opcode})"),
            Violation::FrameTooLong(bytes) => write!(f, " ({bytes} bytes)"),
            Violation::CloseCode(code) => write!(f, " ({code})"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Violation {}
