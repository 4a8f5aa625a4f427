//! What goes over an open connection, both ways.
//!
//! Does        one read for each event; frames out of it; pongs, closes, heartbeats and echoes back.
//! Start at    [`Worker::read`].

use pitwire_websocket::{Inflater, Opcode, Violation, close_body, write_masked};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::doors::NO_CLOSE;
use super::{MOST_SENDS, READING, Worker};
use crate::clock::mono_ns;
use crate::connection::{Connection, Phase};
use crate::echo;
use crate::frames::{LONG_BYTES, LOOK_BYTES, Piece};
use crate::gauge::Gauge;
use crate::plan::{Reader, Traffic};
use crate::refusal::Refusal;
use crate::stamp;

/// Of a fragmented message at most so much is kept to be looked at.
const MOST_MESSAGE_BYTES: usize = 16 << 20;
const HEARTBEAT: &[u8] = b"heartbeat";
/// Reads of one connection in one go.
const MOST_READS: usize = 16;
/// Close frames of ours.
const NORMAL: u16 = 1000;
/// A close frame of the server's without a code.
const NO_CODE: u16 = 1005;

/// No server looks back further, whatever window it chose.
const WINDOW_BITS: u8 = 15;

/// One thread's, for all its connections: servers keep nothing from message to message.
pub(super) struct Inflation {
    state: Inflater,
    message: Vec<u8>,
}

impl Inflation {
    pub(super) fn new() -> Self {
        Inflation { state: Inflater::new(WINDOW_BITS), message: Vec::new() }
    }

    fn whole(&mut self, payload: &[u8]) -> Result<&[u8], Violation> {
        self.message.clear();
        self.state.inflate_whole(payload, &mut self.message, MOST_MESSAGE_BYTES)?;
        Ok(&self.message)
    }
}

/// What a read makes us say.
#[derive(Default)]
struct Replies {
    pongs: Vec<Vec<u8>>,
    close: Option<u16>,
}

