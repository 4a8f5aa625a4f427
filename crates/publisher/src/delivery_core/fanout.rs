//! Subscribers on streams: who reads what, and the bytes that each gets next.
//!
//! Does        Subscribes and unsubscribes, appends messages, selects the subscribers that a pass
//!             serves, gathers their bytes, and applies the policy for slow subscribers.
//! Holds       A connection receives whole frames in order, whether they come from the outbound
//!             queue, the control frame or the rings.
//! Leaves out  The inbox and the input of clients: see [`DeliveryCore`](super::DeliveryCore).
//! Start at    [`Fanout::due`], [`Fanout::gather`].

mod gather;
mod join;
mod lag;
mod lag_request;

use std::collections::BTreeMap;

use pitwire_delivery::{Cursor, ServiceOrder, StreamId};
use pitwire_websocket::{CloseCode, Opcode, write_close};
use tracing::warn;

pub use gather::{PIECES, Pieces};

use crate::counters::{Counters, add};
use crate::delivery_core::context::{CoreContext, Next, PassKind, TURN_BYTES};
use crate::delivery_core::stream_table::StreamTable;
use crate::handler::{OUTBOX_REPORT_BYTES, OutboxReport, SubscriberId};
use crate::inbox::ShedRange;
use crate::subscriber::{NO_INDEX, Service, Stage};
use crate::subscriber_table::SubscriberTable;
use gather::{FrameSource, PendingFrames};

/// Outbound queue limit in bytes for unsolicited frames. A connection that exceeds it is closed.
const OUTBOX_MOST: usize = 256 * 1024;

/// See the module.
pub(super) struct Fanout {
    pub subscribers: SubscriberTable,
    pub streams: StreamTable,
    pub context: CoreContext,
    order: ServiceOrder,
    /// Most bytes for one subscriber in this pass.
    turn_bytes: usize,
    /// Messages that a full inbox has shed and that are not declared yet, by stream.
    pub shed: BTreeMap<u32, ShedRange>,
    /// Subscribers that joined a stream before its shed messages were declared, so that their
    /// position is unknown.
    pub unplaced: Vec<(SubscriberId, StreamId)>,
    /// Close frame for every subscriber at shutdown. None while the thread is running.
    shutdown_frame: Option<Vec<u8>>,
    /// Times of the last periodic tasks, in milliseconds.
    pinged_ms: u64,
    checked_ms: u64,
    /// Buffer for new positions.
    moved: Vec<(u32, Cursor)>,
}

/// The progress of an outbound queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendProgress {
    Unchanged,
    /// The outbound queue or a prepared answer has been sent completely, so there is room for
    /// input that waits.
    HasRoom,
}

impl SendProgress {
    fn of(has_room: bool) -> Self {
        if has_room { SendProgress::HasRoom } else { SendProgress::Unchanged }
    }
}

impl Fanout {
    pub fn new(context: CoreContext, streams: StreamTable, seed: u64) -> Self {
        Fanout {
            subscribers: SubscriberTable::default(),
            streams,
            context,
            order: ServiceOrder::new(seed),
            turn_bytes: TURN_BYTES,
            shed: BTreeMap::new(),
            unplaced: Vec::new(),
            shutdown_frame: None,
            pinged_ms: 0,
            checked_ms: 0,
            moved: Vec::new(),
        }
    }

    pub fn counters(&self) -> &Counters {
        self.context.counters()
    }

    /// Adds a connection and returns its slot.
    pub fn insert(&mut self, id: SubscriberId) -> u32 {
        let slot = self.subscribers.insert(id, self.context.limits.unfinished_ms);
        add(&self.counters().connections_total, 1);
        self.count_connections();
        slot
    }

    /// Removes a connection and its subscriptions.
    pub fn remove(&mut self, slot: u32) -> Option<SubscriberId> {
        while let Some(count) = self.subscribers.get(slot).map(|subscriber| subscriber.items.as_slice().len())
            && count > 0
        {
            self.drop_item(slot, count - 1);
        }
        let subscriber = self.subscribers.remove(slot)?;
        if let Some(account) = subscriber.rare.as_ref().and_then(|rare| rare.account.as_ref()) {
            self.context.statistics.leave_account(account);
        }
        self.count_connections();
        Some(subscriber.id)
    }

    fn count_connections(&self) {
        let count = self.subscribers.len() as u64;
        self.counters().connections.store(count, std::sync::atomic::Ordering::Relaxed);
    }

    /// Appends a message to its stream.
    pub fn append(&mut self, stream: StreamId, key: &[u8], seq: u64, is_binary: bool, payload: &[u8]) {
        let at_ms = self.subscribers.stamp_ms();
        let appended = self.streams.append(stream, key, seq, is_binary, payload, at_ms);
        if appended.is_quoted {
            self.note_quoted();
        }
        if appended.is_check_due {
            self.check_bytes(stream.0);
        }
    }

