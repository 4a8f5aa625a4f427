//! Why a connection did not open, and the remedy for the user.

use std::fmt;

use pitwire_websocket::HandshakeRefusal;

/// Why a connection did not open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpenFailure {
    Connect(String),
    Tls(String),
    Untrusted(String),
    /// The server answered without opening the WebSocket.
    Unopened(HandshakeRefusal),
    Ended,
    Silent,
    /// This machine ran out of a resource.
    Machine(String),
}

impl OpenFailure {
    pub fn remedy(&self) -> &'static str {
        match self {
            OpenFailure::Connect(_) => "check the address, and that the server runs",
            OpenFailure::Tls(_) => "check that the port speaks TLS 1.2 or 1.3; ws:// is for ports that do not",
            OpenFailure::Untrusted(_) => {
                "name the authority that signed it with --ca FILE, or trust anybody with --insecure"
            }
            OpenFailure::Unopened(unopened) => remedy_of(unopened),
            OpenFailure::Ended => {
                "check that the port speaks WebSocket (wss:// where it wants TLS), and the server's limits"
            }
            OpenFailure::Silent => "check that the port speaks WebSocket; --timeout gives it longer",
            OpenFailure::Machine(_) => "see `pitwire doctor`; --sources gives more addresses to connect from",
        }
    }
}

fn remedy_of(unopened: &HandshakeRefusal) -> &'static str {
    match unopened {
        HandshakeRefusal::Status { status: 401 | 403, .. } => {
            "check the token in the URL, and the server's rules about origins"
        }
        HandshakeRefusal::Status { status: 404, .. } => "check the path in the URL",
        HandshakeRefusal::Status { status: 429 | 503, .. } => {
            "the server is full or admits fewer at a time: raise its limits, or give fewer --connections, or a gentler --arrivals"
        }
        HandshakeRefusal::Status { .. } => "check that the URL leads to a WebSocket",
        HandshakeRefusal::Redirect { .. } => "give that URL instead; redirects are not followed",
        HandshakeRefusal::NotWebSocket(_) => {
            "check that the URL leads to a WebSocket (wss:// where the port wants TLS)"
        }
    }
}

impl From<HandshakeRefusal> for OpenFailure {
    fn from(unopened: HandshakeRefusal) -> OpenFailure {
        OpenFailure::Unopened(unopened)
    }
}

impl fmt::Display for OpenFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenFailure::Connect(cause) => write!(f, "cannot connect: {cause}"),
            OpenFailure::Tls(cause) => write!(f, "the TLS handshake failed: {cause}"),
            OpenFailure::Untrusted(cause) => write!(f, "the server's certificate is not trusted: {cause}"),
            OpenFailure::Unopened(unopened) => unopened.fmt(f),
            OpenFailure::Ended => f.write_str("the server closed the connection before it was open"),
            OpenFailure::Silent => f.write_str("the server did not answer in time"),
            OpenFailure::Machine(cause) => write!(f, "this machine cannot open more: {cause}"),
        }
    }
}
