//! A byte ring of frames ready for the wire, back to back, with an index of what they are.
//!
//! Does        append; find the bytes behind a cursor; find the frame at a byte or at a sequence number.
//! Holds       1. frames lie back to back, so whatever lies between a cursor and the head can be sent as it is;
//!             2. the newest frames are kept, as many as fit, and each of them whole;
//!             3. no allocation once it has been round.
//! Leaves out  who reads: a reader is a [`Cursor`] and nothing here knows of it. Who must not be overrun in the middle of
//!             a frame is the floor's business.
//! Costs       append: the frame's bytes and 32 bytes of index; a cursor: 8 bytes.
//! Start at    [`Ring::append`], [`Ring::slices`].

use std::collections::VecDeque;

use pitwire_websocket::Opcode;

/// How far a reader has read: a position in the ring's endless stream of bytes, also in the middle of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub u64);

/// Which of a stream's keys a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u32);

impl Key {
    /// A frame for everybody, whatever they have chosen: pings and notices.
    pub const EVERYONE: Key = Key(u32::MAX);
}

/// What is known of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingEntry {
    /// Where it begins.
    pub start: u64,
    /// Its number in its stream; of a ping or notice, the number of the next message.
    pub seq: u64,
    /// Its place among the frames of all streams of a hall, by which a reader of several merges them.
    pub place: u64,
    pub key: Key,
    /// When it was appended, on the hall's clock.
    pub at_ms: u32,
}

#[derive(Debug)]
pub struct Ring {
    bytes: Box<[u8]>,
    head: u64,
    index: VecDeque<RingEntry>,
    entries_most: usize,
    /// The number of the last message that is gone, or that came before the first.
    before: u64,
}

/// One entry of the index for so many bytes of frames, at most.
pub const BYTES_PER_ENTRY: usize = 32;
/// A frame may take so much of the ring: a half of it must do for the slow, see the floor.
const FRAMES_LEAST: usize = 8;