    #[cold]
    fn note_quoted(&self) {
        add(&self.counters().quoted_total, 1);
        if self.context.statistics.is_first_quoted() {
            warn!("a message is not JSON; envelopes carry it as a string (counted as quoted_total)");
        }
    }

    fn append_notice(&mut self, stream: u32, opcode: Opcode, payload: &[u8]) {
        if self.streams.append_notice(stream, opcode, payload, self.subscribers.stamp_ms()) {
            self.check_bytes(stream);
        }
    }

    /// Appends one ping to each ring that has readers, if it is time, so that all readers share its
    /// bytes.
    pub fn ping(&mut self) {
        let (every_ms, now_ms) = (u64::from(self.context.limits.ping_ms), self.subscribers.now_ms());
        if every_ms == 0 || now_ms < self.pinged_ms + every_ms {
            return;
        }
        self.pinged_ms = now_ms;
        for at in 0..self.streams.len() {
            let Some(stream) = self.streams.get_mut(at) else { continue };
            if stream.listeners.is_empty() {
                stream.close_rings();
            } else {
                self.append_notice(at, Opcode::Ping, b"");
            }
        }
    }

    /// Queues whole frames ahead of the streams. Closes the connection if the frames are not
    /// answers and the outbound queue exceeds [`OUTBOX_MOST`].
    pub fn send_frames(&mut self, slot: u32, frames: &[u8]) {
        if let Some(subscriber) = self.subscribers.get_mut(slot) {
            subscriber.taken_bytes = subscriber.taken_bytes.wrapping_add(u32_or_max(frames.len()));
        }
        // No frame may follow a close frame.
        if self.subscribers.served(slot).is_none() {
            return;
        }
        self.subscribers.queue(slot, frames);
        let Some(subscriber) = self.subscribers.get(slot) else { return };
        let waiting = subscriber.outbox().len();
        if subscriber.input.waiting_weight == 0 && waiting > OUTBOX_MOST && waiting > 2 * frames.len() {
            self.close(slot, CloseCode::TryAgainLater, "too slow: messages to it are not being read");
        }
    }

    /// Closes a connection with a close frame. A frame that is partly sent is finished first.
    pub fn close(&mut self, slot: u32, code: CloseCode, reason: &str) {
        let mut frame = Vec::with_capacity(2 + 125);
        write_close(&mut frame, code, reason);
        self.queue_close(slot, &frame);
    }

    /// Closes a slow subscriber.
    fn close_slow(&mut self, slot: u32, reason: &str) {
        add(&self.counters().closed_slow_total, 1);
        self.close(slot, CloseCode::TryAgainLater, reason);
    }

    /// Closes a subscriber whose frames did not fit into the inbox.
    pub fn close_unsent(&mut self, id: SubscriberId) {
        if let Some(slot) = self.subscribers.slot_of(id) {
            self.close_slow(slot, "the server was too busy to tell you more; connect again");
        }
    }

    /// Queues a close frame, unless one has been queued.
    pub fn queue_close(&mut self, slot: u32, frame: &[u8]) {
        match self.subscribers.get(slot).map(|subscriber| subscriber.stage) {
            Some(Stage::Handshake) => self.subscribers.finish(slot),
            Some(Stage::Open | Stage::Draining) => {
                self.spill(slot);
                self.subscribers.queue(slot, frame);
                self.begin_end(slot, Stage::Closing);
            }
            _ => {}
        }
    }

    /// Begins one of the stages that end a connection.
    pub fn begin_end(&mut self, slot: u32, stage: Stage) {
        self.subscribers.set_stage(slot, stage, self.context.limits.parting_ms);
    }

    /// Lets a subscriber get its pending messages before its connection is closed.
    pub fn drain(&mut self, slot: u32) {
        self.begin_end(slot, Stage::Draining);
        self.subscribers.list(slot);
    }

    /// Starts the shutdown: every subscriber gets its pending messages, then a close frame.
    pub fn stop(&mut self, reason: &str) {
        let mut frame = Vec::new();
        write_close(&mut frame, CloseCode::GoingAway, reason);
        self.shutdown_frame = Some(frame);
        for slot in self.subscribers.all_slots() {
            match self.subscribers.get(slot).map(|subscriber| subscriber.stage) {
                Some(Stage::Handshake) => self.subscribers.finish(slot),
                Some(Stage::Open) => self.drain(slot),
                _ => {}
            }
        }
    }

    pub fn is_stopping(&self) -> bool {
        self.shutdown_frame.is_some()
    }

