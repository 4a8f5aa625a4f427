//! Sockets that leave the loop of a server.
//!
//! Start at    [`Handoff`].

use std::net::TcpStream;

use pitwire_tls::Session;

/// A socket that leaves the loop.
#[derive(Debug)]
pub struct Handoff {
    /// The socket, non-blocking.
    pub socket: TcpStream,
    /// The TLS session in which it goes on, if it has one.
    pub session: Option<Session>,
    /// The response to the handshake, which has to be sent first. Empty if it was sent.
    pub handshake: Vec<u8>,
    /// Plain bytes that were received and not acted on.
    pub rest: Vec<u8>,
}
