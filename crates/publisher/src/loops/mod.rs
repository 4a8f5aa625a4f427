//! The event loops, which drive a delivery core with sockets and clocks.
//!
//! Start at    [`Kind`], then [`epoll`].

pub(crate) mod epoll;
pub(crate) mod uring;
pub(crate) mod wire;

use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};

use crate::delivery_core::{DeliveryCore, PassKind};
use crate::inbox::Inbox;
use crate::statistics::SharedStatistics;

/// How a delivery thread waits for its sockets and sends to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Epoll,
    /// io_uring: sends in batches, and allows more connections than the process may have open
    /// files. Not available on every machine.
    Uring,
}

/// Subscribers served before the inbox is checked again. They take less than half a millisecond.
pub(crate) const MEANWHILE: usize = 64;

/// Arguments of an event loop.
pub(crate) struct ThreadSetup {
    pub floor: DeliveryCore,
    pub inbox: Arc<Inbox>,
    pub board: Arc<SharedStatistics>,
    pub hall: usize,
    /// Listening socket. Without one, sockets come through the inbox only.
    pub listener: Option<std::net::TcpListener>,
    /// TLS settings of the listening socket.
    pub tls: Option<Arc<pitwire_tls::ServerConfig>>,
    /// Connection limit across all threads. Further clients get status 503.
    pub connections_most: usize,
    pub batching: BatchingPolicy,
}

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

impl Kind {
    /// Returns the cheapest event loop that this machine supports, and why it is not io_uring.
    pub fn best() -> (Self, Option<std::io::Error>) {
        match uring::check() {
            Ok(()) => (Kind::Uring, None),
            Err(error) => (Kind::Epoll, Some(error)),
        }
    }
}

/// Decides when the next delivery pass may begin.
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

    /// Begins a pass and says in which order it serves subscribers. A pass that follows the
    /// previous one at once keeps its order roughly, so that no subscriber waits for two whole
    /// passes.
    pub fn begin(&mut self, now_ns: u64, with_streams: bool) -> PassKind {
        if !with_streams {
            return PassKind::Own;
        }
        let idle_ns = now_ns.saturating_sub(self.ended_ns.max(self.next_ns));
        let took_ns = self.ended_ns.saturating_sub(self.began_ns);
        if idle_ns > took_ns / 8 { PassKind::First } else { PassKind::Next }
    }

    /// Ends a pass that began at `began_ns`.
    pub fn end(&mut self, began_ns: u64, now_ns: u64) {
        (self.began_ns, self.ended_ns) = (began_ns, now_ns);
        self.next_ns = began_ns + self.batching.interval_ns();
    }
}

/// Returns the nanoseconds of a monotonic clock.
pub fn mono_ns() -> u64 {
    ns(ClockId::Monotonic)
}

fn ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_policy_begins_a_pass_at_once() {
        let mut timer = PassTimer::new(BatchingPolicy::Latency);
        timer.end(1_000, 5_000);
        assert!(timer.may_begin(5_000));
        assert_eq!(timer.wait_ns(5_000), 0);
    }

    #[test]
    fn throughput_policy_waits_for_its_interval_and_no_longer() {
        let mut timer = PassTimer::new(BatchingPolicy::Throughput);
        assert!(timer.may_begin(7_000), "the first message does not wait");
        timer.end(7_000, 9_000);
        assert!(!timer.may_begin(10_000_000));
        assert_eq!(timer.wait_ns(10_000_000), 7_000);
        assert!(timer.may_begin(10_007_000));
    }

    #[test]
    fn a_pass_after_an_idle_time_gets_a_new_order() {
        let mut timer = PassTimer::new(BatchingPolicy::Latency);
        timer.end(1_000, 9_000);
        assert_eq!(timer.begin(9_500, true), PassKind::Next);
        assert_eq!(timer.begin(12_000, true), PassKind::First);
        assert_eq!(timer.begin(12_000, false), PassKind::Own);
    }
}
