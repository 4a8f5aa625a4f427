//! One socket, what came in over it and what waits to go out.
//!
//! Does        read, have the application act on every complete request or message, write.
//! Holds       1. input is at most one unfinished request or message and one read; while the outbox is full, or
//!                complete input is left over, nothing more is read;
//!             2. the outbox holds at most [`OUTBOX_BYTES`] and one answer over it of what was asked for, and
//!                [`UNREAD_BYTES`] and one turn's of what was not;
//!             3. what was acted on is answered before the connection ends, also when the peer ended it.
//! Leaves out  whose turn it is, and the commit between acting and writing: both are the server's.
//! Start at    [`Connection::read_and_act`], [`Connection::flush`].

use std::io::{self, Read, Write};
use std::net::Shutdown;

use mio::event::Event;
use mio::net::TcpStream;
use pitwire_websocket::{CloseCode, Decoder, Incoming, Limits, Opcode, write_close, write_frame};
use tracing::debug;

use crate::application::{Application, Closing, ConnectionId};
use crate::http::{self, Parsed};
use crate::notices::{Kind, Notices};

/// With this much waiting to be written, a connection's requests wait too.
const OUTBOX_BYTES: usize = 256 * 1024;
/// With this much of what it did not ask for waiting since earlier turns, a connection is closed.
const UNREAD_BYTES: usize = 1024 * 1024;
/// Most requests or frames of one connection in one turn: the others and the timers must not wait for more.
const FRAMES_PER_TURN: usize = 64;
/// How much is taken from the rings at a time.
const PUMP_BYTES: usize = 64 * 1024;
const READ_BYTES: usize = 64 * 1024;
const UNFINISHED_NS: u64 = 5_000_000_000;
const IDLE_NS: u64 = 600_000_000_000;
const KEEP_ALIVE_NS: u64 = 900_000_000_000;
const LINGER_NS: u64 = 2_000_000_000;

enum Protocol {
    Http,
    WebSocket(Decoder),
}

enum Stage {
    Open,
    /// Its last bytes are in the outbox; counts from when the peer last took some.
    Closing {
        since: u64,
    },
    /// All is written, and the peer told so. What still arrives is thrown away: closing a socket that holds unread
    /// input makes the kernel forget what it has not delivered.
    Lingering {
        since: u64,
    },
    Gone,
}

pub(crate) struct Connection {
    pub id: ConnectionId,
    pub stream: TcpStream,
    /// On the server's list for this turn or the next.
    pub is_listed: bool,
    protocol: Protocol,
    stage: Stage,
    input: Vec<u8>,
    /// The input may begin with something complete, left over for want of room or out of fairness.
    has_left_over: bool,
    outbox: Vec<u8>,
    written: usize,
    /// Of what waits: not asked for, at most (writing is taken to write these first), and new in this turn.
    unread: usize,
    unread_new: usize,
    /// More may be waiting in the socket, or fit into it: edge-triggered readiness is told once.
    readable: bool,
    writable: bool,
    /// The peer has ended its side; this too is told once, perhaps together with the last data.
    read_closed: bool,
    /// ... and all it sent has been read.
    at_end: bool,
    heard_ns: u64,
    /// Since when the peer has owed us the rest of a request, handshake or message.
    unfinished_since: Option<u64>,
}

/// What acting on the front of the input came to.
struct Step {
    bytes: usize,
    /// It completed a request or a message, not just a frame.
    is_whole: bool,
}

impl Connection {
    pub fn new(id: ConnectionId, stream: TcpStream, now: u64) -> Self {
        Connection {
            id,
            stream,
            is_listed: false,
            protocol: Protocol::Http,
            stage: Stage::Open,
            input: Vec::new(),
            has_left_over: false,
            outbox: Vec::new(),
            written: 0,
            unread: 0,
            unread_new: 0,
            readable: true,
            writable: true,
            read_closed: false,
            at_end: false,
            heard_ns: now,
            unfinished_since: Some(now),
        }
    }

    pub fn is_websocket(&self) -> bool {
        matches!(self.protocol, Protocol::WebSocket(_))
    }

    pub fn is_gone(&self) -> bool {
        matches!(self.stage, Stage::Gone)
    }

    /// Whether nothing more will be written.
    pub fn is_finished(&self) -> bool {
        matches!(self.stage, Stage::Lingering { .. } | Stage::Gone)
    }

