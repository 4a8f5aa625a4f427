//! The event loop: sockets in, application, commit, sockets out.
//!
//! One turn of the loop reads whatever has arrived, lets the application act on it, asks the application to make it
//! durable, and only then writes anything to anyone. Requests that arrive together share one commit.
//!
//! Holds       1. nothing the application says leaves before its `commit` has returned;
//!             2. memory per connection is bounded: input, output and time, see the constants;
//!             3. a peer that does not read stops nobody else.
//! Start at    [`Server::run`].

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use pitwire_ports::Clock;
use pitwire_websocket::{CloseCode, Decoder, Incoming, Limits, Opcode, write_close, write_frame};
use slab::Slab;
use tracing::{debug, warn};

use crate::clock::SystemClock;
use crate::http::{self, HttpRequest, HttpResponse, Parsed};

/// Names one connection for as long as it lives; a later one never gets the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What waits to be written to a connection may grow to this by notices; then it is closed.
const OUTBOX_BYTES: usize = 256 * 1024;
/// How much is taken from the rings at a time.
const PUMP_BYTES: usize = 64 * 1024;
const READ_BYTES: usize = 64 * 1024;
const HANDSHAKE_NS: u64 = 5_000_000_000;
const IDLE_NS: u64 = 600_000_000_000;
const KEEP_ALIVE_NS: u64 = 900_000_000_000;
const DRAIN_NS: u64 = 2_000_000_000;
const SWEEP_NS: u64 = 1_000_000_000;

/// What the loop serves.
pub trait Application {
    /// Answers one HTTP request.
    fn request(&mut self, request: &HttpRequest<'_>, notices: &mut Notices) -> HttpResponse;
    /// Whether a path is a WebSocket entrance.
    fn accepts_websocket(&self, path: &str) -> bool;
    fn connected(&mut self, id: ConnectionId);
    /// Acts on one text message. Answers go to `notices` like everything else.
    fn text(&mut self, id: ConnectionId, text: &str, notices: &mut Notices);
    fn disconnected(&mut self, id: ConnectionId, notices: &mut Notices);
    /// When [`Self::tick`] wants to be called next, in monotonic nanoseconds.
    fn next_due_ns(&self) -> Option<u64>;
    fn tick(&mut self, now_ns: u64, notices: &mut Notices);
    /// Makes everything done so far durable. Says whether subscribers have something new to read.
    fn commit(&mut self) -> io::Result<bool>;
    /// Copies ready frames for a connection to `out`, until it holds about `enough` bytes.
    fn pump(&mut self, id: ConnectionId, out: &mut Vec<u8>, enough: usize) -> Result<(), Closing>;
    /// The process was asked to end: nothing new is taken, what is under way is finished.
    fn stopping(&mut self);
}

/// Why and how a WebSocket connection ends.
#[derive(Clone, Debug)]
pub struct Closing {
    pub code: CloseCode,
    pub reason: String,
}

/// Messages on their way to connections, held until the commit.
#[derive(Debug, Default)]
pub struct Notices {
    frames: Vec<(ConnectionId, Vec<u8>)>,
    replies: Vec<(ConnectionId, Vec<u8>)>,
    order: Vec<(ConnectionId, bool, usize)>,
    closing: Vec<(ConnectionId, Closing)>,
}

impl Notices {
    /// An answer: always queued, for the connection asked for it.
    pub fn reply(&mut self, to: ConnectionId, text: &[u8]) {
        self.order.push((to, true, self.replies.len()));
        self.replies.push((to, frame(text)));
    }

    /// Something nobody asked for just now: a connection that does not read enough is closed over it.
    pub fn notify(&mut self, to: ConnectionId, text: &[u8]) {
        self.order.push((to, false, self.frames.len()));
        self.frames.push((to, frame(text)));
    }

    pub fn close(&mut self, to: ConnectionId, code: CloseCode, reason: impl Into<String>) {
        self.closing.push((to, Closing { code, reason: reason.into() }));
    }
}

fn frame(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 10);
    write_frame(&mut out, Opcode::Text, text);
    out
}

enum Protocol {
    Http,
    WebSocket(Decoder),
}

struct Connection {
    id: ConnectionId,
    stream: TcpStream,
    protocol: Protocol,
    input: Vec<u8>,
    outbox: Vec<u8>,
    written: usize,
    /// More may be waiting in the socket: edge-triggered readiness is told once.
    readable: bool,
    /// Nothing is read any more; the connection goes when the outbox has.
    closing: bool,
    gone: bool,
    heard_ns: u64,
    /// Since when an unfinished request, handshake or fragmented message has been waiting.
    unfinished_since: Option<u64>,
    closing_since: Option<u64>,
}

