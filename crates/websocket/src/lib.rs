//! WebSocket framing, compression and handshake (RFC 6455, RFC 7692), without sockets.
//!
//! Does        Parses handshakes, decodes received bytes to messages, and encodes messages to
//!             bytes, for servers and for clients.
//! Holds       1. Every violation is an error with the close code of RFC 6455 section 7.4, found at
//!                its byte.
//!             2. Memory is bounded by [`MessageLimits`], whatever arrives, compressed or not.
//! Leaves out  Sockets, timeouts and access control.
//! Start at    [`head::parse`] and [`head::Head::upgrade`] for a server's handshake,
//!             [`ClientHandshake`] for a client's, [`Decoder::decode`] for messages,
//!             [`Frames::next`] for payloads that are not to be copied.

mod address;
mod client_handshake;
mod decode;
mod deflate;
mod encode;
mod extension;
mod frames;
mod handshake;
pub mod head;
mod utf8;
mod violation;

pub use address::{Address, BadUrl};
pub use client_handshake::{ClientHandshake, HandshakeOutcome, HandshakeRefusal, printable};
pub use decode::{Decoder, IncomingMessage, ProtocolError};
pub use deflate::{Deflater, Inflater};
pub use encode::{CloseCode, Opcode, payload_of, write_close, write_frame, write_header, write_masked};
pub use extension::{DeflateAgreement, MalformedExtensions, Offer, Policy};
pub use frames::{Control, Data, Frames, MessageLimits, Peer, Piece, close_body};
pub use handshake::{HandshakeAnswer, accept_key};
pub use utf8::{Utf8, ValidPart};
pub use violation::Violation;
