//! Connections that only listen to public channels: served by halls of the publisher, not by the venue's loop.
//!
//! Does        take their sockets over between two messages, hand each message of their channels to the halls once,
//!             bring back what they say, say to them what the venue answers, and bring up to date who falls behind on a
//!             merged book.
//! Holds       1. nothing reaches a hall before [`PublicConnections::release`], which is called after the commit;
//!             2. messages, answers, snapshots and joins keep the order in which they were put here: an answer precedes
//!                newer messages, a joiner misses nothing and is told nothing twice;
//!             3. a connection that logs in later stays here, and its requests go to the venue thread as before;
//!             4. who falls behind on a merged book gets one change on its own chain, and goes on behind it;
//!             5. a message costs the loop one copy, however many listen; it never sends, and never waits.
//! Leaves out  what is told and answered: the same code as for those who are on the loop.
//! Start at    [`PublicConnections::adopt`], [`PublicConnections::take`], [`Voice`].

use std::collections::{BTreeMap, BTreeSet};

use pitwire_deribit::channels::{ChannelMessage, FeedId, LagPolicy, MissedChange, PublicChannels as Channels};
use pitwire_net::{CloseCode, ConnectionId, Handoff, Notices, Waker};
use pitwire_publisher::{Batch, LagAnswer, Limits, StreamId, StreamSpec, SubscriberId, SubscriberSetup};

use crate::delivery_threads::{Adopted, DeliveryThreads, Order, ThreadEvent, TurnBudget};

/// Of each hall's copy of a channel: many seconds of a busy one.
const DELTA_RING: usize = 1 << 20;
const STATE_RING: usize = 1 << 16;
/// Behind by half of it, a reader gets a merged change, as on the loop.
const MERGED_RING: usize = 1 << 19;
/// As on the loop: whoever has said nothing for so long is closed. Here it is asked by a ping before.
const IDLE_MS: u32 = 600_000;
const PING_MS: u32 = 240_000;

/// Of merged changes in one turn of the loop: orders must not wait for more.
const MERGED_BYTES: usize = 1024 * 1024;

pub struct PublicConnections {
    halls: DeliveryThreads,
    /// Each channel's stream in the halls, once somebody there has listened to it.
    streams: BTreeMap<FeedId, StreamId>,
    feeds: BTreeMap<StreamId, FeedId>,
    members: BTreeSet<ConnectionId>,
    items: Vec<Item>,
    bytes: Vec<u8>,
    /// Of channels of which only the newest message matters: where it is among the items, since the last order.
    newest: BTreeMap<FeedId, usize>,
    /// Position in `items` where the current command began.
    command_start: usize,
    batch: Batch,
    is_stopping: bool,
}

enum Item {
    /// The next so many bytes.
    Message {
        /// `None`: a newer one follows.
        feed: Option<FeedId>,
        number: u64,
        len: usize,
    },
    Order(Order),
}

impl PublicConnections {
    /// `waker` wakes the loop in whose turns [`Self::hear`] is called.
    pub fn new(waker: &Waker) -> PublicConnections {
        let limits = Limits { idle_ms: IDLE_MS, ping_ms: PING_MS, ..Limits::default() };
        PublicConnections {
            halls: DeliveryThreads::new(limits, waker),
            streams: BTreeMap::new(),
            feeds: BTreeMap::new(),
            members: BTreeSet::new(),
            items: Vec::new(),
            bytes: Vec::new(),
            newest: BTreeMap::new(),
            command_start: 0,
            batch: Batch::default(),
            is_stopping: false,
        }
    }

