//! Sources of trades: one by one, or in messages that stay unchanged.

pub trait TradeSource: Send {
    /// Appends up to `trades` objects, each followed by a comma, and returns how many; 0 at the
    /// end. Objects carry `wall_ms` as their time unless the source has times. `ends` receives the
    /// end offset of each object in `out`.
    fn take(&mut self, trades: usize, wall_ms: u64, out: &mut Vec<u8>, ends: Option<&mut Vec<usize>>) -> usize;

    /// Returns the checksum of the sequence numbers of everything taken, if the source assigns
    /// them.
    fn checksum(&self) -> Option<u64>;

    /// Returns how many trades are left.
    fn remaining(&self) -> u64;

    /// Returns when the trade `ahead` of the next one is due, in nanoseconds since the first, if
    /// the source knows.
    fn due_ns(&self, _ahead: u64) -> Option<u64> {
        None
    }
}

pub trait MessageSource: Send {
    /// Appends the next message and returns whether it is binary; `None` at the end.
    ///
    /// # Errors
    /// The source is damaged, which ends the stream.
    fn take(&mut self, wall_ms: u64, out: &mut Vec<u8>) -> Result<Option<bool>, String>;

    /// Returns when the next message is due, in nanoseconds since the first, if the source knows.
    fn due_ns(&mut self) -> Option<u64> {
        None
    }

    /// Returns the first messages for a connection to `target`.
    fn greeting(&mut self, _target: &str, _wall_ms: u64) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Returns the answer to a client's text message.
    fn answer(&mut self, _text: &str) -> Option<Vec<u8>> {
        None
    }
}
