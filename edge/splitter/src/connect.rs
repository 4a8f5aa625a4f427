//! From an address to a WebSocket that is open.
//!
//! Does        resolve, connect, shake hands twice (TLS, WebSocket), check every word of the answer.
//! Holds       1. each attempt ends within its time, and at once when the program is asked to end;
//!             2. what the server sends behind its answer is kept;
//!             3. every refusal says what to do, and whether trying again could help.
//! Leaves out  name servers' time: resolving a name is the system's, and is not interrupted.
//! Start at    [`open`].

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pitwire_websocket::{Address, accept_key};
use rustls::ClientConfig;
use socket2::{Domain, Protocol, Socket, Type};

use crate::channel::{Channel, Fault, Heard, Woken, wait};
use crate::clock::mono_ns;
use crate::tls::Session;

/// An answer's status line and headers.
const MAX_HEAD_BYTES: usize = 16 * 1024;
const MAX_HEADERS: usize = 64;

/// What a connection is to be like.
pub struct Dial<'a> {
    pub address: &'a Address,
    pub tls: Option<&'a Arc<ClientConfig>>,
    /// For connecting and both handshakes together.
    pub patience_ns: u64,
    /// Bytes that the kernel keeps for us; `None` leaves it to the kernel.
    pub receive_buffer: Option<usize>,
}

/// Why there is no connection.
#[derive(Debug)]
pub enum ConnectError {
    /// The program was asked to end.
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
    Status {
        status: u16,
        reason: String,
    },
    Redirect {
        status: u16,
        location: String,
    },
    NotWebSocket {
        why: &'static str,
    },
    Machine {
        cause: String,
    },
}

impl ConnectError {
    /// What to do about it.
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
            Self::Status { status: 401 | 403 | 407, .. } => {
                "check the key or token in the URL, and that the account may read this feed"
            }
            Self::Status { status: 404, .. } => "check the path of the URL",
            Self::Status { status: 429, .. } => "another connection of this account may be open; wait, or close it",
            Self::Status { status: 500.., .. } => "the server is in trouble; try again later",
            Self::Status { .. } => "check the URL: a feed answers 101 Switching Protocols",
            Self::Redirect { .. } => "use the address that it names, if you trust it: redirects are not followed",
            Self::NotWebSocket { .. } => {
                "check the URL: what answers there is no WebSocket server, or something between changes its words"
            }
            Self::Machine { .. } => "free what this machine has run out of, or raise its limit",
        }
    }

    /// Whether the same would happen again, until somebody changes something.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Stopped | Self::Untrusted { .. } | Self::Redirect { .. } | Self::NotWebSocket { .. } => true,
            Self::Status { status, .. } => (400..500).contains(status) && !matches!(status, 408 | 425 | 429),
            _ => false,
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("asked to end"),
            Self::Name { host, cause } => write!(f, "cannot resolve {host}: {cause}"),
            Self::Unreachable { authority, cause } => write!(f, "cannot reach {authority}: {cause}"),
            Self::Untrusted { host, cause } => write!(f, "the certificate of {host} is not to be trusted: {cause}"),
            Self::Tls { host, cause } => write!(f, "no TLS with {host}: {cause}"),
            Self::Silent { authority, seconds, what } => write!(f, "{authority} has not {what} in {seconds} s"),
            Self::Broken { authority, cause } => write!(f, "{authority} ended the handshake: {cause}"),
            Self::Status { status, reason } => write!(f, "the server refuses the WebSocket with {status} {reason}"),
            Self::Redirect { status, location } => write!(f, "the server answers {status} and sends us to {location}"),
            Self::NotWebSocket { why } => write!(f, "the server's answer is no WebSocket handshake: {why}"),
            Self::Machine { cause } => write!(f, "cannot open a socket: {cause}"),
        }
    }
}

impl std::error::Error for ConnectError {}

/// A WebSocket that is open, and what has already been received on it.
pub(crate) struct Opened {
    pub channel: Channel,
    pub early: Vec<u8>,
}

struct Attempt<'a, S> {
    dial: &'a Dial<'a>,
    stop: &'a S,
    until_ns: u64,
}

pub(crate) fn open(dial: &Dial<'_>, stop: &impl AsFd) -> Result<Opened, ConnectError> {
    let attempt = Attempt { dial, stop, until_ns: mono_ns() + dial.patience_ns };
    let socket = attempt.connect()?;
    let mut channel = attempt.secure(socket)?;
    let early = attempt.upgrade(&mut channel)?;
    Ok(Opened { channel, early })
}

