//! The clocks of the machine: a monotonic clock, and the wall clock, which the operator can set.
//!
//! Start at    [`SystemClock::start`].

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Returns the nanoseconds of the monotonic clock of the machine, which every process on it reads.
pub fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let [seconds, rest] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// The real clock of a process.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
    /// The monotonic clock of the machine at the start.
    origin_ns: u64,
}

impl SystemClock {
    /// Starts the clock at zero.
    pub fn start() -> Self {
        SystemClock { start: Instant::now(), origin_ns: monotonic_ns() }
    }

    /// Converts a time of this clock to the monotonic clock of the machine, which every process on
    /// it can read.
    pub fn on_this_machine(&self, monotonic_ns: u64) -> u64 {
        self.origin_ns.saturating_add(monotonic_ns)
    }

    /// Returns the wall time in microseconds since 1970.
    pub fn wall_us() -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    /// Returns the nanoseconds since the clock was started. They never decrease.
    pub fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns the nanoseconds since 1970-01-01 UTC. They jump when the operator sets the time.
    pub fn wall_ns(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}