    /// Restarts a stream: its next message follows number `seq`.
    pub fn restart(&mut self, stream: StreamId, seq: u64) {
        let Some(of) = self.streams.get_mut(stream.0) else { return };
        of.begin(seq);
        let readers: Vec<u32> = of.listeners.iter().map(|listener| listener.slot).collect();
        for slot in readers {
            match self.subscribers.served(slot).is_some() {
                // It had to leave, and its close frame could not be queued.
                true => self.subscribers.finish(slot),
                // Its close frame is queued, so it needs no streams.
                false => self.leave_stream(slot, stream),
            }
        }
    }

    /// Collects the subscribers that may have frames to send: those with individual frames, and
    /// unless `kind` is [`PassKind::Own`] the readers of streams with new messages. Blocked sockets
    /// are left out.
    pub fn due(&mut self, into: &mut Vec<u32>, kind: PassKind) {
        into.clear();
        self.subscribers.take_listed(into);
        if kind != PassKind::Own {
            let subscribers = &mut self.subscribers;
            let appended = self.streams.begin_pass(|stream| {
                for listener in &stream.listeners {
                    let Some(subscriber) = subscribers.served_mut(listener.slot) else { continue };
                    if subscriber.service == Service::Idle {
                        subscriber.service = Service::Listed;
                        into.push(listener.slot);
                    }
                }
            });
            self.turn_bytes = TURN_BYTES.max(appended);
        }
        self.put_in_order(into, kind);
    }

    fn put_in_order(&mut self, slots: &mut [u32], kind: PassKind) {
        let Fanout { order, subscribers, .. } = self;
        if kind != PassKind::Next {
            order.shuffle(slots);
        } else {
            slots.sort_unstable_by_key(|slot| subscribers.get(*slot).map(|subscriber| subscriber.rank));
            order.stir(slots);
        }
        if kind != PassKind::Own {
            for (rank, slot) in (0..).zip(slots.iter()) {
                subscribers.get_mut(*slot).into_iter().for_each(|subscriber| subscriber.rank = rank);
            }
        }
    }

    /// Returns the most bytes that one connection is sent in this turn.
    pub fn turn_bytes(&self) -> usize {
        self.turn_bytes
    }

