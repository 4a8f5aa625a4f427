//! A byte ring of encoded frames, with an index that knows each frame's number, key and order.
//!
//! Does        Appends frames, returns the bytes behind a cursor, and finds a frame by position or
//!             by number.
//! Holds       1. Frames lie back to back, so everything between a cursor and the head can be sent
//!                as it is.
//!             2. The ring keeps the newest frames that fit, each of them whole.
//!             3. Frames that are not released yet are never visible and never overwritten.
//!             4. Appending allocates nothing once the ring has wrapped around.
//! Leaves out  Readers: a reader is a [`Cursor`], and the ring does not know it. The lag policy
//!             removes a slow reader before the ring overwrites the frame in which it stands.
//! Costs       Append: the bytes of the frame and 32 bytes of index. A cursor: 8 bytes.
//! Start at    [`Ring::append`], [`Ring::slices`].

use std::collections::VecDeque;

/// Position of a reader in the endless byte stream of a ring. It may stand inside a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub u64);

/// Key of a frame within its stream: a number that the stream gives to each key name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u32);

impl Key {
    /// Key of frames that every subscriber gets, whatever filter it has: pings and notices.
    pub const EVERYONE: Key = Key(u32::MAX);
}

/// Index entry of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingEntry {
    /// Position of the first byte. [`Ring::append`] sets it.
    pub start: u64,
    /// Number of the message in its stream. For a ping or a notice: the number of the next message.
    pub seq: u64,
    /// Place of the frame in the order of all streams. A reader of several streams merges them by
    /// it.
    pub place: u64,
    /// Key of the message.
    pub key: Key,
    /// Time of appending, in milliseconds.
    pub at_ms: u32,
}

/// A ring of frames for any number of readers.
#[derive(Debug)]
pub struct Ring {
    bytes: Box<[u8]>,
    /// Position behind the newest released frame.
    head: u64,
    /// Position behind the newest frame, released or not.
    end: u64,
    index: VecDeque<RingEntry>,
    /// Frames that are not released yet.
    pending: usize,
    /// Maximum number of index entries.
    max_entries: usize,
    /// Number of the last message that the ring has overwritten, or that preceded the first one.
    before: u64,
}

/// Bytes of frames for which the index has one entry.
pub const BYTES_PER_ENTRY: usize = 32;
/// Minimum number of frames of any size in a ring. The lag policy needs half of the ring for slow
/// readers.
const MIN_FRAMES: usize = 8;

impl Ring {
    /// Makes a ring of `capacity` bytes, rounded up to a power of two and at least 4 KiB. `before`
    /// is the number of the message that precedes the first one.
    pub fn new(capacity: usize, before: u64) -> Self {
        let capacity = capacity.clamp(4096, 1 << 40).next_power_of_two();
        Ring {
            bytes: vec![0; capacity].into(),
            head: 0,
            end: 0,
            index: VecDeque::new(),
            pending: 0,
            max_entries: capacity / BYTES_PER_ENTRY,
            before,
        }
    }

    /// Capacity in bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Appends one frame made of `parts` and releases it.
    pub fn append(&mut self, entry: RingEntry, parts: &[&[u8]]) {
        self.append_pending(entry, parts);
        self.release();
    }