impl Ring {
    /// `capacity` in bytes; rounded up to a power of two, at least 4 KiB. The first message comes behind number `before`.
    pub fn new(capacity: usize, before: u64) -> Self {
        let capacity = capacity.clamp(4096, 1 << 40).next_power_of_two();
        Ring {
            bytes: vec![0; capacity].into(),
            head: 0,
            index: VecDeque::new(),
            entries_most: capacity / BYTES_PER_ENTRY,
            before,
        }
    }

    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Appends one frame made of `parts`. `entry.start` is filled in here.
    pub fn append(&mut self, entry: RingEntry, parts: &[&[u8]]) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len > self.bytes.len() / FRAMES_LEAST {
            self.grow(len * FRAMES_LEAST);
        }
        while self.head + len as u64 - self.oldest().0 > self.bytes.len() as u64
            || self.index.len() >= self.entries_most
        {
            if let Some(gone) = self.index.pop_front().filter(|gone| gone.key != Key::EVERYONE) {
                self.before = gone.seq;
            }
        }
        self.index.push_back(RingEntry { start: self.head, ..entry });
        for part in parts {
            self.write(part);
        }
    }

    /// Nobody reads it: what comes next comes behind this number, and nothing before.
    pub fn begin(&mut self, before: u64) {
        self.index.clear();
        self.before = before;
    }

    fn write(&mut self, part: &[u8]) {
        let at = self.mask(self.head);
        let first = part.len().min(self.bytes.len() - at);
        self.bytes[at..at + first].copy_from_slice(&part[..first]);
        self.bytes[..part.len() - first].copy_from_slice(&part[first..]);
        self.head += part.len() as u64;
    }

    /// Makes room for larger messages than it was made for.
    #[cold]
    fn grow(&mut self, needed: usize) {
        let mut larger: Box<[u8]> = vec![0; needed.next_power_of_two()].into();
        let mask = larger.len() as u64 - 1;
        let (first, second) = self.slices(self.oldest(), Cursor(self.head));
        for (at, byte) in (self.oldest().0..).zip(first.iter().chain(second)) {
            larger[usize::try_from(at & mask).unwrap_or(0)] = *byte;
        }
        self.entries_most = larger.len() / BYTES_PER_ENTRY;
        self.bytes = larger;
    }

    /// A cursor that will see only what is appended from now on.
    pub fn head(&self) -> Cursor {
        Cursor(self.head)
    }

    /// The oldest frame that is still whole; the head when there is none.
    pub fn oldest(&self) -> Cursor {
        Cursor(self.index.front().map_or(self.head, |entry| entry.start))
    }

    /// The newest message: not a ping or a notice.
    pub fn newest(&self) -> Option<RingEntry> {
        self.index.iter().rev().find(|entry| entry.key != Key::EVERYONE).copied()
    }

    /// The bytes between two cursors, in one piece or, over the ring's seam, two. Nothing is to be found outside
    /// [`Self::oldest`] and [`Self::head`].
    pub fn slices(&self, from: Cursor, to: Cursor) -> (&[u8], &[u8]) {
        let (from, to) = (from.0.max(self.oldest().0), to.0.min(self.head));
        let Some(len) = to.checked_sub(from).and_then(|len| usize::try_from(len).ok()) else { return (&[], &[]) };
        let at = self.mask(from);
        let first = len.min(self.bytes.len() - at);
        (&self.bytes[at..at + first], &self.bytes[..len - first])
    }

    /// The number in the index of the frame in which a byte lies, if it is still there; the index's length at the head.
    fn index_at(&self, cursor: Cursor) -> Option<usize> {
        if cursor.0 < self.oldest().0 {
            return None;
        }
        if cursor.0 >= self.head {
            return Some(self.index.len());
        }
        Some(self.index.partition_point(|entry| entry.start <= cursor.0).saturating_sub(1))
    }

    /// The frames from a cursor on, the one it stands in first.
    pub fn entries_from(&self, cursor: Cursor) -> impl Iterator<Item = RingEntry> + '_ {
        let at = self.index_at(cursor).unwrap_or(0);
        self.index.range(at..).copied()
    }

    /// Where the frame that a byte lies in ends.
    pub fn end_of_frame(&self, cursor: Cursor) -> Cursor {
        let next = self.index_at(cursor).and_then(|at| self.index.get(at + 1));
        Cursor(next.map_or(self.head, |entry| entry.start))
    }

    /// Whether a cursor stands between two frames.
    pub fn is_between_frames(&self, cursor: Cursor) -> bool {
        cursor.0 >= self.head || self.entries_from(cursor).next().is_none_or(|entry| entry.start == cursor.0)
    }

    /// The number of the last message before a cursor.
    pub fn number_before(&self, cursor: Cursor) -> u64 {
        let at = self.index_at(cursor).unwrap_or(0);
        let before = self.index.range(..at).rev().find(|entry| entry.key != Key::EVERYONE);
        before.map_or(self.before, |entry| entry.seq)
    }

    /// How much of the ring lies behind a cursor: its bytes, or as many as its frames may at least have, if that is more.
    pub fn weight_behind(&self, cursor: Cursor) -> u64 {
        let frames = self.index.len() - self.index_at(cursor).unwrap_or(0);
        (self.head.saturating_sub(cursor.0)).max((frames * BYTES_PER_ENTRY) as u64)
    }

    /// The same as [`Self::after`] for one that comes only now: not so close to the end of the ring that it could be
    /// overrun before it is looked at. That is once a quarter of the ring, and a frame may have an eighth.
    pub fn after_safely(&self, seq: u64) -> Option<Cursor> {
        self.after(seq).filter(|cursor| self.weight_behind(*cursor) <= self.bytes.len() as u64 / 8 * 5)
    }

    /// Where to go on behind message `seq`; `None` when what follows it is no longer there. A sequence that is still to
    /// come stands at the head.
    fn after(&self, seq: u64) -> Option<Cursor> {
        let at = self.index.partition_point(|entry| entry.seq <= seq);
        let next = self.index.get(at);
        // Of the oldest frame nothing says that none was before it, unless its number does, or that of what is gone.
        let has_all = at > 0 || self.before <= seq || next.is_some_and(|next| next.seq <= seq + 1);
        has_all.then(|| next.map_or(self.head(), |next| Cursor(next.start)))
    }

    fn mask(&self, position: u64) -> usize {
        // The capacity is a power of two.
        usize::try_from(position & (self.bytes.len() as u64 - 1)).unwrap_or(0)
    }
}

/// A frame's header: at most ten bytes, on the stack.
#[derive(Clone, Copy, Debug)]
pub struct FrameHeader {
    bytes: [u8; 10],
    len: u8,
}

impl FrameHeader {
    /// Of one whole, unmasked frame of `len` payload bytes; `is_deflated` sets RSV1.
    #[allow(clippy::cast_possible_truncation)]
    pub fn new(opcode: Opcode, len: usize, is_deflated: bool) -> Self {
        let mut bytes = [0; 10];
        bytes[0] = 0x80 | opcode as u8 | if is_deflated { 0x40 } else { 0 };
        let used = match len {
            0..=125 => {
                bytes[1] = len as u8;
                2
            }
            126..=0xFFFF => {
                bytes[1] = 126;
                bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
                4
            }
            _ => {
                bytes[1] = 127;
                bytes[2..].copy_from_slice(&(len as u64).to_be_bytes());
                10
            }
        };
        FrameHeader { bytes, len: used }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seq: u64) -> RingEntry {
        RingEntry { start: 0, seq, place: seq, key: Key(0), at_ms: 0 }
    }

