//! When a delivery pass begins.
//!
//! Start at    [`BatchingPolicy`], [`PassTimer::begin`].

use crate::delivery_core::PassKind;

/// When a delivery thread sends new messages to its subscribers.
///
/// A send costs some microseconds of CPU, however few messages it carries. A delivery pass sends
/// each subscriber everything that is new to it, so the time between two passes decides how many
/// messages share a send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchingPolicy {
    /// A pass begins as soon as there is a message. Lowest latency; under load the sends of one
    /// pass are the time in which the messages of the next one gather.
    #[default]
    Latency,
    /// A pass begins at the earliest [`BatchingPolicy::INTERVAL_NS`] after the previous one began.
    /// Fewer sends and less CPU per message when messages come faster than that; each message may
    /// wait up to the interval longer.
    Throughput,
}

impl BatchingPolicy {
    /// Shortest time between the starts of two delivery passes under
    /// [`BatchingPolicy::Throughput`], in nanoseconds.
    pub const INTERVAL_NS: u64 = 10_000_000;

    fn interval_ns(self) -> u64 {
        match self {
            BatchingPolicy::Latency => 0,
            BatchingPolicy::Throughput => Self::INTERVAL_NS,
        }
    }
}

/// Decides when the next delivery pass over streams may begin.
#[derive(Debug)]
pub(crate) struct PassTimer {
    batching: BatchingPolicy,
    /// Earliest start of the next pass, in nanoseconds.
    next_ns: u64,
    /// Start and end of the previous pass, in nanoseconds.
    began_ns: u64,
    ended_ns: u64,
}

impl PassTimer {
    pub fn new(batching: BatchingPolicy) -> Self {
        PassTimer { batching, next_ns: 0, began_ns: 0, ended_ns: 0 }
    }

    pub fn may_begin(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns
    }

    /// Returns the nanoseconds until the next pass may begin.
    pub fn wait_ns(&self, now_ns: u64) -> u64 {
        self.next_ns.saturating_sub(now_ns)
    }

    /// Returns the order in which a pass that begins now serves subscribers. A pass that follows
    /// the previous one at once keeps its order roughly, so that no subscriber waits for two whole
    /// passes.
    pub fn begin(&mut self, now_ns: u64) -> PassKind {
        let idle_ns = now_ns.saturating_sub(self.ended_ns.max(self.next_ns));
        let took_ns = self.ended_ns.saturating_sub(self.began_ns);
        self.began_ns = now_ns;
        self.next_ns = now_ns + self.batching.interval_ns();
        if idle_ns > took_ns / 8 { PassKind::First } else { PassKind::Next }
    }

    /// Ends the pass.
    pub fn end(&mut self, now_ns: u64) {
        self.ended_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_policy_begins_a_pass_at_once() {
        let mut timer = PassTimer::new(BatchingPolicy::Latency);
        timer.begin(1_000);
        timer.end(5_000);
        assert!(timer.may_begin(5_000));
        assert_eq!(timer.wait_ns(5_000), 0);
    }

    #[test]
    fn throughput_policy_waits_for_its_interval_and_no_longer() {
        let mut timer = PassTimer::new(BatchingPolicy::Throughput);
        assert!(timer.may_begin(7_000), "the first message does not wait");
        timer.begin(7_000);
        timer.end(9_000);
        assert!(!timer.may_begin(10_000_000));
        assert_eq!(timer.wait_ns(10_000_000), 7_000);
        assert!(timer.may_begin(10_007_000));
    }

    #[test]
    fn a_pass_after_an_idle_time_gets_a_new_order() {
        let mut timer = PassTimer::new(BatchingPolicy::Latency);
        timer.begin(1_000);
        timer.end(9_000);
        assert_eq!(timer.begin(9_500), PassKind::Next);
        timer.end(9_600);
        assert_eq!(timer.begin(12_000), PassKind::First);
    }
}
