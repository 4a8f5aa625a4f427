//! A byte ring of ready-made frames: one writer appends, any number of cursors read.
//!
//! Holds       1. a cursor always stands between two frames;
//!             2. the newest frames are kept, as many as fit;
//!             3. each frame carries its place in the venue's order, by which a reader of several rings merges them;
//!             4. frames whose numbers form a chain are read in step with it or not at all.
//! Costs       append and read: the frame's bytes; a cursor: 16 bytes.

/// How far one reader has read: a position in the ring's endless stream of bytes, and, where frames are numbered, the
/// number of the last one it has heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    at: u64,
    number: u64,
}

impl Cursor {
    /// The number of the last frame that this reader has heard, in the ring or merged.
    pub fn number(self) -> u64 {
        self.number
    }

    /// How far it has come, as one number.
    pub(crate) fn place(self, is_numbered: bool) -> u64 {
        if is_numbered { self.number } else { self.at }
    }

    /// Whether it has come as far as another.
    pub(crate) fn has_reached(self, other: Cursor) -> bool {
        self.at >= other.at
    }
}

/// The frames after the cursor are gone, or lead on from another number than its reader's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun;

#[derive(Debug)]
pub struct Ring {
    bytes: Vec<u8>,
    /// Where the next frame will be written.
    head: u64,
    /// Up to here readers may read.
    visible: u64,
    /// The oldest frame still whole.
    oldest: u64,
    /// Where the newest frame begins.
    newest: u64,
    /// The newest frame's place and number, and those of the newest that readers may read.
    place: u64,
    number: u64,
    visible_place: u64,
    visible_number: u64,
    /// Where the chain of numbers began that the newest frame is of.
    chain: u64,
}

/// Each frame stands behind its length, its place and the number of the frame before it.
const LENGTH: usize = 4;
const PLACE: usize = LENGTH + 8;
const PREFIX: usize = PLACE + 8;

impl Ring {
    /// `capacity` is a power of two.
    pub fn new(capacity: usize) -> Self {
        debug_assert!(capacity.is_power_of_two());
        Ring {
            bytes: vec![0; capacity.next_power_of_two()],
            head: 0,
            visible: 0,
            oldest: 0,
            newest: 0,
            place: 0,
            number: 0,
            visible_place: 0,
            visible_number: 0,
            chain: 0,
        }
    }

    /// Appends one frame, invisible until [`Self::release`]. What nobody could see yet is never overwritten: when it
    /// does not fit, the ring grows.
    pub fn append(&mut self, place: u64, frame: &[u8]) {
        self.append_numbered(place, self.number, frame);
    }

    /// The same of one that leads on from the frame before to a number of its own.
    pub fn append_numbered(&mut self, place: u64, number: u64, frame: &[u8]) {
        let needed = (frame.len() + PREFIX) as u64;
        if self.head + needed - self.visible > self.bytes.len() as u64 {
            self.grow(self.head + needed - self.visible);
        }
        while self.head + needed - self.oldest > self.bytes.len() as u64 {
            self.oldest += self.frame_bytes(self.oldest);
        }
        self.newest = self.head;
        let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        self.write(self.head, &len.to_le_bytes());
        self.write(self.head + LENGTH as u64, &place.to_le_bytes());
        self.write(self.head + PLACE as u64, &self.number.to_le_bytes());
        self.write(self.head + PREFIX as u64, frame);
        self.head += needed;
        (self.place, self.number) = (place, number);
    }

    /// Readers who come from now on start from this number. For a ring that nobody reads.
    pub fn start_from(&mut self, number: u64) {
        (self.number, self.visible_number, self.chain) = (number, number, self.head);
    }

    /// The number of the oldest frame's reader: whoever holds an earlier one has missed what is gone.
    pub fn oldest_number(&self) -> u64 {
        let first = self.oldest.max(self.chain);
        if first < self.head { self.word(first + PLACE as u64) } else { self.number }
    }

    /// All frames after the one of this number, read or not; `None` where that is none of the chain's, or what followed is
    /// gone. Looks at every frame that is kept, and stops copying when there are more bytes than wanted.
    pub fn since(&self, number: u64, most_bytes: usize) -> Option<Vec<Vec<u8>>> {
        let (mut at, mut frames, mut copied) = (self.oldest.max(self.chain), Vec::new(), 0);
        if number == self.number {
            return Some(frames);
        }
        while at < self.head && self.word(at + PLACE as u64) != number {
            at += self.frame_bytes(at);
        }
        while at < self.head && copied <= most_bytes {
            let bytes = self.frame_bytes(at);
            let mut frame = Vec::new();
            self.copy(at + PREFIX as u64, usize::try_from(bytes).unwrap_or(PREFIX) - PREFIX, &mut frame);
            copied += frame.len();
            frames.push(frame);
            at += bytes;
        }
        (!frames.is_empty()).then_some(frames)
    }

