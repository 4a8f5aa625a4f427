//! Two clocks: one that only moves forward, one that the world may set.

/// Time as the process sees it. Only `crates/net` reads a real one.
pub trait Clock {
    /// Nanoseconds since an arbitrary start; never goes back.
    fn monotonic_ns(&self) -> u64;
    /// Nanoseconds since 1970-01-01 UTC; may be stepped by the operator at any moment.
    fn wall_ns(&self) -> u64;
}
