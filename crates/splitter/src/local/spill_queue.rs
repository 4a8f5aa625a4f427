//! Records kept in memory for a worker that is behind.
//!
//! Holds       never more than its limit. The memory is reserved at the start and touched when it
//!             is needed.

use std::collections::VecDeque;

const LENGTH_BYTES: usize = 4;
/// Flag in a record's length: the record is a note and not an object.
const NOTE: u32 = 1 << 31;

pub(crate) struct SpillQueue {
    bytes: VecDeque<u8>,
    limit: usize,
    records: u64,
    notes: u64,
    /// A copy of the front record, if it wraps around the end of `bytes`.
    front: Vec<u8>,
}

impl SpillQueue {
    pub fn new(limit: usize) -> Self {
        Self { bytes: VecDeque::with_capacity(limit), limit, records: 0, notes: 0, front: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Returns how many records are objects.
    pub fn objects(&self) -> u64 {
        self.records - self.notes
    }

    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether at least half of the queue is free.
    pub fn is_roomy(&self) -> bool {
        self.limit > 0 && self.bytes.len() <= self.limit / 2
    }

    /// Appends a record. Returns false if it does not fit.
    pub fn push(&mut self, record: &[u8], is_note: bool) -> bool {
        let length = u32::try_from(record.len()).ok().filter(|length| *length < NOTE);
        let Some(length) = length else { return false };
        if self.bytes.len() + LENGTH_BYTES + record.len() > self.limit {
            return false;
        }
        self.bytes.extend((length | if is_note { NOTE } else { 0 }).to_le_bytes());
        self.bytes.extend(record);
        self.records += 1;
        self.notes += u64::from(is_note);
        true
    }

    fn front_length(&self) -> Option<(usize, bool)> {
        let byte = |at: usize| self.bytes.get(at).copied();
        let length = u32::from_le_bytes([byte(0)?, byte(1)?, byte(2)?, byte(3)?]);
        Some(((length & !NOTE) as usize, length & NOTE != 0))
    }

    /// Returns the oldest record in one piece, and whether it is a note.
    pub fn front(&mut self) -> Option<(&[u8], bool)> {
        let (length, is_note) = self.front_length()?;
        let (first, second) = self.bytes.as_slices();
        let range = LENGTH_BYTES..LENGTH_BYTES + length;
        let record = if let Some(record) = first.get(range.clone()) {
            record
        } else if range.start >= first.len() {
            second.get(range.start - first.len()..range.end - first.len())?
        } else {
            self.front.clear();
            self.front.extend_from_slice(&first[range.start..]);
            self.front.extend_from_slice(second.get(..range.end - first.len())?);
            &self.front
        };
        Some((record, is_note))
    }

    /// Removes the oldest record.
    pub fn pop(&mut self) {
        if let Some((length, is_note)) = self.front_length() {
            self.bytes.drain(..LENGTH_BYTES + length);
            self.records -= 1;
            self.notes -= u64::from(is_note);
        }
    }

    /// Removes everything and returns how many objects that was.
    pub fn clear(&mut self) -> u64 {
        let objects = self.objects();
        self.bytes.clear();
        (self.records, self.notes) = (0, 0);
        objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_keep_their_order_across_the_end() {
        let mut queue = SpillQueue::new(64);
        let capacity = queue.bytes.capacity();
        let (mut pushed, mut popped) = (0_u8, 0_u8);
        for round in 0..2_000_usize {
            while queue.push(&vec![pushed; usize::from(pushed % 23)], pushed % 5 == 0) {
                pushed = pushed.wrapping_add(1);
            }
            for _ in 0..=round % 3 {
                let Some(front) = queue.front() else { break };
                assert_eq!(front, (&vec![popped; usize::from(popped % 23)][..], popped % 5 == 0));
                popped = popped.wrapping_add(1);
                queue.pop();
            }
            assert!(queue.bytes() <= 64);
        }
        assert_eq!(queue.bytes.capacity(), capacity, "no memory beyond what was reserved");
        let left = (0..pushed.wrapping_sub(popped)).filter(|more| popped.wrapping_add(*more) % 5 > 0).count() as u64;
        assert_eq!((queue.objects(), queue.clear()), (left, left));
        assert!(queue.is_empty() && queue.front().is_none());
    }

    #[test]
    fn a_queue_without_room_keeps_nothing() {
        let mut queue = SpillQueue::new(0);
        assert!(!queue.push(b"", false));
        assert!(!queue.is_roomy());
        queue.pop();
    }
}
