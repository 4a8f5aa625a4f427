//! The bytes that a subscriber gets next.
//!
//! Holds       [`PendingFrames::gather`] and [`PendingFrames::advance`] share no state: both walk
//!             the same frames in the same order. A caller may therefore gather for many
//!             subscribers before it knows how much of the first was sent.

use pitwire_delivery::{Cursor, Ring};

use crate::delivery_core::context::TURN_BYTES;
use crate::delivery_core::stream_table::{MergeHead, StreamTable};
use crate::subscriber::{NO_INDEX, PARKED, SubscribedStream, Subscriber};

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
pub(super) enum FrameSource {
    Nothing,
    /// The rest of a partly sent frame.
    Rest,
    Outbox,
    Control,
    Answer,
    Rings,
}

/// The frames that one subscriber has not received.
#[derive(Clone, Copy)]
pub(super) struct PendingFrames<'a> {
    pub streams: &'a StreamTable,
    pub subscriber: &'a Subscriber,
    /// Frames of the prepared answer.
    pub answer: &'a [u8],
}

impl<'a> PendingFrames<'a> {
    fn ring_of(&self, item: &SubscribedStream) -> Option<&'a Ring> {
        self.streams.ring_of(self.subscriber, item)
    }

    pub fn source(&self) -> FrameSource {
        let subscriber = self.subscriber;
        if subscriber.mid_frame != NO_INDEX {
            return FrameSource::Rest;
        }
        if subscriber.owed.sent_bytes > 0 {
            return FrameSource::Answer;
        }
        if !subscriber.outbox().is_empty() {
            return FrameSource::Outbox;
        }
        if !subscriber.is_served() {
            return FrameSource::Nothing;
        }
        if !subscriber.control.as_bytes().is_empty() {
            return FrameSource::Control;
        }
        if subscriber.owed.count > 0 {
            return FrameSource::Answer;
        }
        let is_ahead = |item: &SubscribedStream| {
            item.cursor != PARKED && self.ring_of(item).is_some_and(|ring| ring.head() > item.cursor)
        };
        if subscriber.items.as_slice().iter().any(is_ahead) { FrameSource::Rings } else { FrameSource::Nothing }
    }

    /// Returns the bytes to send now: at most [`TURN_BYTES`], or more for a prepared answer.
    pub fn gather(&self) -> Pieces<'a> {
        let (mut pieces, subscriber) = (Pieces::new(), self.subscriber);
        match self.source() {
            FrameSource::Nothing => {}
            FrameSource::Outbox => pieces.push(subscriber.outbox()),
            FrameSource::Control => pieces.push(subscriber.control.as_bytes()),
            FrameSource::Answer => {
                pieces.push_whole(self.answer.get(subscriber.owed.sent_bytes as usize..).unwrap_or_default())
            }
            FrameSource::Rest => {
                let item = subscriber.items.as_slice().get(subscriber.mid_frame as usize);
                if let Some((item, ring)) = item.and_then(|item| Some((item, self.ring_of(item)?))) {
                    let (first, second) = ring.slices(item.cursor, ring.end_of_frame(item.cursor));
                    pieces.push(first);
                    pieces.push(second);
                }
            }
            FrameSource::Rings => self.spans(|_, ring, from, to| {
                let (first, second) = ring.slices(from, to);
                pieces.push(first);
                pieces.push(second);
                !pieces.is_full()
            }),
        }
        pieces
    }

    /// Walks over `bytes` of the ring spans. Appends each subscription's new position to `moved`,
    /// and returns the subscription with a partly sent frame, or [`NO_INDEX`].
    pub fn advance(&self, bytes: u64, moved: &mut Vec<(u32, Cursor)>) -> u32 {
        let (mut left, mut mid_frame) = (bytes, NO_INDEX);
        self.spans(|item, ring, from, to| {
            let part = left.min(to.0 - from.0);
            left -= part;
            let cursor = Cursor(from.0 + part);
            moved.push((item, cursor));
            if !ring.is_between_frames(cursor) {
                mid_frame = item;
            }
            left > 0
        });
        mid_frame
    }

    /// Returns the position of the next message that a filtered subscriber wants. None without a
    /// filter.
    pub fn next_wanted(&self) -> Option<Cursor> {
        self.subscriber.filter()?;
        let item = self.subscriber.items.as_slice().first().filter(|item| item.cursor != PARKED)?;
        let ring = self.ring_of(item)?;
        let wanted = ring.entries_from(item.cursor).find(|entry| self.subscriber.wants(entry.key));
        Some(wanted.map_or(ring.head(), |entry| Cursor(entry.start).max(item.cursor)))
    }

    /// Visits the ring spans for a subscriber whose cursors are between frames, in order, until
    /// `visit` returns false.
    fn spans(&self, mut visit: impl FnMut(u32, &'a Ring, Cursor, Cursor) -> bool) {
        match self.subscriber.items.as_slice() {
            [] => {}
            [item] => {
                let Some(ring) = self.ring_of(item) else { return };
                if self.subscriber.filter().is_none() {
                    visit(0, ring, item.cursor, ring.head());
                    return;
                }
                self.filtered(ring, item.cursor, |from, to| visit(0, ring, from, to));
            }
            items => self.merged(items, visit),
        }
    }

    /// Visits the spans of the frames that a filtered subscriber wants. Adjacent frames form one
    /// span.
    fn filtered(&self, ring: &Ring, cursor: Cursor, mut visit: impl FnMut(Cursor, Cursor) -> bool) {
        let mut entries = ring.entries_from(cursor).peekable();
        let mut from = None;
        while let Some(entry) = entries.next() {
            let end = entries.peek().map_or(ring.head(), |next| Cursor(next.start));
            if self.subscriber.wants(entry.key) {
                let begin = *from.get_or_insert(Cursor(entry.start.max(cursor.0)));
                if entries.peek().is_some_and(|next| self.subscriber.wants(next.key)) {
                    continue;
                }
                from = None;
                if !visit(begin, end) {
                    return;
                }
            }
        }
    }

    /// Visits the spans of several streams in the order in which their frames were appended.
    fn merged(&self, items: &[SubscribedStream], mut visit: impl FnMut(u32, &'a Ring, Cursor, Cursor) -> bool) {
        let mut heads = self.streams.merge_heads();
        heads.clear();
        for (at, item) in (0_u32..).zip(items).filter(|(_, item)| item.cursor != PARKED) {
            let Some(ring) = self.ring_of(item).filter(|ring| ring.head() > item.cursor) else { continue };
            let Some(entry) = ring.entries_from(item.cursor).next() else { continue };
            heads.push(MergeHead { place: entry.place, item: at, cursor: item.cursor });
        }
        while let Some(first) = (0..heads.len()).min_by_key(|at| heads[*at].place) {
            let next_place = heads.iter().enumerate().filter(|(at, _)| *at != first).map(|(_, head)| head.place).min();
            let head = &mut heads[first];
            let Some(ring) = self.ring_of(&items[head.item as usize]) else { return };
            // Take all frames up to the next frame of another stream.
            let from = head.cursor;
            let behind = ring.entries_from(from).find(|entry| next_place.is_some_and(|next| entry.place > next));
            let to = behind.map_or(ring.head(), |entry| Cursor(entry.start));
            let item = head.item;
            match behind {
                Some(entry) => (head.place, head.cursor) = (entry.place, to),
                None => _ = heads.swap_remove(first),
            }
            if !visit(item, ring, from, to) {
                return;
            }
        }
    }
}
