//! What a hall asks of whoever runs it, and what it is told.
//!
//! Start at    [`Programme`].

use std::net::IpAddr;
use std::sync::Arc;

use pitwire_websocket::{CloseCode, Opcode, head};

use pitwire_delivery::FrameHeader;
use pitwire_delivery::StreamId;

/// Names one connection for as long as it lives. Chosen by who hands a socket over; of those that a hall accepts itself,
/// the top bit is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// One HTTP request, while it is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub method: &'a str,
    /// Path and query as sent.
    pub target: &'a str,
    pub from: Option<IpAddr>,
    pub(crate) authorization: Option<&'a str>,
}

impl<'a> Request<'a> {
    pub fn path(&self) -> &'a str {
        self.target.split_once('?').map_or(self.target, |(path, _)| path)
    }

    pub fn query(&self) -> &'a str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    /// The first value of a query's name, as it is spelled.
    pub fn parameter(&self, name: &str) -> Option<&'a str> {
        self.query().split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key == name).then_some(value)
        })
    }

    /// What stands behind `Bearer` in the header, or in the query's `token`.
    pub fn token(&self) -> Option<&'a str> {
        let header = self.authorization.and_then(|text| text.split_once(' '));
        let header = header.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
        header.or_else(|| self.parameter("token"))
    }
}

/// What a subscriber gets.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    pub streams: Vec<StreamId>,
    /// Of the first stream only these keys; all if absent.
    pub keys: Option<Vec<Vec<u8>>>,
    /// Where it was when it left: (epoch, sequence) of the first stream.
    pub from: Option<(u64, u64)>,
    /// Each message inside an object with its channel, epoch and sequence.
    pub enveloped: bool,
    /// Text messages that go before anything of the streams.
    pub first: Vec<Vec<u8>>,
    /// Among whose connections it counts.
    pub account: Option<Arc<str>>,
}

/// An HTTP answer, after which the connection ends.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Vec<u8>,
    pub retry_after_s: Option<u32>,
}

impl Answer {
    pub fn text(status: u16, text: &str) -> Self {
        let body = format!("{text}\n").into_bytes();
        Answer { status, content_type: "text/plain; charset=utf-8", body, retry_after_s: None }
    }

    pub fn new(status: u16, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Answer { status, content_type, body: body.into(), retry_after_s: None }
    }

    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let reason = head::status_words(self.status);
        let head = format!(
            "HTTP/1.1 {} {reason}\r\nConnection: close\r\nContent-Type: {}\r\nContent-Length: {}\r\n\
             X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n",
            self.status,
            self.content_type,
            self.body.len()
        );
        out.extend_from_slice(head.as_bytes());
        match self.status {
            401 => out.extend_from_slice(b"WWW-Authenticate: Bearer\r\n"),
            426 => out.extend_from_slice(b"Sec-WebSocket-Version: 13\r\n"),
            _ => {}
        }
        if let Some(seconds) = self.retry_after_s {
            out.extend_from_slice(format!("Retry-After: {seconds}\r\n").as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.body);
    }
}

/// What a subscriber has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    Text(&'a str),
    Binary(&'a [u8]),
}

/// What a message of so many bytes weighs while it [waits](Reply::wait): one, and one more for each KiB. With 64 of its
/// sender's waiting, nothing more is read from it.
pub fn weight(bytes: usize) -> u32 {
    u32::try_from(1 + bytes / 1024).unwrap_or(u32::MAX)
}

/// What is done about what a subscriber said.
#[derive(Debug, Default)]
pub struct Reply {
    pub(crate) frames: Vec<u8>,
    pub(crate) owed: u32,
    pub(crate) waits: bool,
    pub(crate) joins: Vec<StreamId>,
    pub(crate) leaves: Vec<StreamId>,
    pub(crate) close: Option<(CloseCode, &'static str)>,
}

impl Reply {
    /// Says a text message to it.
    pub fn text(&mut self, payload: &[u8]) {
        self.frame(Opcode::Text, payload);
    }

    pub fn binary(&mut self, payload: &[u8]) {
        self.frame(Opcode::Binary, payload);
    }

    fn frame(&mut self, opcode: Opcode, payload: &[u8]) {
        self.frames.extend_from_slice(FrameHeader::new(opcode, payload.len(), false).as_bytes());
        self.frames.extend_from_slice(payload);
    }

    /// Sends it the hall's one answer, of which it costs nothing to send many.
    pub fn respond(&mut self) {
        self.owed += 1;
    }

    /// What it said is acted on later: until [`Publisher::heard`](crate::Publisher::heard) says that it has been, it weighs
    /// on its sender, and once as much does as may, nothing more is read from there.
    pub fn wait(&mut self) {
        self.waits = true;
    }

    pub fn join(&mut self, stream: StreamId) {
        self.joins.push(stream);
    }

    pub fn leave(&mut self, stream: StreamId) {
        self.leaves.push(stream);
    }

    pub fn close(&mut self, code: CloseCode, reason: &'static str) {
        self.close = Some((code, reason));
    }
}

/// What becomes of a reader that has fallen [behind](Programme::behind).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoOn {
    /// It is told this text message, and then what comes behind number `seq`.
    Told { payload: Vec<u8>, seq: u64 },
    /// The same with whole frames, or none. Should what comes behind `seq` not be in its hall any more, it is asked about again.
    Frames { frames: Vec<u8>, seq: u64 },
    /// Up to number `seq` there is nothing to tell it. It keeps what it has read, and is asked about again when there is
    /// more.
    Same { seq: u64 },
    /// It is closed with 1013.
    Lost,
}

/// What halls serve. Asked on the halls' threads: it must not wait for anything.
pub trait Programme: Send + Sync {
    /// What a WebSocket at this path gets.
    fn open(&self, request: &Request<'_>) -> Result<Opening, Answer>;

    /// A whole message of a subscriber. Whoever cannot say at once what is to be done says it later through the
    /// [`Publisher`](crate::Publisher).
    fn said(&self, from: Tag, said: Said<'_>, reply: &mut Reply) {
        let _ = (from, said, reply);
    }

    /// A reader of a stream whose lag is [`Ask`](crate::LagPolicy::Ask) has fallen behind, and takes something again: the last message
    /// that it has got of it is number `read`. [`Publisher::go_on`](crate::Publisher::go_on) says what becomes of it.
    fn behind(&self, who: Tag, stream: StreamId, read: u64) {
        let _ = (who, stream, read);
    }

    /// A connection has ended.
    fn left(&self, from: Tag) {
        let _ = from;
    }

    /// Answers what is no WebSocket handshake.
    fn http(&self, request: &Request<'_>) -> Answer {
        let _ = request;
        Answer::text(404, "a WebSocket is all there is here")
    }
}
