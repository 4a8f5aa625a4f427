//! Connections with only public subscriptions: served by delivery threads instead of the venue
//! thread.
//!
//! Does        hands their sockets off between two messages, copies each channel message to the
//!             delivery threads once, reads their requests, sends the venue's answers, and brings
//!             subscribers that lag on a merged book up to date.
//! Holds       1. nothing reaches a delivery thread before [`PublicConnections::release`], which
//!                the caller calls after the commit;
//!             2. messages, answers, snapshots and joins keep their order: an answer precedes newer
//!                messages, and a new subscriber gets every message exactly once;
//!             3. a connection that logs in later stays here, and its requests still go to the
//!                venue thread;
//!             4. a subscriber that lags on a merged book gets one change computed for its own
//!                position, and continues behind it;
//!             5. a message costs the venue thread one copy, regardless of the number of
//!                subscribers; this code never sends and never waits.
//! Leaves out  contents of messages and answers: the code is the same as for connections on the
//!             venue thread.
//! Start at    [`PublicConnections::adopt`], [`PublicConnections::take`], [`ConnectionOutput`].

use std::collections::{BTreeMap, BTreeSet};

use pitwire_deribit::channels::{ChannelId, ChannelMessage, LagPolicy, MissedChange, PublicChannels as Channels};
use pitwire_net::{CloseCode, ConnectionId, Handoff, Notices, Waker};
use pitwire_publisher::{
    LagAnswer, MessageBatch, StreamId, StreamSpec, SubscriberId, SubscriberLimits, SubscriberSetup,
};

use crate::delivery_threads::{AdoptedSocket, DeliveryThreads, Order, ThreadEvent, TurnBudget};
use crate::unread::Unread;

/// Ring capacity per channel and delivery thread, in bytes: many seconds of a busy channel.
const DELTA_RING: usize = 1 << 20;
const STATE_RING: usize = 1 << 16;
/// Ring capacity of a merged book, in bytes. A subscriber that lags by half of it gets a merged
/// change, as on the venue thread.
const MERGED_RING: usize = 1 << 19;
/// Idle timeout in milliseconds, as on the venue thread. Here a ping precedes the close, see
/// `PING_MS`.
const IDLE_MS: u32 = 600_000;
const PING_MS: u32 = 240_000;

/// Maximum bytes of merged changes per turn of the venue thread, so that orders do not wait longer.
const MERGED_BYTES: usize = 1024 * 1024;

/// Most bytes of notices that wait for an answer that was put off.
const DEFERRED_BYTES: usize = 1024 * 1024;

pub struct PublicConnections {
    delivery: DeliveryThreads,
    /// The stream of each channel, from the first subscription on a delivery thread.
    streams: BTreeMap<ChannelId, StreamId>,
    feeds: BTreeMap<StreamId, ChannelId>,
    members: BTreeSet<ConnectionId>,
    /// Bytes of answers and notices that were not read.
    pub unread: Unread,
    items: Vec<TurnItem>,
    bytes: Vec<u8>,
    /// Channels that only need their latest message: its index in `items`, since the last control
    /// message.
    newest: BTreeMap<ChannelId, usize>,
    /// Position in `items` where the current command began.
    command_start: usize,
    batch: MessageBatch,
    /// Notices of connections whose answer was put off.
    deferred: BTreeMap<ConnectionId, Vec<Vec<u8>>>,
    is_stopping: bool,
}

enum TurnItem {
    /// A message; its payload is the next `len` bytes of the buffer.
    Message {
        /// `None` if a newer message replaces this one.
        feed: Option<ChannelId>,
        number: u64,
        len: usize,
    },
    Order(Order),
}

impl PublicConnections {
    /// Creates an empty set of connections. `waker` wakes the venue thread, which calls
    /// [`Self::next_event`].
    pub fn new(waker: &Waker) -> PublicConnections {
        let limits = SubscriberLimits { idle_ms: IDLE_MS, ping_ms: PING_MS, ..SubscriberLimits::default() };
        PublicConnections {
            delivery: DeliveryThreads::new(limits, waker),
            streams: BTreeMap::new(),
            feeds: BTreeMap::new(),
            members: BTreeSet::new(),
            unread: Unread::default(),
            items: Vec::new(),
            bytes: Vec::new(),
            newest: BTreeMap::new(),
            command_start: 0,
            batch: MessageBatch::default(),
            deferred: BTreeMap::new(),
            is_stopping: false,
        }
    }