    /// Appends one frame made of `parts`. Readers see it after the next [`Self::release`].
    pub fn append_pending(&mut self, entry: RingEntry, parts: &[&[u8]]) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len > self.bytes.len() / MIN_FRAMES {
            self.grow(len * MIN_FRAMES);
        }
        while self.end - self.head + len as u64 > self.bytes.len() as u64 || self.pending >= self.max_entries {
            self.grow(self.bytes.len() * 2);
        }
        while self.end + len as u64 - self.oldest().0 > self.bytes.len() as u64 || self.index.len() >= self.max_entries
        {
            if let Some(overwritten) = self.index.pop_front().filter(|entry| entry.key != Key::EVERYONE) {
                self.before = overwritten.seq;
            }
        }
        self.index.push_back(RingEntry { start: self.end, ..entry });
        self.pending += 1;
        for part in parts {
            self.write(part);
        }
    }

    /// Releases all frames to readers. Returns whether there were any.
    pub fn release(&mut self) -> bool {
        let is_new = self.pending > 0;
        (self.head, self.pending) = (self.end, 0);
        is_new
    }

    /// Forgets all frames: the next message follows number `before`. Only for a ring without
    /// readers.
    pub fn begin(&mut self, before: u64) {
        self.index.clear();
        (self.head, self.pending) = (self.end, 0);
        self.before = before;
    }

    fn write(&mut self, part: &[u8]) {
        let at = self.mask(self.end);
        let first = part.len().min(self.bytes.len() - at);
        self.bytes[at..at + first].copy_from_slice(&part[..first]);
        self.bytes[..part.len() - first].copy_from_slice(&part[first..]);
        self.end += part.len() as u64;
    }

    /// Makes the ring larger, to at least `needed` bytes.
    #[cold]
    fn grow(&mut self, needed: usize) {
        let mut larger: Box<[u8]> = vec![0; needed.next_power_of_two()].into();
        let mask = larger.len() as u64 - 1;
        let (first, second) = self.bytes_between(self.oldest().0, self.end);
        for (at, byte) in (self.oldest().0..).zip(first.iter().chain(second)) {
            larger[usize::try_from(at & mask).unwrap_or(0)] = *byte;
        }
        self.max_entries = larger.len() / BYTES_PER_ENTRY;
        self.bytes = larger;
    }

    /// Returns the cursor just after the newest released frame.
    pub fn head(&self) -> Cursor {
        Cursor(self.head)
    }

    /// Returns the cursor just after the newest frame, released or not. A reader that starts here
    /// sees only frames that are appended later.
    pub fn end(&self) -> Cursor {
        Cursor(self.end)
    }

    /// Cursor at the oldest frame that is still whole, or at the end if there is none.
    pub fn oldest(&self) -> Cursor {
        Cursor(self.index.front().map_or(self.end, |entry| entry.start))
    }

    /// Returns the newest released message. Pings and notices do not count.
    pub fn newest(&self) -> Option<RingEntry> {
        let released = self.index.range(..self.index.len() - self.pending);
        released.rev().find(|entry| entry.key != Key::EVERYONE).copied()
    }

    /// Returns the released bytes between two cursors, in two pieces if they cross the end of the
    /// buffer. Bytes before [`Self::oldest`] and behind [`Self::head`] are left out.
    pub fn slices(&self, from: Cursor, to: Cursor) -> (&[u8], &[u8]) {
        self.bytes_between(from.0.max(self.oldest().0), to.0.min(self.head))
    }

    fn bytes_between(&self, from: u64, to: u64) -> (&[u8], &[u8]) {
        let Some(len) = to.checked_sub(from).and_then(|len| usize::try_from(len).ok()) else { return (&[], &[]) };
        let at = self.mask(from);
        let first = len.min(self.bytes.len() - at);
        (&self.bytes[at..at + first], &self.bytes[..len - first])
    }

    /// Returns the index position of the frame that contains a cursor, or the length of the index
    /// for the end. `None` if that frame has been overwritten.
    fn index_at(&self, cursor: Cursor) -> Option<usize> {
        if cursor.0 < self.oldest().0 {
            return None;
        }
        if cursor.0 >= self.end {
            return Some(self.index.len());
        }
        Some(self.index.partition_point(|entry| entry.start <= cursor.0).saturating_sub(1))
    }

    /// Returns the frame that contains `cursor` and all later ones.
    pub fn entries_from(&self, cursor: Cursor) -> impl Iterator<Item = RingEntry> + '_ {
        let at = self.index_at(cursor).unwrap_or(0);
        self.index.range(at..).copied()
    }

    /// Returns the released frame that begins at a cursor or contains it.
    pub fn next_released(&self, cursor: Cursor) -> Option<RingEntry> {
        self.entries_from(cursor).next().filter(|entry| entry.start < self.head)
    }

    /// Returns the end of the frame that contains a cursor.
    pub fn end_of_frame(&self, cursor: Cursor) -> Cursor {
        let next = self.index_at(cursor).and_then(|at| self.index.get(at + 1));
        Cursor(next.map_or(self.end, |entry| entry.start))
    }

    /// Returns whether a cursor stands between two frames.
    pub fn is_between_frames(&self, cursor: Cursor) -> bool {
        cursor.0 >= self.end || self.entries_from(cursor).next().is_none_or(|entry| entry.start == cursor.0)
    }

    /// Returns the number of the last message before a cursor.
    pub fn number_before(&self, cursor: Cursor) -> u64 {
        self.number_at(self.index_at(cursor).unwrap_or(0))
    }

    /// Returns the number of the last message before an index position.
    fn number_at(&self, at: usize) -> u64 {
        let before = self.index.range(..at).rev().find(|entry| entry.key != Key::EVERYONE);
        before.map_or(self.before, |entry| entry.seq)
    }

    /// Returns the number that the reader of the oldest frame must have received last.
    pub fn number_before_oldest(&self) -> u64 {
        self.before
    }

    /// Copies the frames behind message `number`, released or not, until they exceed `max_bytes`.
    /// Returns `None` if the ring never had that number or has overwritten what follows it. For
    /// rings without pings and notices.
    pub fn frames_after(&self, number: u64, max_bytes: usize) -> Option<Vec<Vec<u8>>> {
        let at = self.index.partition_point(|entry| entry.seq <= number);
        if self.number_at(at) != number {
            return None;
        }
        let (mut frames, mut copied) = (Vec::new(), 0);
        for (at, entry) in (at..).zip(self.index.range(at..)) {
            if copied > max_bytes {
                break;
            }
            let end = self.index.get(at + 1).map_or(self.end, |next| next.start);
            let (first, second) = self.bytes_between(entry.start, end);
            copied += first.len() + second.len();
            frames.push([first, second].concat());
        }
        Some(frames)
    }

    /// Returns how much of the ring lies behind a cursor: its bytes, or the least bytes that its
    /// frames stand for if that is more.
    pub fn weight_behind(&self, cursor: Cursor) -> u64 {
        let frames = self.index.len() - self.index_at(cursor).unwrap_or(0);
        (self.head.saturating_sub(cursor.0)).max((frames * BYTES_PER_ENTRY) as u64)
    }

    /// Returns the cursor of a new reader that has read up to message `seq`. Returns `None` if the
    /// frames after it have been overwritten, or may be overwritten before the next lag check. The
    /// check runs once per quarter of the ring, and a frame may take an eighth.
    pub fn after_safely(&self, seq: u64) -> Option<Cursor> {
        self.after(seq).filter(|cursor| self.weight_behind(*cursor) <= self.bytes.len() as u64 / 8 * 5)
    }

    /// Returns the cursor behind message `seq`, or `None` if the frames after it have been
    /// overwritten. A number in the future gives the end.
    fn after(&self, seq: u64) -> Option<Cursor> {
        let at = self.index.partition_point(|entry| entry.seq <= seq);
        let next = self.index.get(at);
        // Nothing was lost before the oldest frame if its number, or the last overwritten one, says
        // so.
        let has_all = at > 0 || self.before <= seq || next.is_some_and(|next| next.seq <= seq + 1);
        has_all.then(|| next.map_or(self.end(), |next| Cursor(next.start)))
    }

    fn mask(&self, position: u64) -> usize {
        // The capacity is a power of two.
        usize::try_from(position & (self.bytes.len() as u64 - 1)).unwrap_or(0)
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
    fn frames_lie_back_to_back_across_the_end_of_the_buffer() {
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
        // The index of a ring of 4,096 bytes has 128 entries.
        assert_eq!(ring.entries_from(ring.oldest()).count(), 128);
        assert_eq!(ring.newest().unwrap().seq, 4_999);
    }

    #[test]
    fn a_position_finds_its_frame_and_a_number_its_cursor() {
        let mut ring = Ring::new(4096, 0);
        for n in 1..=100_u64 {
            ring.append(entry(n), &["x".repeat(100).as_bytes()]);
        }
        // 40 frames of 100 bytes fit into 4,096 bytes: 61 to 100.
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
        assert!(ring.slices(Cursor(0), Cursor(100)).0.is_empty(), "overwritten bytes are not readable");
    }

    #[test]
    fn the_number_before_a_cursor_survives_overwriting() {
        let mut ring = Ring::new(4096, 57);
        let start = ring.head();
        let ping = RingEntry { key: Key::EVERYONE, ..entry(58) };
        ring.append(ping, &[b"ping"]);
        assert_eq!((ring.number_before(start), ring.number_before(ring.head())), (57, 57));
        for n in 1..=100_u64 {
            ring.append(entry(57 + 3 * n), &["x".repeat(100).as_bytes()]);
        }
        // The ring keeps 40 of them: 240 to 357.
        assert_eq!((ring.number_before(ring.oldest()), ring.number_before(ring.head())), (237, 357));
        assert_eq!(ring.number_before(Cursor(ring.oldest().0 + 200)), 243);
        assert_eq!([ring.after(236), ring.after(237)], [None, Some(ring.oldest())]);
        ring.begin(1_000);
        assert_eq!((ring.number_before(ring.head()), ring.oldest()), (1_000, ring.head()));
        assert_eq!([ring.after(999), ring.after(1_000)], [None, Some(ring.head())]);
    }

    #[test]
    fn a_large_message_makes_the_ring_grow() {
        let mut ring = Ring::new(4096, 0);
        ring.append(entry(1), &[b"small"]);
        let big = "y".repeat(100_000);
        ring.append(entry(2), &[big.as_bytes()]);
        assert_eq!(text(&ring, Cursor(0), ring.head()), format!("small{big}"));
        assert_eq!(ring.capacity(), 1 << 20);
    }

    #[test]
    fn a_reader_sees_a_frame_only_after_its_release() {
        let mut ring = Ring::new(4096, 0);
        let cursor = ring.end();
        ring.append_pending(entry(1), &[b"one"]);
        assert_eq!(
            (text(&ring, cursor, ring.end()), ring.next_released(cursor), ring.newest()),
            (String::new(), None, None)
        );
        assert!(ring.release());
        ring.append_pending(entry(2), &[b"two"]);
        assert_eq!(text(&ring, cursor, ring.end()), "one");
        assert_eq!((ring.next_released(cursor).unwrap().seq, ring.newest().unwrap().seq), (1, 1));
        assert!(ring.release() && !ring.release());
        assert_eq!(text(&ring, cursor, ring.end()), "onetwo");
    }

    #[test]
    fn pending_frames_are_never_overwritten() {
        let mut ring = Ring::new(4096, 0);
        let cursor = ring.end();
        for n in 0..5_000 {
            ring.append_pending(entry(n), &[format!("{n:04}").as_bytes()]);
        }
        ring.release();
        let all: String = (0..5_000).map(|n| format!("{n:04}")).collect();
        assert_eq!(text(&ring, cursor, ring.head()), all);
    }

    #[test]
    fn frames_after_a_number_are_found_while_the_ring_keeps_them() {
        let texts = |ring: &Ring, number| -> Option<Vec<String>> {
            let frames = ring.frames_after(number, usize::MAX)?;
            Some(frames.into_iter().map(|frame| String::from_utf8(frame).unwrap()).collect())
        };
        let mut ring = Ring::new(4096, 0);
        ring.begin(10);
        assert_eq!((texts(&ring, 10), texts(&ring, 9), ring.number_before_oldest()), (Some(vec![]), None, 10));
        for (number, text) in [(12, "10-12"), (17, "12-17"), (18, "17-18")] {
            ring.append_pending(entry(number), &[text.as_bytes()]);
        }
        assert_eq!(texts(&ring, 12), Some(vec!["12-17".into(), "17-18".into()]), "released or not");
        assert_eq!((texts(&ring, 18), texts(&ring, 13)), (Some(vec![]), None));
        ring.release();
        let long = "x".repeat(400);
        (20..32).for_each(|number| ring.append(entry(number), &[long.as_bytes()]));
        assert_eq!(texts(&ring, 10), None, "what follows it is overwritten");
        assert_eq!(texts(&ring, 30), Some(vec![long.clone()]));
        assert_eq!(ring.frames_after(24, 500).map(|frames| frames.len()), Some(2), "copying stops above the limit");
        ring.begin(40);
        assert_eq!((texts(&ring, 29), texts(&ring, 28), ring.number_before_oldest()), (None, None, 40));
        ring.append(entry(41), &[b"40-41"]);
        assert_eq!((texts(&ring, 40), texts(&ring, 28)), (Some(vec!["40-41".into()]), None));
    }
}
