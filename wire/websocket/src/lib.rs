//! WebSocket framing and handshake (RFC 6455), without sockets.
//!
//! Does        turn received bytes into messages, and messages into bytes; the server's side, and a client's frames.
//! Holds       1. every violation is an error with the close code that RFC 6455 section 7.4 gives it;
//!             2. memory is bounded by [`Limits`], whatever arrives.
//! Leaves out  extensions (permessage-deflate is declined), time limits, sending.
//! Start at    [`Decoder::decode`].

mod decode;
mod encode;
mod handshake;

pub use decode::{Decoder, Incoming, Limits, ProtocolError};
pub use encode::{CloseCode, Opcode, write_close, write_frame, write_header, write_masked};
pub use handshake::accept_key;