    fn text(ring: &Ring, from: Cursor, to: Cursor) -> String {
        let (first, second) = ring.slices(from, to);
        String::from_utf8([first, second].concat()).unwrap()
    }

    #[test]
    fn frames_lie_back_to_back_over_the_seam() {
        let mut ring = Ring::new(4096, 0);
        let mut cursor = ring.head();
        for n in 0..5_000_u64 {
            let frame = format!("frame-{n:04}.");
            ring.append(entry(n), &[&frame.as_bytes()[..3], &frame.as_bytes()[3..]]);
            if n % 3 == 2 {
                let expected: String = (n - 2..=n).map(|n| format!("frame-{n:04}.")).collect();
                assert_eq!(text(&ring, cursor, ring.head()), expected);
                cursor = ring.head();
            }
        }
        // 4,096 bytes hold 128 entries of 11 bytes: the index is the limit here.
        assert_eq!(ring.entries_from(ring.oldest()).count(), 128);
        assert_eq!(ring.newest().unwrap().seq, 4_999);
    }

    #[test]
    fn a_byte_knows_its_frame_and_a_number_its_place() {
        let mut ring = Ring::new(4096, 0);
        for n in 1..=100_u64 {
            ring.append(entry(n), &["x".repeat(100).as_bytes()]);
        }
        // 40 frames of 100 bytes fit into 4,096: 61 to 100.
        let oldest = ring.oldest();
        assert_eq!(oldest, Cursor(6_000));
        assert_eq!(ring.entries_from(Cursor(6_350)).next().unwrap().seq, 64);
        assert_eq!(ring.end_of_frame(Cursor(6_350)), Cursor(6_400));
        assert_eq!(ring.end_of_frame(Cursor(9_999)), Cursor(10_000));
        assert!(ring.is_between_frames(Cursor(6_300)) && !ring.is_between_frames(Cursor(6_301)));
        assert!(ring.is_between_frames(ring.head()));
        for (seq, expected) in
            [(59, None), (60, Some(6_000)), (61, Some(6_100)), (99, Some(9_900)), (100, Some(10_000))]
        {
            assert_eq!(ring.after(seq), expected.map(Cursor), "{seq}");
        }
        assert!(ring.slices(Cursor(0), Cursor(100)).0.is_empty(), "what is gone is not to be read");
    }

    #[test]
    fn what_was_before_a_cursor_is_known_also_when_it_is_gone() {
        let mut ring = Ring::new(4096, 57);
        let start = ring.head();
        let ping = RingEntry { key: Key::EVERYONE, ..entry(58) };
        ring.append(ping, &[b"ping"]);
        assert_eq!((ring.number_before(start), ring.number_before(ring.head())), (57, 57));
        for n in 1..=100_u64 {
            ring.append(entry(57 + 3 * n), &["x".repeat(100).as_bytes()]);
        }
        // 40 of them are there: 240 to 357.
        assert_eq!((ring.number_before(ring.oldest()), ring.number_before(ring.head())), (237, 357));
        assert_eq!(ring.number_before(Cursor(ring.oldest().0 + 200)), 243);
        assert_eq!([ring.after(236), ring.after(237)], [None, Some(ring.oldest())]);
        ring.begin(1_000);
        assert_eq!((ring.number_before(ring.head()), ring.oldest()), (1_000, ring.head()));
        assert_eq!([ring.after(999), ring.after(1_000)], [None, Some(ring.head())]);
    }

    #[test]
    fn a_message_larger_than_expected_makes_room_for_itself() {
        let mut ring = Ring::new(4096, 0);
        ring.append(entry(1), &[b"small"]);
        let big = "y".repeat(100_000);
        ring.append(entry(2), &[big.as_bytes()]);
        assert_eq!(text(&ring, Cursor(0), ring.head()), format!("small{big}"));
        assert_eq!(ring.capacity(), 1 << 20);
    }

    #[test]
    fn headers_have_the_three_length_forms() {
        for (len, deflated, expected) in [
            (5_usize, false, vec![0x81, 5]),
            (125, true, vec![0xC1, 125]),
            (126, false, vec![0x81, 126, 0, 126]),
            (65_535, false, vec![0x81, 126, 0xFF, 0xFF]),
            (65_536, false, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            assert_eq!(FrameHeader::new(Opcode::Text, len, deflated).as_bytes(), expected, "{len}");
        }
    }
}
