//! Proof of life for those who ask for it.
//!
//! Holds       1. a connection that set an interval hears from us once in it, and is closed when a `test_request` has gone
//!                a whole interval without a `public/test`: a dead one is closed within two;
//!             2. who never asked is never bothered;
//!             3. time is the host's steady clock.
//! Start at    [`Heartbeat::beat`].

const NANOS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(crate) struct Heartbeat {
    interval_ns: u64,
    pub due_ns: u64,
    /// A `test_request` is out.
    awaits_test: bool,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    NotYet,
    /// A heartbeat and a test request are to be sent.
    Send,
    /// Nothing came back: the connection is to be closed.
    Dead,
}

impl Heartbeat {
    pub const SHORTEST_S: u64 = 10;
    pub const LONGEST_S: u64 = 3_600;

    pub fn every(interval_s: u64, now_ns: u64) -> Heartbeat {
        let interval_ns = interval_s.saturating_mul(NANOS);
        Heartbeat { interval_ns, due_ns: now_ns.saturating_add(interval_ns), awaits_test: false }
    }

    /// A `public/test` has come.
    pub fn tested(&mut self) {
        self.awaits_test = false;
    }

    pub fn beat(&mut self, now_ns: u64) -> Beat {
        if now_ns < self.due_ns {
            return Beat::NotYet;
        }
        if self.awaits_test {
            return Beat::Dead;
        }
        self.awaits_test = true;
        // From now, not from when it was due: after a pause of ours the peer still gets its whole interval.
        self.due_ns = now_ns.saturating_add(self.interval_ns);
        Beat::Send
    }

    pub fn interval_s(&self) -> u64 {
        self.interval_ns / NANOS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unanswered_test_ends_it_and_an_answered_one_does_not() {
        let mut heartbeat = Heartbeat::every(10, 5 * NANOS);
        assert_eq!(heartbeat.beat(15 * NANOS - 1), Beat::NotYet);
        for turn in 1..100 {
            assert_eq!(heartbeat.beat((5 + 10 * turn) * NANOS), Beat::Send);
            assert_eq!(heartbeat.beat((5 + 10 * turn) * NANOS), Beat::NotYet);
            heartbeat.tested();
        }
        assert_eq!(heartbeat.beat(1_005 * NANOS), Beat::Send);
        assert_eq!(heartbeat.beat(1_015 * NANOS - 1), Beat::NotYet);
        assert_eq!(heartbeat.beat(1_015 * NANOS), Beat::Dead);
    }

    #[test]
    fn a_pause_of_ours_is_not_held_against_the_peer() {
        let mut heartbeat = Heartbeat::every(10, 0);
        assert_eq!(heartbeat.beat(60 * NANOS), Beat::Send);
        assert_eq!(heartbeat.beat(60 * NANOS), Beat::NotYet);
        assert_eq!(heartbeat.beat(70 * NANOS - 1), Beat::NotYet);
        assert_eq!(heartbeat.beat(70 * NANOS), Beat::Dead);
    }
}
