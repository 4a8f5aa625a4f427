//! The handler that delivery threads call, and the types of its arguments and answers.
//!
//! Start at    [`DeliveryHandler`].

use std::sync::Arc;

use pitwire_net::HttpResponse;
use pitwire_websocket::head::split_target;
use pitwire_websocket::{CloseCode, Opcode};

use pitwire_delivery::FrameHeader;
use pitwire_delivery::StreamId;

/// Identifies a connection while it is open. The caller that hands a socket over chooses it; a
/// delivery thread that accepts a connection itself sets the top bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriberId(pub u64);

/// One HTTP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    pub method: &'a str,
    /// Path and query as sent.
    pub target: &'a str,
    pub(crate) authorization: Option<&'a str>,
}

impl<'a> Request<'a> {
    pub fn path(&self) -> &'a str {
        split_target(self.target).0
    }

    pub fn query(&self) -> &'a str {
        split_target(self.target).1
    }

    /// Returns the first value of a query parameter, undecoded.
    pub fn parameter(&self, name: &str) -> Option<&'a str> {
        self.query().split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key == name).then_some(value)
        })
    }

    /// Returns the token of the `Authorization: Bearer` header, or of the query parameter `token`.
    pub fn token(&self) -> Option<&'a str> {
        let header = self.authorization.and_then(|text| text.split_once(' '));
        let header = header.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
        header.or_else(|| self.parameter("token"))
    }
}

/// The streams and messages of a new subscriber.
#[derive(Clone, Debug, Default)]
pub struct SubscriberSetup {
    pub streams: Vec<StreamId>,
    /// Keys of the first stream that it gets; all of them if absent.
    pub keys: Option<Vec<Vec<u8>>>,
    /// Epoch and number of the last message of the first stream that it received before.
    pub from: Option<(u64, u64)>,
    /// Whether each message stands in an object with its channel, epoch and number.
    pub enveloped: bool,
    /// Text messages to send before any message of the streams.
    pub first: Vec<Vec<u8>>,
    /// Account whose connections are counted, if there is one.
    pub account: Option<Arc<str>>,
}

/// A message from a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientMessage<'a> {
    Text(&'a str),
    Binary(&'a [u8]),
}

/// Returns the weight of a message of `bytes` bytes while it [waits](Reply::wait): one, and one
/// more per KiB. A subscriber whose waiting messages weigh 64 is not read from.
pub fn weight(bytes: usize) -> u32 {
    u32::try_from(1 + bytes / 1024).unwrap_or(u32::MAX)
}

/// The reaction to a message of a subscriber.
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
    /// Sends it a text message.
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

    /// Sends it the prepared answer of [`Options`](crate::Options), which is not copied.
    pub fn respond(&mut self) {
        self.owed += 1;
    }

    /// Marks the message as waiting until [`Publisher::processed`](crate::Publisher::processed). A
    /// subscriber with too many waiting messages is not read from; see [`weight`].
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

/// The answer about a subscriber that is [behind](DeliveryHandler::behind).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LagAnswer {
    /// It gets this text message, then the messages behind number `seq`.
    Text { payload: Vec<u8>, seq: u64 },
    /// It gets these encoded frames, then the messages behind number `seq`. If the ring has lost
    /// those, the handler is asked again.
    Frames { frames: Vec<u8>, seq: u64 },
    /// Nothing has changed for the subscriber up to number `seq`. It keeps its position, and the
    /// handler is asked again when there is a newer message.
    Unchanged { seq: u64 },
    /// Its connection is closed with code 1013.
    Lost,
}

/// Bytes that a subscriber is sent before the handler learns of it.
pub const OUTBOX_REPORT_BYTES: usize = 16 * 1024;

/// The outbound queue of a subscriber, which holds the frames that were sent to it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxReport {
    pub subscriber: SubscriberId,
    /// Bytes of frames for this subscriber that its thread has taken in since the connection began,
    /// modulo 2^32.
    pub taken: u32,
    /// Bytes in the queue.
    pub waiting: usize,
}

/// The application behind the delivery threads. They call it on their own threads, so it must never
/// block.
pub trait DeliveryHandler: Send + Sync {
    /// Returns the setup of a WebSocket at this path.
    ///
    /// # Errors
    /// The HTTP response that refuses the handshake.
    fn open(&self, request: &Request<'_>) -> Result<SubscriberSetup, HttpResponse>;

    /// Reports that the WebSocket of this request is open. Its subscriptions follow through the
    /// [`Publisher`](crate::Publisher), if the answer of [`open`](Self::open) has none.
    fn opened(&self, subscriber: SubscriberId, request: &Request<'_>) {
        let _ = (subscriber, request);
    }

    /// Handles a whole message of a subscriber. An answer that is not known yet follows later
    /// through the [`Publisher`](crate::Publisher).
    fn received(&self, from: SubscriberId, message: ClientMessage<'_>, reply: &mut Reply) {
        let _ = (from, message, reply);
    }

    /// Requests the next messages for a slow subscriber of a stream with
    /// [`LagPolicy::Ask`](crate::LagPolicy::Ask). It reads again, and the last message that it
    /// received is number `read`. Answer with [`Publisher::go_on`](crate::Publisher::go_on).
    fn behind(&self, subscriber: SubscriberId, stream: StreamId, read: u64) {
        let _ = (subscriber, stream, read);
    }

    /// Reports the outbound queue of a subscriber, once for about [`OUTBOX_REPORT_BYTES`] that it
    /// was sent from there.
    fn outbox_sent(&self, report: OutboxReport) {
        let _ = report;
    }

    /// Reports that a connection has closed.
    fn disconnected(&self, from: SubscriberId) {
        let _ = from;
    }

    /// Returns the response to a request that is not a WebSocket handshake.
    fn http(&self, request: &Request<'_>) -> HttpResponse {
        let _ = request;
        HttpResponse::text(404, "a WebSocket is all there is here")
    }
}