    /// Whether a connection is in the halls.
    pub fn has(&self, id: ConnectionId) -> bool {
        self.members.contains(&id)
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether halls are there to take somebody in.
    pub fn is_open(&mut self) -> bool {
        !self.is_stopping && self.halls.start().is_ok()
    }

    /// Takes a connection in that hears these channels from here on. Everything told before has been sent to it.
    pub fn adopt(&mut self, id: ConnectionId, taken: Handoff, feeds: &[FeedId], channels: &mut Channels) {
        let Handoff { socket, session: tls, handshake: hello, rest } = taken;
        let streams = feeds.iter().filter_map(|feed| self.lend(*feed, channels)).collect();
        let opening = SubscriberSetup { streams, ..SubscriberSetup::default() };
        self.members.insert(id);
        self.order(Order::Adopt(Box::new(Adopted { socket, tls, tag: SubscriberId(id.0), rest, hello, opening })));
    }

    fn lend(&mut self, feed: FeedId, channels: &mut Channels) -> Option<StreamId> {
        let begins = channels.lend(feed);
        let stream = match self.streams.get(&feed) {
            Some(stream) => *stream,
            None => self.create(feed, channels)?,
        };
        if let Some(number) = begins {
            self.order(Order::Begin(stream, number));
        }
        Some(stream)
    }

    fn create(&mut self, feed: FeedId, channels: &Channels) -> Option<StreamId> {
        let lag = channels.lag(feed);
        let ring_bytes = match lag {
            LagPolicy::Latest => STATE_RING,
            LagPolicy::Ask => MERGED_RING,
            LagPolicy::Close | LagPolicy::Conflate => DELTA_RING,
        };
        let name = channels.name(feed).to_owned();
        let spec = StreamSpec { name, lag, ring_bytes, snapshot: false, keep: false };
        let stream = self.halls.running()?.create(&spec);
        self.streams.insert(feed, stream);
        self.feeds.insert(stream, feed);
        Some(stream)
    }

    /// A connection hears one more channel from here on. Says whether it hears it here.
    pub fn join(&mut self, id: ConnectionId, feed: FeedId, channels: &mut Channels) -> bool {
        if !self.has(id) {
            return false;
        }
        if let Some(stream) = self.lend(feed, channels) {
            self.order(Order::Join(SubscriberId(id.0), stream));
        }
        true
    }

    /// A member hears one less of those it has here; `is_last` of those that it has for this channel.
    pub fn leave(&mut self, id: ConnectionId, feed: FeedId, is_last: bool, channels: &mut Channels) {
        channels.take_back(feed);
        if let Some(stream) = self.streams.get(&feed).copied().filter(|_| is_last) {
            self.order(Order::Leave(SubscriberId(id.0), stream));
        }
    }

    /// A member has ended.
    pub fn forget(&mut self, id: ConnectionId) {
        self.members.remove(&id);
    }

    fn say(&mut self, to: ConnectionId, text: &[u8]) {
        self.order(Order::Tell(SubscriberId(to.0), text.to_vec()));
    }

    fn close(&mut self, to: ConnectionId, code: CloseCode, reason: &str) {
        self.order(Order::Close(SubscriberId(to.0), code, reason.to_owned()));
    }

    /// Ends a command: its answers and notices go before the channel messages that it caused, as on the venue thread.
    /// Channel messages keep their order, and so do joins and leaves among them.
    pub fn end_command(&mut self) {
        let since = std::mem::replace(&mut self.command_start, self.items.len());
        let Some(items) = self.items.get_mut(since..).filter(|items| items.len() > 1) else { return };
        let is_tell = |item: &Item| matches!(item, Item::Order(Order::Tell(..)));
        if items.is_sorted_by_key(|item| !is_tell(item)) {
            return;
        }
        items.sort_by_key(|item| !is_tell(item));
        // Positions in it are stale.
        self.newest.clear();
    }

    /// A message of a channel that members hear. It waits for [`Self::release`].
    pub fn take(&mut self, message: ChannelMessage<'_>) {
        if message.lag == LagPolicy::Latest
            && let Some(before) = self.newest.insert(message.feed, self.items.len())
            && let Some(Item::Message { feed, .. }) = self.items.get_mut(before)
        {
            *feed = None;
        }
        self.bytes.extend_from_slice(message.payload);
        let (number, len) = (message.number, message.payload.len());
        self.items.push(Item::Message { feed: Some(message.feed), number, len });
    }

    fn order(&mut self, order: Order) {
        // What a joiner finds told before it came is not taken back.
        self.newest.clear();
        self.items.push(Item::Order(order));
    }

    /// Everything put here so far is durable: it may leave.
    pub fn release(&mut self) {
        self.newest.clear();
        if let Some(halls) = self.halls.running() {
            let mut start = 0;
            for item in self.items.drain(..) {
                match item {
                    Item::Message { feed, number, len } => {
                        let payload = self.bytes.get(start..start + len).unwrap_or_default();
                        start += len;
                        if let Some(stream) = feed.and_then(|feed| self.streams.get(&feed)) {
                            self.batch.text(*stream, b"", number, payload);
                        }
                    }
                    Item::Order(order) => {
                        halls.send(&mut self.batch);
                        order.carry_out(halls);
                    }
                }
            }
            halls.send(&mut self.batch);
        }
        self.items.clear();
        self.command_start = 0;
        self.bytes.clear();
        if self.is_stopping {
            self.halls.stop("the venue is stopping");
        }
    }

    /// Messages may leave before they are durable, where nobody here has been answered since the last release: answers wait
    /// for the commit, and what comes behind them with them.
    pub fn release_early(&mut self) {
        if !self.is_stopping && !self.items.iter().any(|item| matches!(item, Item::Order(_))) {
            self.release();
        }
    }

    /// What members have done, as long as this turn has attention left.
    pub fn hear(&mut self, attention: &mut TurnBudget) -> Option<(ConnectionId, Done)> {
        Some(match self.halls.hear(attention)? {
            ThreadEvent::Text(tag, text) => (ConnectionId(tag.0), Done::Text(text)),
            ThreadEvent::Left(tag) => (ConnectionId(tag.0), Done::Left),
        })
    }

    /// Tells those who have fallen behind on a merged book all that they have missed of what may be read, as many of them as
    /// this turn has room for.
    pub fn bring_up_to_date(&mut self, channels: &Channels) {
        let (mut known, mut bytes) = (BTreeMap::new(), 0);
        while let Some(behind) = self.halls.next_behind() {
            let Some(feed) = self.feeds.get(&behind.stream) else { continue };
            if !self.has(ConnectionId(behind.who.0)) {
                continue;
            }
            let merged = match known.get(&(*feed, behind.read)) {
                _ if bytes > MERGED_BYTES => None,
                None => channels.merged_in_turn(*feed, behind.read),
                known => known.cloned(),
            };
            let Some(merged) = merged else { return self.halls.put_off(behind) };
            let (how, seq) = (known.entry((*feed, behind.read)).or_insert(merged), channels.told(*feed));
            let how = match how {
                MissedChange::Change(payload) => LagAnswer::Text { payload: payload.clone(), seq },
                MissedChange::Same => LagAnswer::Unchanged { seq },
                MissedChange::Gone => LagAnswer::Lost,
            };
            bytes += if let LagAnswer::Text { payload, .. } = &how { payload.len() } else { 0 };
            self.order(Order::LagAnswer(behind, how));
        }
    }

    /// A member's text of so many bytes has been acted on.
    pub fn heard(&mut self, id: ConnectionId, bytes: usize) {
        self.order(Order::Heard(SubscriberId(id.0), bytes));
    }

    /// Nobody comes any more; those who are here leave with the next release.
    pub fn stop(&mut self) {
        self.is_stopping = true;
    }
}

/// What a member has done.
pub enum Done {
    Text(String),
    Left,
}

/// Speaks to connections wherever they are.
pub struct Voice<'a> {
    pub notices: &'a mut Notices,
    pub audience: &'a mut PublicConnections,
}

impl Voice<'_> {
    /// An answer.
    pub fn reply(&mut self, to: ConnectionId, text: &[u8]) {
        if self.audience.has(to) {
            self.audience.say(to, text);
        } else {
            self.notices.reply(to, text);
        }
    }

    /// Something nobody asked for just now.
    pub fn notify(&mut self, to: ConnectionId, text: &[u8]) {
        if self.audience.has(to) {
            self.audience.say(to, text);
        } else {
            self.notices.notify(to, text);
        }
    }

    pub fn close(&mut self, to: ConnectionId, code: CloseCode, reason: &str) {
        if self.audience.has(to) {
            self.audience.close(to, code, reason);
        } else {
            self.notices.close(to, code, reason);
        }
    }
}
