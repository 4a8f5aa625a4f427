//! Opens a WebSocket of a client to an address.
//!
//! Does        resolves, connects, performs the TLS and WebSocket handshakes, checks the answer.
//! Holds       1. each attempt ends within its time limit, and at once when the program is to stop;
//!             2. bytes that the server sends behind its answer are kept;
//!             3. every error has a remedy and tells whether a retry could help.
//! Leaves out  a limit on name resolution, which the system performs and which cannot be
//!             interrupted.
//! Start at    [`dial`].

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pitwire_tls::{ClientConfig, ClientSession, TlsError};
use pitwire_websocket::{Address, ClientHandshake, HandshakeRefusal};

use crate::client_socket::{ClientSocket, ClientSocketError, ReadOutcome, WaitOutcome, wait};
use crate::outgoing;

/// The parameters of a connection.
pub struct DialOptions<'a> {
    /// The address from the URL.
    pub address: &'a Address,
    /// TLS configuration for `wss://`; `None` connects without TLS.
    pub tls: Option<&'a Arc<ClientConfig>>,
    /// Time limit for connecting and both handshakes together, in nanoseconds.
    pub patience_ns: u64,
    /// Size of the kernel's receive buffer in bytes; `None` for the default.
    pub receive_buffer: Option<usize>,
}

/// Why a connection could not be opened.
#[derive(Debug)]
pub enum ConnectError {
    /// The program is to stop.
    Stopped,
    Name {
        host: String,
        cause: String,
    },
    Unreachable {
        authority: String,
        cause: String,
    },
    Untrusted {
        host: String,
        cause: String,
    },
    Tls {
        host: String,
        cause: String,
    },
    Silent {
        authority: String,
        seconds: u64,
        what: &'static str,
    },
    Broken {
        authority: String,
        cause: String,
    },
    /// The server answered without opening the WebSocket.
    Unopened(HandshakeRefusal),
    Machine {
        cause: String,
    },
}

impl ConnectError {
    /// Returns what to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Stopped => "start it again when it is wanted",
            Self::Name { .. } => "check the name in the URL, and this machine's name servers",
            Self::Unreachable { .. } => "check the address, and that the feed's server runs",
            Self::Untrusted { .. } => {
                "name the authority that signed it with --ca FILE, or use the name that it is for"
            }
            Self::Tls { .. } => "check that the port speaks TLS 1.2 or 1.3; ws:// is for ports that do not",
            Self::Silent { .. } => "check that the port speaks WebSocket; --timeout gives it longer",
            Self::Broken { .. } => "check that the port speaks WebSocket (wss:// where it wants TLS)",
            Self::Unopened(unopened) => remedy_of(unopened),
            Self::Machine { .. } => "free what this machine has run out of, or raise its limit",
        }
    }

    /// Returns whether a retry would fail in the same way.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Unopened(HandshakeRefusal::Status { status, .. }) => {
                (400..500).contains(status) && !matches!(status, 408 | 425 | 429)
            }
            Self::Stopped | Self::Untrusted { .. } | Self::Unopened(_) => true,
            _ => false,
        }
    }
}

fn remedy_of(unopened: &HandshakeRefusal) -> &'static str {
    match unopened {
        HandshakeRefusal::Status { status: 401 | 403 | 407, .. } => {
            "check the key or token in the URL, and that the account may read this feed"
        }
        HandshakeRefusal::Status { status: 404, .. } => "check the path of the URL",
        HandshakeRefusal::Status { status: 429, .. } => {
            "another connection of this account may be open; wait, or close it"
        }
        HandshakeRefusal::Status { status: 500.., .. } => "the server is in trouble; try again later",
        HandshakeRefusal::Status { .. } => "check the URL: a feed answers 101 Switching Protocols",
        HandshakeRefusal::Redirect { .. } => {
            "use the address that it names, if you trust it: redirects are not followed"
        }
        HandshakeRefusal::NotWebSocket(_) => {
            "check the URL: what answers there is no WebSocket server, or something between changes its words"
        }
    }
}