impl Worker<'_> {
    /// Reads all there is: the kernel tells of it once. When it has told of the end, a short read is not the last one.
    pub(super) fn read_all(&mut self, place: u32, to_end: bool) {
        for _ in 0..MOST_READS {
            let reads = self.gauge.report.tally.reads;
            let is_full = self.read(place, usize::MAX);
            let has_read = self.gauge.report.tally.reads > reads;
            if !(is_full || to_end && has_read) {
                return;
            }
        }
        // Others wait; the kernel is asked to tell of the rest again.
        self.interest(place, READING);
    }

    /// HOT. Reads once, at most so many bytes; returns whether there may be more.
    pub(super) fn read(&mut self, place: u32, most: usize) -> bool {
        let Some(one) = self.connections.get_mut(place as usize) else { return false };
        let Some(socket) = &one.socket else { return false };
        let is_secure = self.plan.tls.is_some();
        let kept = match &mut one.extra {
            Some(extra) if !is_secure && !extra.kept.is_empty() => {
                let kept = extra.kept.len();
                if kept + super::BUFFER_BYTES / 2 > self.buffer.len() {
                    self.buffer.resize(kept + super::BUFFER_BYTES, 0);
                }
                self.buffer[..kept].copy_from_slice(&extra.kept);
                kept
            }
            _ => 0,
        };
        let until = kept.saturating_add(most).min(self.buffer.len());
        let into = &mut self.buffer[kept..until];
        let received = match is_stamped(place, one.phase) {
            true => stamp::receive(socket, into),
            false => recv(socket, into, RecvFlags::empty()).map(|(_, bytes)| (bytes, None)),
        };
        let received = match received {
            Ok((bytes, came_ns)) => {
                self.gauge.came_ns = came_ns.map(|came_ns| came_ns - self.gauge.wall_ns);
                bytes
            }
            Err(Errno::AGAIN) => return false,
            Err(Errno::INTR) => return true,
            Err(error) => {
                self.broken(place, Some(error));
                return false;
            }
        };
        if received == 0 {
            self.broken(place, None);
            return false;
        }
        let may_be_more = kept + received == until;
        self.gauge.report.tally.reads += 1;
        // Not the time of the whole batch of events: what waited behind others here has waited.
        self.now_ns = mono_ns();
        if is_secure {
            self.decrypt(place, received);
            return may_be_more;
        }
        let buffer = std::mem::take(&mut self.buffer);
        self.understand(place, &buffer[..kept + received]);
        self.buffer = buffer;
        may_be_more
    }

    fn decrypt(&mut self, place: u32, received: usize) {
        let Some(one) = self.connections.get_mut(place as usize) else { return };
        let Some(extra) = &mut one.extra else { return };
        let Some(session) = &mut extra.tls else { return };
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        plain.extend_from_slice(&extra.kept);
        let was_handshaking = session.is_handshaking();
        let done = session.receive(&self.buffer[..received], &mut plain);
        let is_open_now = was_handshaking && !session.is_handshaking();
        if let Err(error) = done {
            let refusal = match &error {
                rustls::Error::InvalidCertificate(cause) => Refusal::Untrusted(cause.to_string()),
                error => Refusal::Tls(error.to_string()),
            };
            if one.is_open() {
                self.gauge.report.breach(&error.to_string());
                self.ended(place, NO_CLOSE);
            } else {
                // The alert that tells the server.
                self.send(place, &[]);
                self.refused(place, refusal);
            }
        } else {
            // What the protocol itself has to say goes first.
            self.send(place, &[]);
            if is_open_now {
                self.request(place);
            }
            self.understand(place, &plain);
        }
        self.plain = plain;
    }

    /// Takes what can be understood from the front of `bytes`, and keeps the rest for the next read.
    fn understand(&mut self, place: u32, bytes: &[u8]) {
        let Some(one) = self.connections.get_mut(place as usize) else { return };
        let mut at = 0;
        if one.phase == Phase::Opening {
            match self.opening.judge(bytes) {
                Ok(Some(opened)) => {
                    at = opened.head_bytes;
                    self.opened(place, opened.is_compressed);
                }
                Ok(None) => {}
                Err(unopened) => return self.refused(place, unopened.into()),
            }
        }
        let Some(one) = self.connections.get_mut(place as usize) else { return };
        let mut replies = Replies::default();
        if one.is_open() {
            let inflation = self.inflation.as_mut();
            match take(one, &bytes[at..], &mut self.gauge, inflation, self.now_ns, &mut replies) {
                Ok(used) => at += used,
                Err(violation) => {
                    self.gauge.report.breach(&violation.to_string());
                    self.close(place, violation.close_code());
                    return self.ended(place, NO_CLOSE);
                }
            }
        }
        keep(one, &bytes[at..]);
        for body in replies.pongs {
            self.send_frame(place, Opcode::Pong, &body);
        }
        if let Some(code) = replies.close {
            self.close(place, NORMAL);
            self.ended(place, code);
        }
    }

    /// The server is gone.
    fn broken(&mut self, place: u32, error: Option<Errno>) {
        let Some(one) = self.connections.get(place as usize) else { return };
        match (one.phase, error) {
            (Phase::Open, _) => self.ended(place, NO_CLOSE),
            (Phase::Absent, _) => {}
            (_, None | Some(Errno::CONNRESET | Errno::PIPE)) => self.refused(place, Refusal::Ended),
            (_, Some(error)) => {
                let cause = std::io::Error::from(error);
                self.refused(place, Refusal::Connect(format!("{}: {cause}", self.plan.server)));
            }
        }
    }

    /// Sends what is due.
    pub(super) fn send_due(&mut self) {
        let (start_ns, end_ns) = (self.gauge.start_ns, self.gauge.end_ns);
        if start_ns == i64::MAX {
            return;
        }
        for _ in 0..MOST_SENDS {
            let Some(sending) = &mut self.sending else { return };
            let due_ns = start_ns.saturating_add(sending.due_ns());
            if due_ns >= end_ns {
                return;
            }
            if due_ns > self.now_ns {
                return self.set_timer(due_ns);
            }
            let place = sending.take();
            self.say(place, due_ns);
        }
    }

    fn say(&mut self, place: u32, due_ns: i64) {
        let Some(one) = self.connections.get_mut(place as usize) else { return };
        if !one.is_open() {
            self.gauge.report.tally.unsent += 1;
            return;
        }
        if one.reader == Reader::Stopped {
            return;
        }
        match self.plan.traffic {
            Traffic::Listen => {}
            Traffic::Heartbeat { expect, .. } => {
                self.gauge.asked(&mut one.extra, due_ns, expect.messages);
                self.send_text(place, HEARTBEAT);
            }
            Traffic::Echo { bytes } => {
                self.gauge.asked(&mut one.extra, due_ns, 1);
                let extra = one.extra.get_or_insert_default();
                let text = echo::text(extra.echo_sent, bytes as usize);
                extra.echo_sent += 1;
                self.send_text(place, &text);
            }
        }
    }

    pub(super) fn send_text(&mut self, place: u32, text: &[u8]) {
        self.send_frame(place, Opcode::Text, text);
    }

    fn close(&mut self, place: u32, code: u16) {
        self.send_frame(place, Opcode::Close, &code.to_be_bytes());
    }

    /// To every server that still listens; nobody waits for an answer.
    pub(super) fn say_goodbye(&mut self) {
        for place in (0_u32..).take(self.connections.len()) {
            if self.connections.get(place as usize).is_some_and(Connection::is_open) {
                self.close(place, NORMAL);
            }
        }
    }

    fn send_frame(&mut self, place: u32, opcode: Opcode, payload: &[u8]) {
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        let [a, b, c, d, ..] = self.random.next().to_ne_bytes();
        write_masked(&mut frame, opcode, payload, [a, b, c, d]);
        self.send(place, &frame);
        self.frame = frame;
    }

    /// Sends, or keeps what the socket does not take. What is wrong with the socket shows when it is read.
    pub(super) fn send(&mut self, place: u32, plain: &[u8]) {
        let Some(one) = self.connections.get_mut(place as usize) else { return };
        let secured = match one.extra.as_mut().and_then(|extra| extra.tls.as_mut()) {
            Some(session) => {
                let mut records = Vec::new();
                if session.send(plain, &mut records).is_err() {
                    return;
                }
                Some(records)
            }
            None => None,
        };
        let bytes = secured.as_deref().unwrap_or(plain);
        let waits = one.extra.as_ref().is_some_and(|extra| !extra.unsent.is_empty());
        let sent = match &one.socket {
            Some(socket) if !waits && !bytes.is_empty() => send(socket, bytes, SendFlags::NOSIGNAL).unwrap_or(0),
            _ => 0,
        };
        let rest = bytes.get(sent..).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        one.extra.get_or_insert_default().unsent.extend_from_slice(rest);
        if !waits {
            let reads = one.reader == Reader::Healthy || one.phase != Phase::Open;
            self.interest(
                place,
                if reads { READING | EventFlags::OUT } else { EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET },
            );
        }
    }

    /// The socket takes more.
    pub(super) fn flush(&mut self, place: u32) {
        let Some(one) = self.connections.get_mut(place as usize) else { return };
        let reads = one.reader == Reader::Healthy || one.phase != Phase::Open;
        let (Some(socket), Some(extra)) = (&one.socket, &mut one.extra) else { return };
        let sent = send(socket, &extra.unsent, SendFlags::NOSIGNAL).unwrap_or(0);
        extra.unsent.drain(..sent);
        if extra.unsent.is_empty() {
            self.interest(place, if reads { READING } else { EventFlags::RDHUP | EventFlags::ET });
        }
    }
}

