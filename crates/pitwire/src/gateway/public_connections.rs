//! A gateway's readers in halls: plain ones, of channels and of streams by URL, whose messages are
//! sent by threads of their own.
//!
//! Does        hand their sockets over, keep a ring for each channel that they hear, pass on in one
//!             order what the node says.
//! Holds       what is said to one connection and what its channels are told keep the order in
//!             which the node said it.
//! Leaves out  who hears what: [`pitwire_gateway::Node`]. Rings and slow readers:
//!             `crates/delivery`.
//! Start at    [`PublicConnections::adopt`], the [`ClientSink`].

use std::collections::BTreeMap;
use std::sync::Arc;

use pitwire_gateway::{Attachment, CatchUp, ChannelId, ClientSink};
use pitwire_net::ConnectionId;
use pitwire_net::{CloseCode, Handoff, Notices, Waker};
use pitwire_publisher::{
    Batch, LagAnswer, LagPolicy, Limits, Publisher, StreamId, StreamSpec, SubscriberId, SubscriberSetup, weight,
};

use pitwire_server::delivery_threads::{Behind, DeliveryThreads, ThreadEvent, TurnBudget};

/// Of each hall's copy of a channel, as at the venue.
const DELTA_RING: usize = 1 << 20;
const STATE_RING: usize = 1 << 16;
/// As on the loop: whoever has said nothing for so long, not even a pong, is closed. One that reads
/// nothing says nothing.
const IDLE_MS: u32 = 600_000;
/// Set in the numbers of connections in halls: the loop's own count from nothing.
const IN_HALL: u64 = 1 << 62;

/// A channel as the halls know it.
struct Ring {
    stream: StreamId,
    /// Its messages have the venue's sequences. Others are counted here: the venue's begin anew
    /// with each of its starts.
    has_sequences: bool,
    counted: u64,
}

pub struct PublicConnections {
    halls: DeliveryThreads,
    running: Option<Arc<Publisher>>,
    rings: BTreeMap<ChannelId, Ring>,
    channels: BTreeMap<StreamId, ChannelId>,
    /// Messages on their way: they go with whatever is said next, or with the turn.
    batch: Batch,
    last: u64,
    open: usize,
}

impl PublicConnections {
    /// `waker` wakes the loop in whose turns [`Self::hear`] is called.
    pub fn new(waker: &Waker) -> PublicConnections {
        PublicConnections {
            halls: DeliveryThreads::new(Limits { idle_ms: IDLE_MS, ..Limits::default() }, waker),
            running: None,
            rings: BTreeMap::new(),
            channels: BTreeMap::new(),
            batch: Batch::default(),
            last: IN_HALL,
            open: 0,
        }
    }

    /// Starts the halls if they were not; an error is for whoever has come.
    pub fn start(&mut self) -> Result<(), String> {
        self.running = Some(self.halls.start()?);
        Ok(())
    }

    /// Takes a connection in, under a number of its own.
    pub fn adopt(&mut self, taken: Handoff) -> u64 {
        self.last += 1;
        let Handoff { socket, session, handshake, rest } = taken;
        let tag = SubscriberId(self.last);
        self.in_turn(|halls| halls.adopt_open(socket, session, tag, rest, handshake, SubscriberSetup::default()));
        self.open += 1;
        self.last
    }

    /// Connections that have come and not yet left.
    pub fn open_connections(&self) -> usize {
        self.open
    }

    /// What a connection has said, or that it has left.
    pub fn hear(&mut self, attention: &mut TurnBudget) -> Option<(u64, Option<String>)> {
        match self.halls.hear(attention)? {
            ThreadEvent::Text(SubscriberId(id), text) => Some((id, Some(text))),
            ThreadEvent::Left(SubscriberId(id)) => {
                self.open = self.open.saturating_sub(1);
                Some((id, None))
            }
        }
    }

    /// One that is behind on a channel, and up to which sequence it has read.
    pub fn next_behind(&mut self) -> Option<(u64, ChannelId, u64)> {
        while let Some(Behind { who: SubscriberId(id), stream, read }) = self.halls.next_behind() {
            if let Some(channel) = self.channels.get(&stream) {
                return Some((id, *channel, read));
            }
        }
        None
    }

    /// So much of what a connection has said has been acted on: it is read from again.
    pub fn heard(&mut self, id: u64, bytes: usize) {
        self.in_turn(|halls| halls.heard(SubscriberId(id), weight(bytes)));
    }