impl<S: AsFd> Attempt<'_, S> {
    /// The first address of the name that answers.
    fn connect(&self) -> Result<TcpStream, ConnectError> {
        let Address { host, port, authority, .. } = self.dial.address;
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
            if mono_ns() >= self.until_ns {
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
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).map_err(machine)?;
        if let Some(bytes) = self.dial.receive_buffer {
            // Before connecting: the window's scale is agreed on then. A kernel that gives less still reads the feed.
            let _ = socket.set_recv_buffer_size(bytes);
        }
        // Small frames of ours (a pong, a subscription) must not wait for one another.
        socket.set_tcp_nodelay(true).map_err(machine)?;
        // BBR is known to collapse where processors are contended; on our side it only ever sends a few frames.
        let _ = rustix::net::sockopt::set_tcp_congestion(&socket, "cubic");
        socket.set_nonblocking(true).map_err(machine)?;
        match socket.connect(&address.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
            Err(error) => return Err(unreachable(error)),
        }
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

    fn secure(&self, socket: TcpStream) -> Result<Channel, ConnectError> {
        let Address { host, .. } = self.dial.address;
        let failed = |error: rustls::Error| match error {
            rustls::Error::InvalidCertificate(cause) => {
                ConnectError::Untrusted { host: host.clone(), cause: cause.to_string() }
            }
            error => ConnectError::Tls { host: host.clone(), cause: error.to_string() },
        };
        let Some(config) = self.dial.tls else { return Ok(Channel::new(socket, None)) };
        let session = Session::open(config, host).map_err(failed)?;
        let mut channel = Channel::new(socket, Some(session));
        loop {
            match channel.shake_hands() {
                Ok(true) => return Ok(channel),
                Ok(false) => self.wait(channel.socket(), channel.has_unsent(), "finished the TLS handshake")?,
                Err(Fault::Tls(error)) => return Err(failed(error)),
                Err(Fault::Socket(error)) => {
                    return Err(ConnectError::Tls { host: host.clone(), cause: error.to_string() });
                }
                Err(Fault::Taker(())) => {
                    return Err(ConnectError::Tls { host: host.clone(), cause: "it speaks before it is asked".into() });
                }
            }
            if channel.has_unsent() {
                channel.flush().map_err(|error| self.broken(error.to_string()))?;
            }
        }
    }

    fn upgrade(&self, channel: &mut Channel) -> Result<Vec<u8>, ConnectError> {
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|error| ConnectError::Machine { cause: error.to_string() })?;
        let key = STANDARD.encode(nonce);
        let Address { resource, authority, .. } = self.dial.address;
        let request = format!(
            "GET {resource} HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nUser-Agent: pitwire/{}\r\n\r\n",
            env!("CARGO_PKG_VERSION"),
        );
        self.check(channel.send(request.as_bytes()))?;
        let mut received = Vec::new();
        loop {
            let keep = |piece: &[u8]| {
                received.extend_from_slice(piece);
                Ok::<(), ()>(())
            };
            let heard = self.check(channel.receive(None, keep))?;
            if let Some(head_bytes) = judge(&received, &key)? {
                received.drain(..head_bytes);
                return Ok(received);
            }
            match heard {
                Heard::Bytes(_) => {}
                Heard::Nothing => {
                    self.wait(channel.socket(), channel.has_unsent(), "answered the WebSocket handshake")?
                }
                Heard::End => return Err(self.broken("it closed the connection".into())),
            }
            if channel.has_unsent() {
                channel.flush().map_err(|error| self.broken(error.to_string()))?;
            }
        }
    }

    fn check<T>(&self, result: Result<T, Fault<()>>) -> Result<T, ConnectError> {
        result.map_err(|fault| match fault {
            Fault::Socket(error) => self.broken(error.to_string()),
            Fault::Tls(error) => ConnectError::Tls { host: self.dial.address.host.clone(), cause: error.to_string() },
            Fault::Taker(()) => self.broken("its words were not taken".into()),
        })
    }

    fn broken(&self, cause: String) -> ConnectError {
        ConnectError::Broken { authority: self.dial.address.authority.clone(), cause }
    }

    fn wait(&self, socket: &TcpStream, to_write: bool, what: &'static str) -> Result<(), ConnectError> {
        let left_ns = self.until_ns.saturating_sub(mono_ns());
        if left_ns == 0 {
            let seconds = self.dial.patience_ns / 1_000_000_000;
            return Err(ConnectError::Silent { authority: self.dial.address.authority.clone(), seconds, what });
        }
        match wait(Some(socket), to_write, self.stop, left_ns) {
            Ok(Woken::Stop) => Err(ConnectError::Stopped),
            Ok(_) => Ok(()),
            Err(error) => Err(ConnectError::Machine { cause: error.to_string() }),
        }
    }
}

