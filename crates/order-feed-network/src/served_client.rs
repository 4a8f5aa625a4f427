//! One client of the recovery port: the bytes that it sent, and the answer that it gets.
//!
//! Holds       1. a request is read after the answer to the one before was sent, so a client has at
//!                most one answer, and [`ServedClient::input`] at most one request and one receive;
//!             2. a client has [`LOGIN_PATIENCE`] to log in and to finish a request that it began,
//!                and a patience to read each [`SEND_BYTES`] of an answer.
//! Leaves out  the answers to requests: see `recovery_server`.
//! Start at    [`ServedClient`].

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pitwire_net::event_loop::{EventLoop, PARTS_MAX, ReceiveOutcome, SendOutcome, Token};

pub(crate) const LOGIN_PATIENCE: Duration = Duration::from_secs(5);
/// Delay of an answer above a limit, so that a flood of requests does not keep the thread busy.
const LIMIT_PAUSE: Duration = Duration::from_millis(50);
/// Bytes of an answer that a client must read within its patience. Most bytes of one turn.
const SEND_BYTES: usize = 64 * 1024;

/// An answer. Clients share its large parts.
pub(crate) struct Answer {
    parts: VecDeque<Arc<[u8]>>,
    /// Bytes of the first part that were sent.
    sent: usize,
    is_snapshot: bool,
}

impl Answer {
    pub fn message(bytes: Vec<u8>) -> Answer {
        Answer { parts: [bytes.into()].into(), sent: 0, is_snapshot: false }
    }

    /// Adds shared parts.
    pub fn with(mut self, parts: Vec<Arc<[u8]>>) -> Answer {
        self.parts.extend(parts);
        self
    }

    pub fn snapshot(bytes: Arc<[u8]>) -> Answer {
        Answer { parts: [bytes].into(), sent: 0, is_snapshot: true }
    }

    /// Returns the next parts to send, with at most `most` bytes.
    fn front(&self, mut most: usize) -> Vec<&[u8]> {
        let mut sent = self.sent;
        let parts = self.parts.iter().take(PARTS_MAX).map(|part| {
            let rest = part.get(std::mem::take(&mut sent)..).unwrap_or_default();
            let rest = &rest[..rest.len().min(most)];
            most -= rest.len();
            rest
        });
        parts.take_while(|part| !part.is_empty()).collect()
    }

    fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
        while let Some(part) = self.parts.front()
            && self.sent >= part.len()
        {
            self.sent -= part.len();
            self.parts.pop_front();
        }
    }
}

/// What follows a request.
pub(crate) enum Reply {
    Now(Answer),
    /// The request is above a limit: the answer leaves after [`LIMIT_PAUSE`].
    Limited(Answer),
    Close,
}

/// What happens next on a connection.
enum Stage {
    /// The login has to arrive.
    Login,
    /// A request may arrive.
    Request,
    /// The answer waits for its time.
    Pause(Answer),
    /// The answer is being sent. The client has to read the given number of bytes until the
    /// deadline.
    Answer(Answer, usize),
    /// Everything is sent. The client has to close the connection.
    End,
}

pub(crate) struct ServedClient {
    token: Token,
    /// Address of the client, in its IPv4 form if it has one.
    pub address: IpAddr,
    /// Bytes of the next request.
    pub input: Vec<u8>,
    stage: Stage,
    deadline: Option<Instant>,
    /// Whether the socket may have input, or room for output.
    is_ready: bool,
    send_patience: Duration,
}

impl ServedClient {
    pub fn new(token: Token, address: IpAddr, send_patience: Duration, now: Instant) -> ServedClient {
        let deadline = Some(now + LOGIN_PATIENCE);
        ServedClient { token, address, input: Vec::new(), stage: Stage::Login, deadline, is_ready: true, send_patience }
    }

    /// Notes that the socket may have input, or room for output.
    pub fn wake(&mut self) {
        self.is_ready = true;
    }

    /// Returns when the client is served next. `None` if it waits for its socket.
    pub fn due_at(&self, now: Instant) -> Option<Instant> {
        if self.is_ready { Some(now) } else { self.deadline }
    }

    pub fn is_logging_in(&self) -> bool {
        matches!(self.stage, Stage::Login)
    }

    pub fn awaits_request(&self) -> bool {
        matches!(self.stage, Stage::Login | Stage::Request)
    }

    /// Whether a snapshot is being sent.
    pub fn reads_snapshot(&self) -> bool {
        matches!(&self.stage, Stage::Answer(answer, _) if answer.is_snapshot)
    }

