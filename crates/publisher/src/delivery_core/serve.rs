//! The bytes that a subscriber gets next, and its progress.
//!
//! [`DeliveryCore::gather`] and [`DeliveryCore::sent`] share no state: both walk the same frames in
//! the same order. An event loop may therefore gather for many subscribers before it knows how much
//! of the first was sent.

use crate::counters::add;
use crate::delivery_core::{DeliveryCore, MergeHead, TURN_BYTES};
use crate::subscriber::{NOBODY, PARKED, Stage, Subscriber, Subscription};
use pitwire_delivery::{Cursor, Ring};

/// The next step in a subscriber's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There is nothing to send.
    Idle,
    /// [`DeliveryCore::gather`] returns bytes to send.
    Send,
    /// Everything is sent: shut the sending side, then call [`DeliveryCore::shut`].
    Shut,
}

/// Most bytes of a prepared answer in one send.
const ANSWER_BYTES: usize = 256 * 1024;

/// Most pieces in one send. A subscriber without a filter needs one or two.
pub const PIECES: usize = 32;

/// Bytes for one connection, in order.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a> {
    list: [&'a [u8]; PIECES],
    count: usize,
    bytes: usize,
}

impl<'a> Pieces<'a> {
    pub fn new() -> Self {
        Pieces { list: [&[]; PIECES], count: 0, bytes: 0 }
    }

    pub fn as_slice(&self) -> &[&'a [u8]] {
        &self.list[..self.count]
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a piece, cut to the space left in [`TURN_BYTES`].
    fn push(&mut self, piece: &'a [u8]) {
        let piece = &piece[..piece.len().min(TURN_BYTES - self.bytes)];
        if !piece.is_empty() && self.count < PIECES {
            self.list[self.count] = piece;
            self.count += 1;
            self.bytes += piece.len();
        }
    }

    /// Sets a prepared answer as the only piece, up to [`ANSWER_BYTES`].
    fn push_whole(&mut self, piece: &'a [u8]) {
        let piece = &piece[..piece.len().min(ANSWER_BYTES)];
        self.list[0] = piece;
        (self.count, self.bytes) = (1, piece.len());
    }

    fn is_full(&self) -> bool {
        // A span that wraps around the ring takes two pieces.
        self.count + 2 > PIECES || self.bytes >= TURN_BYTES
    }
}

/// Source of the next bytes. A send uses one source only, because all but `Rings` are rare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameSource {
    Nothing,
    /// The rest of a partly sent frame.
    Rest,
    Outbox,
    Control,
    Answer,
    Rings,
}

impl DeliveryCore {
    fn ring_of(&self, subscriber: &Subscriber, item: &Subscription) -> Option<&Ring> {
        self.streams.get(item.stream as usize)?.ring(subscriber.class)
    }

    fn source(&self, subscriber: &Subscriber) -> FrameSource {
        if subscriber.mid_frame != NOBODY {
            return FrameSource::Rest;
        }
        if subscriber.owed_sent > 0 {
            return FrameSource::Answer;
        }
        if !subscriber.outbox().is_empty() {
            return FrameSource::Outbox;
        }
        if !subscriber.stage.is_served() {
            return FrameSource::Nothing;
        }
        if !subscriber.control.as_bytes().is_empty() {
            return FrameSource::Control;
        }
        if subscriber.owed > 0 {
            return FrameSource::Answer;
        }
        let is_ahead = |item: &Subscription| {
            item.cursor != PARKED && self.ring_of(subscriber, item).is_some_and(|ring| ring.head() > item.cursor)
        };
        if subscriber.items.as_slice().iter().any(is_ahead) { FrameSource::Rings } else { FrameSource::Nothing }
    }