    /// Sends what has been told. Called at the end of each turn.
    pub fn flush(&mut self) {
        if let Some(halls) = self.running.as_ref().filter(|_| !self.batch.is_empty()) {
            halls.send(&mut self.batch);
        }
    }

    pub fn stop(&mut self) {
        self.flush();
        self.running = None;
        self.halls.stop("the gateway is stopping");
    }

    /// Something for one connection, behind all that channels were told before.
    fn in_turn(&mut self, act: impl FnOnce(&Publisher)) {
        self.flush();
        if let Some(halls) = &self.running {
            act(halls);
        }
    }

    fn ring(&mut self, channel: ChannelId, seat: Attachment) -> Option<StreamId> {
        let halls = self.running.as_ref()?;
        let ring = self.rings.entry(channel).or_insert_with(|| {
            let (lag, ring_bytes) =
                if seat.is_state { (LagPolicy::Latest, STATE_RING) } else { (LagPolicy::Ask, DELTA_RING) };
            let spec = StreamSpec { name: channel.to_string(), lag, ring_bytes, snapshot: false, keep: false };
            Ring { stream: halls.create(&spec), has_sequences: lag == LagPolicy::Ask, counted: 0 }
        });
        let (stream, begins) = (ring.stream, seat.ring_start.filter(|_| ring.has_sequences));
        self.channels.insert(stream, channel);
        if let Some(seq) = begins {
            self.in_turn(|halls| halls.begin(stream, seq));
        }
        Some(stream)
    }
}

impl ClientSink for PublicConnections {
    fn reply(&mut self, to: u64, text: &[u8]) {
        self.in_turn(|halls| halls.tell(SubscriberId(to), text));
    }

    fn notify(&mut self, to: u64, text: &[u8]) {
        self.reply(to, text);
    }

    fn close(&mut self, to: u64, code: CloseCode, reason: &str) {
        self.in_turn(|halls| halls.close(SubscriberId(to), code, reason));
    }

    fn publish(&mut self, channel: ChannelId, seq: u64, payload: &[u8]) {
        // Without a ring nobody has ever been seated.
        let Some(ring) = self.rings.get_mut(&channel) else { return };
        ring.counted += 1;
        let number = if ring.has_sequences { seq } else { ring.counted };
        self.batch.text(ring.stream, b"", number, payload);
    }

    fn send_frames(&mut self, to: u64, frames: Vec<u8>) {
        self.in_turn(|halls| halls.tell_frames(SubscriberId(to), frames));
    }

    fn attach(&mut self, to: u64, channel: ChannelId, seat: Attachment) {
        let Some(stream) = self.ring(channel, seat) else { return };
        self.in_turn(|halls| match seat.is_state {
            true => halls.join(SubscriberId(to), stream),
            false => halls.join_behind(SubscriberId(to), stream, seat.read_to),
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
        self.in_turn(|halls| halls.go_on(SubscriberId(to), stream, read, how));
    }

    fn detach(&mut self, to: u64, channel: ChannelId) {
        let Some(stream) = self.rings.get(&channel).map(|ring| ring.stream) else { return };
        self.in_turn(|halls| halls.leave(SubscriberId(to), stream));
    }
}

/// What the node says, to the loop's connections and to those in halls.
pub struct Voice<'a>(pub &'a mut Notices, pub &'a mut PublicConnections);

impl ClientSink for Voice<'_> {
    fn reply(&mut self, to: u64, text: &[u8]) {
        if to & IN_HALL == 0 { self.0.reply(ConnectionId(to), text) } else { self.1.reply(to, text) }
    }

    fn notify(&mut self, to: u64, text: &[u8]) {
        if to & IN_HALL == 0 { self.0.notify(ConnectionId(to), text) } else { self.1.notify(to, text) }
    }

    fn close(&mut self, to: u64, code: CloseCode, reason: &str) {
        if to & IN_HALL == 0 { self.0.close(ConnectionId(to), code, reason) } else { self.1.close(to, code, reason) }
    }

    fn publish(&mut self, channel: ChannelId, seq: u64, payload: &[u8]) {
        self.1.publish(channel, seq, payload);
    }

    fn send_frames(&mut self, to: u64, frames: Vec<u8>) {
        self.1.send_frames(to, frames);
    }

    fn attach(&mut self, to: u64, channel: ChannelId, seat: Attachment) {
        self.1.attach(to, channel, seat);
    }

    fn catch_up(&mut self, to: u64, channel: ChannelId, read: u64, how: CatchUp) {
        self.1.catch_up(to, channel, read, how);
    }

    fn detach(&mut self, to: u64, channel: ChannelId) {
        self.1.detach(to, channel);
    }
}
