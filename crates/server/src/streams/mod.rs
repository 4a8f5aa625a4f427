//! Streams by URL: their connections, the requests of these, and the order in which messages reach
//! the delivery threads.
//!
//! Does        takes sockets over from the venue thread, lets each protocol's session parse
//!             requests, passes messages, snapshots and sockets to the delivery threads in one
//!             order.
//! Holds       1. nothing reaches a delivery thread before [`UrlStreams::release`], which the
//!                caller calls after the commit;
//!             2. a new subscriber's snapshot and its join have one place in that order: it gets
//!                every message exactly once;
//!             3. the venue thread encodes each message once, regardless of the number of
//!                subscribers, and never sends.
//! Leaves out  payloads and names (`crates/url-streams`), rings and slow subscribers
//!             (`crates/delivery`).
//! Start at    [`UrlStreams::observe`], [`UrlStreams::take_over`], [`UrlStreams::take_events`].

mod encoder;
mod outlet;

use std::collections::BTreeMap;
use std::net::IpAddr;

use pitwire_engine::Engine;
use pitwire_model::{Event, SequencedCommand};
use pitwire_net::{Handoff, HttpRequest, HttpResponse, SystemClock, Waker};
use pitwire_projections::Views;
use pitwire_publisher::{Publisher, SubscriberId, SubscriberLimits, SubscriberSetup};
use pitwire_url_streams::{StreamConnection, StreamId, StreamKey, StreamSession, Streams, VenueMoment};
use pitwire_venue::VenueClock;
use tracing::debug;

use self::outlet::Outlet;
use crate::delivery_threads::{AdoptedSocket, DeliveryThreads, Order, ThreadEvent, TurnBudget};

/// Heartbeat interval in nanoseconds, for connections that asked for heartbeats.
const BEAT_NS: u64 = 5_000_000_000;

/// A connection and the streams that it has requested. Its unsent bytes are in the subscriber table
/// of its delivery thread, which parses no requests.
struct StreamClient {
    session: StreamSession,
    from: Option<IpAddr>,
    /// The streams that it reads, by key.
    reads: BTreeMap<StreamKey, StreamId>,
}

pub struct UrlStreams {
    streams: Streams,
    outlet: Outlet,
    delivery: DeliveryThreads,
    clients: BTreeMap<SubscriberId, StreamClient>,
    next_tag: u64,
    /// Number of connections per client address, while `per_address` limits it.
    addresses: BTreeMap<IpAddr, u32>,
    per_address: Option<u32>,
    beats: u64,
    next_beat_ns: u64,
    is_stopping: bool,
}

impl UrlStreams {
    /// Creates the streams of a recovered venue. `waker` wakes the venue thread, which calls
    /// [`Self::take_events`].
    pub fn new(engine: &Engine, views: &Views, waker: &Waker) -> UrlStreams {
        UrlStreams {
            streams: Streams::new(engine, views),
            outlet: Outlet::default(),
            delivery: DeliveryThreads::new(SubscriberLimits::default(), waker),
            clients: BTreeMap::new(),
            next_tag: 1,
            addresses: BTreeMap::new(),
            per_address: None,
            beats: 0,
            next_beat_ns: 0,
            is_stopping: false,
        }
    }

    /// Sets the clocks for the due and encoding times in messages.
    pub fn set_clocks(&mut self, clock: SystemClock, venue: VenueClock) {
        self.outlet.clocks = Some((clock, venue));
    }

    /// Limits the connections per client address; `None` removes the limit.
    pub fn limit_addresses(&mut self, most: Option<u32>) {
        self.per_address = most;
    }

    /// Returns the number of connections that read streams.
    pub fn open_connections(&self) -> usize {
        self.clients.len()
    }

    /// Encodes the messages for one command's events. They wait for [`Self::release`].
    pub fn observe(&mut self, stamped: &SequencedCommand, events: &[Event], engine: &Engine, views: &Views) {
        self.streams.observe(stamped, events, engine, views, &mut self.outlet);
    }

    /// Returns whether any candle stream has a subscriber.
    pub fn has_candles(&self) -> bool {
        self.streams.has_candles()
    }

    /// Handles the start of a minute of venue time, before any command in that minute.
    pub fn turn_minute(&mut self, here: VenueMoment<'_>) {
        self.streams.turn_minute(here, &mut self.outlet);
    }