    /// Begins or continues a subscriber's turn.
    pub fn prepare(&mut self, slot: u32) -> Next {
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return Next::Idle };
        subscriber.is_listed = false;
        if let Stage::Lingering | Stage::Gone = subscriber.stage {
            return Next::Idle;
        }
        let has_rare = subscriber.rare.is_some();
        if has_rare && subscriber.mid_frame == NOBODY && subscriber.outbox().is_empty() {
            self.catch_up(slot);
            self.pass_over(slot);
            self.ask_about(slot);
        }
        let Some(subscriber) = self.subscribers.get(slot as usize) else { return Next::Idle };
        let is_answered = !subscriber.is_at_end || subscriber.unheard == 0 || self.is_stopping;
        let is_over =
            subscriber.stage == Stage::Parting && is_answered && self.source(subscriber) == FrameSource::Nothing;
        if is_over {
            self.say_farewell(slot);
        }
        let Some(subscriber) = self.subscribers.get(slot as usize) else { return Next::Idle };
        match self.source(subscriber) {
            FrameSource::Nothing if subscriber.stage == Stage::Closing => Next::Shut,
            FrameSource::Nothing => Next::Idle,
            _ => Next::Send,
        }
    }

    /// Moves the cursor of a filtered subscriber to the next message that it wants.
    fn pass_over(&mut self, slot: u32) {
        let Some(subscriber) = self.subscribers.get(slot as usize) else { return };
        if subscriber.filter().is_none() {
            return;
        }
        let Some(item) = subscriber.items.as_slice().first().filter(|item| item.cursor != PARKED) else { return };
        let Some(ring) = self.ring_of(subscriber, item) else { return };
        let wanted = ring.entries_from(item.cursor).find(|entry| subscriber.wants(entry.key));
        let cursor = wanted.map_or(ring.head(), |entry| Cursor(entry.start).max(item.cursor));
        if let Some(item) = self.subscribers[slot as usize].items.as_mut_slice().first_mut() {
            item.cursor = cursor;
        }
    }

    /// Returns the bytes to send now: at most [`TURN_BYTES`], or more for a prepared answer.
    pub fn gather(&self, slot: u32) -> Pieces<'_> {
        let mut pieces = Pieces::new();
        let Some(subscriber) = self.subscribers.get(slot as usize) else { return pieces };
        match self.source(subscriber) {
            FrameSource::Nothing => {}
            FrameSource::Outbox => pieces.push(subscriber.outbox()),
            FrameSource::Control => pieces.push(subscriber.control.as_bytes()),
            FrameSource::Answer => {
                pieces.push_whole(self.settings.answer.get(subscriber.owed_sent as usize..).unwrap_or_default())
            }
            FrameSource::Rest => {
                let item = subscriber.items.as_slice().get(subscriber.mid_frame as usize);
                if let Some((item, ring)) = item.and_then(|item| Some((item, self.ring_of(subscriber, item)?))) {
                    let (first, second) = ring.slices(item.cursor, ring.end_of_frame(item.cursor));
                    pieces.push(first);
                    pieces.push(second);
                }
            }
            FrameSource::Rings => self.spans(subscriber, |_, ring, from, to| {
                let (first, second) = ring.slices(from, to);
                pieces.push(first);
                pieces.push(second);
                !pieces.is_full()
            }),
        }
        pieces
    }

    /// Visits the ring spans for a subscriber whose cursors are between frames, in order, until
    /// `visit` returns false.
    fn spans<'a>(&'a self, subscriber: &Subscriber, mut visit: impl FnMut(u32, &'a Ring, Cursor, Cursor) -> bool) {
        match subscriber.items.as_slice() {
            [] => {}
            [item] => {
                let Some(ring) = self.ring_of(subscriber, item) else { return };
                if subscriber.filter().is_none() {
                    visit(0, ring, item.cursor, ring.head());
                    return;
                }
                filtered(subscriber, ring, item.cursor, |from, to| visit(0, ring, from, to));
            }
            items => self.merged(subscriber, items, visit),
        }
    }

    /// Visits the spans of several streams in the order in which their frames were appended.
    fn merged<'a>(
        &'a self,
        subscriber: &Subscriber,
        items: &[Subscription],
        mut visit: impl FnMut(u32, &'a Ring, Cursor, Cursor) -> bool,
    ) {
        let mut strands = self.spare.merge.borrow_mut();
        strands.clear();
        for (at, item) in (0_u32..).zip(items).filter(|(_, item)| item.cursor != PARKED) {
            let Some(ring) = self.ring_of(subscriber, item).filter(|ring| ring.head() > item.cursor) else { continue };
            let Some(entry) = ring.entries_from(item.cursor).next() else { continue };
            strands.push(MergeHead { place: entry.place, item: at, cursor: item.cursor });
        }
        while let Some(first) = (0..strands.len()).min_by_key(|at| strands[*at].place) {
            let next_place =
                strands.iter().enumerate().filter(|(at, _)| *at != first).map(|(_, strand)| strand.place).min();
            let strand = &mut strands[first];
            let Some(ring) = self.ring_of(subscriber, &items[strand.item as usize]) else { return };
            // Take all frames up to the next frame of another stream.
            let from = strand.cursor;
            let behind = ring.entries_from(from).find(|entry| next_place.is_some_and(|next| entry.place > next));
            let to = behind.map_or(ring.head(), |entry| Cursor(entry.start));
            let item = strand.item;
            match behind {
                Some(entry) => (strand.place, strand.cursor) = (entry.place, to),
                None => _ = strands.swap_remove(first),
            }
            if !visit(item, ring, from, to) {
                return;
            }
        }
    }

    /// Records that `bytes` of the gathered bytes were sent.
    pub fn sent(&mut self, slot: u32, bytes: usize) {
        let Some(subscriber) = self.subscribers.get(slot as usize) else { return };
        add(&self.counters().sent_bytes_total, bytes as u64);
        match self.source(subscriber) {
            FrameSource::Nothing => {}
            FrameSource::Outbox => self.sent_outbox(slot, bytes),
            FrameSource::Control => self.sent_control(slot, bytes),
            FrameSource::Answer => {
                let whole = self.settings.answer.len();
                let subscriber = &mut self.subscribers[slot as usize];
                let sent = subscriber.owed_sent as usize + bytes;
                if sent >= whole {
                    (subscriber.owed, subscriber.owed_sent) = (subscriber.owed - 1, 0);
                    self.go_on(slot);
                } else {
                    subscriber.owed_sent = u32::try_from(sent).unwrap_or(u32::MAX);
                }
            }
            FrameSource::Rest => {
                let at = subscriber.mid_frame as usize;
                let Some(item) = subscriber.items.as_slice().get(at) else { return };
                let cursor = Cursor(item.cursor.0 + bytes as u64);
                let is_done = self.ring_of(subscriber, item).is_none_or(|ring| ring.is_between_frames(cursor));
                let subscriber = &mut self.subscribers[slot as usize];
                subscriber.items.as_mut_slice()[at].cursor = cursor;
                if is_done {
                    subscriber.mid_frame = NOBODY;
                }
            }
            FrameSource::Rings => self.sent_rings(slot, bytes),
        }
    }

    fn sent_outbox(&mut self, slot: u32, bytes: usize) {
        let Some(rare) = &mut self.subscribers[slot as usize].rare else { return };
        rare.outbox_sent += bytes;
        if rare.outbox_sent < rare.outbox.len() {
            return;
        }
        rare.outbox_sent = 0;
        let outbox = std::mem::take(&mut rare.outbox);
        self.keep_outbox(outbox);
        self.go_on(slot);
        if let Some(subscriber) = self.subscribers.get_mut(slot as usize) {
            subscriber.tidy();
        }
    }

    /// Moves the rest of a partly sent control frame to the outbound queue.
    fn sent_control(&mut self, slot: u32, bytes: usize) {
        let subscriber = &mut self.subscribers[slot as usize];
        let control = std::mem::take(&mut subscriber.control);
        let rest = control.as_bytes().get(bytes..).unwrap_or_default();
        if !rest.is_empty() {
            self.say(slot, rest);
        }
    }

    fn sent_rings(&mut self, slot: u32, bytes: usize) {
        let subscriber = &self.subscribers[slot as usize];
        if let ([item], None) = (subscriber.items.as_slice(), subscriber.filter()) {
            // Fast path: one stream and no filter.
            let cursor = Cursor(item.cursor.0 + bytes as u64);
            let is_whole = self.ring_of(subscriber, item).is_none_or(|ring| ring.is_between_frames(cursor));
            let subscriber = &mut self.subscribers[slot as usize];
            subscriber.mid_frame = if is_whole { NOBODY } else { 0 };
            subscriber.items.as_mut_slice()[0].cursor = cursor;
            return;
        }
        let mut left = bytes as u64;
        let mut moved = std::mem::take(&mut self.spare.moved);
        let mut mid_frame = NOBODY;
        self.spans(&self.subscribers[slot as usize], |item, ring, from, to| {
            let part = left.min(to.0 - from.0);
            left -= part;
            let cursor = Cursor(from.0 + part);
            moved.push((item, cursor));
            if !ring.is_between_frames(cursor) {
                mid_frame = item;
            }
            left > 0
        });
        let subscriber = &mut self.subscribers[slot as usize];
        for (item, cursor) in moved.drain(..) {
            if let Some(item) = subscriber.items.as_mut_slice().get_mut(item as usize) {
                item.cursor = cursor;
            }
        }
        subscriber.mid_frame = mid_frame;
        self.spare.moved = moved;
    }

    /// Records that the socket accepts no more bytes.
    pub fn blocked(&mut self, slot: u32) {
        add(&self.counters().blocked_total, 1);
        if let Some(subscriber) = self.subscribers.get_mut(slot as usize)
            && !std::mem::replace(&mut subscriber.is_blocked, true)
        {
            self.blocked.push(slot);
        }
    }

    /// Records that the socket accepts bytes again.
    pub fn writable(&mut self, slot: u32) {
        if let Some(subscriber) = self.subscribers.get_mut(slot as usize)
            && std::mem::replace(&mut subscriber.is_blocked, false)
        {
            self.list(slot);
        }
    }

    /// Unlists a subscriber that was due and whose turn did not begin, so that it can be listed
    /// again. [`Self::prepare`] does the same for the others.
    pub fn unlist(&mut self, slot: u32) {
        if let Some(subscriber) = self.subscribers.get_mut(slot as usize) {
            subscriber.is_listed = false;
        }
    }

    /// Lists a subscriber for the next pass, because its turn ended with frames left.
    pub fn again(&mut self, slot: u32) {
        self.list(slot);
    }

    /// Discards further input after our side was shut, until the client closes or its time is up.
    pub fn shut(&mut self, slot: u32) {
        let Some(subscriber) = self.subscribers.get(slot as usize) else { return };
        if subscriber.is_at_end {
            return self.go(slot);
        }
        self.set_stage(slot, Stage::Lingering, self.settings.limits.parting_ms);
    }
}

/// Visits the spans of the frames that a filtered subscriber wants. Adjacent frames form one span.
fn filtered(subscriber: &Subscriber, ring: &Ring, cursor: Cursor, mut visit: impl FnMut(Cursor, Cursor) -> bool) {
    let mut entries = ring.entries_from(cursor).peekable();
    let mut from = None;
    while let Some(entry) = entries.next() {
        let end = entries.peek().map_or(ring.head(), |next| Cursor(next.start));
        if subscriber.wants(entry.key) {
            let begin = *from.get_or_insert(Cursor(entry.start.max(cursor.0)));
            let goes_on = entries.peek().is_some_and(|next| subscriber.wants(next.key));
            if goes_on {
                continue;
            }
            from = None;
            if !visit(begin, end) {
                return;
            }
        }
    }
}
