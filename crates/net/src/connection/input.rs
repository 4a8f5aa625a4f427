//! Received bytes of a connection that it has not acted on.
//!
//! Start at    [`Input`].

/// Most that one turn reads of a connection, in bytes: about a hundred orders. Reading more would
/// make the other connections wait for the copying.
pub(crate) const READ_BYTES: usize = 16 * 1024;

/// Most requests or frames that a connection acts on before the others have their share.
pub(super) const FRAMES_AT_A_TIME: usize = 8;
/// That limit for a flood: a connection that had more requests waiting.
pub(super) const FRAMES_OF_A_FLOOD: usize = 2;

/// Time in nanoseconds after which a connection acts on nothing more before the others have their
/// share. One request may take longer.
pub(super) const SHARE_NS: u64 = 250_000;

/// Why no more input is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Backlog {
    /// Nothing: the input holds no complete request.
    #[default]
    None,
    /// The input may begin with a complete request, left over for want of room or for fairness.
    LeftOver,
    /// The application has put off the response to a request: nothing more is acted on before it.
    AwaitsResponse,
}

/// Received bytes, and how far they have been acted on.
#[derive(Debug, Default)]
pub(super) struct Input {
    pub bytes: Vec<u8>,
    /// How many of the bytes have been acted on.
    pub used: usize,
    pub backlog: Backlog,
    /// The peer has ended its side, and all that it sent has been read.
    pub is_at_end: bool,
    /// Requests acted on since the input was last empty.
    acted_on: usize,
    /// Time spent on these requests, in nanoseconds.
    spent_ns: u64,
    is_flood: bool,
    /// It is a flood by the number of its requests, and not only by their time.
    has_many: bool,
}

impl Input {
    /// Says whether the connection asks more than fits into a turn: something is left over, or was
    /// left over until all of it was read.
    pub fn is_busy(&self) -> bool {
        self.has_left_over() || self.is_flood
    }

    /// Returns true if requests already wait here, so new input needs no early look.
    pub fn has_many_requests(&self) -> bool {
        self.has_left_over() || self.has_many
    }

    pub fn has_left_over(&self) -> bool {
        self.backlog == Backlog::LeftOver
    }

    pub fn awaits_response(&self) -> bool {
        self.backlog == Backlog::AwaitsResponse
    }

    /// Returns how many requests may be acted on before the others have their share.
    pub fn share(&self) -> usize {
        if self.is_busy() { FRAMES_OF_A_FLOOD } else { FRAMES_AT_A_TIME }
    }

    /// Notes that requests were acted on, and for how long. Whether the rest is a flood shows only
    /// when all of the input has been acted on.
    pub fn note_acted_on(&mut self, requests: usize, spent_ns: u64) {
        self.acted_on += requests;
        self.spent_ns += spent_ns;
        self.has_many = self.acted_on > FRAMES_AT_A_TIME;
        self.is_flood = self.has_many || self.spent_ns > SHARE_NS;
        if !self.has_left_over() {
            (self.acted_on, self.spent_ns) = (0, 0);
        }
    }

    /// Returns the bytes not acted on.
    pub fn rest(&self) -> &[u8] {
        self.bytes.get(self.used..).unwrap_or_default()
    }

    /// Drops the bytes acted on. A large buffer is not kept while it is empty.
    pub fn discard_used(&mut self) {
        self.bytes.drain(..self.used);
        self.used = 0;
        if self.bytes.is_empty() {
            self.bytes.shrink_to(READ_BYTES);
        }
    }
}