    /// Sends all observed messages. The caller calls it after the commit. `tap` receives each
    /// message in order, for gateways.
    pub fn release(&mut self, tap: &mut dyn FnMut(StreamId, &[u8])) {
        self.outlet.release(self.delivery.running(), tap);
        if self.is_stopping {
            self.delivery.stop("the venue is stopping");
        }
    }

    /// Answers a REST request of one of the stream protocols; returns `None` if no endpoint has
    /// this path.
    pub fn rest(&self, request: &HttpRequest<'_>, here: VenueMoment<'_>) -> Option<HttpResponse> {
        let answer = self.streams.rest(request.path(), request.query(), here)?;
        Some(HttpResponse::json(answer.status, answer.body))
    }

    /// Takes a client's socket over and subscribes it to the streams in its URL.
    ///
    /// # Errors
    /// The HTTP response to send instead, for an invalid or unknown path, too many connections per
    /// address, or missing delivery threads.
    pub fn take_over(
        &mut self,
        request: &HttpRequest<'_>,
        taken: &mut Option<Handoff>,
        here: VenueMoment<'_>,
    ) -> Result<(), HttpResponse> {
        let opened = match StreamSession::open(request.path(), request.query(), self.streams.directory()) {
            Some(Ok(opened)) => opened,
            Some(Err(refused)) => return Err(HttpResponse::json(refused.status, refused.body.into_bytes())),
            None => return Err(HttpResponse::text(404, "no stream has this path")),
        };
        let from = request.from.map(|from| from.to_canonical()).filter(|_| self.per_address.is_some());
        let already = from.and_then(|from| self.addresses.get(&from)).copied().unwrap_or(0);
        if self.per_address.is_some_and(|most| already >= most) {
            return Err(HttpResponse::text(429, "too many connections of your address read streams"));
        }
        let delivery = self.delivery.start().map_err(|why| HttpResponse::text(503, &why))?;
        let Some(Handoff { socket, session: tls, handshake, rest }) = taken.take() else {
            return Err(HttpResponse::text(503, "connect again"));
        };
        let tag = SubscriberId(self.next_tag);
        self.next_tag += 1;
        let hello = with_notes(handshake, &opened);
        let StreamConnection { session, words, join, .. } = opened;
        self.clients.insert(tag, StreamClient { session, from, reads: BTreeMap::new() });
        if let Some(from) = from {
            *self.addresses.entry(from).or_default() += 1;
        }
        let mut opening = SubscriberSetup { first: words, ..SubscriberSetup::default() };
        for key in join {
            let Some(joined) = self.join(tag, key, here, &delivery) else { continue };
            opening.first.extend(joined.first);
            opening.streams.extend(joined.ring);
        }
        self.outlet.order(Order::Adopt(Box::new(AdoptedSocket { socket, tls, tag, rest, hello, opening })));
        Ok(())
    }

    /// Subscribes a client to a stream from here on. Returns its first message and the ring that it
    /// reads afterwards.
    fn join(
        &mut self,
        tag: SubscriberId,
        key: StreamKey,
        here: VenueMoment<'_>,
        delivery: &Publisher,
    ) -> Option<JoinOutcome> {
        let id = self.streams.listen(key, here.engine)?;
        let names = key.instrument.and_then(|of| self.streams.directory().names(of));
        self.outlet.know(id, &key, names, delivery);
        self.clients.get_mut(&tag)?.reads.insert(key, id);
        let first = self.streams.first(id, here, &mut self.outlet);
        if key.has_socket_numbers() {
            let first = first.map(|(payload, place)| self.outlet.first_of_socket(tag, id, &payload, place));
            return Some(JoinOutcome { first, ring: None });
        }
        Some(JoinOutcome { first: first.map(|(payload, _)| payload), ring: self.outlet.ring(id) })
    }

