//! Where trades come from: one by one, or in messages that stay as they are.

pub trait TradeSource: Send {
    /// Appends up to `trades` objects, each followed by a comma, and says how many; 0 at the end. What the objects carry as
    /// their time is `wall_ms` if the source has none of its own. `ends` gets where each object ends in `out`.
    fn take(&mut self, trades: usize, wall_ms: u64, out: &mut Vec<u8>, ends: Option<&mut Vec<usize>>) -> usize;

    /// The checksum of the sequence numbers of all that was taken, if they are this source's own.
    fn checksum(&self) -> Option<u64>;

    /// How many more there are.
    fn remaining(&self) -> u64;

    /// When the trade `ahead` of the next one is due, in nanoseconds since the first one, if the source knows.
    fn due_ns(&self, _ahead: u64) -> Option<u64> {
        None
    }
}

pub trait MessageSource: Send {
    /// Appends the next message and says whether it is binary; nothing at the end; an error ends the stream with it.
    fn take(&mut self, wall_ms: u64, out: &mut Vec<u8>) -> Result<Option<bool>, String>;

    /// When the next message is due, in nanoseconds since the first one, if the source knows.
    fn due_ns(&mut self) -> Option<u64> {
        None
    }

    /// MessageSource that a connection to `target` gets before any other.
    fn greeting(&mut self, _target: &str, _wall_ms: u64) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// The answer to a client's text.
    fn answer(&mut self, _text: &str) -> Option<Vec<u8>> {
        None
    }
}