    #[cold]
    fn grow(&mut self, needed: u64) {
        let capacity = usize::try_from(needed.next_power_of_two()).unwrap_or(usize::MAX / 2);
        let mut larger = Ring { bytes: vec![0; capacity], ..*self };
        let mut kept = Vec::new();
        let len = usize::try_from(self.head - self.oldest).unwrap_or(0);
        self.copy(self.oldest, len, &mut kept);
        larger.write(self.oldest, &kept);
        *self = larger;
    }

    /// Lets readers see everything appended so far. Says whether there was anything new.
    pub fn release(&mut self) -> bool {
        let fresh = self.visible < self.head;
        self.visible = self.head;
        (self.visible_place, self.visible_number) = (self.place, self.number);
        fresh
    }

    /// The number of the newest frame that readers may read.
    pub fn visible_number(&self) -> u64 {
        self.visible_number
    }

    /// The place of the newest frame that readers may read.
    pub fn visible_place(&self) -> u64 {
        self.visible_place
    }

    /// Moves a cursor behind all that may be read, its reader having heard `number` last.
    pub fn skip_to_end(&self, cursor: &mut Cursor, number: u64) {
        *cursor = Cursor { at: self.visible, number };
    }

    /// A cursor that will see only what is appended from now on.
    pub fn end(&self) -> Cursor {
        Cursor { at: self.head, number: self.number }
    }

    /// The place of the next visible frame, if there is one and it is still there.
    pub fn peek(&self, cursor: Cursor) -> Result<Option<u64>, Overrun> {
        if cursor.at < self.oldest {
            return Err(Overrun);
        }
        if cursor.at >= self.visible {
            return Ok(None);
        }
        if self.word(cursor.at + PLACE as u64) != cursor.number {
            return Err(Overrun);
        }
        Ok(Some(self.word(cursor.at + LENGTH as u64)))
    }

    /// Copies the next visible frame to `out` and moves the cursor behind it; does nothing when there is none.
    pub fn read(&self, cursor: &mut Cursor, out: &mut Vec<u8>) -> Result<(), Overrun> {
        if self.peek(*cursor)?.is_some() {
            let bytes = self.frame_bytes(cursor.at);
            let payload = usize::try_from(bytes).unwrap_or(PREFIX) - PREFIX;
            self.copy(cursor.at + PREFIX as u64, payload, out);
            cursor.at += bytes;
            // A frame's own number stands in the one behind it.
            cursor.number = if cursor.at < self.head { self.word(cursor.at + PLACE as u64) } else { self.number };
        }
        Ok(())
    }

    /// Moves a cursor to the newest visible frame, if that is ahead of it. For streams of which only the latest matters,
    /// whose frames have no numbers.
    pub fn skip_to_newest(&self, cursor: &mut Cursor) {
        if self.visible == self.head && self.newest > cursor.at {
            cursor.at = self.newest;
        } else if cursor.at < self.oldest {
            cursor.at = self.oldest;
        }
    }

    fn mask(&self, position: u64) -> usize {
        // The capacity is a power of two.
        usize::try_from(position & (self.bytes.len() as u64 - 1)).unwrap_or(0)
    }

    fn frame_bytes(&self, position: u64) -> u64 {
        let mut length = [0; LENGTH];
        self.fill(position, &mut length);
        u64::from(u32::from_le_bytes(length)) + PREFIX as u64
    }

    fn word(&self, position: u64) -> u64 {
        let mut word = [0; 8];
        self.fill(position, &mut word);
        u64::from_le_bytes(word)
    }

    fn fill(&self, position: u64, into: &mut [u8]) {
        for (at, byte) in (position..).zip(into) {
            *byte = self.bytes[self.mask(at)];
        }
    }

    fn write(&mut self, position: u64, data: &[u8]) {
        let at = self.mask(position);
        let first = data.len().min(self.bytes.len() - at);
        self.bytes[at..at + first].copy_from_slice(&data[..first]);
        self.bytes[..data.len() - first].copy_from_slice(&data[first..]);
    }

