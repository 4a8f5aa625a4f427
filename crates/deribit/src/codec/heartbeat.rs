//! Heartbeats, for connections that ask for them.
//!
//! Holds       1. a connection gets a heartbeat in every interval, and is closed if a
//!                `test_request` stays without a `public/test` for a whole interval: a dead one is
//!                closed within two;
//!             2. a connection that did not ask gets none;
//!             3. time is the server's steady clock.
//! Start at    [`Heartbeat::from_params`], [`Heartbeat::beat`].

use crate::codec::{Params, RpcError, write_heartbeat};

const NANOS: u64 = 1_000_000_000;

/// One connection's heartbeat.
#[derive(Debug)]
pub struct Heartbeat {
    interval_ns: u64,
    /// When [`Self::beat`] is due, in nanoseconds of the steady clock.
    pub due_ns: u64,
    /// Whether a `test_request` waits for its answer.
    awaits_test: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeartbeatStep {
    NotYet,
    /// A heartbeat and a test request must be sent.
    Send,
    /// The peer did not answer: the connection must be closed.
    Dead,
}

impl Heartbeat {
    const SHORTEST_S: u64 = 10;
    const LONGEST_S: u64 = 3_600;

    /// Returns the heartbeat that `public/set_heartbeat` asks for.
    ///
    /// # Errors
    /// A refusal if `interval` is missing or outside [`Self::SHORTEST_S`] to [`Self::LONGEST_S`].
    pub fn from_params(params: &Params<'_>, now_ns: u64) -> Result<Heartbeat, RpcError> {
        let (shortest, longest) = (Self::SHORTEST_S, Self::LONGEST_S);
        params.required("interval")?;
        let interval_s = params.integer("interval")?.and_then(|seconds| u64::try_from(seconds).ok());
        let interval_s = interval_s.filter(|seconds| (shortest..=longest).contains(seconds)).ok_or_else(|| {
            RpcError::invalid("interval", format!("interval is {shortest} to {longest} whole seconds"))
        })?;
        Ok(Heartbeat::every(interval_s, now_ns))
    }

    fn every(interval_s: u64, now_ns: u64) -> Heartbeat {
        let interval_ns = interval_s.saturating_mul(NANOS);
        Heartbeat { interval_ns, due_ns: now_ns.saturating_add(interval_ns), awaits_test: false }
    }

    /// Records a `public/test`.
    pub fn tested(&mut self) {
        self.awaits_test = false;
    }

    /// Sends the messages that are due.
    ///
    /// # Errors
    ///
    /// Returns the reason if the connection must be closed.
    pub fn beat(&mut self, now_ns: u64, mut send: impl FnMut(&[u8])) -> Result<(), String> {
        match self.due(now_ns) {
            HeartbeatStep::NotYet => {}
            HeartbeatStep::Send => {
                for kind in ["heartbeat", "test_request"] {
                    let mut out = Vec::new();
                    write_heartbeat(&mut out, kind);
                    send(&out);
                }
            }
            HeartbeatStep::Dead => {
                return Err(format!("no public/test within {} s of a test_request", self.interval_ns / NANOS));
            }
        }
        Ok(())
    }

    fn due(&mut self, now_ns: u64) -> HeartbeatStep {
        if now_ns < self.due_ns {
            return HeartbeatStep::NotYet;
        }
        if self.awaits_test {
            return HeartbeatStep::Dead;
        }
        self.awaits_test = true;
        // Counted from now, so that after a pause of this process the peer gets its whole interval.
        self.due_ns = now_ns.saturating_add(self.interval_ns);
        HeartbeatStep::Send
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unanswered_test_ends_it_and_an_answered_one_does_not() {
        let mut heartbeat = Heartbeat::every(10, 5 * NANOS);
        assert_eq!(heartbeat.due(15 * NANOS - 1), HeartbeatStep::NotYet);
        for turn in 1..100 {
            assert_eq!(heartbeat.due((5 + 10 * turn) * NANOS), HeartbeatStep::Send);
            assert_eq!(heartbeat.due((5 + 10 * turn) * NANOS), HeartbeatStep::NotYet);
            heartbeat.tested();
        }
        assert_eq!(heartbeat.due(1_005 * NANOS), HeartbeatStep::Send);
        assert_eq!(heartbeat.due(1_015 * NANOS - 1), HeartbeatStep::NotYet);
        assert_eq!(heartbeat.due(1_015 * NANOS), HeartbeatStep::Dead);
    }

    #[test]
    fn a_pause_of_ours_is_not_held_against_the_peer() {
        let mut heartbeat = Heartbeat::every(10, 0);
        assert_eq!(heartbeat.due(60 * NANOS), HeartbeatStep::Send);
        assert_eq!(heartbeat.due(60 * NANOS), HeartbeatStep::NotYet);
        assert_eq!(heartbeat.due(70 * NANOS - 1), HeartbeatStep::NotYet);
        assert_eq!(heartbeat.due(70 * NANOS), HeartbeatStep::Dead);
    }

    #[test]
    fn heartbeats_are_sent_until_a_test_stays_unanswered() {
        let mut heartbeat = Heartbeat::every(10, 0);
        let mut sent = Vec::new();
        let mut beat = |seconds: u64| {
            let ended = heartbeat.beat(seconds * NANOS, |text| sent.push(String::from_utf8_lossy(text).into_owned()));
            (ended, std::mem::take(&mut sent).join(" "))
        };
        assert_eq!(beat(9), (Ok(()), String::new()));
        let (ended, sent) = beat(10);
        assert!(ended.is_ok() && sent.contains("\"heartbeat\"}") && sent.contains("\"test_request\"}"), "{sent}");
        assert_eq!(beat(20), (Err("no public/test within 10 s of a test_request".into()), String::new()));
    }
}
