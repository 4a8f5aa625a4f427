//! Bytes that wait to be written to a connection.
//!
//! Start at    [`Outbox`].

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::outbox_budget::OutboxMeter;

/// With this many bytes waiting, the requests of a connection wait too.
pub(super) const OUTBOX_BYTES: usize = 256 * 1024;
/// With this many bytes of notices waiting since earlier turns, or behind an answer that was put
/// off, a connection is closed.
const UNREAD_BYTES: usize = 1024 * 1024;
/// Bytes of published frames that the application adds at a time.
pub(super) const PUMP_BYTES: usize = 64 * 1024;
/// Most bytes of one connection that are written in one turn. Copying them into the kernel takes
/// about 0.1 ms.
pub(super) const WRITE_BYTES: usize = 128 * 1024;
/// A peer that takes this many bytes reads its answers.
const PROGRESS_BYTES: usize = 64 * 1024;

/// Bytes for one connection, in the order in which they leave.
#[derive(Debug)]
pub(super) struct Outbox {
    pub bytes: Vec<u8>,
    /// How many of `bytes` have been written.
    written: usize,
    /// Long answers behind `bytes`, each in its own buffer, and the bytes behind each of them.
    behind: VecDeque<Vec<u8>>,
    /// Bytes of all buffers in `behind`.
    bytes_behind: usize,
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
            behind: VecDeque::new(),
            bytes_behind: 0,
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
        self.bytes.len() - self.written + self.bytes_behind
    }

    /// Returns the first waiting bytes in two parts, at most `most` of them.
    pub fn front(&self, most: usize) -> [&[u8]; 2] {
        let first = self.bytes.get(self.written..).unwrap_or_default();
        let first = &first[..first.len().min(most)];
        let second = self.behind.front().map(Vec::as_slice).unwrap_or_default();
        [first, &second[..second.len().min(most - first.len())]]
    }

    /// Returns the buffer that leaves next, if published frames can join it: few bytes wait, none
    /// of them has been written, and no long answer is behind them.
    pub fn unsent_bytes(&mut self) -> Option<&mut Vec<u8>> {
        let has_room = self.written == 0 && self.bytes.len() < PUMP_BYTES && self.behind.is_empty();
        has_room.then_some(&mut self.bytes)
    }

    /// Adds the bytes that `write` writes.
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(last) = self.behind.back_mut() else { return write(&mut self.bytes) };
        let before = last.len();
        write(last);
        self.bytes_behind += last.len() - before;
    }

    /// Drops written bytes, so that a connection that never catches up does not keep
    /// all that it was ever sent.
    pub fn compact(&mut self) {
        if self.written >= PUMP_BYTES && self.written >= self.bytes.len() - self.written {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }

    /// Adds a notice.
    pub fn push_notice(&mut self, bytes: &[u8]) {
        self.append(|out| out.extend_from_slice(bytes));
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

    /// Adds an answer. Does not copy owned bytes.
    pub fn push_answer(&mut self, bytes: Cow<'_, [u8]>, now: u64) {
        match bytes {
            Cow::Borrowed(bytes) => self.append(|out| out.extend_from_slice(bytes)),
            Cow::Owned(bytes) => {
                self.bytes_behind += bytes.len();
                // What comes later gets a buffer behind it.
                self.behind.extend([bytes, Vec::new()]);
                self.advance();
            }
        }
        self.answer.get_or_insert(UnreadAnswer { since_ns: now, taken: 0 });
    }

    /// Goes to the next buffer when one is written.
    fn advance(&mut self) {
        while self.written >= self.bytes.len()
            && let Some(next) = self.behind.pop_front()
        {
            self.written -= self.bytes.len();
            self.bytes_behind -= next.len();
            self.bytes = next;
        }
    }

    pub fn note_written(&mut self, bytes: usize, now: u64) {
        self.written += bytes;
        self.advance();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::outbox_budget::OutboxBudget;

    /// Writes everything, at most `most` bytes at a time, and returns it.
    fn drain(outbox: &mut Outbox, most: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while outbox.pending() > 0 {
            let before = out.len();
            outbox.front(most).into_iter().for_each(|part| out.extend_from_slice(part));
            let taken = out.len() - before;
            assert!((1..=most).contains(&taken), "{taken} bytes at a time");
            outbox.note_written(taken, 0);
        }
        out
    }

    #[test]
    fn owned_answers_leave_between_the_bytes_before_and_behind_them() {
        for most in [1, 4, 7, 1_000] {
            let mut outbox = Outbox::new(OutboxBudget::new(&Limits::default()).meter());
            for round in 0..3 {
                outbox.push_answer(Cow::Borrowed(b"head "), round);
                outbox.push_answer(Cow::Owned(b"first ".to_vec()), round);
                outbox.push_notice(b"notice ");
                outbox.push_answer(Cow::Owned(b"second ".to_vec()), round);
                outbox.append(|out| out.extend_from_slice(b"end"));
                assert_eq!(outbox.pending(), 28);
                assert_eq!(drain(&mut outbox, most), b"head first notice second end");
                assert!(outbox.behind.is_empty() && outbox.bytes_behind == 0);
                if round == 1 {
                    outbox.reset();
                }
            }
        }
    }
}
