//! The delivery core: streams, subscribers and pending output of one delivery thread, without
//! sockets.
//!
//! Does        Takes in messages and client input. Returns the subscribers to serve, the bytes for
//!             each and the connections to close. Both event loops drive this core.
//! Holds       1. A message is copied into the ring once per frame format and goes from there to
//!                the sockets. Nothing is copied or allocated per subscriber.
//!             2. The snapshot and the cursor of a new subscriber refer to the same sequence
//!                number, so it gets no duplicate and no gap.
//!             3. A subscriber that stops reading costs at most the rest of one frame. Every
//!                message that it misses is declared, or its connection is closed.
//!             4. A connection receives whole frames in order, whether they come from the outbound
//!                queue, the control frame or the rings.
//!             5. Subscribers are served in a new random order for every message (see
//!                `ServiceOrder`).
//! Leaves out  Sockets and clocks, which belong to the event loop.
//! Start at    [`DeliveryCore::take`], [`DeliveryCore::due`], [`DeliveryCore::prepare`],
//!             [`DeliveryCore::gather`], [`DeliveryCore::sent`].

mod ask;
mod input;
mod join;
mod lag;
mod serve;

use std::collections::HashMap;
use std::sync::Arc;

use pitwire_net::OriginPolicy;
use pitwire_websocket::{CloseCode, Decoder, Limits as MessageLimits, Opcode, write_close};
use slab::Slab;
use tracing::warn;

pub use serve::{Next, PIECES, Pieces};

use crate::counters::{Counters, add};
use crate::handler::{DeliveryHandler, Reply, SubscriberId};
use crate::inbox::{ControlMessage, InboxItem, InboxQueue, QueuedMessage};

use crate::statistics::SharedStatistics;
use crate::subscriber::{NOBODY, Stage, Subscriber};
use crate::timer_wheel::TimerWheel;
use pitwire_delivery::Compressor;
use pitwire_delivery::Key;
use pitwire_delivery::ServiceOrder;
use pitwire_delivery::{ENVELOPED, Message, Stamp, Stream, StreamId};

/// Most bytes that one connection is sent in a turn. Also the bytes appended to the rings that end
/// the intake from the queue.
pub(crate) const TURN_BYTES: usize = 64 * 1024;
/// Outbound queue size in bytes from which the connection is not read.
const OUTBOX_FULL: usize = 64 * 1024;
/// Outbound queue limit in bytes for unsolicited frames. A connection that exceeds it is closed.
const OUTBOX_MOST: usize = 256 * 1024;
/// Prepared answers that a connection may be owed before it is not read.
const OWED_MOST: u32 = 64;
/// Weight of the unprocessed messages of a connection from which it is not read.
const UNHEARD_MOST: u32 = 64;
/// Most spare buffers of each kind that are kept for reuse.
const SPARES: usize = 64;

/// Timeouts and limits. Times are in milliseconds, the resolution of the timer wheel.
#[derive(Clone, Debug)]
pub struct Limits {
    pub messages: MessageLimits,
    /// Time limit for a handshake or a fragmented message, in milliseconds.
    pub unfinished_ms: u32,
    /// Idle timeout in milliseconds. Any input counts as activity, including a pong.
    pub idle_ms: u32,
    /// Interval between pings to all subscribers, in milliseconds. 0 disables them.
    pub ping_ms: u32,
    /// Lag threshold in milliseconds. A subscriber whose oldest unsent message is older is slow. 0
    /// disables the time check.
    pub lag_ms: u32,
    /// Time that a connection has to finish after its close frame was queued, in milliseconds.
    pub parting_ms: u32,
    /// Whether to accept permessage-deflate. Each message is then compressed once per delivery
    /// thread and frame format. Any client can cause this work, so it is off by default.
    pub deflate: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            messages: MessageLimits::default(),
            unfinished_ms: 5_000,
            idle_ms: 60_000,
            ping_ms: 20_000,
            lag_ms: 0,
            parting_ms: 2_000,
            deflate: false,
        }
    }
}

