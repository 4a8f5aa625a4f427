//! What waits to be written to a connection.
//!
//! Start at    [`Outbox`].

/// With this many bytes waiting, the requests of a connection wait too.
pub(super) const OUTBOX_BYTES: usize = 256 * 1024;
/// With this many bytes of notices waiting since earlier turns, a connection is closed.
const UNREAD_BYTES: usize = 1024 * 1024;
/// Bytes of published frames that the application adds at a time.
pub(super) const PUMP_BYTES: usize = 64 * 1024;

/// Bytes for one connection, in the order in which they leave.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub bytes: Vec<u8>,
    /// How many of the bytes have been written.
    written: usize,
    /// Bytes of notices that wait, at most; writing is taken to write these first.
    unread: usize,
    /// Bytes of notices that were added in this turn.
    unread_new: usize,
    /// The answers of the last turn leave with those of the next.
    pub is_held_back: bool,
}

impl Outbox {
    /// Returns how many bytes wait.
    pub fn pending(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Returns the bytes that wait.
    pub fn rest(&self) -> &[u8] {
        self.bytes.get(self.written..).unwrap_or_default()
    }

    /// Drops written bytes, so that a connection that never catches up does not keep
    /// all that it was ever sent.
    pub fn compact(&mut self) {
        if self.written >= PUMP_BYTES && self.written >= self.pending() {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }

    /// Adds a notice.
    pub fn push_notice(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.unread += bytes.len();
        self.unread_new += bytes.len();
    }

    pub fn note_written(&mut self, bytes: usize) {
        self.written += bytes;
        self.unread = self.unread.saturating_sub(bytes);
    }

    /// Says whether the connection reads its notices too slowly. Only notices that it has had a
    /// turn's time to read count against it, and only when there are new ones.
    pub fn is_unread(&mut self) -> bool {
        let new = std::mem::take(&mut self.unread_new);
        new > 0 && self.unread.saturating_sub(new) > UNREAD_BYTES
    }

    /// Empties the outbox, all of which has been written.
    pub fn reset(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(OUTBOX_BYTES);
        (self.written, self.unread) = (0, 0);
    }
}
