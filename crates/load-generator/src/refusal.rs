//! Why a connection of the load did not open, or was given up, and what to do about it.

use std::fmt;

use pitwire_websocket::Unopened;

/// Why a connection did not open, or was given up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    Connect(String),
    Tls(String),
    Untrusted(String),
    Status {
        status: u16,
        reason: String,
    },
    Redirect {
        status: u16,
        location: String,
    },
    NotWebSocket(&'static str),
    Ended,
    Silent,
    /// What this machine has too little of.
    Machine(String),
}

impl Refusal {
    pub fn remedy(&self) -> &'static str {
        match self {
            Refusal::Connect(_) => "check the address, and that the server runs",
            Refusal::Tls(_) => "check that the port speaks TLS 1.2 or 1.3; ws:// is for ports that do not",
            Refusal::Untrusted(_) => {
                "name the authority that signed it with --ca FILE, or trust anybody with --insecure"
            }
            Refusal::Status { status: 401 | 403, .. } => {
                "check the token in the URL, and the server's rules about origins"
            }
            Refusal::Status { status: 404, .. } => "check the path in the URL",
            Refusal::Status { status: 429 | 503, .. } => {
                "the server is full or admits fewer at a time: raise its limits, or give fewer --connections, or a gentler --arrivals"
            }
            Refusal::Status { .. } => "check that the URL leads to a WebSocket",
            Refusal::Redirect { .. } => "give that URL instead; redirects are not followed",
            Refusal::NotWebSocket(_) => "check that the URL leads to a WebSocket (wss:// where the port wants TLS)",
            Refusal::Ended => {
                "check that the port speaks WebSocket (wss:// where it wants TLS), and the server's limits"
            }
            Refusal::Silent => "check that the port speaks WebSocket; --timeout gives it longer",
            Refusal::Machine(_) => "see `pitwire doctor`; --sources gives more addresses to connect from",
        }
    }
}

impl From<Unopened> for Refusal {
    fn from(unopened: Unopened) -> Refusal {
        match unopened {
            Unopened::Status { status, reason } => Refusal::Status { status, reason },
            Unopened::Redirect { status, location } => Refusal::Redirect { status, location },
            Unopened::NotWebSocket(why) => Refusal::NotWebSocket(why),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Connect(cause) => write!(f, "cannot connect: {cause}"),
            Refusal::Tls(cause) => write!(f, "the TLS handshake failed: {cause}"),
            Refusal::Untrusted(cause) => write!(f, "the server's certificate is not trusted: {cause}"),
            Refusal::Status { status, reason } => write!(f, "the server answers {status} {reason}"),
            Refusal::Redirect { status, location } => {
                write!(f, "the server answers {status} and sends us to {location}")
            }
            Refusal::NotWebSocket(why) => write!(f, "the answer opens no WebSocket: {why}"),
            Refusal::Ended => f.write_str("the server closed the connection before it was open"),
            Refusal::Silent => f.write_str("the server did not answer in time"),
            Refusal::Machine(cause) => write!(f, "this machine cannot open more: {cause}"),
        }
    }
}