/// Arguments of [`DeliveryCore::new`].
pub struct CoreSettings {
    pub programme: Arc<dyn DeliveryHandler>,
    pub board: Arc<SharedStatistics>,
    /// Number of this delivery thread.
    pub hall: usize,
    pub limits: Limits,
    pub origins: OriginPolicy,
    /// Epoch of this server start, for resume tokens.
    pub epoch: u64,
    /// Frames of the prepared answer.
    pub answer: Arc<[u8]>,
    pub seed: u64,
    /// Whether most subscribers get messages in the envelope. Streams then store that format from
    /// the start.
    pub enveloped: bool,
}

/// Selects the subscribers that a delivery pass serves, and their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassKind {
    /// Subscribers with individual frames: answers, control frames or catch-up messages.
    Own,
    /// All subscribers with frames to send, in random order.
    First,
    /// The same subscribers, when the previous pass has just ended. They keep their previous order
    /// with small random changes.
    Next,
}

/// The next frame of one stream in a merge of several.
#[derive(Clone, Copy, Debug)]
struct MergeHead {
    pub place: u64,
    pub item: u32,
    pub cursor: pitwire_delivery::Cursor,
}

/// Settings that do not change after the start.
struct CoreContext {
    programme: Arc<dyn DeliveryHandler>,
    board: Arc<SharedStatistics>,
    /// Number of this delivery thread.
    hall: usize,
    limits: Limits,
    origins: Arc<OriginPolicy>,
    /// Epoch in resume tokens.
    epoch: u64,
    /// Frames of the prepared answer.
    answer: Arc<[u8]>,
    /// Main frame format.
    class: u8,
}

/// Subscribers and streams that the next delivery pass serves, and the byte limit.
struct PassState {
    /// Streams with new messages.
    dirty: Vec<u32>,
    /// Slots with individual frames.
    listed: Vec<u32>,
    /// Bytes appended since the last pass over streams.
    unswept: usize,
    /// Whether streams must be served before more messages are taken in.
    must_sweep: bool,
    /// Whether a pass is under way, so that some subscribers lack messages that preceded it.
    is_amid: bool,
    /// Most bytes for one subscriber in this pass.
    turn_bytes: usize,
    shuffle: ServiceOrder,
    /// Buffer for the slots whose timers have expired.
    due: Vec<u32>,
}

/// Sockets that the event loop has to close or to adopt.
#[derive(Default)]
struct SocketChanges {
    gone: Vec<u32>,
    arrivals: Vec<(u32, std::net::TcpStream)>,
    /// TLS sessions of those arrivals that have one.
    sessions: Vec<(u32, Box<pitwire_tls::Session>)>,
}

/// The time of the current turn, and of the last periodic tasks, in milliseconds.
#[derive(Default)]
struct CoreClock {
    now_ms: u64,
    pinged_ms: u64,
    checked_ms: u64,
}

/// Items taken from the inbox, and the position of the next one to handle.
#[derive(Default)]
struct CoreInput {
    queue: InboxQueue,
    queue_at: usize,
    /// Subscribers that joined a stream before its shed messages were declared, so that their
    /// position is unknown.
    unplaced: Vec<(u64, StreamId)>,
}

/// Buffers that are reused, so that serving allocates nothing.
#[derive(Default)]
struct SpareBuffers {
    reply: Reply,
    decoders: Vec<Decoder>,
    outboxes: Vec<Vec<u8>>,
    moved: Vec<(u32, pitwire_delivery::Cursor)>,
    merge: std::cell::RefCell<Vec<MergeHead>>,
}

/// The subscribers and streams of one delivery thread, without sockets.
pub struct DeliveryCore {
    settings: CoreContext,
    streams: Vec<Stream>,
    subscribers: Slab<Subscriber>,
    by_tag: HashMap<SubscriberId, u32>,
    wheel: TimerWheel,
    pass: PassState,
    /// Slots whose sockets accept no more bytes. Some may have been freed since.
    blocked: Vec<u32>,
    sockets: SocketChanges,
    clock: CoreClock,
    input: CoreInput,
    /// Append number of the newest frame, counted across all streams.
    place: u64,
    next_tag: u64,
    is_stopping: bool,
    /// Close frame for every subscriber at shutdown.
    farewell: Vec<u8>,
    compressor: Compressor,
    spare: SpareBuffers,
}