/// The length of the answer's head, if it is whole and opens the WebSocket that was asked for with `key`.
fn judge(received: &[u8], key: &str) -> Result<Option<usize>, ConnectError> {
    let not = |why| Err(ConnectError::NotWebSocket { why });
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let head_bytes = match response.parse(received) {
        Ok(httparse::Status::Complete(bytes)) if bytes <= MAX_HEAD_BYTES => bytes,
        Ok(httparse::Status::Partial) if received.len() <= MAX_HEAD_BYTES => return Ok(None),
        Ok(_) => return not("its headers are above 16 KiB"),
        Err(httparse::Error::TooManyHeaders) => return not("it has more than 64 headers"),
        Err(_) => return not("it is not HTTP"),
    };
    let status = response.code.unwrap_or(0);
    let texts = |name: &str| {
        let of_name = response.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
        of_name.map(|header| std::str::from_utf8(header.value).unwrap_or("").trim()).collect::<Vec<_>>()
    };
    let lists = |name: &str, token: &str| {
        texts(name).iter().any(|text| text.split(',').any(|part| part.trim().eq_ignore_ascii_case(token)))
    };
    if (300..400).contains(&status) {
        let location = texts("location").first().map_or_else(|| "nowhere".into(), |text| printable(text));
        return Err(ConnectError::Redirect { status, location });
    }
    if status != 101 {
        return Err(ConnectError::Status { status, reason: printable(response.reason.unwrap_or("")) });
    }
    if !lists("upgrade", "websocket") {
        return not("it lacks Upgrade: websocket");
    }
    if !lists("connection", "upgrade") {
        return not("it lacks Connection: Upgrade");
    }
    if texts("sec-websocket-accept") != [accept_key(key).unwrap_or_default()] {
        return not("its Sec-WebSocket-Accept does not answer our key");
    }
    if !texts("sec-websocket-extensions").is_empty() {
        return not("it takes up an extension that was not offered");
    }
    if !texts("sec-websocket-protocol").is_empty() {
        return not("it takes up a subprotocol that was not offered");
    }
    Ok(Some(head_bytes))
}

/// A stranger's words on our terminal: short, and without control characters.
pub(crate) fn printable(text: &str) -> String {
    text.chars().take(200).map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 6455 section 1.3.
    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
    const ACCEPT: &str = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
    const GOOD: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n";

    fn verdict(answer: &str) -> String {
        match judge(answer.as_bytes(), KEY) {
            Ok(None) => "more".into(),
            Ok(Some(bytes)) => format!("open, {} left", answer.len() - bytes),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn only_the_answer_to_our_key_opens() {
        assert_eq!(verdict(&format!("{GOOD}{ACCEPT}\r\n")), "open, 0 left");
        assert_eq!(verdict(&format!("{GOOD}{ACCEPT}\r\n\u{1}abc")), "open, 4 left");
        let lower = format!("{GOOD}{ACCEPT}\r\n").replace("Upgrade: websocket", "upgrade: WebSocket");
        assert_eq!(verdict(&lower), "open, 0 left");
        for (answer, part) in [
            (format!("{GOOD}\r\n"), "Accept"),
            (format!("{GOOD}{}\r\n", ACCEPT.replace("s3p", "t3p")), "Accept"),
            (format!("{GOOD}Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n"), "Accept"),
            (format!("{GOOD}{ACCEPT}{ACCEPT}\r\n"), "Accept"),
            (format!("{GOOD}{ACCEPT}Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"), "extension"),
            (format!("{GOOD}{ACCEPT}Sec-WebSocket-Protocol: x\r\n\r\n"), "subprotocol"),
            (format!("HTTP/1.1 101 x\r\nConnection: Upgrade\r\n{ACCEPT}\r\n"), "Upgrade: websocket"),
            (format!("HTTP/1.1 101 x\r\nUpgrade: websocket\r\n{ACCEPT}\r\n"), "Connection: Upgrade"),
            ("HTTP/1.1 401 Unauthorized\r\n\r\n".into(), "401 Unauthorized"),
            ("HTTP/1.1 200 OK\r\n\r\n".into(), "200 OK"),
            ("HTTP/1.1 302 Found\r\nLocation: wss://b/\u{1b}[2J\r\n\r\n".into(), "not HTTP"),
            ("HTTP/1.1 302 Found\r\nLocation: wss://b/x\r\n\r\n".into(), "302 and sends us to wss://b/x"),
            ("HTTP/1.1 308 x\r\n\r\n".into(), "nowhere"),
            ("SSH-2.0-OpenSSH_9.2\r\n".into(), "not HTTP"),
            (format!("{GOOD}A: {}\r\n", "b".repeat(20_000)), "16 KiB"),
            (format!("{GOOD}{ACCEPT}A: {}\r\n\r\n", "b".repeat(20_000)), "16 KiB"),
            (format!("{GOOD}{}", "A: b\r\n".repeat(70)), "64 headers"),
        ] {
            assert!(verdict(&answer).contains(part), "{answer:?}: {}", verdict(&answer));
        }
    }

    #[test]
    fn an_answer_in_pieces_is_waited_for() {
        let whole = format!("{GOOD}{ACCEPT}\r\n");
        for bytes in 0..whole.len() {
            assert_eq!(verdict(&whole[..bytes]), "more", "{bytes}");
        }
    }

    #[test]
    fn what_trying_again_cannot_cure_is_final() {
        let status = |status| ConnectError::Status { status, reason: String::new() };
        for status_code in [400, 401, 403, 404] {
            assert!(status(status_code).is_final(), "{status_code}");
        }
        for status_code in [200, 408, 429, 500, 503] {
            assert!(!status(status_code).is_final(), "{status_code}");
        }
    }
}
