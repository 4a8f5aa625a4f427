//! A shard's latest frames, ready for the wire, for readers of their own speed.
//!
//! Does        keep frames up to a limit of bytes; give each reader, by a cursor, what it has not had.
//! Holds       1. memory is bounded whatever readers do: what is beyond the limit goes, oldest first;
//!             2. a reader that was overrun learns how many objects it has missed, and goes on with the oldest kept.
//! Leaves out  sockets; what an overrun reader is told. See `serve`.
//! Start at    [`Shelf::push`], [`Shelf::next`].

use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Debug)]
struct Kept {
    frame: Arc<[u8]>,
    objects: u64,
}

#[derive(Debug)]
pub(crate) struct Shelf {
    limit_bytes: u64,
    kept: VecDeque<Kept>,
    kept_bytes: u64,
    /// Of the first kept frame: its number, and the objects and bytes in all before it.
    first: Cursor,
    end: Cursor,
}

/// Up to where a reader has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cursor {
    frame: u64,
    objects: u64,
    bytes: u64,
}

/// What a reader gets next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Frame(Arc<[u8]>),
    /// So many objects are gone; the cursor stands behind them.
    Missed(u64),
    Nothing,
}

impl Shelf {
    pub fn new(limit_bytes: u64) -> Self {
        let (first, end) = (Cursor::default(), Cursor::default());
        Shelf { limit_bytes, kept: VecDeque::new(), kept_bytes: 0, first, end }
    }

    /// For a reader that begins now.
    pub fn end(&self) -> Cursor {
        self.end
    }

    /// Bytes that `cursor` has not had.
    pub fn waiting_bytes(&self, cursor: Cursor) -> u64 {
        self.end.bytes - cursor.bytes
    }

    /// Whether so many bytes more would push a frame out that a reader at `slowest` has not had.
    pub fn would_overrun(&self, bytes: u64, slowest: Cursor) -> bool {
        self.waiting_bytes(slowest) + bytes > self.limit_bytes && slowest.frame < self.end.frame
    }

    pub fn push(&mut self, frame: Arc<[u8]>, objects: u64) {
        let bytes = frame.len() as u64;
        self.kept.push_back(Kept { frame, objects });
        self.kept_bytes += bytes;
        self.end =
            Cursor { frame: self.end.frame + 1, objects: self.end.objects + objects, bytes: self.end.bytes + bytes };
        // The newest frame stays, however long it is.
        while self.kept_bytes > self.limit_bytes && self.kept.len() > 1 {
            self.let_go();
        }
    }

    /// Lets go of what every reader has had: those at `slowest` or behind it are all.
    pub fn forget(&mut self, slowest: Cursor) {
        while self.first.frame < slowest.frame && !self.kept.is_empty() {
            self.let_go();
        }
    }

    fn let_go(&mut self) {
        if let Some(Kept { frame, objects }) = self.kept.pop_front() {
            let bytes = frame.len() as u64;
            self.kept_bytes -= bytes;
            self.first.frame += 1;
            self.first.objects += objects;
            self.first.bytes += bytes;
        }
    }

    /// What comes next, up to so many bytes of frames and the rest of the last.
    pub fn take(&self, cursor: &mut Cursor, bytes: usize, taken: &mut Vec<Next>) {
        let mut left = bytes;
        while left > 0 {
            let next = self.next(cursor);
            match &next {
                Next::Nothing => return,
                Next::Frame(frame) => left = left.saturating_sub(frame.len()),
                Next::Missed(_) => {}
            }
            taken.push(next);
        }
    }

    pub fn next(&self, cursor: &mut Cursor) -> Next {
        if cursor.frame < self.first.frame {
            let missed = self.first.objects - cursor.objects;
            *cursor = self.first;
            return Next::Missed(missed);
        }
        let index = usize::try_from(cursor.frame - self.first.frame).unwrap_or(usize::MAX);
        let Some(Kept { frame, objects }) = self.kept.get(index) else { return Next::Nothing };
        cursor.frame += 1;
        cursor.objects += objects;
        cursor.bytes += frame.len() as u64;
        Next::Frame(Arc::clone(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(letter: u8, bytes: usize) -> Arc<[u8]> {
        vec![letter; bytes].into()
    }

    fn read(shelf: &Shelf, cursor: &mut Cursor) -> String {
        match shelf.next(cursor) {
            Next::Frame(frame) => format!("{}{}", char::from(frame[0]), frame.len()),
            Next::Missed(objects) => format!("-{objects}"),
            Next::Nothing => ".".into(),
        }
    }

    #[test]
    fn so_much_is_taken_at_a_time() {
        let mut shelf = Shelf::new(100);
        let (mut cursor, mut taken) = (shelf.end(), Vec::new());
        (1..=4).for_each(|objects| shelf.push(frame(b'a', 40), objects));
        // The first two are overrun.
        shelf.take(&mut cursor, 41, &mut taken);
        assert_eq!(taken, [Next::Missed(3), Next::Frame(frame(b'a', 40)), Next::Frame(frame(b'a', 40))]);
        shelf.push(frame(b'b', 40), 1);
        shelf.push(frame(b'c', 40), 1);
        taken.clear();
        shelf.take(&mut cursor, 40, &mut taken);
        assert_eq!(taken, [Next::Frame(frame(b'b', 40))]);
        shelf.take(&mut cursor, 1_000, &mut taken);
        shelf.take(&mut cursor, 1_000, &mut taken);
        assert_eq!(taken[1..], [Next::Frame(frame(b'c', 40))]);
    }

    #[test]
    fn readers_go_at_their_own_speed_and_learn_what_they_missed() {
        let mut shelf = Shelf::new(100);
        let (mut quick, mut slow) = (shelf.end(), shelf.end());
        shelf.push(frame(b'a', 40), 4);
        shelf.push(frame(b'b', 40), 5);
        assert_eq!([read(&shelf, &mut quick), read(&shelf, &mut quick), read(&shelf, &mut quick)], ["a40", "b40", "."]);
        assert_eq!((shelf.waiting_bytes(quick), shelf.waiting_bytes(slow)), (0, 80));
        assert!(shelf.would_overrun(21, slow) && !shelf.would_overrun(20, slow) && !shelf.would_overrun(1_000, quick));
        shelf.push(frame(b'c', 40), 6);
        let late = shelf.end();
        assert_eq!([read(&shelf, &mut slow), read(&shelf, &mut slow)], ["-4", "b40"]);
        // More than the whole limit at once: it alone stays.
        shelf.push(frame(b'd', 300), 7);
        assert_eq!([read(&shelf, &mut slow), read(&shelf, &mut slow), read(&shelf, &mut slow)], ["-6", "d300", "."]);
        assert_eq!([read(&shelf, &mut quick), read(&shelf, &mut quick)], ["-6", "d300"]);
        let mut late = late;
        assert_eq!([read(&shelf, &mut late), read(&shelf, &mut late)], ["d300", "."]);
        shelf.forget(slow);
        assert_eq!((shelf.kept_bytes, read(&shelf, &mut slow)), (0, ".".into()));
        shelf.push(frame(b'e', 1), 1);
        assert_eq!(read(&shelf, &mut slow), "e1");
    }
}
