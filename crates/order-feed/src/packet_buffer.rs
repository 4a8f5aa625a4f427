//! The packet that a writer fills: room for a header, and whole messages.
//!
//! Holds       1. a packet has at most [`MAX_UNIT_BYTES`], so that it fits one Ethernet frame;
//!             2. messages are numbered from 1 without gaps.

/// A packet, its UDP and IPv6 headers fit a frame of 1,500 bytes.
pub const MAX_UNIT_BYTES: usize = 1_400;

#[derive(Debug)]
pub(crate) struct PacketBuffer {
    bytes: Vec<u8>,
    header_bytes: usize,
    count: u16,
    /// Number of the next message.
    next: u64,
}

impl PacketBuffer {
    /// Creates an empty packet. Its first message has the number `next`.
    pub fn new(header_bytes: usize, next: u64) -> Self {
        PacketBuffer { bytes: vec![0; header_bytes], header_bytes, count: 0, next }
    }

    /// Returns the number of the next message.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    pub fn message_count(&self) -> u16 {
        self.count
    }

    /// Returns the number of the first message.
    pub fn first_number(&self) -> u64 {
        self.next - u64::from(self.count)
    }

    /// Returns the length with the header.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn has_room(&self, bytes: usize) -> bool {
        self.bytes.len() + bytes <= MAX_UNIT_BYTES
    }

    /// Adds one message in two parts.
    pub fn add(&mut self, length: &[u8], message: &[u8]) {
        self.bytes.extend_from_slice(length);
        self.bytes.extend_from_slice(message);
        self.count += 1;
        self.next += 1;
    }

    /// Calls `full` with the number of the first message and the packet, then begins the next one.
    pub fn finish(&mut self, header: Vec<u8>, mut full: impl FnMut(u64, &[u8])) {
        self.bytes.splice(..self.header_bytes, header);
        full(self.first_number(), &self.bytes);
        self.bytes.truncate(self.header_bytes);
        self.count = 0;
    }
}
