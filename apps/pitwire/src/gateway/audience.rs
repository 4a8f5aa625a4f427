//! A gateway's readers in halls: plain readers of streams by URL, whose messages are sent by threads of their own.
//!
//! Does        hand their sockets over, keep a ring for each channel that they hear, pass on in one order what the node says.
//! Holds       what is said to one connection and what its channels are told keep the order in which the node said it.
//! Leaves out  who hears what: [`pitwire_gateway::Node`]. Rings and slow readers: `edge/publisher`.
//! Start at    [`Audience::adopt`], the [`Mouth`].

use std::collections::BTreeMap;
use std::sync::Arc;

use pitwire_gateway::{ChannelId, Mouth};
use pitwire_host::ConnectionId;
use pitwire_host::{CloseCode, Notices, Taken, Waker};
use pitwire_publisher::{Batch, Lag, Limits, Opening, Publisher, StreamId, StreamSpec, Tag, weight};

use crate::halls::{Attention, Halls, Heard};

/// Of each hall's copy of a channel, as at the venue.
const DELTA_RING: usize = 1 << 20;
const STATE_RING: usize = 1 << 16;
/// Set in the numbers of connections in halls: the loop's own count from nothing.
const IN_HALL: u64 = 1 << 62;

/// A channel as the halls know it.
struct Ring {
    stream: StreamId,
    /// Of its last message; the venue's own numbers begin anew with each of its starts.
    seq: u64,
}

pub struct Audience {
    halls: Halls,
    running: Option<Arc<Publisher>>,
    rings: BTreeMap<ChannelId, Ring>,
    /// Messages on their way: they go with whatever is said next, or with the turn.
    batch: Batch,
    last: u64,
    open: usize,
}

impl Audience {
    /// `waker` wakes the loop in whose turns [`Self::hear`] is called.
    pub fn new(waker: &Waker) -> Audience {
        Audience {
            halls: Halls::new(Limits::default(), waker),
            running: None,
            rings: BTreeMap::new(),
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
    pub fn adopt(&mut self, taken: Taken) -> u64 {
        self.last += 1;
        let Taken { socket, session, handshake, rest } = taken;
        let tag = Tag(self.last);
        self.in_turn(|halls| halls.adopt_open(socket, session, tag, rest, handshake, Opening::default()));
        self.open += 1;
        self.last
    }

    /// Connections that have come and not yet left.
    pub fn open_connections(&self) -> usize {
        self.open
    }

    pub fn hear(&mut self, attention: &mut Attention) -> Option<(u64, Option<String>)> {
        match self.halls.hear(attention)? {
            Heard::Text(Tag(id), text) => Some((id, Some(text))),
            // None is ever asked back.
            Heard::Left(Tag(id)) | Heard::Back(Tag(id), _) => {
                self.open = self.open.saturating_sub(1);
                Some((id, None))
            }
        }
    }

    /// So much of what a connection has said has been acted on: it is read from again.
    pub fn heard(&mut self, id: u64, bytes: usize) {
        self.in_turn(|halls| halls.heard(Tag(id), weight(bytes)));
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

    fn ring(&mut self, channel: ChannelId, is_state: bool) -> Option<StreamId> {
        let halls = self.running.as_ref()?;
        let ring = self.rings.entry(channel).or_insert_with(|| {
            let (lag, ring_bytes) = if is_state { (Lag::Latest, STATE_RING) } else { (Lag::Close, DELTA_RING) };
            let spec = StreamSpec { name: channel.to_string(), lag, ring_bytes, snapshot: false, keep: false };
            Ring { stream: halls.create(&spec), seq: 0 }
        });
        Some(ring.stream)
    }
}

impl Mouth for Audience {
    fn reply(&mut self, to: u64, text: &[u8]) {
        self.in_turn(|halls| halls.tell(Tag(to), text));
    }

    fn notify(&mut self, to: u64, text: &[u8]) {
        self.reply(to, text);
    }

    fn close(&mut self, to: u64, code: CloseCode, reason: &str) {
        self.in_turn(|halls| halls.close(Tag(to), code, reason));
    }

    fn tell_all(&mut self, channel: ChannelId, payload: &[u8]) {
        // Without a ring nobody has ever been seated.
        let Some(ring) = self.rings.get_mut(&channel) else { return };
        ring.seq += 1;
        self.batch.text(ring.stream, b"", ring.seq, payload);
    }

    fn frames(&mut self, to: u64, frames: Vec<u8>) {
        self.in_turn(|halls| halls.tell_frames(Tag(to), frames));
    }

    fn seat(&mut self, to: u64, channel: ChannelId, is_state: bool) {
        let Some(stream) = self.ring(channel, is_state) else { return };
        self.in_turn(|halls| halls.join(Tag(to), stream));
    }

    fn unseat(&mut self, to: u64, channel: ChannelId) {
        let Some(stream) = self.rings.get(&channel).map(|ring| ring.stream) else { return };
        self.in_turn(|halls| halls.leave(Tag(to), stream));
    }
}

/// What the node says, to the loop's connections and to those in halls.
pub struct Voice<'a>(pub &'a mut Notices, pub &'a mut Audience);

impl Mouth for Voice<'_> {
    fn reply(&mut self, to: u64, text: &[u8]) {
        if to & IN_HALL == 0 { self.0.reply(ConnectionId(to), text) } else { self.1.reply(to, text) }
    }

    fn notify(&mut self, to: u64, text: &[u8]) {
        if to & IN_HALL == 0 { self.0.notify(ConnectionId(to), text) } else { self.1.notify(to, text) }
    }

    fn close(&mut self, to: u64, code: CloseCode, reason: &str) {
        if to & IN_HALL == 0 { self.0.close(ConnectionId(to), code, reason) } else { self.1.close(to, code, reason) }
    }

    fn tell_all(&mut self, channel: ChannelId, payload: &[u8]) {
        self.1.tell_all(channel, payload);
    }

    fn frames(&mut self, to: u64, frames: Vec<u8>) {
        self.1.frames(to, frames);
    }

    fn seat(&mut self, to: u64, channel: ChannelId, is_state: bool) {
        self.1.seat(to, channel, is_state);
    }

    fn unseat(&mut self, to: u64, channel: ChannelId) {
        self.1.unseat(to, channel);
    }
}