/// Whether the kernel notes when something comes to a connection.
pub(super) fn is_stamped(place: u32, phase: Phase) -> bool {
    phase == Phase::Open && place.is_multiple_of(stamp::EVERY)
}

fn keep(one: &mut Connection, rest: &[u8]) {
    match &mut one.extra {
        Some(extra) => {
            extra.kept.clear();
            if rest.is_empty() {
                // Most connections keep nothing most of the time, and there are very many.
                extra.kept = Vec::new();
            } else {
                extra.kept.extend_from_slice(rest);
            }
        }
        None if rest.is_empty() => {}
        None => one.extra.get_or_insert_default().kept.extend_from_slice(rest),
    }
}

/// HOT. Every whole frame at the front of `bytes`; returns how many bytes those are.
fn take(
    one: &mut Connection,
    bytes: &[u8],
    gauge: &mut Gauge,
    mut inflation: Option<&mut Inflation>,
    now_ns: i64,
    replies: &mut Replies,
) -> Result<usize, Violation> {
    let mut at = 0;
    loop {
        let (used, piece) = one.frames.take(&bytes[at..])?;
        at += used;
        match piece {
            None if used == 0 => return Ok(at),
            None => {}
            Some(Piece::Message { payload, bytes, is_whole, is_compressed: false }) => {
                begun(one, gauge, payload, bytes);
                if is_whole {
                    gauge.ended(one, now_ns);
                }
            }
            Some(Piece::Ended) => gauge.ended(one, now_ns),
            Some(Piece::Message { payload, .. }) => inflated(one, gauge, inflation.as_deref_mut(), payload, now_ns)?,
            Some(Piece::Fragment { payload, begins, ends, is_compressed }) => {
                let extra = one.extra.get_or_insert_default();
                if begins {
                    extra.message.clear();
                    extra.is_compressed = is_compressed;
                }
                if extra.message.len() + payload.len() > MOST_MESSAGE_BYTES {
                    return Err(Violation::MessageTooLong);
                }
                extra.message.extend_from_slice(payload);
                if ends {
                    let message = std::mem::take(&mut extra.message);
                    if extra.is_compressed {
                        inflated(one, gauge, inflation.as_deref_mut(), &message, now_ns)?;
                    } else {
                        begun(one, gauge, &message, u32::try_from(message.len()).unwrap_or(u32::MAX));
                        gauge.ended(one, now_ns);
                    }
                }
            }
            Some(Piece::Ping(body)) => replies.pongs.push(body.to_vec()),
            Some(Piece::Pong) => {}
            Some(Piece::Close(body)) => {
                replies.close = Some(close_body(body)?.0.unwrap_or(NO_CODE));
                return Ok(bytes.len());
            }
        }
    }
}

/// Of a long message only the beginning is looked at, however much of it has come.
#[inline]
fn begun(one: &mut Connection, gauge: &mut Gauge, payload: &[u8], bytes: u32) {
    let head = if bytes >= LONG_BYTES { payload.get(..LOOK_BYTES).unwrap_or(payload) } else { payload };
    gauge.begun(one, head, bytes);
}

fn inflated(
    one: &mut Connection,
    gauge: &mut Gauge,
    inflation: Option<&mut Inflation>,
    payload: &[u8],
    now_ns: i64,
) -> Result<(), Violation> {
    let Some(inflation) = inflation else {
        return Err(Violation::ReservedBits);
    };
    let message = inflation.whole(payload)?;
    begun(one, gauge, message, u32::try_from(message.len()).unwrap_or(u32::MAX));
    gauge.ended(one, now_ns);
    Ok(())
}