    /// Returns whether a connection is on a delivery thread.
    pub fn has(&self, id: ConnectionId) -> bool {
        self.members.contains(&id)
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether delivery threads can take connections. Starts them on first use.
    pub fn is_open(&mut self) -> bool {
        !self.is_stopping && self.delivery.start().is_ok()
    }

    /// Hands a connection off to a delivery thread, where it receives the messages of `feeds` from
    /// here on. All earlier messages must have been sent to it.
    pub fn adopt(&mut self, id: ConnectionId, taken: Handoff, feeds: &[ChannelId], channels: &mut Channels) {
        let Handoff { socket, session: tls, handshake: hello, rest } = taken;
        let streams = feeds.iter().filter_map(|feed| self.stream_of(*feed, channels)).collect();
        let opening = SubscriberSetup { streams, ..SubscriberSetup::default() };
        self.members.insert(id);
        self.order(Order::Adopt(Box::new(AdoptedSocket {
            socket,
            tls,
            tag: SubscriberId(id.0),
            rest,
            hello,
            opening,
        })));
    }

    fn stream_of(&mut self, feed: ChannelId, channels: &mut Channels) -> Option<StreamId> {
        let begins = channels.add_remote(feed);
        let stream = match self.streams.get(&feed) {
            Some(stream) => *stream,
            None => self.create(feed, channels)?,
        };
        if let Some(number) = begins {
            self.order(Order::Begin(stream, number));
        }
        Some(stream)
    }

    fn create(&mut self, feed: ChannelId, channels: &Channels) -> Option<StreamId> {
        let lag = channels.lag(feed);
        let ring_bytes = match lag {
            LagPolicy::Latest => STATE_RING,
            LagPolicy::Ask => MERGED_RING,
            LagPolicy::Close | LagPolicy::Conflate => DELTA_RING,
        };
        let name = channels.name(feed).to_owned();
        let spec = StreamSpec { name, lag, ring_bytes, snapshot: false, keep: false };
        let stream = self.delivery.running()?.create(&spec);
        self.streams.insert(feed, stream);
        self.feeds.insert(stream, feed);
        Some(stream)
    }

    /// Subscribes a connection to one more channel from here on. Returns whether the connection is
    /// on a delivery thread.
    pub fn join(&mut self, id: ConnectionId, feed: ChannelId, channels: &mut Channels) -> bool {
        if !self.has(id) {
            return false;
        }
        if let Some(stream) = self.stream_of(feed, channels) {
            self.order(Order::Join(SubscriberId(id.0), stream));
        }
        true
    }

    /// Removes one subscription of a connection. `is_last` says that the connection has no other
    /// subscription to this channel.
    pub fn leave(&mut self, id: ConnectionId, feed: ChannelId, is_last: bool, channels: &mut Channels) {
        channels.take_back(feed);
        if let Some(stream) = self.streams.get(&feed).copied().filter(|_| is_last) {
            self.order(Order::Leave(SubscriberId(id.0), stream));
        }
    }

    /// Removes a connection that has ended.
    pub fn forget(&mut self, id: ConnectionId) {
        self.members.remove(&id);
        self.deferred.remove(&id);
        self.unread.forget(id);
    }

    /// Counts the unread bytes by the reports of the delivery threads, and closes the connections
    /// that read too slowly. `now_ns` is on the steady clock.
    pub fn take_outbox_reports(&mut self, now_ns: u64) {
        self.unread.begin_turn(now_ns);
        while let Some(report) = self.delivery.next_outbox() {
            if self.has(ConnectionId(report.subscriber.0)) {
                self.unread.report(report);
            }
        }
        for id in self.unread.take_slow() {
            self.close(id, CloseCode::TryAgainLater, "too slow: answers are not being read");
        }
    }

    /// Makes the notices of a connection wait for its answer, which comes later.
    pub fn put_off(&mut self, id: ConnectionId) {
        self.deferred.entry(id).or_default();
    }

    /// Sends the notices that waited for an answer.
    pub fn end_put_off(&mut self, id: ConnectionId) {
        for text in self.deferred.remove(&id).unwrap_or_default() {
            self.answer(id, &text);
        }
    }

    fn notify(&mut self, to: ConnectionId, text: &[u8]) {
        let Some(deferred) = self.deferred.get_mut(&to) else { return self.answer(to, text) };
        deferred.push(text.to_vec());
        if deferred.iter().map(Vec::len).sum::<usize>() > DEFERRED_BYTES {
            self.deferred.remove(&to);
            self.close(to, CloseCode::TryAgainLater, "too slow: notices are not being read");
        }
    }

    fn answer(&mut self, to: ConnectionId, text: &[u8]) {
        self.unread.add(to, text.len());
        self.order(Order::Send(SubscriberId(to.0), text.to_vec()));
    }

    fn close(&mut self, to: ConnectionId, code: CloseCode, reason: &str) {
        self.order(Order::Close(SubscriberId(to.0), code, reason.to_owned()));
    }

    /// Ends a command: its answers and notices go before the channel messages that it caused, as on
    /// the venue thread. Channel messages, joins and leaves keep their order.
    pub fn end_command(&mut self) {
        let since = std::mem::replace(&mut self.command_start, self.items.len());
        let Some(items) = self.items.get_mut(since..).filter(|items| items.len() > 1) else { return };
        let is_send = |item: &TurnItem| matches!(item, TurnItem::Order(Order::Send(..)));
        if items.is_sorted_by_key(|item| !is_send(item)) {
            return;
        }
        items.sort_by_key(|item| !is_send(item));
        // The indexes refer to the order before the sort.
        self.newest.clear();
    }

    /// Copies a message of a channel with subscribers on delivery threads. It waits for
    /// [`Self::release`].
    pub fn take(&mut self, message: ChannelMessage<'_>) {
        if message.lag == LagPolicy::Latest
            && let Some(before) = self.newest.insert(message.feed, self.items.len())
            && let Some(TurnItem::Message { feed, .. }) = self.items.get_mut(before)
        {
            *feed = None;
        }
        self.bytes.extend_from_slice(message.payload);
        let (number, len) = (message.number, message.payload.len());
        self.items.push(TurnItem::Message { feed: Some(message.feed), number, len });
    }

    fn order(&mut self, order: Order) {
        // A later message must not replace a message that a new subscriber already counts as sent.
        self.newest.clear();
        self.items.push(TurnItem::Order(order));
    }

    /// Sends all collected items to the delivery threads. The caller calls it after the
    /// commit.
    pub fn release(&mut self) {
        self.newest.clear();
        if let Some(delivery) = self.delivery.running() {
            let mut start = 0;
            for item in self.items.drain(..) {
                match item {
                    TurnItem::Message { feed, number, len } => {
                        let payload = self.bytes.get(start..start + len).unwrap_or_default();
                        start += len;
                        if let Some(stream) = feed.and_then(|feed| self.streams.get(&feed)) {
                            self.batch.text(*stream, b"", number, payload);
                        }
                    }
                    TurnItem::Order(order) => {
                        delivery.send(&mut self.batch);
                        order.carry_out(delivery);
                    }
                }
            }
            delivery.send(&mut self.batch);
        }
        self.items.clear();
        self.command_start = 0;
        self.bytes.clear();
        if self.is_stopping {
            self.delivery.stop("the venue is stopping");
        }
    }

    /// Sends messages before they are durable, unless control messages wait: answers and all that
    /// follows them wait for the commit.
    pub fn release_early(&mut self) {
        if !self.is_stopping && !self.items.iter().any(|item| matches!(item, TurnItem::Order(_))) {
            self.release();
        }
    }

    /// Returns the next event of a connection, or `None` if there is none or the turn's budget is
    /// spent.
    pub fn next_event(&mut self, budget: &mut TurnBudget) -> Option<(ConnectionId, HandoffEvent)> {
        Some(match self.delivery.next_event(budget)? {
            ThreadEvent::Text(tag, text) => (ConnectionId(tag.0), HandoffEvent::Text(text)),
            ThreadEvent::Left(tag) => (ConnectionId(tag.0), HandoffEvent::Left),
        })
    }

    /// Sends lagging subscribers of merged books one change with all released changes that they
    /// have missed. Those beyond the budget of this turn wait for the next one.
    pub fn bring_up_to_date(&mut self, channels: &Channels) {
        let (mut known, mut bytes) = (BTreeMap::new(), 0);
        while let Some(behind) = self.delivery.next_behind() {
            let Some(feed) = self.feeds.get(&behind.stream) else { continue };
            if !self.has(ConnectionId(behind.who.0)) {
                continue;
            }
            let merged = match known.get(&(*feed, behind.read)) {
                _ if bytes > MERGED_BYTES => None,
                None => channels.merged_in_turn(*feed, behind.read),
                known => known.cloned(),
            };
            let Some(merged) = merged else { return self.delivery.put_off(behind) };
            let (how, seq) = (known.entry((*feed, behind.read)).or_insert(merged), channels.published_id(*feed));
            let how = match how {
                MissedChange::Change(payload) => LagAnswer::Text { payload: payload.clone(), seq },
                MissedChange::Same => LagAnswer::Unchanged { seq },
                MissedChange::Gone => LagAnswer::Lost,
            };
            bytes += if let LagAnswer::Text { payload, .. } = &how { payload.len() } else { 0 };
            self.order(Order::LagAnswer(behind, how));
        }
    }

    /// Acknowledges a request of this many bytes from a connection.
    pub fn acknowledge(&mut self, id: ConnectionId, bytes: usize) {
        self.order(Order::Acknowledge(SubscriberId(id.0), bytes));
    }

    /// Refuses new connections. The next release closes the existing ones.
    pub fn stop(&mut self) {
        self.is_stopping = true;
    }
}

/// An event of a connection on a delivery thread.
pub enum HandoffEvent {
    Text(String),
    Left,
}

/// Sends to connections on the venue thread and on delivery threads alike.
pub struct ConnectionOutput<'a> {
    pub notices: &'a mut Notices,
    pub public_connections: &'a mut PublicConnections,
}

impl ConnectionOutput<'_> {
    /// Sends the answer to a request.
    pub fn reply(&mut self, to: ConnectionId, text: &[u8]) {
        if self.public_connections.has(to) {
            self.public_connections.answer(to, text);
        } else {
            self.notices.reply(to, text);
        }
    }

    /// Sends a notice that does not answer a request.
    pub fn notify(&mut self, to: ConnectionId, text: &[u8]) {
        if self.public_connections.has(to) {
            self.public_connections.notify(to, text);
        } else {
            self.notices.notify(to, text);
        }
    }

    pub fn close(&mut self, to: ConnectionId, code: CloseCode, reason: &str) {
        if self.public_connections.has(to) {
            self.public_connections.close(to, code, reason);
        } else {
            self.notices.close(to, code, reason);
        }
    }
}
