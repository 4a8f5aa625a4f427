//! What drives a floor: sockets, readiness, clocks.
//!
//! Start at    [`Kind`], then [`epoll`].

pub(crate) mod epoll;
pub(crate) mod tokio;
pub(crate) mod uring;
pub(crate) mod wire;

use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};

use crate::board::Board;
use crate::floor::{Floor, Sweep};
use crate::inbox::Inbox;
use crate::reserve::Reserve;

/// How a hall's thread waits for its sockets and writes to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Epoll,
    /// Sends in batches, and more connections than the process may have files open. Not on every machine.
    Uring,
    /// A runtime of one thread a hall.
    Tokio,
}

/// Readers that go to another hall at a time.
pub(crate) const PARTING: usize = 128;

/// So many readers are served before it is looked what has come meanwhile: less than half a millisecond.
pub(crate) const MEANWHILE: usize = 64;

/// What a loop is given.
pub(crate) struct Task {
    pub floor: Floor,
    pub inbox: Arc<Inbox>,
    pub board: Arc<Board>,
    pub reserve: Arc<Reserve>,
    pub hall: usize,
    /// Nothing is accepted without one: sockets come through the inbox.
    pub listener: Option<std::net::TcpListener>,
    /// What those who come through it speak.
    pub tls: Option<Arc<pitwire_tls::ServerConfig>>,
    /// Connections in all halls beyond this are answered 503.
    pub connections_most: usize,
    pub pace: Pace,
}

/// How long messages wait for company, so that one send takes several of them.
///
/// A send costs microseconds however little it carries. A hall that is through with everybody before the next message
/// comes sends each at once. Where that is not so, halls rest between sweeps, so that all of them together use no more
/// than a share of one core, as far as nobody waits too long for it.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// What sweeps of all halls may take of one core, once one thread would take `full_us` to go through everybody. Below
    /// that they rest the less the quicker they are: in half of that time a quarter.
    pub core_percent: u32,
    pub full_us: u32,
    /// No rest is longer than this.
    pub most_us: u32,
    /// So many messages in one send are company enough: nobody rests for more of them.
    pub company: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { core_percent: 65, full_us: 20_000, most_us: 40_000, company: 4 }
    }
}

impl Kind {
    /// The one that costs least of those that this machine allows; and why not the first.
    pub fn best() -> (Self, Option<std::io::Error>) {
        match uring::check() {
            Ok(()) => (Kind::Uring, None),
            Err(error) => (Kind::Epoll, Some(error)),
        }
    }
}

impl Pace {
    /// How long a hall rests after a sweep that took so much of a core, there being so many halls, and messages coming
    /// so far apart.
    pub fn rest_ns(&self, took_ns: u64, halls: usize, apart_ns: u64) -> u64 {
        let (halls, core) = (halls as u64, u64::from(self.core_percent.max(1)));
        let full_ns = took_ns.saturating_mul((halls * 100).saturating_sub(core)) / core;
        let most_all_ns = u64::from(self.full_us.max(1)) * 1_000;
        let all_ns = took_ns.saturating_mul(halls).min(most_all_ns);
        let rest_ns = u128::from(full_ns) * u128::from(all_ns).pow(2) / u128::from(most_all_ns).pow(2);
        let most_ns = (u64::from(self.most_us) * 1_000).min(apart_ns.saturating_mul(u64::from(self.company)));
        u64::try_from(rest_ns).unwrap_or(u64::MAX).min(most_ns)
    }
}

/// When a hall may sweep, and what it has learnt for that.
pub(crate) struct Rhythm {
    pace: Pace,
    reserve: Arc<Reserve>,
    next_ns: u64,
    /// Of the last sweep: when it began, on the clock and of this thread's core, and messages there had been by then.
    began_ns: u64,
    began_core_ns: u64,
    messages: u64,
}

impl Rhythm {
    pub fn new(task: &Task) -> Self {
        let reserve = Arc::clone(&task.reserve);
        Rhythm { pace: task.pace, reserve, next_ns: 0, began_ns: 0, began_core_ns: 0, messages: 0 }
    }

    pub fn may_begin(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns
    }

    /// How long until the next may begin.
    pub fn rest_ns(&self) -> u64 {
        self.next_ns.saturating_sub(mono_ns())
    }

    pub fn begin(&mut self, now_ns: u64, with_streams: bool) -> Sweep {
        self.began_core_ns = core_ns();
        let idle_ns = now_ns.saturating_sub(self.next_ns);
        match with_streams {
            false => Sweep::Own,
            // The first one's idle time is longer than it has been at work.
            true if idle_ns > self.next_ns.saturating_sub(self.began_ns) / 8 => Sweep::First,
            true => Sweep::Next,
        }
    }

