//! The clocks of one request, outside of venue time.

/// The clocks outside the market, read for one request. Signatures, token life, `valid_until` and
/// `usIn` use the wall clock; limits and heartbeats use a steady clock. None of them is venue time.
#[derive(Clone, Copy, Debug)]
pub struct RequestClock {
    /// Wall time at which the request was received, in microseconds since 1970.
    pub received_us: u64,
    /// Reads the wall clock again, in microseconds since 1970, when the answer is written.
    pub now_us: fn() -> u64,
    /// Nanoseconds since an arbitrary start. Never goes back.
    pub steady_ns: u64,
}

impl RequestClock {
    /// Wall time at which the request was received, in milliseconds since 1970.
    pub(crate) fn wall_ms(&self) -> u64 {
        self.received_us / 1_000
    }

    /// Milliseconds since an arbitrary start. Never goes back.
    pub(crate) fn steady_ms(&self) -> u64 {
        self.steady_ns / 1_000_000
    }
}
