//! The latest frames of a shard, ready to send, for readers of different speeds.
//!
//! Does        keeps frames up to a limit of bytes; gives each reader, by a cursor, what it has not
//!             read.
//! Holds       1. memory is bounded whatever readers do: frames beyond the limit are dropped,
//!                oldest first;
//!             2. a reader that was overrun learns how many objects it missed, and continues with
//!                the oldest frame.
//! Leaves out  sockets, and the answer to an overrun reader: see `serve`.
//! Start at    [`RetainedLog::push`], [`RetainedLog::next`].

use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Debug)]
struct RetainedFrame {
    frame: Arc<[u8]>,
    objects: u64,
}

#[derive(Debug)]
pub(crate) struct RetainedLog {
    limit_bytes: u64,
    kept: VecDeque<RetainedFrame>,
    kept_bytes: u64,
    /// Position of the first retained frame: its number, and the objects and bytes before it.
    first: LogCursor,
    end: LogCursor,
}

/// How far a reader has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogCursor {
    frame: u64,
    objects: u64,
    bytes: u64,
}

/// The next entry for a reader.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LogEntry {
    Frame(Arc<[u8]>),
    /// This many objects were dropped. The cursor is behind them.
    Missed(u64),
    Nothing,
}

impl RetainedLog {
    pub fn new(limit_bytes: u64) -> Self {
        let (first, end) = (LogCursor::default(), LogCursor::default());
        RetainedLog { limit_bytes, kept: VecDeque::new(), kept_bytes: 0, first, end }
    }

    /// Returns the position for a new reader.
    pub fn end(&self) -> LogCursor {
        self.end
    }

    /// Returns how many bytes a reader at `cursor` has not read.
    pub fn waiting_bytes(&self, cursor: LogCursor) -> u64 {
        self.end.bytes - cursor.bytes
    }

    /// Returns whether `bytes` more would drop a frame that a reader at `slowest` has not read.
    pub fn would_overrun(&self, bytes: u64, slowest: LogCursor) -> bool {
        self.waiting_bytes(slowest) + bytes > self.limit_bytes && slowest.frame < self.end.frame
    }

    pub fn push(&mut self, frame: Arc<[u8]>, objects: u64) {
        let bytes = frame.len() as u64;
        self.kept.push_back(RetainedFrame { frame, objects });
        self.kept_bytes += bytes;
        self.end =
            LogCursor { frame: self.end.frame + 1, objects: self.end.objects + objects, bytes: self.end.bytes + bytes };
        // The newest frame stays, however long it is.
        while self.kept_bytes > self.limit_bytes && self.kept.len() > 1 {
            self.let_go();
        }
    }

    /// Drops the frames before `slowest`, which every reader has read.
    pub fn forget(&mut self, slowest: LogCursor) {
        while self.first.frame < slowest.frame && !self.kept.is_empty() {
            self.let_go();
        }
    }

    fn let_go(&mut self) {
        if let Some(RetainedFrame { frame, objects }) = self.kept.pop_front() {
            let bytes = frame.len() as u64;
            self.kept_bytes -= bytes;
            self.first.frame += 1;
            self.first.objects += objects;
            self.first.bytes += bytes;
        }
    }

    /// Takes the next entries: up to `bytes` bytes, and the rest of the last frame.
    pub fn take(&self, cursor: &mut LogCursor, bytes: usize, taken: &mut Vec<LogEntry>) {
        let mut left = bytes;
        while left > 0 {
            let next = self.next(cursor);
            match &next {
                LogEntry::Nothing => return,
                LogEntry::Frame(frame) => left = left.saturating_sub(frame.len()),
                LogEntry::Missed(_) => {}
            }
            taken.push(next);
        }
    }

    pub fn next(&self, cursor: &mut LogCursor) -> LogEntry {
        if cursor.frame < self.first.frame {
            let missed = self.first.objects - cursor.objects;
            *cursor = self.first;
            return LogEntry::Missed(missed);
        }
        let index = usize::try_from(cursor.frame - self.first.frame).unwrap_or(usize::MAX);
        let Some(RetainedFrame { frame, objects }) = self.kept.get(index) else { return LogEntry::Nothing };
        cursor.frame += 1;
        cursor.objects += objects;
        cursor.bytes += frame.len() as u64;
        LogEntry::Frame(Arc::clone(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(letter: u8, bytes: usize) -> Arc<[u8]> {
        vec![letter; bytes].into()
    }

    fn read(log: &RetainedLog, cursor: &mut LogCursor) -> String {
        match log.next(cursor) {
            LogEntry::Frame(frame) => format!("{}{}", char::from(frame[0]), frame.len()),
            LogEntry::Missed(objects) => format!("-{objects}"),
            LogEntry::Nothing => ".".into(),
        }
    }

    #[test]
    fn take_stops_after_the_requested_bytes() {
        let mut log = RetainedLog::new(100);
        let (mut cursor, mut taken) = (log.end(), Vec::new());
        (1..=4).for_each(|objects| log.push(frame(b'a', 40), objects));
        // The first two frames are dropped.
        log.take(&mut cursor, 41, &mut taken);
        assert_eq!(taken, [LogEntry::Missed(3), LogEntry::Frame(frame(b'a', 40)), LogEntry::Frame(frame(b'a', 40))]);
        log.push(frame(b'b', 40), 1);
        log.push(frame(b'c', 40), 1);
        taken.clear();
        log.take(&mut cursor, 40, &mut taken);
        assert_eq!(taken, [LogEntry::Frame(frame(b'b', 40))]);
        log.take(&mut cursor, 1_000, &mut taken);
        log.take(&mut cursor, 1_000, &mut taken);
        assert_eq!(taken[1..], [LogEntry::Frame(frame(b'c', 40))]);
    }

    #[test]
    fn readers_advance_independently_and_learn_their_missed_range() {
        let mut log = RetainedLog::new(100);
        let (mut quick, mut slow) = (log.end(), log.end());
        log.push(frame(b'a', 40), 4);
        log.push(frame(b'b', 40), 5);
        assert_eq!([read(&log, &mut quick), read(&log, &mut quick), read(&log, &mut quick)], ["a40", "b40", "."]);
        assert_eq!((log.waiting_bytes(quick), log.waiting_bytes(slow)), (0, 80));
        assert!(log.would_overrun(21, slow) && !log.would_overrun(20, slow) && !log.would_overrun(1_000, quick));
        log.push(frame(b'c', 40), 6);
        let late = log.end();
        assert_eq!([read(&log, &mut slow), read(&log, &mut slow)], ["-4", "b40"]);
        // A frame above the limit stays alone.
        log.push(frame(b'd', 300), 7);
        assert_eq!([read(&log, &mut slow), read(&log, &mut slow), read(&log, &mut slow)], ["-6", "d300", "."]);
        assert_eq!([read(&log, &mut quick), read(&log, &mut quick)], ["-6", "d300"]);
        let mut late = late;
        assert_eq!([read(&log, &mut late), read(&log, &mut late)], ["d300", "."]);
        log.forget(slow);
        assert_eq!((log.kept_bytes, read(&log, &mut slow)), (0, ".".into()));
        log.push(frame(b'e', 1), 1);
        assert_eq!(read(&log, &mut slow), "e1");
    }
}