    fn copy(&self, position: u64, len: usize, out: &mut Vec<u8>) {
        let at = self.mask(position);
        let first = len.min(self.bytes.len() - at);
        out.extend_from_slice(&self.bytes[at..at + first]);
        out.extend_from_slice(&self.bytes[..len - first]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(ring: &Ring, cursor: &mut Cursor) -> Result<String, Overrun> {
        let mut out = Vec::new();
        while ring.peek(*cursor)?.is_some() {
            ring.read(cursor, &mut out)?;
        }
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn frames_tell_their_place_before_they_are_taken() {
        let mut ring = Ring::new(64);
        let mut cursor = ring.end();
        ring.append(7, b"a");
        assert_eq!(ring.peek(cursor), Ok(None));
        ring.append(9, b"b");
        ring.release();
        assert_eq!(ring.peek(cursor), Ok(Some(7)));
        ring.read(&mut cursor, &mut Vec::new()).unwrap();
        assert_eq!(ring.peek(cursor), Ok(Some(9)));
    }

    #[test]
    fn a_reader_out_of_step_is_not_handed_what_leads_on_from_elsewhere() {
        let mut ring = Ring::new(256);
        ring.start_from(10);
        let mut first = ring.end();
        ring.append_numbered(1, 12, b"10-12");
        ring.append_numbered(2, 17, b"12-17");
        ring.release();
        let mut elsewhere = Cursor::default();
        assert_eq!(ring.peek(elsewhere), Err(Overrun), "it holds 0");
        ring.read(&mut first, &mut Vec::new()).unwrap();
        assert_eq!((first.number(), ring.visible_number(), ring.visible_place()), (12, 17, 2));
        ring.skip_to_end(&mut elsewhere, 12);
        assert_eq!(ring.peek(elsewhere), Ok(None));
        ring.append_numbered(3, 18, b"17-18");
        ring.release();
        assert_eq!(ring.peek(elsewhere), Err(Overrun), "it holds 12");
        assert_eq!(read_all(&ring, &mut first).unwrap(), "12-1717-18");
        assert_eq!(first.number(), 18);
    }

    #[test]
    fn what_followed_a_number_is_found_as_long_as_it_is_kept_and_in_its_chain() {
        let texts = |ring: &Ring, number| -> Option<Vec<String>> {
            let frames = ring.since(number, usize::MAX)?;
            Some(frames.into_iter().map(|frame| String::from_utf8(frame).unwrap()).collect())
        };
        let mut ring = Ring::new(128);
        ring.start_from(10);
        assert_eq!((texts(&ring, 10), texts(&ring, 9), ring.oldest_number()), (Some(vec![]), None, 10));
        // Each takes twenty bytes more than its text: five of them fit.
        for (number, text) in [(12, "10-12"), (17, "12-17"), (18, "17-18")] {
            ring.append_numbered(1, number, text.as_bytes());
        }
        assert_eq!(texts(&ring, 12), Some(vec!["12-17".into(), "17-18".into()]), "released or not");
        assert_eq!((texts(&ring, 18), texts(&ring, 13)), (Some(vec![]), None));
        ring.release();
        for (number, text) in [(20, "18-20"), (21, "20-21"), (22, "21-22")] {
            ring.append_numbered(1, number, text.as_bytes());
            ring.release();
        }
        assert_eq!((texts(&ring, 10), ring.oldest_number()), (None, 12), "its successor is gone");
        assert_eq!(texts(&ring, 20), Some(vec!["20-21".into(), "21-22".into()]));
        // A while in which nobody has listened: the numbers went on, the frames did not.
        ring.start_from(30);
        assert_eq!((texts(&ring, 22), texts(&ring, 21), ring.oldest_number()), (None, None, 30));
        ring.append_numbered(1, 31, b"30-31");
        assert_eq!((texts(&ring, 30), texts(&ring, 21)), (Some(vec!["30-31".into()]), None));
    }

    #[test]
    fn nothing_is_seen_before_it_is_released() {
        let mut ring = Ring::new(128);
        let mut cursor = ring.end();
        ring.append(1, b"one");
        assert_eq!(read_all(&ring, &mut cursor).unwrap(), "");
        assert!(ring.release());
        ring.append(1, b"two");
        assert_eq!(read_all(&ring, &mut cursor).unwrap(), "one");
        assert!(ring.release());
        assert!(!ring.release());
        assert_eq!(read_all(&ring, &mut cursor).unwrap(), "two");
    }

    #[test]
    fn frames_survive_the_seam_and_the_slow_are_overrun() {
        let mut ring = Ring::new(128);
        let (mut quick, mut slow) = (ring.end(), ring.end());
        for n in 0..1_000 {
            let frame = format!("frame-{n:04}.").repeat(n % 3 + 1);
            ring.append(n as u64, frame.as_bytes());
            ring.release();
            assert_eq!(read_all(&ring, &mut quick).unwrap(), frame);
        }
        assert_eq!(read_all(&ring, &mut slow), Err(Overrun));
        ring.skip_to_newest(&mut slow);
        assert_eq!(read_all(&ring, &mut slow).unwrap(), "frame-0999.");
    }

    #[test]
    fn what_nobody_could_see_yet_is_never_overwritten() {
        let mut ring = Ring::new(16);
        let mut cursor = ring.end();
        ring.append(1, b"abc");
        let big = "x".repeat(100);
        ring.append(2, big.as_bytes());
        (0..50).for_each(|n| ring.append(3, format!("{n:02}").as_bytes()));
        assert_eq!(read_all(&ring, &mut cursor).unwrap(), "");
        ring.release();
        let all: String = (0..50).map(|n| format!("{n:02}")).collect();
        assert_eq!(read_all(&ring, &mut cursor).unwrap(), format!("abc{big}{all}"));
    }
}