    /// Whether an answer was sent whole.
    pub fn is_answered(&self) -> bool {
        matches!(&self.stage, Stage::Answer(answer, _) if answer.parts.is_empty())
    }

    /// Acts on the deadline, if it has passed. Returns false if the connection ends.
    ///
    /// # Errors
    ///
    /// Fails with [`io::ErrorKind::TimedOut`] if the client is late.
    pub fn check_deadline(&mut self, now: Instant) -> io::Result<bool> {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return Ok(true);
        }
        match std::mem::replace(&mut self.stage, Stage::End) {
            Stage::Login => Err(late("the login did not arrive")),
            Stage::Request => Err(late("a request did not arrive whole")),
            Stage::Pause(answer) => {
                self.send(answer, now);
                Ok(true)
            }
            Stage::Answer(..) => Err(late("the client does not read")),
            Stage::End => Ok(false),
        }
    }

    /// Receives bytes of a request. Returns false if the client closed the connection between
    /// requests.
    ///
    /// # Errors
    ///
    /// Fails if the connection is broken, or ends within a request.
    pub fn receive(&mut self, net: &mut dyn EventLoop, now: Instant) -> io::Result<bool> {
        match net.receive(self.token) {
            ReceiveOutcome::Bytes(bytes) => {
                self.input.extend_from_slice(bytes);
                // A login has had its time since the client connected.
                self.deadline.get_or_insert(now + LOGIN_PATIENCE);
            }
            ReceiveOutcome::Pending => self.is_ready = false,
            ReceiveOutcome::Ended if self.input.is_empty() => return Ok(false),
            ReceiveOutcome::Ended => return Err(io::ErrorKind::UnexpectedEof.into()),
            ReceiveOutcome::Failed => return Err(io::ErrorKind::ConnectionReset.into()),
        }
        Ok(true)
    }

    /// Starts an answer. Returns false if the connection ends.
    pub fn reply(&mut self, reply: Reply, now: Instant) -> bool {
        match reply {
            Reply::Now(answer) => self.send(answer, now),
            Reply::Limited(answer) => {
                (self.stage, self.deadline) = (Stage::Pause(answer), Some(now + LIMIT_PAUSE));
            }
            Reply::Close => return false,
        }
        true
    }

    fn send(&mut self, answer: Answer, now: Instant) {
        (self.stage, self.deadline) = (Stage::Answer(answer, SEND_BYTES), Some(now + self.send_patience));
        self.is_ready = true;
    }

    /// Sends a part of the answer. After the last answer, reads until the client closes the
    /// connection. Returns false if it ends.
    ///
    /// # Errors
    ///
    /// Fails if the connection is broken.
    pub fn go_on(&mut self, net: &mut dyn EventLoop, now: Instant) -> io::Result<bool> {
        match &mut self.stage {
            Stage::Login | Stage::Request => {}
            Stage::Pause(_) => self.is_ready = false,
            Stage::Answer(answer, left) => {
                let front = answer.front(*left);
                let offered: usize = front.iter().map(|part| part.len()).sum();
                let sent = match net.send(self.token, &front) {
                    SendOutcome::Bytes(sent) => sent,
                    SendOutcome::Blocked => 0,
                    SendOutcome::Failed => return Err(io::ErrorKind::ConnectionReset.into()),
                };
                self.is_ready = sent == offered;
                answer.advance(sent);
                *left -= sent;
                if *left == 0 {
                    (*left, self.deadline) = (SEND_BYTES, Some(now + self.send_patience));
                }
            }
            Stage::End => match net.receive(self.token) {
                ReceiveOutcome::Bytes(_) => {}
                ReceiveOutcome::Pending => self.is_ready = false,
                ReceiveOutcome::Ended | ReceiveOutcome::Failed => return Ok(false),
            },
        }
        Ok(true)
    }

    /// Waits for the next request. Its deadline begins with its first byte, which may be here.
    pub fn await_request(&mut self, now: Instant) {
        self.deadline = (!self.input.is_empty()).then_some(now + LOGIN_PATIENCE);
        self.stage = Stage::Request;
    }

    /// Sends the end of the stream and waits until the client closes the connection. A socket that
    /// is closed with unread heartbeats in it resets the connection, and the client would lose the
    /// end of the snapshot. A client that keeps the connection open longer is closed.
    pub fn end(&mut self, net: &mut dyn EventLoop, now: Instant) {
        net.shutdown(self.token);
        (self.stage, self.deadline) = (Stage::End, Some(now + LOGIN_PATIENCE));
    }

    pub fn close(self, net: &mut dyn EventLoop) {
        net.close(self.token);
    }
}

pub(crate) fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn late(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}
