//! How a thread waits when it has nothing to do.
//!
//! Does        names the three ways to wait and states what each costs.
//! Start at    [`IdleStrategy`].

/// How a thread spends the time between the end of its work and the next event.
///
/// Waking a blocked thread costs 5 to 50 microseconds, more than matching an order. A thread that
/// spins avoids that cost and pays with CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdleStrategy {
    /// Blocks in the kernel at once. Uses no CPU time while nothing happens.
    #[default]
    Block,
    /// Polls for [`IdleStrategy::SPIN_NS`] after input, yielding the core between polls, then
    /// blocks. Uses CPU time in proportion to the input, and none while no client sends anything.
    SpinThenBlock,
    /// Never blocks. Gives the lowest latency and occupies one core completely.
    BusySpin,
}

impl IdleStrategy {
    /// How long [`IdleStrategy::SpinThenBlock`] polls after input, in nanoseconds.
    pub const SPIN_NS: u64 = 50_000;

    /// Returns how long to poll before blocking, in nanoseconds. `had_input` says whether the last
    /// turn received anything.
    pub fn spin_ns(self, had_input: bool) -> u64 {
        match self {
            IdleStrategy::Block => 0,
            IdleStrategy::SpinThenBlock if had_input => IdleStrategy::SPIN_NS,
            IdleStrategy::SpinThenBlock => 0,
            IdleStrategy::BusySpin => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_busy_spin_polls_without_input() {
        let spins = |strategy: IdleStrategy| [strategy.spin_ns(false), strategy.spin_ns(true)];
        assert_eq!(spins(IdleStrategy::Block), [0, 0]);
        assert_eq!(spins(IdleStrategy::SpinThenBlock), [0, IdleStrategy::SPIN_NS]);
        assert_eq!(spins(IdleStrategy::BusySpin), [u64::MAX, u64::MAX]);
    }
}