    /// Whether it can go on without waiting for the socket.
    pub fn wants_turn(&self) -> bool {
        match self.stage {
            Stage::Open => self.has_room() && (self.has_left_over || self.readable),
            Stage::Lingering { .. } => self.readable,
            Stage::Closing { .. } | Stage::Gone => false,
        }
    }

    fn pending(&self) -> usize {
        self.outbox.len() - self.written
    }

    fn has_room(&self) -> bool {
        self.pending() < OUTBOX_BYTES
    }

    pub fn note(&mut self, event: &Event) {
        self.read_closed |= event.is_read_closed() || event.is_error();
        self.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.writable |= event.is_writable() || event.is_write_closed() || event.is_error();
    }

    pub fn read_and_act(&mut self, app: &mut impl Application, notices: &mut Notices, now: u64) {
        match self.stage {
            Stage::Open if self.has_room() => {
                if self.readable && !self.has_left_over {
                    self.read(now);
                }
                if matches!(self.stage, Stage::Open) {
                    self.act(app, notices, now);
                }
            }
            Stage::Lingering { .. } if self.readable => {
                self.read(now);
                self.input.clear();
                if self.at_end {
                    self.stage = Stage::Gone;
                }
            }
            _ => {}
        }
    }

    fn read(&mut self, now: u64) {
        let mut buffer = [0; 16 * 1024];
        let mut taken = 0;
        while taken < READ_BYTES {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    (self.readable, self.at_end) = (false, true);
                    return;
                }
                Ok(n) => {
                    self.input.extend_from_slice(&buffer[..n]);
                    self.heard_ns = now;
                    taken += n;
                    // A short read means the socket is empty: save the call that would say so. Unless the end is
                    // known to follow: no event will tell of it again.
                    if n < buffer.len() && !self.read_closed {
                        self.readable = false;
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.stage = Stage::Gone;
                    return;
                }
            }
        }
    }

    /// Acts on what is complete in the input, as far as there is room for the answers and it is this connection's turn.
    fn act(&mut self, app: &mut impl Application, notices: &mut Notices, now: u64) {
        self.has_left_over = false;
        if !self.input.is_empty() {
            let input = std::mem::take(&mut self.input);
            let used = self.act_on(&input, app, notices, now);
            self.keep(input, used);
        }
        if self.at_end && !self.has_left_over {
            notices.end(self.id);
        }
    }

    fn act_on(&mut self, input: &[u8], app: &mut impl Application, notices: &mut Notices, now: u64) -> usize {
        let said_before = notices.bytes();
        let (mut used, mut frames, mut completed) = (0, 0, false);
        while used < input.len() && !notices.is_ending(self.id) {
            let said = notices.bytes() - said_before;
            if frames == FRAMES_PER_TURN || self.pending() + said >= OUTBOX_BYTES {
                self.has_left_over = true;
                break;
            }
            let step = match self.protocol {
                Protocol::Http => self.act_on_http(&input[used..], app, notices),
                Protocol::WebSocket(_) => self.act_on_websocket(&input[used..], app, notices),
            };
            let Some(Step { bytes, is_whole }) = step else { break };
            used += bytes;
            frames += 1;
            completed |= is_whole;
        }
        if notices.is_ending(self.id) {
            self.has_left_over = false;
            return input.len();
        }
        let mid_message = matches!(&self.protocol, Protocol::WebSocket(decoder) if decoder.is_mid_message());
        let owes = !self.has_left_over && (used < input.len() || mid_message);
        // Pings in between do not finish a fragmented message.
        let has_moved_on = completed || (frames > 0 && !mid_message);
        let since = self.unfinished_since.filter(|_| !has_moved_on);
        self.unfinished_since = owes.then(|| since.unwrap_or(now));
        used
    }

    fn keep(&mut self, mut input: Vec<u8>, used: usize) {
        input.drain(..used);
        // A large buffer is not kept for nothing.
        if !input.is_empty() || input.capacity() <= READ_BYTES {
            self.input = input;
        }
    }

    fn act_on_http(&mut self, input: &[u8], app: &mut impl Application, notices: &mut Notices) -> Option<Step> {
        let (request, bytes) = match http::parse(input) {
            Parsed::NeedMore => return None,
            Parsed::Refuse(response) => {
                notices.answer(self.id, |out| response.write(out, false, false));
                notices.end(self.id);
                return None;
            }
            Parsed::Request { request, bytes } => (request, bytes),
        };
        let done = Some(Step { bytes, is_whole: true });
        let checked = http::check_origin(&request.headers, OUR_NAMES);
        if request.is_upgrade() && app.accepts_websocket(request.path()) {
            match checked.and_then(|()| request.upgrade_response()) {
                Ok(response) => {
                    notices.answer(self.id, |out| out.extend_from_slice(&response));
                    self.protocol = Protocol::WebSocket(Decoder::new(Limits::default()));
                    app.connected(self.id);
                }
                Err(response) => {
                    notices.answer(self.id, |out| response.write(out, false, false));
                    notices.end(self.id);
                }
            }
            return done;
        }
        let response = match checked {
            Ok(()) => app.request(&request, notices),
            Err(response) => response,
        };
        notices.answer(self.id, |out| response.write(out, request.keep_alive, request.method == "HEAD"));
        if !request.keep_alive {
            notices.end(self.id);
        }
        done
    }

    fn act_on_websocket(&mut self, input: &[u8], app: &mut impl Application, notices: &mut Notices) -> Option<Step> {
        let Protocol::WebSocket(decoder) = &mut self.protocol else { return None };
        let (bytes, incoming) = match decoder.decode(input) {
            Ok((0, _)) => return None,
            Ok(decoded) => decoded,
            Err(error) => {
                notices.close(self.id, error.code, error.reason);
                return None;
            }
        };
        let is_whole = matches!(incoming, Some(Incoming::Text(_)));
        match incoming {
            None | Some(Incoming::Pong) => {}
            Some(Incoming::Text(text)) => app.text(self.id, text, notices),
            Some(Incoming::Ping(body)) => notices.answer(self.id, |out| write_frame(out, Opcode::Pong, body)),
            Some(Incoming::Binary(_)) => notices.close(self.id, CloseCode::Unsupported, "send JSON as text frames"),
            Some(Incoming::Close(code)) => notices.echo_close(self.id, code),
        }
        Some(Step { bytes, is_whole })
    }

    /// Queues what was said to this connection, after the commit.
    pub fn take(&mut self, kind: Kind, bytes: &[u8], now: u64) {
        if !matches!(self.stage, Stage::Open) {
            return;
        }
        // A connection that is never quite read to the end must not keep all it was ever sent.
        if self.written >= PUMP_BYTES && self.written >= self.pending() {
            self.outbox.drain(..self.written);
            self.written = 0;
        }
        match kind {
            Kind::Answer => self.outbox.extend_from_slice(bytes),
            Kind::Notice => {
                self.outbox.extend_from_slice(bytes);
                self.unread += bytes.len();
                self.unread_new += bytes.len();
            }
            Kind::End => {
                if self.is_websocket() {
                    self.outbox.extend_from_slice(bytes);
                }
                self.stage = Stage::Closing { since: now };
            }
        }
    }

    /// Writes what waits, then what the rings hold for this connection, until the socket takes no more.
    pub fn flush(&mut self, app: &mut impl Application, now: u64) {
        while self.writable && !self.is_finished() {
            if self.pending() == 0 && !self.refill(app, now) {
                break;
            }
            match self.stream.write(&self.outbox[self.written..]) {
                Ok(0) => self.stage = Stage::Gone,
                Ok(n) => {
                    self.written += n;
                    self.unread = self.unread.saturating_sub(n);
                    if let Stage::Closing { since } = &mut self.stage {
                        *since = now;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.stage = Stage::Gone,
            }
        }
        // Only what it has had a turn's time to read counts against it, and only when there is more.
        let unread_new = std::mem::take(&mut self.unread_new);
        if unread_new > 0 && self.unread.saturating_sub(unread_new) > UNREAD_BYTES {
            debug!(id = ?self.id, "closed: notices are not being read");
            self.close(CloseCode::TryAgainLater, "too slow: notices are not being read", now);
        }
    }

    /// Finds something to write when all has been written; `false` when there is nothing.
    fn refill(&mut self, app: &mut impl Application, now: u64) -> bool {
        self.outbox.clear();
        self.outbox.shrink_to(OUTBOX_BYTES);
        (self.written, self.unread) = (0, 0);
        if let Stage::Closing { .. } = self.stage {
            drop(self.stream.shutdown(Shutdown::Write));
            self.stage = if self.at_end { Stage::Gone } else { Stage::Lingering { since: now } };
            return false;
        }
        if let Protocol::WebSocket(_) = self.protocol
            && let Err(Closing { code, reason }) = app.pump(self.id, &mut self.outbox, PUMP_BYTES)
        {
            self.close(code, &reason, now);
        }
        self.pending() > 0
    }

    fn close(&mut self, code: CloseCode, reason: &str, now: u64) {
        if let Stage::Open = self.stage {
            write_close(&mut self.outbox, code, reason);
            self.stage = Stage::Closing { since: now };
        }
    }

    /// Ends what has been silent or unfinished for too long.
    pub fn sweep(&mut self, notices: &mut Notices, now: u64) {
        match self.stage {
            Stage::Open => {}
            Stage::Closing { since } if now <= since + UNFINISHED_NS => return,
            Stage::Lingering { since } if now <= since + LINGER_NS => return,
            _ => {
                self.stage = Stage::Gone;
                return;
            }
        }
        if self.has_left_over || !self.has_room() {
            // It may have sent the rest long ago: it is us who do not read.
            self.unfinished_since = self.unfinished_since.map(|_| now);
        }
        let idle = if self.is_websocket() { IDLE_NS } else { KEEP_ALIVE_NS };
        if self.unfinished_since.is_some_and(|since| now > since + UNFINISHED_NS) {
            notices.close(self.id, CloseCode::Policy, "not finished within 5 s");
        } else if now > self.heard_ns + idle {
            notices.close(self.id, CloseCode::Policy, "nothing heard for too long");
        }
    }
}

/// Names under which clients with built-in hosts reach a venue through a hosts file.
const OUR_NAMES: &[&str] = &["test.deribit.com", "www.deribit.com", "pitwire.local"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{HttpRequest, HttpResponse};

    /// Answers nothing, and publishes nothing.
    struct Mute;

    impl Application for Mute {
        fn request(&mut self, _: &HttpRequest<'_>, _: &mut Notices) -> HttpResponse {
            HttpResponse::text(200, "")
        }
        fn accepts_websocket(&self, _: &str) -> bool {
            true
        }
        fn connected(&mut self, _: ConnectionId) {}
        fn text(&mut self, _: ConnectionId, _: &str, _: &mut Notices) {}
        fn disconnected(&mut self, _: ConnectionId, _: &mut Notices) {}
        fn next_due_ns(&self) -> Option<u64> {
            None
        }
        fn tick(&mut self, _: u64, _: &mut Notices) {}
        fn commit(&mut self) -> io::Result<bool> {
            Ok(false)
        }
        fn pump(&mut self, _: ConnectionId, _: &mut Vec<u8>, _: usize) -> Result<(), Closing> {
            Ok(())
        }
        fn stopping(&mut self) {}
    }

    fn pair() -> (Connection, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        peer.set_nonblocking(true).unwrap();
        let (ours, _) = listener.accept().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut connection = Connection::new(ConnectionId(1), TcpStream::from_std(ours), 0);
        connection.protocol = Protocol::WebSocket(Decoder::new(Limits::default()));
        (connection, peer)
    }

    #[test]
    fn input_is_bounded_however_much_is_sent() {
        let (mut connection, mut peer) = pair();
        let (mut notices, pongs) = (Notices::default(), [0x8A, 0x80, 0, 0, 0, 0].repeat(20_000));
        for _ in 0..200 {
            drop(peer.write(&pongs));
            connection.readable = true;
            connection.read_and_act(&mut Mute, &mut notices, 0);
            assert!(connection.input.len() <= READ_BYTES + 16 * 1024, "{} bytes", connection.input.len());
        }
        // Nor is anything read while the answers to it would find no room.
        connection.has_left_over = false;
        connection.input.clear();
        connection.take(Kind::Answer, &vec![0; OUTBOX_BYTES], 0);
        connection.readable = true;
        connection.read_and_act(&mut Mute, &mut notices, 0);
        assert_eq!(connection.input.len(), 0, "read while its outbox is full");
        assert!(!connection.wants_turn());
    }

    #[test]
    fn an_outbox_that_is_never_quite_empty_does_not_keep_what_was_written() {
        let (mut connection, mut peer) = pair();
        let mut taken = 0;
        for turn in 0..2_000 {
            connection.take(Kind::Answer, &vec![0; 100_000], turn);
            connection.writable = true;
            connection.flush(&mut Mute, turn);
            // The peer keeps some megabytes behind.
            while turn > 200 && connection.pending() > OUTBOX_BYTES {
                taken += peer.read(&mut vec![0; 100_000]).unwrap_or(0);
                connection.writable = true;
                connection.flush(&mut Mute, turn);
                if connection.pending() == 0 {
                    break;
                }
            }
        }
        assert!(taken > 100_000_000);
        assert!(connection.outbox.capacity() < 50_000_000, "{} bytes", connection.outbox.capacity());
    }
}