impl Connection {
    fn pending(&self) -> usize {
        self.outbox.len() - self.written
    }
}

pub struct Server<A> {
    app: A,
    poll: Poll,
    listener: TcpListener,
    signals: mio::net::UnixStream,
    connections: Slab<Connection>,
    by_id: std::collections::BTreeMap<ConnectionId, usize>,
    next_id: u64,
    clock: SystemClock,
    notices: Notices,
    max_connections: usize,
    next_sweep_ns: u64,
    stopping_since: Option<u64>,
}

const LISTENER: Token = Token(usize::MAX);
const SIGNALS: Token = Token(usize::MAX - 1);

impl<A: Application> Server<A> {
    /// `signals` becomes readable when the process is asked to end.
    pub fn new(app: A, listener: std::net::TcpListener, signals: UnixStream, clock: SystemClock) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        signals.set_nonblocking(true)?;
        let poll = Poll::new()?;
        let mut listener = TcpListener::from_std(listener);
        let mut signals = mio::net::UnixStream::from_std(signals);
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        poll.registry().register(&mut signals, SIGNALS, Interest::READABLE)?;
        Ok(Server {
            app,
            poll,
            listener,
            signals,
            connections: Slab::new(),
            by_id: std::collections::BTreeMap::new(),
            next_id: 1,
            clock,
            notices: Notices::default(),
            max_connections: max_open_files(),
            next_sweep_ns: 0,
            stopping_since: None,
        })
    }

    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until asked to end; gives the application back after its last commit. An error is the commit's: the
    /// caller must not say that anything uncommitted has happened.
    pub fn run(mut self) -> io::Result<A> {
        let mut events = Events::with_capacity(1024);
        loop {
            let timeout = self.timeout();
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            let now = self.clock.monotonic_ns();
            self.app.tick(now, &mut self.notices);
            self.take_events(&events, now);
            self.read_all(now);
            self.sweep(now);
            let fresh = self.app.commit()?;
            self.deliver();
            self.flush_all(fresh, now);
            self.remove_gone();
            if self.is_drained(now) {
                self.app.commit()?;
                return Ok(self.app);
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if self.connections.iter().any(|(_, c)| c.readable && !c.closing && c.pending() < OUTBOX_BYTES) {
            return Some(Duration::ZERO);
        }
        let now = self.clock.monotonic_ns();
        let due = self.app.next_due_ns().unwrap_or(u64::MAX);
        let sweep = if self.connections.is_empty() { u64::MAX } else { self.next_sweep_ns };
        let drain = if self.stopping_since.is_some() { now + 10_000_000 } else { u64::MAX };
        let next = due.min(sweep).min(drain);
        (next != u64::MAX).then(|| Duration::from_nanos(next.saturating_sub(now)))
    }

    fn take_events(&mut self, events: &Events, now: u64) {
        for event in events {
            match event.token() {
                LISTENER => self.accept(now),
                SIGNALS => self.stop(now),
                Token(at) => {
                    if let Some(connection) = self.connections.get_mut(at) {
                        connection.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
                    }
                }
            }
        }
    }

    fn stop(&mut self, now: u64) {
        let mut byte = [0; 16];
        while matches!(self.signals.read(&mut byte), Ok(n) if n > 0) {}
        if self.stopping_since.replace(now).is_some() {
            return;
        }
        self.app.stopping();
        for id in self.by_id.keys() {
            self.notices.close(*id, CloseCode::GoingAway, "the venue is stopping");
        }
    }

    fn is_drained(&self, now: u64) -> bool {
        self.stopping_since.is_some_and(|since| self.connections.is_empty() || now > since + DRAIN_NS)
    }

    fn accept(&mut self, now: u64) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // Out of descriptors, most likely: those who are in must go on being served.
                    warn!(%error, "cannot accept a connection");
                    return;
                }
            }
        }
    }

    fn admit(&mut self, mut stream: TcpStream, now: u64) {
        if self.stopping_since.is_some() {
            return;
        }
        if self.connections.len() >= self.max_connections {
            // Best effort: the kernel's buffer takes this without waiting.
            let mut out = Vec::new();
            HttpResponse::text(429, "too many connections").write(&mut out, false, false);
            drop(stream.write(&out));
            return;
        }
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "no TCP_NODELAY");
        }
        let entry = self.connections.vacant_entry();
        let token = Token(entry.key());
        if let Err(error) = self.poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE) {
            warn!(%error, "cannot watch a connection");
            return;
        }
        let id = ConnectionId(self.next_id);
        self.next_id += 1;
        self.by_id.insert(id, token.0);
        entry.insert(Connection {
            id,
            stream,
            protocol: Protocol::Http,
            input: Vec::new(),
            outbox: Vec::new(),
            written: 0,
            readable: true,
            closing: false,
            gone: false,
            heard_ns: now,
            unfinished_since: Some(now),
            closing_since: None,
        });
    }

    fn read_all(&mut self, now: u64) {
        let Server { app, connections, notices, .. } = self;
        for (_, connection) in connections.iter_mut() {
            if connection.readable && !connection.closing && !connection.gone && connection.pending() < OUTBOX_BYTES {
                read_some(connection, now);
                act_on_input(connection, app, notices, now);
            }
        }
    }

    /// Closes what has been silent or unfinished for too long.
    fn sweep(&mut self, now: u64) {
        if now < self.next_sweep_ns {
            return;
        }
        self.next_sweep_ns = now + SWEEP_NS;
        for (_, connection) in &mut self.connections {
            let unfinished = connection.unfinished_since.is_some_and(|since| now > since + HANDSHAKE_NS);
            let idle = match connection.protocol {
                Protocol::Http => KEEP_ALIVE_NS,
                Protocol::WebSocket(_) => IDLE_NS,
            };
            if connection.closing_since.is_some_and(|since| now > since + HANDSHAKE_NS) {
                connection.gone = true;
            } else if unfinished || now > connection.heard_ns + idle {
                let reason = if unfinished { "not finished within 5 s" } else { "nothing heard for too long" };
                close(connection, CloseCode::Policy, reason, now);
            }
        }
    }

    /// Moves what the application said into the outboxes it is for.
    fn deliver(&mut self) {
        let Notices { frames, replies, order, closing } = std::mem::take(&mut self.notices);
        let now = self.clock.monotonic_ns();
        for (to, is_reply, at) in order {
            let Some(connection) = self.by_id.get(&to).and_then(|at| self.connections.get_mut(*at)) else { continue };
            if connection.gone || connection.closing {
                continue;
            }
            let frame = if is_reply { &replies[at].1 } else { &frames[at].1 };
            if !is_reply && connection.pending() + frame.len() > OUTBOX_BYTES {
                debug!(?to, "closed: notices are not being read");
                connection.gone = true;
                continue;
            }
            connection.outbox.extend_from_slice(frame);
        }
        for (to, Closing { code, reason }) in closing {
            if let Some(connection) = self.by_id.get(&to).and_then(|at| self.connections.get_mut(*at)) {
                close(connection, code, &reason, now);
            }
        }
    }

    fn flush_all(&mut self, fresh: bool, now: u64) {
        let Server { app, connections, .. } = self;
        for (_, connection) in connections.iter_mut().filter(|(_, connection)| !connection.gone) {
            let subscribed = matches!(connection.protocol, Protocol::WebSocket(_));
            if connection.pending() > 0 || (fresh && subscribed) {
                flush(connection, app, now);
            } else if connection.closing {
                connection.gone = true;
            }
        }
    }

    fn remove_gone(&mut self) {
        let gone: Vec<usize> = self.connections.iter().filter(|(_, c)| c.gone).map(|(at, _)| at).collect();
        for at in gone {
            let mut connection = self.connections.remove(at);
            drop(self.poll.registry().deregister(&mut connection.stream));
            self.by_id.remove(&connection.id);
            if matches!(connection.protocol, Protocol::WebSocket(_)) {
                self.app.disconnected(connection.id, &mut self.notices);
            }
        }
    }
}

