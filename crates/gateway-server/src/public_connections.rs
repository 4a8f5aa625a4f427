//! Connections of a gateway on delivery threads: those with public subscriptions only.
//!
//! Does        hands their sockets off, keeps one ring per channel, and forwards the messages of
//!             the node in order.
//! Holds       the messages to one connection and to its channels keep the order of the node.
//! Leaves out  which connection has which channel: [`pitwire_gateway::Node`]. Rings and slow
//!             subscribers: `crates/delivery`.
//! Start at    [`PublicConnections::adopt`], the [`ClientSink`].

use std::collections::BTreeMap;
use std::sync::Arc;

use pitwire_gateway::{Attachment, CatchUp, ChannelId, ClientSink};
use pitwire_net::ConnectionId;
use pitwire_net::{CloseCode, Handoff, Notices, Waker};
use pitwire_publisher::{
    LagAnswer, LagPolicy, MessageBatch, Publisher, StreamId, StreamSpec, SubscriberId, SubscriberLimits,
    SubscriberSetup, weight,
};

use pitwire_server::delivery_threads::{DeliveryThreads, LagReport, ThreadEvent, TurnBudget};

/// Ring of a channel of changes, per delivery thread, in bytes. The venue uses the same size.
const DELTA_RING_BYTES: usize = 1 << 20;
/// Ring of a channel of states, per delivery thread, in bytes.
const STATE_RING_BYTES: usize = 1 << 16;
/// Idle timeout in milliseconds, as on the event loop. A pong counts as activity.
const IDLE_MS: u32 = 600_000;
/// Bit that is set in the ids of connections on delivery threads. The event loop counts its own ids
/// from zero.
const ON_DELIVERY_THREAD: u64 = 1 << 62;

/// The ring of a channel on the delivery threads.
struct ChannelRing {
    stream: StreamId,
    /// Whether messages carry the venue's sequences. Other messages are counted here, because the
    /// venue's sequences restart with each epoch.
    has_sequences: bool,
    counted: u64,
}

pub struct PublicConnections {
    threads: DeliveryThreads,
    running: Option<Arc<Publisher>>,
    rings: BTreeMap<ChannelId, ChannelRing>,
    channels: BTreeMap<StreamId, ChannelId>,
    /// Messages of channels that are not sent yet. They precede the next private message, and leave
    /// at the end of the turn at the latest.
    batch: MessageBatch,
    last_id: u64,
    open: usize,
}

impl PublicConnections {
    /// Creates the table; no thread starts yet. `waker` wakes the event loop, which calls
    /// [`Self::next_event`].
    pub fn new(waker: &Waker) -> PublicConnections {
        PublicConnections {
            threads: DeliveryThreads::new(SubscriberLimits { idle_ms: IDLE_MS, ..SubscriberLimits::default() }, waker),
            running: None,
            rings: BTreeMap::new(),
            channels: BTreeMap::new(),
            batch: MessageBatch::default(),
            last_id: ON_DELIVERY_THREAD,
            open: 0,
        }
    }

    /// Starts the delivery threads unless they run.
    ///
    /// # Errors
    ///
    /// Returns the text for the client if no thread can be started.
    pub fn start(&mut self) -> Result<(), String> {
        self.running = Some(self.threads.start()?);
        Ok(())
    }

    /// Adopts a connection and returns its id.
    pub fn adopt(&mut self, handoff: Handoff) -> u64 {
        self.last_id += 1;
        let Handoff { socket, session, handshake, rest } = handoff;
        let tag = SubscriberId(self.last_id);
        self.in_turn(|publisher| {
            publisher.adopt_open(socket, session, tag, rest, handshake, SubscriberSetup::default())
        });
        self.open += 1;
        self.last_id
    }

    /// Returns the number of open connections.
    pub fn open_connections(&self) -> usize {
        self.open
    }

    /// Returns the next request of a connection, or its id alone if it disconnected.
    pub fn next_event(&mut self, budget: &mut TurnBudget) -> Option<(u64, Option<String>)> {
        match self.threads.next_event(budget)? {
            ThreadEvent::Text(SubscriberId(id), text) => Some((id, Some(text))),
            ThreadEvent::Left(SubscriberId(id)) => {
                self.open = self.open.saturating_sub(1);
                Some((id, None))
            }
        }
    }

    /// Returns the next lagging connection, its channel, and the last sequence that it received.
    pub fn next_lagging(&mut self) -> Option<(u64, ChannelId, u64)> {
        while let Some(LagReport { who: SubscriberId(id), stream, read }) = self.threads.next_behind() {
            if let Some(channel) = self.channels.get(&stream) {
                return Some((id, *channel, read));
            }
        }
        None
    }

    /// Acknowledges a request of this many bytes, so that the connection is read again.
    pub fn acknowledge(&mut self, id: u64, bytes: usize) {
        self.in_turn(|publisher| publisher.processed(SubscriberId(id), weight(bytes)));
    }

    /// Sends the batched messages. Called at the end of each turn.
    pub fn flush(&mut self) {
        if let Some(publisher) = self.running.as_ref().filter(|_| !self.batch.is_empty()) {
            publisher.send(&mut self.batch);
        }
    }

