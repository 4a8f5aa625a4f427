//! Bytes that wait to be written to a connection.
//!
//! Start at    [`Outbox`].

use crate::outbox_budget::OutboxMeter;

/// With this many bytes waiting, the requests of a connection wait too.
pub(super) const OUTBOX_BYTES: usize = 256 * 1024;
/// With this many bytes of notices waiting since earlier turns, or behind an answer that was put
/// off, a connection is closed.
const UNREAD_BYTES: usize = 1024 * 1024;
/// Bytes of published frames that the application adds at a time.
pub(super) const PUMP_BYTES: usize = 64 * 1024;
/// A peer that takes this many bytes reads its answers.
const PROGRESS_BYTES: usize = 64 * 1024;

/// Bytes for one connection, in the order in which they leave.
#[derive(Debug)]
pub(super) struct Outbox {
    pub bytes: Vec<u8>,
    /// How many of the bytes have been written.
    written: usize,
    /// Bytes of notices that wait, at most; writing is taken to write these first.
    unread: usize,
    /// Bytes of notices that were added in this turn.
    unread_new: usize,
    /// The answers of the last turn leave with those of the next.
    pub is_held_back: bool,
    answer: Option<UnreadAnswer>,
    /// Notices behind an answer that was put off.
    deferred: Vec<u8>,
    /// More than [`PUMP_BYTES`] wait, and the application knows it.
    pub is_full: bool,
    pub meter: OutboxMeter,
}

/// How a peer reads an answer that waits.
#[derive(Debug)]
struct UnreadAnswer {
    /// When it was queued, or when the peer last took [`PROGRESS_BYTES`].
    since_ns: u64,
    /// Bytes taken since then.
    taken: usize,
}

impl Outbox {
    /// Makes an empty outbox.
    pub fn new(meter: OutboxMeter) -> Self {
        Outbox {
            bytes: Vec::new(),
            written: 0,
            unread: 0,
            unread_new: 0,
            is_held_back: false,
            answer: None,
            deferred: Vec::new(),
            is_full: false,
            meter,
        }
    }

    /// Returns how many bytes wait.
    pub fn pending(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Returns the bytes that wait.
    pub fn rest(&self) -> &[u8] {
        self.bytes.get(self.written..).unwrap_or_default()
    }

    /// Drops written bytes, so that a connection that never catches up does not keep
    /// all that it was ever sent.
    pub fn compact(&mut self) {
        if self.written >= PUMP_BYTES && self.written >= self.pending() {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }

    /// Adds a notice.
    pub fn push_notice(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.unread += bytes.len();
        self.unread_new += bytes.len();
    }

    /// Adds a notice behind the answer that was put off.
    pub fn defer_notice(&mut self, bytes: &[u8]) {
        self.deferred.extend_from_slice(bytes);
    }

    /// Adds the notices that waited for an answer.
    pub fn release_notices(&mut self) {
        let deferred = std::mem::take(&mut self.deferred);
        self.push_notice(&deferred);
    }

    /// Adds an answer.
    pub fn push_answer(&mut self, bytes: &[u8], now: u64) {
        self.bytes.extend_from_slice(bytes);
        self.answer.get_or_insert(UnreadAnswer { since_ns: now, taken: 0 });
    }

    pub fn note_written(&mut self, bytes: usize, now: u64) {
        self.written += bytes;
        if let Some(answer) = &mut self.answer {
            answer.taken += bytes;
            if answer.taken >= PROGRESS_BYTES {
                *answer = UnreadAnswer { since_ns: now, taken: 0 };
            }
        }
        self.unread = self.unread.saturating_sub(bytes);
    }

    /// Returns since when the peer has not read its answers, if any wait.
    pub fn answer_unread_since(&self) -> Option<u64> {
        self.answer.as_ref().map(|answer| answer.since_ns)
    }

    /// Says whether there is room, if that has changed since the last call.
    pub fn room_change(&mut self) -> Option<bool> {
        let is_full = self.pending() > PUMP_BYTES;
        let was_full = std::mem::replace(&mut self.is_full, is_full);
        (was_full != is_full).then_some(!is_full)
    }

    /// Counts the waiting bytes against the budgets.
    pub fn settle(&mut self) {
        self.meter.set(self.pending() + self.deferred.len());
    }

    /// Says whether the connection reads its notices too slowly. Only notices that it has had a
    /// turn's time to read count against it, and only when there are new ones.
    pub fn is_unread(&mut self) -> bool {
        let new = std::mem::take(&mut self.unread_new);
        (new > 0 && self.unread.saturating_sub(new) > UNREAD_BYTES) || self.deferred.len() > UNREAD_BYTES
    }

    /// Empties the outbox, all of which has been written.
    pub fn reset(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(OUTBOX_BYTES);
        (self.written, self.unread, self.answer) = (0, 0, None);
    }
}
