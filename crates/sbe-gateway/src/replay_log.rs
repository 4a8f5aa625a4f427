//! The newest numbered messages of a session, for a client that returns.

use std::collections::VecDeque;

/// Bound of the kept frames of one session, in bytes.
const BOUND_BYTES: usize = 4 << 20;

/// The frames of messages with consecutive numbers. The oldest ones are discarded above the bound.
#[derive(Debug)]
pub(crate) struct ReplayLog {
    frames: VecDeque<Box<[u8]>>,
    oldest: u64,
    bytes: usize,
    bound_bytes: usize,
}

impl ReplayLog {
    pub fn new() -> Self {
        Self::with_bound(BOUND_BYTES)
    }

    fn with_bound(bound_bytes: usize) -> Self {
        ReplayLog { frames: VecDeque::new(), oldest: 1, bytes: 0, bound_bytes }
    }

    /// Returns the number of the oldest kept message, or of the next one if none is kept.
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Returns the number of the next message.
    pub fn next(&self) -> u64 {
        self.oldest + self.frames.len() as u64
    }

    /// Appends the message with the number [`Self::next`].
    pub fn append(&mut self, frame: Vec<u8>) {
        self.bytes += frame.len();
        self.frames.push_back(frame.into());
        while self.bytes > self.bound_bytes
            && self.frames.len() > 1
            && let Some(frame) = self.frames.pop_front()
        {
            self.bytes -= frame.len();
            self.oldest += 1;
        }
    }

    /// Returns a message by its number, unless it was discarded or does not exist yet.
    pub fn get(&self, sequence: u64) -> Option<&[u8]> {
        let index = usize::try_from(sequence.checked_sub(self.oldest)?).ok()?;
        self.frames.get(index).map(AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_log_discards_the_oldest_messages_and_keeps_their_numbers() {
        let mut log = ReplayLog::with_bound(100);
        for number in 1..=10 {
            log.append(vec![number; 30]);
        }
        // Three frames of 30 bytes fit.
        assert_eq!((log.oldest(), log.next()), (8, 11));
        assert!(log.get(7).is_none() && log.get(11).is_none());
        assert_eq!(log.get(9).unwrap(), [9; 30]);
    }
}