impl DeliveryCore {
    /// Makes a core without streams and subscribers.
    pub fn new(setting: CoreSettings) -> Self {
        let CoreSettings { programme, board, hall, limits, origins, epoch, answer, seed, enveloped } = setting;
        let class = if enveloped { ENVELOPED } else { 0 };
        DeliveryCore {
            settings: CoreContext { programme, board, hall, limits, origins: Arc::new(origins), epoch, answer, class },
            streams: Vec::new(),
            subscribers: Slab::new(),
            by_tag: HashMap::new(),
            wheel: TimerWheel::default(),
            pass: PassState {
                dirty: Vec::new(),
                listed: Vec::new(),
                unswept: 0,
                must_sweep: false,
                is_amid: false,
                turn_bytes: TURN_BYTES,
                shuffle: ServiceOrder::new(seed),
                due: Vec::new(),
            },
            blocked: Vec::new(),
            sockets: SocketChanges::default(),
            clock: CoreClock::default(),
            input: CoreInput::default(),
            place: 0,
            next_tag: 0,
            is_stopping: false,
            farewell: Vec::new(),
            compressor: Compressor::default(),
            spare: SpareBuffers::default(),
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        self.settings.board.counters(self.settings.hall)
    }

    /// Sets the current time, in nanoseconds of any monotonic clock. The event loop calls it once
    /// per turn. Expired timers run here.
    pub fn set_now(&mut self, now_ns: u64) {
        self.clock.now_ms = now_ns / 1_000_000;
        let mut due = std::mem::take(&mut self.pass.due);
        self.wheel.turn(&mut self.subscribers, self.clock.now_ms, &mut due);
        for slot in due.drain(..) {
            self.look_at(slot);
        }
        self.pass.due = due;
        self.ping();
        self.check_times();
    }

    /// Advances the time after the event loop has slept. Without it, the timers of a new connection
    /// would count the sleep.
    pub fn has_waited(&mut self, now_ns: u64) {
        self.clock.now_ms = self.clock.now_ms.max(now_ns / 1_000_000);
    }

    #[allow(clippy::cast_possible_truncation)]
    fn stamp_ms(&self) -> u32 {
        // The value wraps after 49 days. Only differences are used.
        self.clock.now_ms as u32
    }

    fn elapsed_ms(&self, since_ms: u32) -> u32 {
        self.stamp_ms().wrapping_sub(since_ms)
    }

    /// Returns the number of connections in any stage.
    pub fn len(&self) -> usize {
        self.subscribers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.subscribers.is_empty()
    }

    /// Adds a connection and returns its slot, which stays the same until [`Self::leave`].
    pub fn enter(&mut self) -> u32 {
        self.next_tag += 1;
        let tag = self.settings.board.tag(self.settings.hall, self.next_tag);
        self.seat(tag)
    }

    fn seat(&mut self, tag: SubscriberId) -> u32 {
        add(&self.counters().connections_total, 1);
        let slot = self.subscribers.insert(Subscriber::new(tag.0, self.stamp_ms()));
        let slot = u32::try_from(slot).unwrap_or(NOBODY - 1);
        self.by_tag.insert(tag, slot);
        self.wheel.set(&mut self.subscribers, slot, self.clock.now_ms, self.settings.limits.unfinished_ms);
        self.counters().connections.store(self.subscribers.len() as u64, std::sync::atomic::Ordering::Relaxed);
        slot
    }

    /// Removes a connection whose socket is closed, and tells the handler.
    pub fn leave(&mut self, slot: u32) {
        if let Some(tag) = self.forget(slot) {
            self.settings.programme.left(tag);
        }
    }

    fn forget(&mut self, slot: u32) -> Option<SubscriberId> {
        while let Some(count) = self.subscribers.get(slot as usize).map(|subscriber| subscriber.items.as_slice().len())
            && count > 0
        {
            self.drop_item(slot, count - 1);
        }
        self.wheel.unset(&mut self.subscribers, slot);
        let mut subscriber = self.subscribers.try_remove(slot as usize)?;
        if let Some(rare) = subscriber.rare.take() {
            self.keep_outbox(rare.outbox);
            if let Some(account) = &rare.account {
                self.settings.board.leave_account(account);
            }
        }
        let tag = SubscriberId(subscriber.tag);
        self.by_tag.remove(&tag);
        self.counters().connections.store(self.subscribers.len() as u64, std::sync::atomic::Ordering::Relaxed);
        Some(tag)
    }

    /// Moves the slots of finished connections to `into`. The caller closes their sockets, then
    /// calls [`Self::leave`].
    pub fn take_gone(&mut self, into: &mut Vec<u32>) {
        into.append(&mut self.sockets.gone);
    }

    /// Moves the sockets that came through the inbox to `into`, with their slots.
    pub fn take_arrivals(&mut self, into: &mut Vec<(u32, std::net::TcpStream)>) {
        into.append(&mut self.sockets.arrivals);
    }

    pub fn take_session(&mut self, slot: u32) -> Option<Box<pitwire_tls::Session>> {
        let at = self.sockets.sessions.iter().position(|(of, _)| *of == slot)?;
        Some(self.sockets.sessions.swap_remove(at).1)
    }

    /// Takes in new messages during a delivery pass, so that subscribers later in the pass get them
    /// at once.
    pub fn take_meanwhile(&mut self, inbox: &crate::inbox::Inbox) -> bool {
        self.pass.is_amid = true;
        let has_more = self.take(inbox);
        self.pass.is_amid = false;
        has_more
    }

    /// Handles inbox items until a delivery pass is due or the inbox is empty. Returns whether
    /// items may be left.
    pub fn take(&mut self, inbox: &crate::inbox::Inbox) -> bool {
        while !self.pass.must_sweep {
            if self.input.queue_at >= self.input.queue.orders.len() {
                self.end_queue();
                inbox.take(&mut self.input.queue);
                self.input.queue_at = 0;
                if self.input.queue.is_empty() {
                    return false;
                }
                if self.input.queue.orders.is_empty() {
                    continue;
                }
            }
            let at = self.input.queue_at;
            self.input.queue_at += 1;
            match std::mem::replace(
                &mut self.input.queue.orders[at],
                InboxItem::ControlMessage(ControlMessage::Nothing),
            ) {
                InboxItem::Message(posted) => self.append_posted(&posted),
                InboxItem::ControlMessage(errand) => self.run(errand),
            }
        }
        true
    }

    fn append_posted(&mut self, posted: &QueuedMessage) {
        let bytes = std::mem::take(&mut self.input.queue.bytes);
        let payload_at = posted.start + posted.key_len;
        if let (Some(key), Some(payload)) =
            (bytes.get(posted.start..payload_at), bytes.get(payload_at..payload_at + posted.len))
        {
            self.append(posted.stream, key, posted.seq, posted.is_binary, payload);
        }
        self.input.queue.bytes = bytes;
        add(&self.counters().messages_total, 1);
    }

    /// Appends a message to its stream.
    pub fn append(&mut self, stream: StreamId, key: &[u8], seq: u64, is_binary: bool, payload: &[u8]) {
        let stamp = self.next_stamp();
        let Some(of) = self.streams.get_mut(stream.0 as usize) else { return };
        let key = of.key(key);
        of.append(&Message { seq, key, is_binary, payload }, stamp, &mut self.compressor);
        if std::mem::take(&mut of.has_quoted) {
            self.has_quoted();
        }
        self.appended(stream.0);
    }

    #[cold]
    fn has_quoted(&self) {
        add(&self.counters().quoted_total, 1);
        if self.settings.board.tell_once() {
            warn!("a message is no JSON: in envelopes it is a string (counted as quoted_total)");
        }
    }

    fn next_stamp(&mut self) -> Stamp {
        self.place += 1;
        Stamp { epoch: self.settings.epoch, place: self.place, at_ms: self.stamp_ms() }
    }

    fn appended(&mut self, stream: u32) {
        let Some(of) = self.streams.get_mut(stream as usize) else { return };
        if !std::mem::replace(&mut of.is_dirty, true) {
            self.pass.dirty.push(stream);
        }
        self.pass.unswept += std::mem::take(&mut of.grown);
        // A pass sends every subscriber at least the bytes appended before it. A subscriber that
        // keeps up thus never exceeds the lag limit.
        let waits = of.unswept + if self.pass.is_amid { of.swept } else { 0 };
        self.pass.must_sweep |= self.pass.unswept >= TURN_BYTES || waits >= of.spec.ring_bytes / 4;
        if of.unchecked >= of.spec.ring_bytes / 4 {
            of.unchecked = 0;
            self.check_bytes(stream);
        }
    }

    /// Finishes a queue: declares its shed messages and closes subscribers with lost frames.
    fn end_queue(&mut self) {
        for (stream, shed) in std::mem::take(&mut self.input.queue.shed) {
            add(&self.counters().shed_total, shed.messages);
            self.declare_shed(StreamId(stream), &shed);
        }
        self.input.unplaced.clear();
        for tag in std::mem::take(&mut self.input.queue.untold) {
            if let Some(slot) = self.slot_of(tag) {
                add(&self.counters().closed_slow_total, 1);
                self.close(slot, CloseCode::TryAgainLater, "the server was too busy to tell you more; connect again");
            }
        }
    }

    fn run(&mut self, errand: ControlMessage) {
        match errand {
            ControlMessage::Nothing => {}
            ControlMessage::Create(spec) => self.streams.push(Stream::new(spec, self.settings.class)),
            ControlMessage::Adopt(arrival) => self.adopt(*arrival),
            ControlMessage::Tell { to, frames } => drop(self.slot_of(to).map(|slot| self.tell(slot, &frames))),
            ControlMessage::Heard { to, weight } => drop(self.slot_of(to).map(|slot| self.heard(slot, weight))),
            ControlMessage::Join { to, stream, read } => match (self.slot_of(to), read) {
                (Some(slot), None) => self.join(slot, stream),
                (Some(slot), Some(read)) => self.join_behind(slot, stream, read),
                (None, _) => {}
            },
            ControlMessage::Leave { to, stream } => drop(self.slot_of(to).map(|slot| self.leave_stream(slot, stream))),
            ControlMessage::Close { to, code, reason } => {
                if let Some(slot) = self.slot_of(to) {
                    self.close(slot, code, &reason);
                }
            }
            ControlMessage::LagAnswer { to, stream, read, how } => self.go_on_with(to, stream, read, how),
            ControlMessage::Begin { stream, seq } => self.begin(stream, seq),
            ControlMessage::Stop { reason } => self.stop(&reason),
        }
    }

    /// Queues whole frames ahead of the streams. Closes the connection if the frames are not
    /// answers and the outbound queue exceeds [`OUTBOX_MOST`].
    fn tell(&mut self, slot: u32, frames: &[u8]) {
        // No frame may follow a close frame.
        if self.subscribers.get(slot as usize).is_none_or(|subscriber| !subscriber.stage.is_served()) {
            return;
        }
        self.say(slot, frames);
        let Some(subscriber) = self.subscribers.get(slot as usize) else { return };
        let waiting = subscriber.outbox().len();
        if subscriber.unheard == 0 && waiting > OUTBOX_MOST && waiting > 2 * frames.len() {
            self.close(slot, CloseCode::TryAgainLater, "too slow: what it is told is not being read");
        }
    }

    /// Appends bytes to the outbound queue.
    fn say(&mut self, slot: u32, bytes: &[u8]) {
        let spare = self.spare_outbox(slot);
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        let control = std::mem::take(&mut subscriber.control);
        let rare = subscriber.rare();
        if let Some(spare) = spare {
            rare.outbox = spare;
        }
        // The pending control frame was queued earlier, so it goes first.
        rare.outbox.extend_from_slice(control.as_bytes());
        rare.outbox.extend_from_slice(bytes);
        self.list(slot);
    }

    fn spare_outbox(&mut self, slot: u32) -> Option<Vec<u8>> {
        let rare = self.subscribers.get(slot as usize)?.rare.as_ref();
        rare.is_none_or(|rare| rare.outbox.capacity() == 0).then(|| self.spare.outboxes.pop()).flatten()
    }

    fn keep_outbox(&mut self, mut outbox: Vec<u8>) {
        if outbox.capacity() > 0 && outbox.capacity() <= 2 * TURN_BYTES && self.spare.outboxes.len() < SPARES {
            outbox.clear();
            self.spare.outboxes.push(outbox);
        }
    }

    fn list(&mut self, slot: u32) {
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        if !subscriber.is_blocked && !std::mem::replace(&mut subscriber.is_listed, true) {
            self.pass.listed.push(slot);
        }
    }

    /// Closes a connection with a close frame. A frame that is partly sent is finished first.
    pub fn close(&mut self, slot: u32, code: CloseCode, reason: &str) {
        let mut frame = Vec::with_capacity(2 + 125);
        write_close(&mut frame, code, reason);
        self.say_last(slot, &frame);
    }

    /// Queues a close frame, unless one has been queued.
    fn say_last(&mut self, slot: u32, frame: &[u8]) {
        match self.subscribers.get(slot as usize).map(|subscriber| subscriber.stage) {
            Some(Stage::Asking) => self.go(slot),
            Some(Stage::Open | Stage::Parting) => {
                self.spill(slot);
                self.say(slot, frame);
                self.set_stage(slot, Stage::Closing, self.settings.limits.parting_ms);
            }
            _ => {}
        }
    }

    fn set_stage(&mut self, slot: u32, stage: Stage, look_again_ms: u32) {
        let now = self.stamp_ms();
        if let Some(subscriber) = self.subscribers.get_mut(slot as usize) {
            (subscriber.stage, subscriber.since_ms) = (stage, now);
        }
        self.wheel.set(&mut self.subscribers, slot, self.clock.now_ms, look_again_ms);
    }

    /// Drops a connection at once, with all its unsent bytes.
    pub fn go(&mut self, slot: u32) {
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        if std::mem::replace(&mut subscriber.stage, Stage::Gone) != Stage::Gone {
            self.sockets.gone.push(slot);
        }
    }

    /// Starts the shutdown: every subscriber gets its pending messages, then a close frame.
    pub fn stop(&mut self, reason: &str) {
        self.is_stopping = true;
        self.farewell.clear();
        write_close(&mut self.farewell, CloseCode::GoingAway, reason);
        let all: Vec<u32> = self.subscribers.iter().filter_map(|(slot, _)| u32::try_from(slot).ok()).collect();
        for slot in all {
            match self.subscribers.get(slot as usize).map(|subscriber| subscriber.stage) {
                Some(Stage::Asking) => self.go(slot),
                Some(Stage::Open) => {
                    self.set_stage(slot, Stage::Parting, self.settings.limits.parting_ms);
                    self.list(slot);
                }
                _ => {}
            }
        }
    }

    /// Queues the shutdown close frame for a subscriber that has received everything.
    fn say_farewell(&mut self, slot: u32) {
        let farewell = std::mem::take(&mut self.farewell);
        self.say(slot, &farewell);
        self.farewell = farewell;
        self.set_stage(slot, Stage::Closing, self.settings.limits.parting_ms);
    }

    pub fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Handles an expired timer: checks the deadlines of the connection and sets the next timer.
    fn look_at(&mut self, slot: u32) {
        let now = self.stamp_ms();
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        if subscriber.has_left_over || !subscriber.has_room() {
            // We paused reading, so do not time this peer out.
            subscriber.unfinished_ms = now;
        }
        let Some(subscriber) = self.subscribers.get(slot as usize) else { return };
        let (since, heard) = (self.elapsed_ms(subscriber.since_ms), self.elapsed_ms(subscriber.heard_ms));
        let unfinished = subscriber.is_unfinished.then(|| self.elapsed_ms(subscriber.unfinished_ms));
        let Limits { unfinished_ms, idle_ms, parting_ms, .. } = self.settings.limits;
        let next = match subscriber.stage {
            Stage::Asking if since >= unfinished_ms => return self.refuse_slow(slot),
            Stage::Asking => unfinished_ms - since,
            Stage::Open if unfinished.is_some_and(|unfinished| unfinished >= unfinished_ms) => {
                return self.close(slot, CloseCode::Policy, "a message was not finished in time");
            }
            Stage::Open if heard >= idle_ms => {
                add(&self.counters().closed_idle_total, 1);
                return self.close(slot, CloseCode::Policy, "nothing heard for too long, not even a pong");
            }
            Stage::Open => {
                // Pings come through the rings. A subscriber without a stream gets an individual
                // one.
                if subscriber.items.as_slice().is_empty() && heard >= idle_ms / 2 {
                    self.ping_one(slot);
                }
                let idle = (idle_ms - heard).min(idle_ms / 2 + 1);
                unfinished.map_or(idle, |unfinished| idle.min(unfinished_ms - unfinished))
            }
            Stage::Parting | Stage::Closing | Stage::Lingering if since >= parting_ms => return self.go(slot),
            Stage::Parting | Stage::Closing | Stage::Lingering => parting_ms - since,
            Stage::Gone => return,
        };
        self.wheel.set(&mut self.subscribers, slot, self.clock.now_ms, next);
    }

    fn ping_one(&mut self, slot: u32) {
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        subscriber.control.set(Opcode::Ping as u8, b"");
        self.list(slot);
    }

    /// Appends one ping to each ring that has readers, so that all readers share its bytes.
    fn ping(&mut self) {
        let every_ms = u64::from(self.settings.limits.ping_ms);
        if every_ms == 0 || self.clock.now_ms < self.clock.pinged_ms + every_ms {
            return;
        }
        self.clock.pinged_ms = self.clock.now_ms;
        for at in 0..self.streams.len() {
            let stamp = self.next_stamp();
            let stream = &mut self.streams[at];
            if stream.listeners.is_empty() {
                stream.close_rings();
                continue;
            }
            stream.append_notice(Opcode::Ping, b"", stamp);
            self.appended(u32::try_from(at).unwrap_or(NOBODY));
        }
    }

    /// Collects the subscribers that may have frames to send: those with individual frames, and
    /// unless `sweep` is [`PassKind::Own`] the readers of streams with new messages. Blocked
    /// sockets are left out.
    pub fn due(&mut self, into: &mut Vec<u32>, sweep: PassKind) {
        let with_streams = sweep != PassKind::Own;
        into.clear();
        into.append(&mut self.pass.listed);
        let DeliveryCore { streams, subscribers, pass: PassState { dirty, .. }, .. } = self;
        // A listed slot may have been freed, or be listed twice. The io_uring loop would then send
        // the same bytes twice.
        into.retain(|slot| {
            subscribers.get_mut(*slot as usize).is_some_and(|subscriber| std::mem::take(&mut subscriber.is_listed))
        });
        for slot in into.iter() {
            if let Some(subscriber) = subscribers.get_mut(*slot as usize) {
                subscriber.is_listed = true;
            }
        }
        let count = if with_streams { dirty.len() } else { 0 };
        if with_streams {
            self.pass.turn_bytes = TURN_BYTES.max(std::mem::take(&mut self.pass.unswept));
            self.pass.must_sweep = false;
        }
        for at in dirty.drain(..count) {
            let Some(stream) = streams.get_mut(at as usize) else { continue };
            (stream.is_dirty, stream.swept, stream.unswept) = (false, stream.unswept, 0);
            for listener in &stream.listeners {
                let Some(subscriber) = subscribers.get_mut(listener.slot as usize) else { continue };
                let is_due = !subscriber.is_blocked && subscriber.stage.is_served();
                if is_due && !std::mem::replace(&mut subscriber.is_listed, true) {
                    into.push(listener.slot);
                }
            }
        }
        self.put_in_order(into, sweep);
    }

    fn put_in_order(&mut self, slots: &mut [u32], sweep: PassKind) {
        let DeliveryCore { pass: PassState { shuffle, .. }, subscribers, .. } = self;
        if sweep != PassKind::Next {
            shuffle.shuffle(slots);
        } else {
            slots.sort_unstable_by_key(|slot| subscribers.get(*slot as usize).map(|subscriber| subscriber.place));
            shuffle.stir(slots);
        }
        if sweep != PassKind::Own {
            for (place, slot) in (0..).zip(slots.iter()) {
                let subscriber = subscribers.get_mut(*slot as usize);
                subscriber.into_iter().for_each(|subscriber| subscriber.place = place);
            }
        }
    }

    /// Whether a delivery pass must run before more messages are taken in.
    pub fn must_sweep(&self) -> bool {
        self.pass.must_sweep
    }

    /// Returns the most bytes that one connection is sent in this turn.
    pub fn turn_bytes(&self) -> usize {
        self.pass.turn_bytes
    }

    /// Returns whether subscribers have individual frames, and whether streams have new messages.
    pub fn has_due(&self) -> (bool, bool) {
        (!self.pass.listed.is_empty(), !self.pass.dirty.is_empty())
    }

    /// Returns the number of a key in a stream, for a filter.
    fn key_of(&mut self, stream: StreamId, name: &[u8]) -> Option<Key> {
        self.streams.get_mut(stream.0 as usize)?.key_asked(name)
    }
}

#[cfg(test)]
mod tests;
