//! One channel of one instrument: its ring, and what it does to those who fall behind.

use pitwire_websocket::{Opcode, write_header};

use crate::ring::Ring;

/// What happens to a reader whose next frame is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// The connection is closed with 1013: a client that reconnects is clean, one that misses a delta is wrong.
    Close,
    /// Only the latest message matters; the reader is moved to it.
    Latest,
}

#[derive(Debug)]
pub(crate) struct Feed {
    pub name: String,
    pub ring: Ring,
    pub lag: Lag,
    pub subscribers: u32,
    /// Whether anything was appended since the last release.
    pub dirty: bool,
}

impl Feed {
    pub fn new(name: String, capacity: usize, lag: Lag) -> Self {
        Feed { name, ring: Ring::new(capacity), lag, subscribers: 0, dirty: false }
    }

    /// Encodes one message, once for everyone, frame header included.
    pub fn publish(&mut self, place: u64, payload: &[u8]) {
        let mut frame = Vec::with_capacity(payload.len() + 10);
        write_header(&mut frame, Opcode::Text, payload.len());
        frame.extend_from_slice(payload);
        self.ring.append(place, &frame);
        self.dirty = true;
    }
}
