//! The streams of one delivery thread, and which of them have messages that no pass has served.
//!
//! Start at    [`StreamTable::append`], [`StreamTable::begin_pass`].

use std::cell::{RefCell, RefMut};

use pitwire_delivery::{Compressor, Cursor, Ring, Stamp, Stream, StreamId, StreamMessage, StreamSpec};
use pitwire_websocket::Opcode;

use crate::delivery_core::context::TURN_BYTES;
use crate::subscriber::{NO_INDEX, SubscribedStream, Subscriber};

/// The next frame of one stream in a merge of several.
#[derive(Clone, Copy, Debug)]
pub(super) struct MergeHead {
    pub place: u64,
    /// Index of the subscription.
    pub item: u32,
    pub cursor: Cursor,
}

pub(super) struct StreamTable {
    streams: Vec<Stream>,
    /// Epoch in envelopes and resume tokens.
    epoch: u64,
    /// Main frame format.
    pub class: u8,
    /// Append number of the newest frame, counted across all streams.
    place: u64,
    compressor: Compressor,
    /// Streams with messages that no pass has served.
    dirty: Vec<u32>,
    /// Bytes appended since the last pass began.
    unserved_bytes: usize,
    /// Whether a pass must begin before more messages are taken in.
    must_serve: bool,
    /// Whether a pass is under way, so that some subscribers lack messages that preceded it.
    pub is_in_pass: bool,
    /// Buffer for merges, so that serving allocates nothing.
    merge_heads: RefCell<Vec<MergeHead>>,
}

/// Work for the caller after an append.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AppendOutcome {
    /// The positions of the readers have to be compared with the lag limit.
    pub is_check_due: bool,
    /// The message is not JSON and stands in envelopes as a string.
    pub is_quoted: bool,
}

impl StreamTable {
    pub fn new(epoch: u64, class: u8) -> Self {
        StreamTable {
            streams: Vec::new(),
            epoch,
            class,
            place: 0,
            compressor: Compressor::default(),
            dirty: Vec::new(),
            unserved_bytes: 0,
            must_serve: false,
            is_in_pass: false,
            merge_heads: RefCell::default(),
        }
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub fn create(&mut self, spec: StreamSpec) {
        self.streams.push(Stream::new(spec, self.class));
    }

    #[cfg(test)]
    pub fn clear(&mut self) {
        self.streams.clear();
    }

    pub fn len(&self) -> u32 {
        u32::try_from(self.streams.len()).unwrap_or(NO_INDEX)
    }

    pub fn get(&self, stream: u32) -> Option<&Stream> {
        self.streams.get(stream as usize)
    }

    pub fn get_mut(&mut self, stream: u32) -> Option<&mut Stream> {
        self.streams.get_mut(stream as usize)
    }

    /// Returns the ring from which a subscriber reads a stream.
    pub fn ring_of(&self, subscriber: &Subscriber, item: &SubscribedStream) -> Option<&Ring> {
        self.get(item.stream)?.ring(subscriber.class)
    }

    /// Returns the buffer for a merge.
    pub fn merge_heads(&self) -> RefMut<'_, Vec<MergeHead>> {
        self.merge_heads.borrow_mut()
    }

    fn next_stamp(&mut self, at_ms: u32) -> Stamp {
        self.place += 1;
        Stamp { epoch: self.epoch, place: self.place, at_ms }
    }

    /// Appends a message with the key of this name.
    pub fn append(
        &mut self,
        stream: StreamId,
        key: &[u8],
        seq: u64,
        is_binary: bool,
        payload: &[u8],
        at_ms: u32,
    ) -> AppendOutcome {
        let stamp = self.next_stamp(at_ms);
        let Some(of) = self.streams.get_mut(stream.0 as usize) else { return AppendOutcome::default() };
        let key = of.key(key);
        of.append(&StreamMessage { seq, key, is_binary, payload }, stamp, &mut self.compressor);
        let is_quoted = std::mem::take(&mut of.has_quoted);
        AppendOutcome { is_check_due: self.note_growth(stream.0), is_quoted }
    }

    /// Appends a frame without a number: a ping or a gap notice. Returns whether the lag check is
    /// due.
    pub fn append_notice(&mut self, stream: u32, opcode: Opcode, payload: &[u8], at_ms: u32) -> bool {
        let stamp = self.next_stamp(at_ms);
        let Some(of) = self.get_mut(stream) else { return false };
        of.append_notice(opcode, payload, stamp);
        self.note_growth(stream)
    }

    /// Lists a stream for the next pass. Returns whether the lag check is due.
    fn note_growth(&mut self, stream: u32) -> bool {
        let Some(of) = self.streams.get_mut(stream as usize) else { return false };
        if !std::mem::replace(&mut of.is_dirty, true) {
            self.dirty.push(stream);
        }
        self.unserved_bytes += std::mem::take(&mut of.grown);
        // A pass sends every subscriber at least the bytes appended before it. A subscriber that
        // keeps up thus never exceeds the lag limit.
        let waits = of.unswept + if self.is_in_pass { of.swept } else { 0 };
        self.must_serve |= self.unserved_bytes >= TURN_BYTES || waits >= of.spec.ring_bytes / 4;
        let is_check_due = of.unchecked >= of.spec.ring_bytes / 4;
        if is_check_due {
            of.unchecked = 0;
        }
        is_check_due
    }

    pub fn has_unserved(&self) -> bool {
        !self.dirty.is_empty()
    }

    pub fn must_serve(&self) -> bool {
        self.must_serve
    }

    /// Begins a pass over the streams with new messages: passes each to `visit`. Returns the bytes
    /// appended since the previous pass.
    pub fn begin_pass(&mut self, mut visit: impl FnMut(&Stream)) -> usize {
        self.must_serve = false;
        for at in self.dirty.drain(..) {
            let Some(stream) = self.streams.get_mut(at as usize) else { continue };
            (stream.is_dirty, stream.swept, stream.unswept) = (false, stream.unswept, 0);
            visit(stream);
        }
        std::mem::take(&mut self.unserved_bytes)
    }
}