    /// A sweep that began then is over; so many messages have come in all.
    pub fn end(&mut self, began_ns: u64, messages: u64) {
        let since_ns = began_ns.saturating_sub(self.began_ns);
        let apart_ns = since_ns / messages.saturating_sub(self.messages).max(1);
        let took_ns = core_ns().saturating_sub(self.began_core_ns);
        let rest_ns = self.pace.rest_ns(took_ns, self.reserve.in_use(), apart_ns);
        (self.began_ns, self.messages) = (began_ns, messages);
        self.next_ns = mono_ns() + rest_ns;
    }
}

/// Whether so much comes in, from so many, that it is worth waiting for more of it, so that the thread wakes less often.
#[derive(Debug, Default)]
pub(crate) struct Rush {
    since_ns: u64,
    arrivals: u64,
    is_on: bool,
}

impl Rush {
    /// How long is waited for more, where the kernel can be told how much is enough; and where it cannot.
    pub const PATIENCE_US: u32 = 8_000;
    pub const BLIND_PATIENCE_US: u32 = 1_000;
    /// So many are not waited for to become more.
    pub const ENOUGH: usize = 16;
    /// Fewer connections than these may each be waiting for an answer before it says more.
    const CONNECTIONS: usize = 256;
    /// It is on above so many arrivals a second; looked at this often.
    const PER_S: u64 = 800;
    const WINDOW_NS: u64 = 20_000_000;

    /// So much has come in since this was last asked, from so many connections.
    pub fn note(&mut self, now_ns: u64, arrivals: usize, connections: usize) -> bool {
        self.arrivals += arrivals as u64;
        let since_ns = now_ns.saturating_sub(self.since_ns);
        if since_ns >= Self::WINDOW_NS {
            let per_s = self.arrivals.saturating_mul(1_000_000_000) / since_ns;
            self.is_on = connections >= Self::CONNECTIONS && per_s > Self::PER_S;
            (self.since_ns, self.arrivals) = (now_ns, 0);
        }
        self.is_on
    }
}

/// Nanoseconds of a core that this thread has had.
pub(crate) fn core_ns() -> u64 {
    ns(ClockId::ThreadCPUTime)
}

/// Nanoseconds of a clock that never goes back.
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
    fn the_more_there_are_to_be_served_the_longer_messages_wait_for_company() {
        let pace = Pace::default();
        for (halls, took_us, apart_us, rest_us) in [
            // 100 microseconds on each of 4: no rest worth the name. 4/0.65 - 1 = 5.154 times as long, times (0.4/20)².
            (4, 100, 10_000, 0),
            // 1.5 ms on each of 4: 5.154 x 1.5 ms x (6/20)².
            (4, 1_500, 10_000, 695),
            // 5 ms: the whole of it. 10 ms on each of 2: 2/0.65 - 1 = 2.077 times as long.
            (4, 5_000, 100_000, 25_769),
            (2, 10_000, 10_000, 20_769),
            // Alone it takes its 65 %.
            (1, 20_000, 10_000, 10_769),
            // No longer than it may be, nor than it takes until company is enough.
            (4, 100_000, 100_000, 40_000),
            (4, 100_000, 1_000, 4_000),
        ] {
            assert_eq!(
                pace.rest_ns(took_us * 1_000, halls, apart_us * 1_000) / 1_000,
                rest_us,
                "{halls} halls, {took_us} us"
            );
        }
        // 3 ms on each of 2, where 8 ms are the whole of it: 2.077 x 3 ms x (6/8)².
        assert_eq!(Pace { full_us: 8_000, ..pace }.rest_ns(3_000_000, 2, 1_000_000) / 1_000, 3_504);
        let none = Pace { most_us: 0, ..pace };
        assert_eq!(none.rest_ns(4_000_000, 2, 1_000_000), 0);
    }

    #[test]
    fn a_rush_is_above_800_arrivals_a_second_from_many() {
        let mut rush = Rush::default();
        // In each window of 20 ms: 16 is 800 a second, 17 is above.
        assert!(!rush.note(100_000_000, 17, 256), "17 in the 100 ms before");
        assert!(!rush.note(120_000_000, 16, 256));
        assert!(!rush.note(130_000_000, 10, 256), "the window is not over");
        assert!(rush.note(140_000_000, 7, 256));
        assert!(rush.note(150_000_000, 0, 256));
        assert!(!rush.note(160_000_000, 0, 256));
        assert!(!rush.note(180_000_000, 1_000, 255), "few that ask and wait");
    }
}
