//! The delivery core: streams, subscribers and pending output of one delivery thread, without
//! sockets.
//!
//! Does        Takes in messages and client input. Returns the subscribers to serve, the bytes for
//!             each and the connections to close. A delivery thread drives it.
//! Holds       1. A message is copied into the ring once per frame format and goes from there to
//!                the sockets. Nothing is copied or allocated per subscriber.
//!             2. The snapshot and the cursor of a new subscriber refer to the same sequence
//!                number, so it gets no duplicate and no gap.
//!             3. A subscriber that stops reading costs at most the rest of one frame. Every
//!                message that it misses is declared, or its connection is closed.
//!             4. Subscribers are served in a new random order for every message (see
//!                `ServiceOrder`).
//! Leaves out  Sockets and clocks, which belong to the delivery thread.
//! Start at    [`DeliveryCore::take`], [`DeliveryCore::due`], [`DeliveryCore::prepare`],
//!             [`DeliveryCore::gather`], [`DeliveryCore::sent`].

mod context;
mod fanout;
mod input;
mod input_buffers;
mod stream_table;

use std::sync::Arc;

use pitwire_delivery::{ENVELOPED, StreamId};
use pitwire_net::OriginPolicy;
use pitwire_websocket::CloseCode;

pub use context::{Next, PassKind, SubscriberLimits};
pub use fanout::{PIECES, Pieces};

use crate::counters::{Counters, add};
use crate::delivery_core::context::CoreContext;
use crate::delivery_core::fanout::{Fanout, SendProgress};
use crate::delivery_core::input_buffers::InputBuffers;
use crate::delivery_core::stream_table::StreamTable;
use crate::handler::{DeliveryHandler, SubscriberId};
use crate::inbox::{ControlMessage, HandedOffSocket, Inbox, InboxItem, InboxQueue, QueuedMessage};
use crate::statistics::SharedStatistics;
use crate::subscriber::Stage;

