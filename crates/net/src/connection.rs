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
use std::net::IpAddr;
use std::os::fd::AsFd as _;

use mio::event::Event;
use pitwire_websocket::{CloseCode, Decoder, Incoming, Opcode, write_close, write_frame};
use tracing::debug;

use crate::application::{Application, Closing, ConnectionId, Refusal, Taken};
use crate::http::{self, HttpResponse, Parsed};
use crate::limits::Limits;
use crate::link::Link;
use crate::notices::{Kind, Notices};
use crate::turn::{Sending, Turn};

/// With this much waiting to be written, a connection's requests wait too.
const OUTBOX_BYTES: usize = 256 * 1024;
/// With this much of what it did not ask for waiting since earlier turns, a connection is closed.
const UNREAD_BYTES: usize = 1024 * 1024;
/// Most requests or frames of one connection in one turn, however long the turn.
const FRAMES_PER_TURN: usize = 128;
/// Most of them before the others have had as many: one that asks a lot must not be a wall before the rest.
const FRAMES_AT_A_TIME: usize = 8;
/// The same of one that has waited with more: so often is looked up from it.
const FRAMES_OF_A_FLOOD: usize = 2;
/// How much is taken from the rings at a time.
const PUMP_BYTES: usize = 64 * 1024;
/// A hundred orders; more at a time would make the others wait for the copying.
pub(crate) const READ_BYTES: usize = 16 * 1024;
const LINGER_NS: u64 = 2_000_000_000;

enum Protocol {
    Http,
    WebSocket(Box<Decoder>),
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
    pub link: Link,
    /// On the server's list for this turn or the next.
    pub is_listed: bool,
    /// It was its turn in this turn of the loop.
    pub is_served: bool,
    /// The address among whose connections it counts.
    pub counted: Option<IpAddr>,
    /// Its address has as many as it may: it is answered what anybody may ask, once, and refused all else.
    pub is_extra: bool,
    /// Somebody else has its socket now.
    pub is_given_away: bool,
    protocol: Protocol,
    stage: Stage,
    input: Vec<u8>,
    /// So much of the input has been acted on.
    used: usize,
    /// The input may begin with something complete, left over for want of room or out of fairness.
    has_left_over: bool,
    /// What was read last was more than is acted on at a time; and so much of it has been.
    is_busy: bool,
    acted_on: usize,
    /// Its answers of the last turn have not been written.
    is_held_back: bool,
    /// Something has happened to its socket since it was last written to: no event will tell of that again.
    is_noted: bool,
    /// A request's answer was put off: until it is given nothing more is read or acted on.
    awaits_answer: bool,
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
    /// In this turn: frames acted on, bytes said to it, and requests whose answers are on their way out.
    frames: usize,
    said: usize,
    answers: u32,
    /// When its last read returned.
    read_ns: u64,
    /// Since when the peer has owed us the rest of a request, handshake or message.
    unfinished_since: Option<u64>,
}

/// Whether a socket was given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parting {
    Gone,
    NotYet,
    Stays,
}

/// What acting on the front of the input came to.
struct Step {
    bytes: usize,
    /// It completed a request or a message, not just a part of one.
    is_whole: bool,
}

impl Connection {
    pub fn new(id: ConnectionId, link: Link, counted: Option<IpAddr>, now: u64) -> Self {
        Connection {
            id,
            link,
            is_listed: false,
            is_served: false,
            counted,
            is_extra: false,
            is_given_away: false,
            protocol: Protocol::Http,
            stage: Stage::Open,
            input: Vec::new(),
            used: 0,
            has_left_over: false,
            is_busy: false,
            acted_on: 0,
            is_held_back: false,
            is_noted: false,
            awaits_answer: false,
            outbox: Vec::new(),
            written: 0,
            unread: 0,
            unread_new: 0,
            readable: true,
            writable: true,
            read_closed: false,
            at_end: false,
            heard_ns: now,
            frames: 0,
            said: 0,
            answers: 0,
            read_ns: now,
            unfinished_since: Some(now),
        }
    }

    /// One more than its address may have.
    pub fn extra(id: ConnectionId, link: Link, now: u64) -> Self {
        Connection { is_extra: true, ..Connection::new(id, link, None, now) }
    }

    /// One that is told why it may not come in, and ends.
    pub fn refused(id: ConnectionId, link: Link, response: &HttpResponse, now: u64) -> Self {
        let mut connection = Connection::new(id, link, None, now);
        response.write(&mut connection.outbox, false, false);
        connection.stage = Stage::Closing { since: now };
        connection
    }

