//! A shard's latest frames, ready for the wire, for readers of their own speed.
//!
//! Does        keep frames up to a limit of bytes; give each reader, by a cursor, what it has not had.
//! Holds       1. memory is bounded whatever readers do: what is beyond the limit goes, oldest first;
//!             2. a reader that was overrun learns how many objects it has missed, and goes on with the oldest kept.
//! Leaves out  sockets; what an overrun reader is told. See `serve`.
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
    /// Of the first kept frame: its number, and the objects and bytes in all before it.
    first: LogCursor,
    end: LogCursor,
}

/// Up to where a reader has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogCursor {
    frame: u64,
    objects: u64,
    bytes: u64,
}

/// What a reader gets next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LogEntry {
    Frame(Arc<[u8]>),
    /// So many objects are gone; the cursor stands behind them.
    Missed(u64),
    Nothing,
}

impl RetainedLog {
    pub fn new(limit_bytes: u64) -> Self {
        let (first, end) = (LogCursor::default(), LogCursor::default());
        RetainedLog { limit_bytes, kept: VecDeque::new(), kept_bytes: 0, first, end }
    }

    /// For a reader that begins now.
    pub fn end(&self) -> LogCursor {
        self.end
    }

    /// Bytes that `cursor` has not had.
    pub fn waiting_bytes(&self, cursor: LogCursor) -> u64 {
        self.end.bytes - cursor.bytes
    }

    /// Whether so many bytes more would push a frame out that a reader at `slowest` has not had.
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

    /// Lets go of what every reader has had: those at `slowest` or behind it are all.
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

    /// What comes next, up to so many bytes of frames and the rest of the last.
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
    fn so_much_is_taken_at_a_time() {
        let mut log = RetainedLog::new(100);
        let (mut cursor, mut taken) = (log.end(), Vec::new());
        (1..=4).for_each(|objects| log.push(frame(b'a', 40), objects));
        // The first two are overrun.
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
    fn readers_go_at_their_own_speed_and_learn_what_they_missed() {
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
        // More than the whole limit at once: it alone stays.
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