impl From<HandshakeRefusal> for ConnectError {
    fn from(unopened: HandshakeRefusal) -> ConnectError {
        Self::Unopened(unopened)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("the program was stopped before the connection was open"),
            Self::Name { host, cause } => write!(f, "cannot resolve {host}: {cause}"),
            Self::Unreachable { authority, cause } => write!(f, "cannot reach {authority}: {cause}"),
            Self::Untrusted { host, cause } => write!(f, "the certificate of {host} is not to be trusted: {cause}"),
            Self::Tls { host, cause } => write!(f, "no TLS with {host}: {cause}"),
            Self::Silent { authority, seconds, what } => write!(f, "{authority} has not {what} in {seconds} s"),
            Self::Broken { authority, cause } => write!(f, "{authority} ended the handshake: {cause}"),
            Self::Unopened(unopened) => unopened.fmt(f),
            Self::Machine { cause } => write!(f, "cannot open a socket: {cause}"),
        }
    }
}

impl std::error::Error for ConnectError {}

/// An open WebSocket, and the bytes that were received behind the handshake.
pub struct OpenConnection {
    /// The socket, behind the handshakes.
    pub channel: ClientSocket,
    /// Bytes that the server sent right behind its answer.
    pub early: Vec<u8>,
}

struct ConnectAttempt<'a, S> {
    options: &'a DialOptions<'a>,
    stop: &'a S,
    until: Instant,
}

/// Opens a connection. Ends early when `stop` becomes readable.
///
/// # Errors
/// Fails if the connection cannot be opened; see [`ConnectError::remedy`].
pub fn dial(options: &DialOptions<'_>, stop: &impl AsFd) -> Result<OpenConnection, ConnectError> {
    let attempt = ConnectAttempt { options, stop, until: Instant::now() + Duration::from_nanos(options.patience_ns) };
    let socket = attempt.connect()?;
    let mut channel = attempt.secure(socket)?;
    let early = attempt.upgrade(&mut channel)?;
    Ok(OpenConnection { channel, early })
}

