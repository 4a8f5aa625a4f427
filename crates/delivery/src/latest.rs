//! The latest message of each key, in order of arrival.
//!
//! Holds       1. A walk returns the message that was the latest of its key when the walk began,
//!                once per key, in ascending order. It leaves out messages that were replaced
//!                since; the ring has their successors.
//!             2. Replacing a message by one of about the same size allocates nothing.
//! Costs       Set: the bytes of the message. One step of a walk: one message, or a search from the
//!             beginning if the message of the previous step was replaced.
//! Start at    [`Latest::set`], [`Latest::next`].

use crate::ring::Key;

const NONE: u32 = u32::MAX;

#[derive(Debug, Default)]
struct LatestEntry {
    payload: Vec<u8>,
    is_binary: bool,
    seq: u64,
    before: u32,
    behind: u32,
}

#[derive(Debug)]
pub struct Latest {
    /// Messages by key. A key without a message is not linked.
    slots: Vec<Option<LatestEntry>>,
    first: u32,
    last: u32,
}

/// A message of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatestMessage<'a> {
    pub key: Key,
    pub seq: u64,
    pub is_binary: bool,
    pub payload: &'a [u8],
}

impl Default for Latest {
    fn default() -> Self {
        Latest { slots: Vec::new(), first: NONE, last: NONE }
    }
}

impl Latest {
    /// Stores the latest message of a key. `seq` must exceed every earlier number.
    pub fn set(&mut self, key: Key, seq: u64, is_binary: bool, payload: &[u8]) {
        let at = key.0 as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        self.unlink(key.0);
        let last = self.last;
        let slot = self.slots[at].get_or_insert_with(LatestEntry::default);
        slot.payload.clear();
        slot.payload.extend_from_slice(payload);
        (slot.is_binary, slot.seq, slot.before, slot.behind) = (is_binary, seq, last, NONE);
        match self.slot_mut(last) {
            Some(before) => before.behind = key.0,
            None => self.first = key.0,
        }
        self.last = key.0;
    }

    /// Returns the first message with a number above `seq`. `hint` is the key of the previous step
    /// and saves the search if its message is still number `seq`.
    pub fn next(&self, seq: u64, hint: Option<Key>) -> Option<LatestMessage<'_>> {
        let stands = hint.and_then(|key| self.slot(key.0)).filter(|slot| slot.seq == seq);
        let mut at = stands.map_or(self.first, |slot| slot.behind);
        loop {
            let slot = self.slot(at)?;
            if slot.seq > seq {
                let LatestEntry { seq, is_binary, ref payload, .. } = *slot;
                return Some(LatestMessage { key: Key(at), seq, is_binary, payload });
            }
            at = slot.behind;
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some(slot) = self.slot(at) else { return };
        let (before, behind) = (slot.before, slot.behind);
        match self.slot_mut(before) {
            Some(slot) => slot.behind = behind,
            None => self.first = behind,
        }
        match self.slot_mut(behind) {
            Some(slot) => slot.before = before,
            None => self.last = before,
        }
    }

    fn slot(&self, at: u32) -> Option<&LatestEntry> {
        self.slots.get(at as usize)?.as_ref()
    }

    fn slot_mut(&mut self, at: u32) -> Option<&mut LatestEntry> {
        self.slots.get_mut(at as usize)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(latest: &Latest, mut seq: u64) -> String {
        let (mut out, mut hint) = (Vec::new(), None);
        while let Some(held) = latest.next(seq, hint) {
            out.push(format!("{}:{}", held.seq, String::from_utf8_lossy(held.payload)));
            (seq, hint) = (held.seq, Some(held.key));
        }
        out.join(" ")
    }

    #[test]
    fn a_walk_returns_the_latest_message_of_each_key_in_order() {
        let mut latest = Latest::default();
        assert_eq!(walk(&latest, 0), "");
        for (seq, key) in [(1, 3), (2, 0), (3, 3), (4, 1), (5, 0), (9, 0)] {
            latest.set(Key(key), seq, false, format!("k{key}").as_bytes());
        }
        assert_eq!(walk(&latest, 0), "3:k3 4:k1 9:k0");
        assert_eq!(walk(&latest, 3), "4:k1 9:k0");
        assert_eq!(walk(&latest, 9), "");
    }

    #[test]
    fn a_walk_continues_after_its_last_message_was_replaced() {
        let mut latest = Latest::default();
        for (seq, key) in [(1, 0), (2, 1), (3, 2)] {
            latest.set(Key(key), seq, false, b"old");
        }
        let held = latest.next(0, None).unwrap();
        assert_eq!((held.key, held.seq), (Key(0), 1));
        latest.set(Key(0), 4, false, b"new");
        // The ring has number 4; a walk up to number 3 stops before it.
        let rest: Vec<u64> = [latest.next(1, Some(Key(0))), latest.next(2, Some(Key(1))), latest.next(3, Some(Key(2)))]
            .iter()
            .flatten()
            .map(|held| held.seq)
            .collect();
        assert_eq!(rest, [2, 3, 4]);
    }
}