/// Arguments of [`DeliveryCore::new`].
pub struct CoreSettings {
    pub handler: Arc<dyn DeliveryHandler>,
    pub statistics: Arc<SharedStatistics>,
    /// Number of this delivery thread.
    pub thread: usize,
    pub limits: SubscriberLimits,
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

/// Items taken from the inbox, and the position of the next one to handle.
#[derive(Default)]
struct InboxReader {
    queue: InboxQueue,
    next: usize,
}

/// Sockets that came through the inbox, with their slots.
#[derive(Default)]
struct Arrivals {
    sockets: Vec<(u32, std::net::TcpStream)>,
    /// TLS sessions of those that have one.
    sessions: Vec<(u32, Box<pitwire_tls::Session>)>,
}

/// The subscribers and streams of one delivery thread, without sockets.
pub struct DeliveryCore {
    fanout: Fanout,
    inbox: InboxReader,
    input: InputBuffers,
    arrivals: Arrivals,
    /// Number of the last connection that this thread accepted.
    accepted: u64,
}

impl DeliveryCore {
    /// Makes a core without streams and subscribers.
    pub fn new(settings: CoreSettings) -> Self {
        let CoreSettings { handler, statistics, thread, limits, origins, epoch, answer, seed, enveloped } = settings;
        let streams = StreamTable::new(epoch, if enveloped { ENVELOPED } else { 0 });
        let context = CoreContext { handler, statistics, thread, limits, answer };
        DeliveryCore {
            fanout: Fanout::new(context, streams, seed),
            inbox: InboxReader::default(),
            input: InputBuffers::new(origins),
            arrivals: Arrivals::default(),
            accepted: 0,
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        self.fanout.counters()
    }

    /// Sets the current time, in nanoseconds of any monotonic clock. The delivery thread calls it
    /// once per turn. Expired timers run here.
    pub fn set_now(&mut self, now_ns: u64) {
        let expired = self.fanout.subscribers.advance(now_ns / 1_000_000);
        for slot in &expired {
            self.check_deadlines(*slot);
        }
        self.fanout.subscribers.recycle_expired(expired);
        self.fanout.ping();
        self.fanout.check_times();
    }

    /// Advances the time after the delivery thread has slept. Without it, the timers of a new
    /// connection would count the sleep.
    pub fn has_waited(&mut self, now_ns: u64) {
        self.fanout.subscribers.has_waited(now_ns / 1_000_000);
    }

    /// Returns the number of connections in any stage.
    pub fn len(&self) -> usize {
        self.fanout.subscribers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.fanout.subscribers.is_empty()
    }

    /// Adds a connection and returns its slot, which stays the same until [`Self::remove`].
    pub fn insert(&mut self) -> u32 {
        self.accepted += 1;
        let context = &self.fanout.context;
        let id = context.statistics.id(context.thread, self.accepted);
        self.fanout.insert(id)
    }

    /// Removes a connection whose socket is closed, and tells the handler.
    pub fn remove(&mut self, slot: u32) {
        if let Some(id) = self.fanout.remove(slot) {
            self.fanout.context.handler.disconnected(id);
        }
    }

    /// Drops a connection at once, with all its unsent bytes.
    pub fn finish(&mut self, slot: u32) {
        self.fanout.subscribers.finish(slot);
    }

    /// Moves the slots of finished connections to `into`. The caller closes their sockets, then
    /// calls [`Self::remove`].
    pub fn take_finished(&mut self, into: &mut Vec<u32>) {
        self.fanout.subscribers.take_finished(into);
    }

    /// Moves the sockets that came through the inbox to `into`, with their slots.
    pub fn take_arrivals(&mut self, into: &mut Vec<(u32, std::net::TcpStream)>) {
        into.append(&mut self.arrivals.sockets);
    }

    pub fn take_session(&mut self, slot: u32) -> Option<Box<pitwire_tls::Session>> {
        let at = self.arrivals.sessions.iter().position(|(of, _)| *of == slot)?;
        Some(self.arrivals.sessions.swap_remove(at).1)
    }

    /// Takes in new messages during a delivery pass, so that subscribers later in the pass get them
    /// at once.
    pub fn take_meanwhile(&mut self, inbox: &Inbox) -> bool {
        self.fanout.streams.is_in_pass = true;
        let has_more = self.take(inbox);
        self.fanout.streams.is_in_pass = false;
        has_more
    }

    /// Handles inbox items until a delivery pass is due or the inbox is empty. Returns whether
    /// items may be left.
    pub fn take(&mut self, inbox: &Inbox) -> bool {
        while !self.must_serve() {
            if self.inbox.next >= self.inbox.queue.items.len() {
                self.end_queue();
                inbox.take(&mut self.inbox.queue);
                self.inbox.next = 0;
                if self.inbox.queue.is_empty() {
                    return false;
                }
                self.fanout.shed = std::mem::take(&mut self.inbox.queue.shed);
                if self.inbox.queue.items.is_empty() {
                    continue;
                }
            }
            let item = std::mem::replace(&mut self.inbox.queue.items[self.inbox.next], InboxItem::Nothing);
            self.inbox.next += 1;
            match item {
                InboxItem::Nothing => {}
                InboxItem::Message(message) => self.append_queued(message),
                InboxItem::ControlMessage(message) => self.control(message),
            }
        }
        true
    }

    fn append_queued(&mut self, message: QueuedMessage) {
        let bytes = &self.inbox.queue.bytes;
        let payload_at = message.start + message.key_len;
        if let (Some(key), Some(payload)) =
            (bytes.get(message.start..payload_at), bytes.get(payload_at..payload_at + message.len))
        {
            self.fanout.append(message.stream, key, message.seq, message.is_binary, payload);
        }
        add(&self.counters().messages_total, 1);
    }

    /// Finishes a queue: declares its shed messages and closes subscribers with lost frames.
    fn end_queue(&mut self) {
        for (stream, shed) in std::mem::take(&mut self.fanout.shed) {
            add(&self.counters().shed_total, shed.messages);
            self.fanout.declare_shed(StreamId(stream), &shed);
        }
        self.fanout.unplaced.clear();
        for id in std::mem::take(&mut self.inbox.queue.overflowed) {
            self.fanout.close_unsent(id);
        }
    }

    fn control(&mut self, message: ControlMessage) {
        let slot_of = |id: SubscriberId| self.fanout.subscribers.slot_of(id);
        match message {
            ControlMessage::Create(spec) => self.fanout.streams.create(spec),
            ControlMessage::Adopt(arrival) => self.adopt(*arrival),
            ControlMessage::Frames { to, frames } => {
                slot_of(to).into_iter().for_each(|slot| self.fanout.send_frames(slot, &frames));
            }
            ControlMessage::Processed { to, weight } => {
                slot_of(to).into_iter().for_each(|slot| self.processed(slot, weight));
            }
            ControlMessage::Join { to, stream, read } => match (slot_of(to), read) {
                (Some(slot), None) => self.fanout.join(slot, stream),
                (Some(slot), Some(read)) => self.fanout.join_behind(slot, stream, read),
                (None, _) => {}
            },
            ControlMessage::Leave { to, stream } => {
                slot_of(to).into_iter().for_each(|slot| self.fanout.leave_stream(slot, stream));
            }
            ControlMessage::Close { to, code, reason } => {
                slot_of(to).into_iter().for_each(|slot| self.close(slot, code, &reason));
            }
            ControlMessage::LagAnswer { to, stream, read, answer } => self.fanout.resume(to, stream, read, answer),
            ControlMessage::Restart { stream, seq } => self.fanout.restart(stream, seq),
            ControlMessage::Stop { reason } => self.stop(&reason),
        }
    }

    /// Adopts a socket that another thread has accepted.
    fn adopt(&mut self, arrival: HandedOffSocket) {
        let slot = self.fanout.insert(arrival.id);
        self.arrivals.sockets.push((slot, arrival.socket));
        self.arrivals.sessions.extend(arrival.tls.map(|session| (slot, session)));
        if let Some((response, setup)) = arrival.upgraded {
            self.fanout.subscribers.queue(slot, &response);
            self.fanout.open(slot, &setup);
        }
        if !arrival.received.is_empty() {
            self.received(slot, &arrival.received);
        }
    }

    /// Closes a connection with a close frame. A frame that is partly sent is finished first.
    pub fn close(&mut self, slot: u32, code: CloseCode, reason: &str) {
        self.fanout.close(slot, code, reason);
    }

    /// Starts the shutdown: every subscriber gets its pending messages, then a close frame.
    pub fn stop(&mut self, reason: &str) {
        self.fanout.stop(reason);
    }

    pub fn is_stopping(&self) -> bool {
        self.fanout.is_stopping()
    }

    /// Handles an expired timer: checks the deadlines of the connection and sets the next timer.
    fn check_deadlines(&mut self, slot: u32) {
        let now_ms = self.fanout.subscribers.stamp_ms();
        let Some(subscriber) = self.fanout.subscribers.get_mut(slot) else { return };
        if subscriber.input.has_left_over || !subscriber.has_room() {
            // We paused reading, so do not time this peer out.
            subscriber.input.unfinished_ms = now_ms;
        }
        let (input, since_ms) = (subscriber.input, now_ms.wrapping_sub(subscriber.since_ms));
        let silent_ms = now_ms.wrapping_sub(input.last_ms);
        let pending_ms = input.is_unfinished.then(|| now_ms.wrapping_sub(input.unfinished_ms));
        let has_streams = !subscriber.items.as_slice().is_empty();
        let SubscriberLimits { unfinished_ms, idle_ms, parting_ms, .. } = self.fanout.context.limits;
        let next_ms = match subscriber.stage {
            Stage::Handshake if since_ms >= unfinished_ms => return self.refuse_slow(slot),
            Stage::Handshake => unfinished_ms - since_ms,
            Stage::Open if pending_ms.is_some_and(|pending_ms| pending_ms >= unfinished_ms) => {
                return self.close(slot, CloseCode::Policy, "a message was not finished in time");
            }
            Stage::Open if silent_ms >= idle_ms => {
                add(&self.counters().closed_idle_total, 1);
                return self.close(slot, CloseCode::Policy, "nothing received for too long, not even a pong");
            }
            Stage::Open => {
                // Pings come through the rings. A subscriber without a stream gets an individual
                // one.
                if !has_streams && silent_ms >= idle_ms / 2 {
                    self.fanout.subscribers.queue_ping(slot);
                }
                let idle_ms = (idle_ms - silent_ms).min(idle_ms / 2 + 1);
                pending_ms.map_or(idle_ms, |pending_ms| idle_ms.min(unfinished_ms - pending_ms))
            }
            Stage::Draining | Stage::Closing | Stage::Lingering if since_ms >= parting_ms => return self.finish(slot),
            Stage::Draining | Stage::Closing | Stage::Lingering => parting_ms - since_ms,
            Stage::Gone => return,
        };
        self.fanout.subscribers.set_timer(slot, next_ms);
    }

    /// Collects the subscribers that may have frames to send: those with individual frames, and
    /// unless `kind` is [`PassKind::Own`] the readers of streams with new messages. Blocked sockets
    /// are left out.
    pub fn due(&mut self, into: &mut Vec<u32>, kind: PassKind) {
        self.fanout.due(into, kind);
    }

    /// Whether a delivery pass must run before more messages are taken in.
    pub fn must_serve(&self) -> bool {
        self.fanout.streams.must_serve()
    }

    /// Returns the most bytes that one connection is sent in this turn.
    pub fn turn_bytes(&self) -> usize {
        self.fanout.turn_bytes()
    }

    /// Returns whether subscribers have individual frames, and whether streams have new messages.
    pub fn has_due(&self) -> (bool, bool) {
        (self.fanout.subscribers.has_listed(), self.fanout.streams.has_unserved())
    }

    /// Begins or continues a subscriber's turn.
    pub fn prepare(&mut self, slot: u32) -> Next {
        self.fanout.prepare(slot)
    }

    /// Returns the bytes to send now: at most [`TURN_BYTES`], or more for a prepared answer.
    pub fn gather(&self, slot: u32) -> Pieces<'_> {
        self.fanout.gather(slot)
    }

    /// Records that `bytes` of the gathered bytes were sent.
    pub fn sent(&mut self, slot: u32, bytes: usize) {
        if self.fanout.sent(slot, bytes) == SendProgress::HasRoom {
            self.resume_input(slot);
            if let Some(subscriber) = self.fanout.subscribers.get_mut(slot) {
                subscriber.tidy();
            }
        }
    }

    /// Lists a subscriber for the next pass, because its turn ended with frames left.
    pub fn list(&mut self, slot: u32) {
        self.fanout.subscribers.list(slot);
    }

    /// Records that the socket accepts no more bytes.
    pub fn blocked(&mut self, slot: u32) {
        self.fanout.block(slot);
    }

    /// Records that the socket accepts bytes again.
    pub fn writable(&mut self, slot: u32) {
        self.fanout.subscribers.unblock(slot);
    }

    /// Discards further input after our side was shut, until the client closes or its time is up.
    pub fn shut(&mut self, slot: u32) {
        self.fanout.shut(slot);
    }
}

#[cfg(test)]
mod tests;