    /// Starts a stream for gateways, by its label. All earlier observations must have been
    /// released.
    pub fn tap(&mut self, label: &str, here: VenueMoment<'_>) -> Option<TappedStream> {
        // A gateway cannot forward messages that carry a number per socket.
        let key = StreamKey::of_label(label, self.streams.directory()).filter(|key| !key.has_socket_numbers())?;
        let id = self.streams.listen(key, here.engine)?;
        let first = self.streams.first(id, here, &mut self.outlet).map(|(payload, _)| payload);
        let label = key.label(key.instrument.and_then(|of| self.streams.directory().names(of)));
        Some(TappedStream { id, label, is_state: key.kind.is_state(), first: first.unwrap_or_default() })
    }

    /// Undoes one [`Self::tap`].
    pub fn untap(&mut self, id: StreamId) {
        self.streams.unlisten(id);
    }

    fn leave(&mut self, tag: SubscriberId, id: StreamId) {
        self.streams.unlisten(id);
        self.outlet.leave_socket(tag, id);
    }

    /// Handles the events of the delivery threads since the last turn and sends heartbeats that are
    /// due.
    pub fn take_events(&mut self, here: VenueMoment<'_>, now_ns: u64) {
        if now_ns >= self.next_beat_ns {
            self.next_beat_ns = now_ns + BEAT_NS;
            self.streams.beat(here.at, self.beats, &mut self.outlet);
            self.beats += 1;
        }
        let Some(delivery) = self.delivery.running().cloned() else { return };
        let mut budget = TurnBudget::default();
        while let Some(event) = self.delivery.next_event(&mut budget) {
            match event {
                ThreadEvent::Text(tag, text) => {
                    self.answer(tag, &text, here, &delivery);
                    self.outlet.order(Order::Acknowledge(tag, text.len()));
                }
                ThreadEvent::Left(tag) => self.forget(tag),
            }
        }
    }

    /// Removes a connection that has ended.
    fn forget(&mut self, tag: SubscriberId) {
        let Some(client) = self.clients.remove(&tag) else { return };
        debug!(tag = tag.0, "a reader of streams has left");
        client.reads.into_values().for_each(|id| self.leave(tag, id));
        self.outlet.forget(tag);
        if let Some((from, count)) = client.from.and_then(|from| Some((from, self.addresses.get_mut(&from)?))) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.addresses.remove(&from);
            }
        }
    }

    fn answer(&mut self, tag: SubscriberId, text: &str, here: VenueMoment<'_>, delivery: &Publisher) {
        let Some(client) = self.clients.get_mut(&tag) else { return };
        let outcome = client.session.handle_message(text, self.streams.directory());
        for answer in outcome.answers {
            self.outlet.order(Order::Send(tag, answer));
        }
        for key in outcome.leave {
            let left = self.clients.get_mut(&tag).and_then(|client| client.reads.remove(&key));
            if let Some(id) = left {
                self.outlet.order_leave(tag, id);
                self.leave(tag, id);
            }
        }
        for key in outcome.join {
            let Some(joined) = self.join(tag, key, here, delivery) else { continue };
            joined.first.into_iter().for_each(|first| self.outlet.order(Order::Send(tag, first)));
            joined.ring.into_iter().for_each(|ring| self.outlet.order(Order::Join(tag, ring)));
        }
    }

    /// Returns when [`Self::take_events`] has to run even without new events, in nanoseconds.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.streams.wants_beats().then_some(self.next_beat_ns)
    }

    /// Refuses new connections. The next release closes the existing ones.
    pub fn stop(&mut self) {
        self.is_stopping = true;
    }
}

/// A stream that a gateway receives.
pub struct TappedStream {
    pub id: StreamId,
    pub label: String,
    /// Only the latest message matters.
    pub is_state: bool,
    pub first: Vec<u8>,
}

struct JoinOutcome {
    first: Option<Vec<u8>>,
    ring: Option<pitwire_publisher::StreamId>,
}

/// Returns the handshake response with headers on unknown streams and on numbering by stream.
pub fn with_notes(mut handshake: Vec<u8>, opened: &StreamConnection) -> Vec<u8> {
    handshake.truncate(handshake.len().saturating_sub(2));
    if opened.unknown > 0 {
        handshake.extend_from_slice(format!("X-Pitwire-Unknown-Streams: {}\r\n", opened.unknown).as_bytes());
    }
    if opened.by_stream {
        handshake.extend_from_slice(b"X-Pitwire-Numbers: by-stream\r\n");
    }
    handshake.extend_from_slice(b"\r\n");
    handshake
}