    fn pending(&self, slot: u32) -> Option<PendingFrames<'_>> {
        let subscriber = self.subscribers.get(slot)?;
        Some(PendingFrames { streams: &self.streams, subscriber, answer: &self.context.answer })
    }

    /// Returns the bytes to send now.
    pub fn gather(&self, slot: u32) -> Pieces<'_> {
        self.pending(slot).map_or_else(Pieces::new, |pending| pending.gather())
    }

    /// Begins or continues a subscriber's turn.
    pub fn prepare(&mut self, slot: u32) -> Next {
        self.subscribers.unlist(slot);
        let Some(subscriber) = self.subscribers.get(slot) else { return Next::Idle };
        if let Stage::Lingering | Stage::Gone = subscriber.stage {
            return Next::Idle;
        }
        if subscriber.rare.is_some() && subscriber.mid_frame == NO_INDEX && subscriber.outbox().is_empty() {
            self.catch_up(slot);
            self.skip_unwanted(slot);
            self.request_missed(slot);
        }
        if self.is_drained(slot) {
            self.queue_shutdown_frame(slot);
        }
        let Some(pending) = self.pending(slot) else { return Next::Idle };
        match pending.source() {
            FrameSource::Nothing if pending.subscriber.stage == Stage::Closing => Next::Shut,
            FrameSource::Nothing => Next::Idle,
            _ => Next::Send,
        }
    }

    /// Whether a subscriber that is being closed has received everything.
    fn is_drained(&self, slot: u32) -> bool {
        let Some(pending) = self.pending(slot).filter(|it| it.subscriber.stage == Stage::Draining) else {
            return false;
        };
        let input = &pending.subscriber.input;
        let is_answered = !input.is_at_end || input.waiting_weight == 0 || self.is_stopping();
        is_answered && pending.source() == FrameSource::Nothing
    }

    /// Queues the shutdown close frame for a subscriber that has received everything. A client that
    /// ended by itself gets none, unless the thread is stopping.
    fn queue_shutdown_frame(&mut self, slot: u32) {
        let frame = self.shutdown_frame.take();
        self.subscribers.queue(slot, frame.as_deref().unwrap_or_default());
        self.shutdown_frame = frame;
        self.begin_end(slot, Stage::Closing);
    }

    /// Moves the cursor of a filtered subscriber to the next message that it wants.
    fn skip_unwanted(&mut self, slot: u32) {
        let Some(pending) = self.pending(slot) else { return };
        let Some(cursor) = pending.next_wanted() else { return };
        if let Some(subscriber) = self.subscribers.get_mut(slot)
            && let Some(item) = subscriber.items.as_mut_slice().first_mut()
        {
            item.cursor = cursor;
        }
    }

    /// Records that `bytes` of the gathered bytes were sent.
    pub fn sent(&mut self, slot: u32, bytes: usize) -> SendProgress {
        let Some(source) = self.pending(slot).map(|pending| pending.source()) else { return SendProgress::Unchanged };
        add(&self.counters().sent_bytes_total, bytes as u64);
        match source {
            FrameSource::Nothing => {}
            FrameSource::Outbox => {
                let is_empty = self.subscribers.note_outbox_sent(slot, bytes);
                self.report_outbox(slot);
                return SendProgress::of(is_empty);
            }
            FrameSource::Control => self.subscribers.note_control_sent(slot, bytes),
            FrameSource::Answer => return self.sent_answer(slot, bytes),
            FrameSource::Rest => self.sent_rest(slot, bytes),
            FrameSource::Rings => self.sent_rings(slot, bytes),
        }
        SendProgress::Unchanged
    }

    /// Reports an outbound queue after bytes of it were sent, unless too few were.
    fn report_outbox(&mut self, slot: u32) {
        let Some(subscriber) = self.subscribers.get_mut(slot) else { return };
        let (taken, waiting) = (subscriber.taken_bytes, subscriber.outbox().len());
        // The handler takes everything for waiting that came in since the last report.
        let known = taken.wrapping_sub(subscriber.reported_bytes) as usize;
        if known >= waiting + OUTBOX_REPORT_BYTES {
            subscriber.reported_bytes = taken.wrapping_sub(u32_or_max(waiting));
            let report = OutboxReport { subscriber: subscriber.id, taken, waiting };
            self.context.handler.outbox_sent(report);
        }
    }

    fn sent_answer(&mut self, slot: u32, bytes: usize) -> SendProgress {
        let whole = self.context.answer.len();
        let Some(subscriber) = self.subscribers.get_mut(slot) else { return SendProgress::Unchanged };
        let sent = subscriber.owed.sent_bytes as usize + bytes;
        if sent < whole {
            subscriber.owed.sent_bytes = u32_or_max(sent);
            return SendProgress::Unchanged;
        }
        subscriber.owed.count -= 1;
        subscriber.owed.sent_bytes = 0;
        SendProgress::HasRoom
    }

    fn sent_rest(&mut self, slot: u32, bytes: usize) {
        let Some(subscriber) = self.subscribers.get_mut(slot) else { return };
        let at = subscriber.mid_frame as usize;
        let Some(item) = subscriber.items.as_mut_slice().get_mut(at) else { return };
        item.cursor = Cursor(item.cursor.0 + bytes as u64);
        let (cursor, stream) = (item.cursor, item.stream);
        let ring = self.streams.get(stream).and_then(|of| of.ring(subscriber.class));
        if ring.is_none_or(|ring| ring.is_between_frames(cursor)) {
            subscriber.mid_frame = NO_INDEX;
        }
    }

    fn sent_rings(&mut self, slot: u32, bytes: usize) {
        let Some(subscriber) = self.subscribers.get_mut(slot) else { return };
        if subscriber.filter().is_none()
            && let [item] = subscriber.items.as_mut_slice()
        {
            // Fast path: one stream and no filter.
            item.cursor = Cursor(item.cursor.0 + bytes as u64);
            let (cursor, stream) = (item.cursor, item.stream);
            let ring = self.streams.get(stream).and_then(|of| of.ring(subscriber.class));
            let is_whole = ring.is_none_or(|ring| ring.is_between_frames(cursor));
            subscriber.mid_frame = if is_whole { NO_INDEX } else { 0 };
            return;
        }
        let mut moved = std::mem::take(&mut self.moved);
        let mid_frame = self.pending(slot).map_or(NO_INDEX, |pending| pending.advance(bytes as u64, &mut moved));
        let Some(subscriber) = self.subscribers.get_mut(slot) else { return };
        for (item, cursor) in moved.drain(..) {
            if let Some(item) = subscriber.items.as_mut_slice().get_mut(item as usize) {
                item.cursor = cursor;
            }
        }
        subscriber.mid_frame = mid_frame;
        self.moved = moved;
    }

    /// Records that the socket accepts no more bytes.
    pub fn block(&mut self, slot: u32) {
        add(&self.counters().blocked_total, 1);
        self.subscribers.block(slot);
    }

    /// Discards further input after our side was shut, until the client closes or its time is up.
    pub fn shut(&mut self, slot: u32) {
        let Some(subscriber) = self.subscribers.get(slot) else { return };
        if subscriber.input.is_at_end {
            return self.subscribers.finish(slot);
        }
        self.begin_end(slot, Stage::Lingering);
    }
}

fn u32_or_max(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