fn read_some(connection: &mut Connection, now: u64) {
    let mut buffer = [0; 16 * 1024];
    let mut taken = 0;
    while taken < READ_BYTES {
        match connection.stream.read(&mut buffer) {
            Ok(0) => {
                connection.gone = true;
                return;
            }
            Ok(n) => {
                connection.input.extend_from_slice(&buffer[..n]);
                connection.heard_ns = now;
                taken += n;
                // A short read means the socket is empty: save the call that would say so.
                if n < buffer.len() {
                    connection.readable = false;
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                connection.readable = false;
                return;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => {
                connection.gone = true;
                return;
            }
        }
    }
}

/// Answers every complete request or message in the input.
fn act_on_input(connection: &mut Connection, app: &mut impl Application, notices: &mut Notices, now: u64) {
    if connection.input.is_empty() {
        return;
    }
    let input = std::mem::take(&mut connection.input);
    let mut used = 0;
    while used < input.len() && !connection.closing {
        let rest = &input[used..];
        let bytes = match connection.protocol {
            Protocol::Http => act_on_http(connection, rest, app, notices, now),
            Protocol::WebSocket(_) => act_on_websocket(connection, rest, app, notices, now),
        };
        if bytes == 0 {
            break;
        }
        used += bytes;
    }
    if connection.closing {
        return;
    }
    let mid_message = matches!(&connection.protocol, Protocol::WebSocket(decoder) if decoder.is_mid_message());
    let unfinished = used < input.len() || mid_message;
    connection.unfinished_since = unfinished.then(|| connection.unfinished_since.unwrap_or(now));
    connection.input = input;
    connection.input.drain(..used);
}

fn act_on_http(
    connection: &mut Connection,
    input: &[u8],
    app: &mut impl Application,
    notices: &mut Notices,
    now: u64,
) -> usize {
    let (request, bytes) = match http::parse(input) {
        Parsed::NeedMore => return 0,
        Parsed::Refuse(response) => {
            response.write(&mut connection.outbox, false, false);
            start_closing(connection, now);
            return 0;
        }
        Parsed::Request { request, bytes } => (request, bytes),
    };
    if request.is_upgrade() && app.accepts_websocket(request.path()) {
        let checked = http::check_origin(&request.headers, OUR_NAMES).and_then(|()| request.upgrade_response());
        match checked {
            Ok(response) => {
                connection.outbox.extend_from_slice(&response);
                connection.protocol = Protocol::WebSocket(Decoder::new(Limits::default()));
                app.connected(connection.id);
            }
            Err(response) => {
                response.write(&mut connection.outbox, false, false);
                start_closing(connection, now);
            }
        }
        return bytes;
    }
    let response = match http::check_origin(&request.headers, OUR_NAMES) {
        Ok(()) => app.request(&request, notices),
        Err(response) => response,
    };
    response.write(&mut connection.outbox, request.keep_alive, request.method == "HEAD");
    if !request.keep_alive {
        start_closing(connection, now);
    }
    bytes
}

/// Names under which clients with built-in hosts reach a venue through a hosts file.
const OUR_NAMES: &[&str] = &["test.deribit.com", "www.deribit.com", "pitwire.local"];

fn act_on_websocket(
    connection: &mut Connection,
    input: &[u8],
    app: &mut impl Application,
    notices: &mut Notices,
    now: u64,
) -> usize {
    let Protocol::WebSocket(decoder) = &mut connection.protocol else { return 0 };
    let (bytes, incoming) = match decoder.decode(input) {
        Ok(decoded) => decoded,
        Err(error) => {
            close(connection, error.code, error.reason, now);
            return 0;
        }
    };
    match incoming {
        None | Some(Incoming::Pong) => {}
        Some(Incoming::Text(text)) => app.text(connection.id, text, notices),
        // Answered at once: a pong says nothing about the market, so it need not wait for the disk.
        Some(Incoming::Ping(body)) => write_frame(&mut connection.outbox, Opcode::Pong, body),
        Some(Incoming::Binary(_)) => close(connection, CloseCode::Unsupported, "send JSON as text frames", now),
        Some(Incoming::Close(_)) => close(connection, CloseCode::Normal, "", now),
    }
    bytes
}

fn start_closing(connection: &mut Connection, now: u64) {
    connection.closing = true;
    connection.closing_since.get_or_insert(now);
}

fn close(connection: &mut Connection, code: CloseCode, reason: &str, now: u64) {
    if !connection.closing {
        if matches!(connection.protocol, Protocol::WebSocket(_)) {
            write_close(&mut connection.outbox, code, reason);
        }
        start_closing(connection, now);
    }
}

/// Writes what waits, then what the rings hold for this connection, until the socket takes no more.
fn flush(connection: &mut Connection, app: &mut impl Application, now: u64) {
    loop {
        if connection.pending() == 0 {
            connection.outbox.clear();
            connection.written = 0;
            if connection.closing {
                drop(connection.stream.shutdown(std::net::Shutdown::Write));
                connection.gone = true;
                return;
            }
            if let Protocol::Http = connection.protocol {
                return;
            }
            if let Err(Closing { code, reason }) = app.pump(connection.id, &mut connection.outbox, PUMP_BYTES) {
                close(connection, code, &reason, now);
            }
            if connection.outbox.is_empty() {
                return;
            }
        }
        match connection.stream.write(&connection.outbox[connection.written..]) {
            Ok(0) => {
                connection.gone = true;
                return;
            }
            Ok(n) => connection.written += n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => {
                connection.gone = true;
                return;
            }
        }
    }
}

/// Leaves descriptors for the journal, snapshots and the process itself.
fn max_open_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1024);
    usize::try_from(limit).unwrap_or(1024).saturating_sub(64).max(64)
}