    /// Sends the batched messages, closes all connections and stops the threads.
    pub fn stop(&mut self) {
        self.flush();
        self.running = None;
        self.threads.stop("the gateway is stopping");
    }

    /// Runs `act` behind all channel messages that were published before.
    fn in_turn(&mut self, act: impl FnOnce(&Publisher)) {
        self.flush();
        if let Some(publisher) = &self.running {
            act(publisher);
        }
    }

    fn ring(&mut self, channel: ChannelId, attachment: Attachment) -> Option<StreamId> {
        let publisher = self.running.as_ref()?;
        let ring = self.rings.entry(channel).or_insert_with(|| {
            let (lag, ring_bytes) = if attachment.is_state {
                (LagPolicy::Latest, STATE_RING_BYTES)
            } else {
                (LagPolicy::Ask, DELTA_RING_BYTES)
            };
            let spec = StreamSpec { name: channel.0.to_string(), lag, ring_bytes, snapshot: false, keep: false };
            ChannelRing { stream: publisher.create(&spec), has_sequences: lag == LagPolicy::Ask, counted: 0 }
        });
        let (stream, begins) = (ring.stream, attachment.ring_start.filter(|_| ring.has_sequences));
        self.channels.insert(stream, channel);
        if let Some(seq) = begins {
            self.in_turn(|publisher| publisher.restart(stream, seq));
        }
        Some(stream)
    }
}

impl ClientSink for PublicConnections {
    fn reply(&mut self, to: u64, text: &[u8]) {
        self.in_turn(|publisher| publisher.send_text(SubscriberId(to), text));
    }

    fn notify(&mut self, to: u64, text: &[u8]) {
        self.reply(to, text);
    }

    fn close(&mut self, to: u64, code: CloseCode, reason: &str) {
        self.in_turn(|publisher| publisher.close(SubscriberId(to), code, reason));
    }

    fn publish(&mut self, channel: ChannelId, seq: u64, payload: &[u8]) {
        // Without a ring the channel has never had a subscriber.
        let Some(ring) = self.rings.get_mut(&channel) else { return };
        ring.counted += 1;
        let number = if ring.has_sequences { seq } else { ring.counted };
        self.batch.text(ring.stream, b"", number, payload);
    }

    fn send_frames(&mut self, to: u64, frames: Vec<u8>) {
        self.in_turn(|publisher| publisher.send_frames(SubscriberId(to), frames));
    }

    fn attach(&mut self, to: u64, channel: ChannelId, attachment: Attachment) {
        let Some(stream) = self.ring(channel, attachment) else { return };
        self.in_turn(|publisher| match attachment.is_state {
            true => publisher.join(SubscriberId(to), stream),
            false => publisher.join_behind(SubscriberId(to), stream, attachment.read_to),
        });
    }

    fn catch_up(&mut self, to: u64, channel: ChannelId, read: u64, how: CatchUp) {
        let Some(stream) = self.rings.get(&channel).map(|ring| ring.stream) else { return };
        let how = match how {
            CatchUp::Message(payload, seq) => LagAnswer::Text { payload, seq },
            CatchUp::Frames(frames, seq) => LagAnswer::Frames { frames, seq },
            CatchUp::Unchanged(seq) => LagAnswer::Unchanged { seq },
            CatchUp::Lost => LagAnswer::Lost,
        };
        self.in_turn(|publisher| publisher.go_on(SubscriberId(to), stream, read, how));
    }

    fn detach(&mut self, to: u64, channel: ChannelId) {
        let Some(stream) = self.rings.get(&channel).map(|ring| ring.stream) else { return };
        self.in_turn(|publisher| publisher.leave(SubscriberId(to), stream));
    }
}

/// The sink for all connections of a gateway: those on the event loop and those on delivery
/// threads.
pub struct AllConnections<'a>(pub &'a mut Notices, pub &'a mut PublicConnections);

impl ClientSink for AllConnections<'_> {
    fn reply(&mut self, to: u64, text: &[u8]) {
        if to & ON_DELIVERY_THREAD == 0 { self.0.reply(ConnectionId(to), text) } else { self.1.reply(to, text) }
    }

    fn notify(&mut self, to: u64, text: &[u8]) {
        if to & ON_DELIVERY_THREAD == 0 { self.0.notify(ConnectionId(to), text) } else { self.1.notify(to, text) }
    }

    fn close(&mut self, to: u64, code: CloseCode, reason: &str) {
        if to & ON_DELIVERY_THREAD == 0 {
            self.0.close(ConnectionId(to), code, reason)
        } else {
            self.1.close(to, code, reason)
        }
    }

    fn publish(&mut self, channel: ChannelId, seq: u64, payload: &[u8]) {
        self.1.publish(channel, seq, payload);
    }

    fn send_frames(&mut self, to: u64, frames: Vec<u8>) {
        self.1.send_frames(to, frames);
    }

    fn attach(&mut self, to: u64, channel: ChannelId, attachment: Attachment) {
        self.1.attach(to, channel, attachment);
    }

    fn catch_up(&mut self, to: u64, channel: ChannelId, read: u64, how: CatchUp) {
        self.1.catch_up(to, channel, read, how);
    }

    fn detach(&mut self, to: u64, channel: ChannelId) {
        self.1.detach(to, channel);
    }
}