impl<S: AsFd> ConnectAttempt<'_, S> {
    /// Connects to the first address of the name that answers.
    fn connect(&self) -> Result<TcpStream, ConnectError> {
        let Address { host, port, authority, .. } = self.options.address;
        let unnamed = |cause: String| ConnectError::Name { host: host.clone(), cause };
        let addresses: Vec<SocketAddr> =
            (host.as_str(), *port).to_socket_addrs().map_err(|error| unnamed(error.to_string()))?.collect();
        let mut refused = unnamed("the name has no address".into());
        for address in addresses {
            match self.connect_to(address) {
                Ok(socket) => return Ok(socket),
                Err(error @ ConnectError::Stopped) => return Err(error),
                Err(error) => refused = error,
            }
            if Instant::now() >= self.until {
                break;
            }
        }
        if let ConnectError::Unreachable { cause, .. } = refused {
            refused = ConnectError::Unreachable { authority: authority.clone(), cause };
        }
        Err(refused)
    }

    fn connect_to(&self, address: SocketAddr) -> Result<TcpStream, ConnectError> {
        let machine = |error: io::Error| ConnectError::Machine { cause: error.to_string() };
        let unreachable =
            |error: io::Error| ConnectError::Unreachable { authority: address.to_string(), cause: error.to_string() };
        let socket = outgoing::open(address).map_err(machine)?;
        if let Some(bytes) = self.options.receive_buffer {
            // Before connecting, because the window scale is negotiated then. A smaller buffer
            // still works.
            let _ = socket.set_recv_buffer_size(bytes);
        }
        outgoing::start(&socket, address).map_err(unreachable)?;
        let socket = TcpStream::from(socket);
        loop {
            self.wait(&socket, true, "answered")?;
            if let Some(error) = socket.take_error().map_err(machine)? {
                return Err(unreachable(error));
            }
            if socket.peer_addr().is_ok() {
                return Ok(socket);
            }
        }
    }

    fn secure(&self, socket: TcpStream) -> Result<ClientSocket, ConnectError> {
        let Address { host, .. } = self.options.address;
        let failed = |error: TlsError| match error {
            TlsError::InvalidCertificate(cause) => {
                ConnectError::Untrusted { host: host.clone(), cause: cause.to_string() }
            }
            error => ConnectError::Tls { host: host.clone(), cause: error.to_string() },
        };
        let Some(config) = self.options.tls else { return Ok(ClientSocket::new(socket, None)) };
        let session = ClientSession::open(config, host).map_err(failed)?;
        let mut channel = ClientSocket::new(socket, Some(session));
        loop {
            match channel.handshake() {
                Ok(true) => return Ok(channel),
                Ok(false) => self.wait(channel.socket(), channel.has_unsent(), "finished the TLS handshake")?,
                Err(ClientSocketError::Tls(error)) => return Err(failed(error)),
                Err(ClientSocketError::Socket(error)) => {
                    return Err(ConnectError::Tls { host: host.clone(), cause: error.to_string() });
                }
                Err(ClientSocketError::Handler(())) => {
                    return Err(ConnectError::Tls {
                        host: host.clone(),
                        cause: "the server sent data before the handshake".into(),
                    });
                }
            }
            if channel.has_unsent() {
                channel.flush().map_err(|error| self.broken(error.to_string()))?;
            }
        }
    }

    fn upgrade(&self, channel: &mut ClientSocket) -> Result<Vec<u8>, ConnectError> {
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|error| ConnectError::Machine { cause: error.to_string() })?;
        let opening = ClientHandshake::new(self.options.address, nonce, None, None);
        self.check(channel.send(opening.request()))?;
        let mut received = Vec::new();
        loop {
            let keep = |piece: &[u8]| {
                received.extend_from_slice(piece);
                Ok::<(), ()>(())
            };
            let outcome = self.check(channel.receive(None, keep))?;
            if let Some(opened) = opening.judge(&received)? {
                received.drain(..opened.head_bytes);
                return Ok(received);
            }
            match outcome {
                ReadOutcome::Bytes(_) => {}
                ReadOutcome::Nothing => {
                    self.wait(channel.socket(), channel.has_unsent(), "answered the WebSocket handshake")?
                }
                ReadOutcome::End => return Err(self.broken("it closed the connection".into())),
            }
            if channel.has_unsent() {
                channel.flush().map_err(|error| self.broken(error.to_string()))?;
            }
        }
    }

    fn check<T>(&self, result: Result<T, ClientSocketError<()>>) -> Result<T, ConnectError> {
        result.map_err(|fault| match fault {
            ClientSocketError::Socket(error) => self.broken(error.to_string()),
            ClientSocketError::Tls(error) => {
                ConnectError::Tls { host: self.options.address.host.clone(), cause: error.to_string() }
            }
            ClientSocketError::Handler(()) => self.broken("its words were not taken".into()),
        })
    }

    fn broken(&self, cause: String) -> ConnectError {
        ConnectError::Broken { authority: self.options.address.authority.clone(), cause }
    }

    fn wait(&self, socket: &TcpStream, to_write: bool, what: &'static str) -> Result<(), ConnectError> {
        let left = self.until.saturating_duration_since(Instant::now());
        let left_ns = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
        if left_ns == 0 {
            let seconds = self.options.patience_ns / 1_000_000_000;
            return Err(ConnectError::Silent { authority: self.options.address.authority.clone(), seconds, what });
        }
        match wait(Some(socket), to_write, Some(self.stop), left_ns) {
            Ok(WaitOutcome::Stop) => Err(ConnectError::Stopped),
            Ok(_) => Ok(()),
            Err(error) => Err(ConnectError::Machine { cause: error.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_a_retry_cannot_resolve_are_final() {
        let status = |status| ConnectError::Unopened(HandshakeRefusal::Status { status, reason: String::new() });
        for status_code in [400, 401, 403, 404] {
            assert!(status(status_code).is_final(), "{status_code}");
        }
        for status_code in [200, 408, 429, 500, 503] {
            assert!(!status(status_code).is_final(), "{status_code}");
        }
    }
}