    pub fn is_websocket(&self) -> bool {
        matches!(self.protocol, Protocol::WebSocket(_))
    }

    /// Whether it asks more than fits into a turn: something of an earlier one waits, or did until all of it was read.
    pub fn is_busy(&self) -> bool {
        self.has_left_over || self.is_busy
    }

    /// Its answers of this turn leave with the next one's.
    pub fn hold_back(&mut self) {
        // They wait in the outbox now, and the next turn is one of its own.
        (self.frames, self.said) = (0, 0);
        self.is_held_back = true;
    }

    /// Whether something of it was acted on in this turn, and nothing is left over.
    pub fn is_done_with_little(&self) -> bool {
        self.frames > 0 && !self.is_busy()
    }

    /// Whether there is more to act on in this turn, without reading.
    pub fn can_go_on(&self) -> bool {
        matches!(self.stage, Stage::Open) && self.has_left_over && self.frames < FRAMES_PER_TURN && self.has_room()
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
            _ if self.is_held_back || self.is_noted => true,
            Stage::Open => self.has_room() && !self.awaits_answer && (self.has_left_over || self.readable),
            Stage::Lingering { .. } => self.readable,
            Stage::Closing { .. } | Stage::Gone => false,
        }
    }

    fn pending(&self) -> usize {
        self.outbox.len() - self.written
    }

    fn has_room(&self) -> bool {
        self.pending() + self.said < OUTBOX_BYTES
    }

    pub fn note(&mut self, event: &Event) {
        self.is_noted = true;
        self.read_closed |= event.is_read_closed() || event.is_error();
        self.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.writable |= event.is_writable() || event.is_write_closed() || event.is_error();
    }

    /// Acts on some of what this connection has asked; others come before the rest.
    pub fn read_and_act<A: Application>(&mut self, turn: &mut Turn<'_, A>) {
        match self.stage {
            Stage::Open if self.has_room() && !self.awaits_answer => {
                if self.readable && !self.has_left_over {
                    self.read(turn);
                }
                if matches!(self.stage, Stage::Open) {
                    self.act(turn);
                }
            }
            Stage::Lingering { .. } if self.readable => {
                self.read(turn);
                self.input.clear();
                if self.at_end {
                    self.stage = Stage::Gone;
                }
            }
            _ => {}
        }
    }

    fn read<A>(&mut self, turn: &mut Turn<'_, A>) {
        self.forget_used();
        let mut taken = 0;
        while taken < READ_BYTES {
            match self.link.read(turn.buffer) {
                Ok(0) => {
                    (self.readable, self.at_end) = (false, true);
                    return;
                }
                Ok(n) => {
                    self.read_ns = turn.clock.monotonic_ns();
                    self.input.extend_from_slice(&turn.buffer[..n]);
                    self.heard_ns = turn.now;
                    turn.had_input = true;
                    taken += self.link.drawn(n);
                    // A short read means the socket is empty: save the call that would say so. Unless the end is
                    // known to follow: no event will tell of it again; or it is a record that was short.
                    if n < turn.buffer.len() && !self.read_closed && !self.link.is_secure() {
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
    fn act<A: Application>(&mut self, turn: &mut Turn<'_, A>) {
        let most = if self.is_busy() { FRAMES_OF_A_FLOOD } else { FRAMES_AT_A_TIME };
        self.has_left_over = false;
        if self.used < self.input.len() {
            let input = std::mem::take(&mut self.input);
            self.used += self.act_on(&input[self.used..], most, turn);
            self.input = input;
            if !self.has_left_over {
                self.forget_used();
            }
        }
        if self.at_end && !self.has_left_over && !self.awaits_answer {
            turn.notices.end(self.id);
        }
    }

    fn act_on<A: Application>(&mut self, input: &[u8], most: usize, turn: &mut Turn<'_, A>) -> usize {
        let (mut used, mut frames, mut completed) = (0, 0, false);
        while used < input.len() && !self.awaits_answer && !self.is_gone() && !turn.notices.is_ending(self.id) {
            if frames == most || !self.has_room() {
                self.has_left_over = true;
                break;
            }
            let said_before = turn.notices.bytes();
            let step = match self.protocol {
                Protocol::Http => self.act_on_http(&input[used..], turn),
                Protocol::WebSocket(_) => self.act_on_websocket(&input[used..], turn),
            };
            self.said += turn.notices.bytes() - said_before;
            let Some(Step { bytes, is_whole }) = step else { break };
            used += bytes;
            frames += 1;
            completed |= is_whole;
        }
        self.frames += frames;
        self.acted_on += frames;
        // Whoever asks little from here on is found out when all of that has been acted on.
        self.is_busy = self.acted_on > FRAMES_AT_A_TIME;
        if !self.has_left_over {
            self.acted_on = 0;
        }
        if turn.notices.is_ending(self.id) || self.is_gone() {
            self.has_left_over = false;
            return input.len();
        }
        let unfinished = matches!(&self.protocol, Protocol::WebSocket(decoder) if decoder.is_unfinished());
        let owes = !self.has_left_over && !self.awaits_answer && (used < input.len() || unfinished);
        let since = self.unfinished_since.filter(|_| !completed);
        self.unfinished_since = owes.then(|| since.unwrap_or(turn.now));
        used
    }

    /// Makes room for what is read next. A large buffer is not kept for nothing.
    fn forget_used(&mut self) {
        self.input.drain(..self.used);
        self.used = 0;
        if self.input.is_empty() {
            self.input.shrink_to(READ_BYTES);
        }
        if let Protocol::WebSocket(decoder) = &mut self.protocol {
            decoder.forget();
        }
    }

    fn act_on_http<A: Application>(&mut self, input: &[u8], turn: &mut Turn<'_, A>) -> Option<Step> {
        let Turn { app, notices, doors, limits, .. } = turn;
        let (mut request, bytes) = match http::parse(input) {
            Parsed::NeedMore => return None,
            Parsed::Refuse(response) => {
                notices.answer(self.id, |out| response.write(out, false, false));
                notices.end(self.id);
                return None;
            }
            Parsed::Request { request, bytes } => (request, bytes),
        };
        (request.from, request.connection) = (self.counted, self.id);
        let done = Some(Step { bytes, is_whole: true });
        if self.is_extra {
            request.keep_alive = false;
            if request.is_upgrade() || !app.answers_anybody(&request) {
                let refusal = app.refusal(Refusal::TooManyConnections);
                notices.answer(self.id, |out| refusal.write(out, false, request.method == "HEAD"));
                notices.end(self.id);
                return done;
            }
        }
        let checked = doors.judge(&mut request).map_err(|refusal| app.refusal(refusal));
        if request.is_upgrade() && app.takes_over(&request) {
            let is_foreign = request.is_foreign;
            let judged = checked.and(if is_foreign { Err(app.refusal(Refusal::ForeignOrigin)) } else { Ok(()) });
            // Answers to earlier requests would have to leave before the handshake's: nobody sends it so.
            let is_quiet = self.outbox.len() == self.written && self.said == 0 && self.link.is_drained();
            let taken = judged.and_then(|()| request.upgrade_response()).and_then(|handshake| {
                let socket = self.link.stream.as_fd().try_clone_to_owned().ok().filter(|_| is_quiet);
                let socket = socket.ok_or_else(|| HttpResponse::text(503, "connect again, and send nothing before"))?;
                let rest = [&input[bytes..], self.link.decrypted()].concat();
                let session = self.link.take_session();
                let mut taken = Some(Taken { socket: socket.into(), session, handshake, rest });
                let told = app.take_over(&request, &mut taken);
                self.link.give_session(taken.and_then(|left| left.session));
                told
            });
            match taken {
                Ok(()) => self.stage = Stage::Gone,
                Err(response) => {
                    notices.answer(self.id, |out| response.write(out, false, false));
                    notices.end(self.id);
                }
            }
            return done;
        }
        if request.is_upgrade() && app.accepts_websocket(request.path()) {
            let own = if request.is_foreign { Err(app.refusal(Refusal::ForeignOrigin)) } else { Ok(()) };
            let taken = checked.and(own).and_then(|()| app.refuses_handshake(&request).map_or(Ok(()), Err));
            match taken.and_then(|()| request.upgrade_response()) {
                Ok(response) => {
                    notices.answer(self.id, |out| out.extend_from_slice(&response));
                    self.protocol = Protocol::WebSocket(Box::new(Decoder::new(limits.messages)));
                    app.connected(self.id, self.counted);
                    app.opened(self.id, request.target, notices);
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
        if response.is_later() {
            self.awaits_answer = true;
            return done;
        }
        notices.answer(self.id, |out| response.write(out, request.keep_alive, request.method == "HEAD"));
        if !request.keep_alive {
            notices.end(self.id);
        }
        done
    }

    fn act_on_websocket<A: Application>(&mut self, input: &[u8], turn: &mut Turn<'_, A>) -> Option<Step> {
        let Turn { app, notices, .. } = turn;
        let Protocol::WebSocket(decoder) = &mut self.protocol else { return None };
        let (bytes, incoming) = match decoder.decode(input) {
            Ok((0, _)) => return None,
            Ok(decoded) => decoded,
            Err(error) => {
                notices.close(self.id, error.code, error.reason);
                return None;
            }
        };
        let is_control = !matches!(incoming, None | Some(Incoming::Text(_) | Incoming::Binary(_)));
        let is_message = matches!(incoming, Some(Incoming::Text(_)));
        match incoming {
            None | Some(Incoming::Pong) => {}
            Some(Incoming::Text(text)) => {
                self.answers += 1;
                app.text(self.id, text, notices);
            }
            Some(Incoming::Ping(body)) => notices.answer(self.id, |out| write_frame(out, Opcode::Pong, body)),
            Some(Incoming::Binary(_)) => notices.close(self.id, CloseCode::Unsupported, "send JSON as text frames"),
            Some(Incoming::Close(code)) => notices.echo_close(self.id, code),
        }
        // Pings in between do not finish a fragmented message.
        let is_whole = is_message || (is_control && !decoder.is_mid_message());
        Some(Step { bytes, is_whole })
    }

    /// Gives an open WebSocket's socket away, if it stands between messages and all that was said to it is written.
    pub fn give_away<A: Application>(&mut self, app: &mut A) -> Parting {
        let Protocol::WebSocket(decoder) = &self.protocol else { return Parting::Stays };
        if !matches!(self.stage, Stage::Open) || self.at_end {
            return Parting::Stays;
        }
        let is_quiet = self.pending() == 0 && self.link.is_drained() && !decoder.is_unfinished();
        if !is_quiet {
            return Parting::NotYet;
        }
        let Ok(socket) = self.link.stream.as_fd().try_clone_to_owned() else { return Parting::NotYet };
        if !app.may_leave(self.id) {
            return Parting::Stays;
        }
        let rest = [self.input.get(self.used..).unwrap_or_default(), self.link.decrypted()].concat();
        let session = self.link.take_session();
        self.stage = Stage::Gone;
        self.is_given_away = true;
        app.take_open(self.id, Taken { socket: socket.into(), session, handshake: Vec::new(), rest });
        Parting::Gone
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
            Kind::Late => {
                self.outbox.extend_from_slice(bytes);
                self.awaits_answer = false;
                // What came behind the request, if only its end, is next.
                self.has_left_over = self.used < self.input.len() || self.at_end;
            }
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
    pub fn flush(&mut self, app: &mut impl Application, sending: &Sending<'_>) {
        let now = sending.now;
        (self.frames, self.said) = (0, 0);
        (self.is_held_back, self.is_noted) = (false, false);
        let mut answers = std::mem::take(&mut self.answers);
        while self.writable && !self.is_finished() {
            match self.link.drain() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.writable = false;
                    break;
                }
                Err(_) => {
                    self.stage = Stage::Gone;
                    break;
                }
            }
            if self.pending() == 0 && !self.refill(app, now) {
                break;
            }
            let sent_ns = if answers > 0 { sending.clock.monotonic_ns() } else { 0 };
            let wrote = self.link.write(&self.outbox[self.written..]);
            if answers > 0 {
                app.answered(&sending.residence(std::mem::take(&mut answers), self.read_ns, sent_ns));
            }
            match wrote {
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
            self.link.end();
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
    pub fn sweep(&mut self, notices: &mut Notices, limits: &Limits, now: u64) {
        match self.stage {
            Stage::Open => {}
            Stage::Closing { since } if now <= since + limits.unfinished_ns => return,
            Stage::Lingering { since } if now <= since + LINGER_NS => return,
            _ => {
                self.stage = Stage::Gone;
                return;
            }
        }
        let waits_at_the_door = self.is_listed && self.readable && !self.is_websocket();
        if self.has_left_over || !self.has_room() || waits_at_the_door {
            // It may have sent the rest long ago: it is us who do not read.
            self.unfinished_since = self.unfinished_since.map(|_| now);
        }
        let idle = if self.is_websocket() { limits.idle_ns } else { limits.keep_alive_ns };
        if self.unfinished_since.is_some_and(|since| now > since + limits.unfinished_ns) {
            let reason = format!("not finished within {} s", limits.unfinished_ns / 1_000_000_000);
            notices.close(self.id, CloseCode::Policy, reason);
        } else if now > self.heard_ns + idle {
            notices.close(self.id, CloseCode::Policy, "nothing heard for too long");
        }
    }
}

#[cfg(test)]
mod tests;
