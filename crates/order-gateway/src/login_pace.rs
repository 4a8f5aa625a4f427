//! The pace of logins: slower when the venue refuses them as too many.
//!
//! Does        bounds the logins at the venue, and pauses after each that the venue's rate refuses.
//! Holds       the venue closes a connection after 100 refusals by rate and forgives one a second.
//!             A burst of refusals ends with a pause of one second for each, so the connection for
//!             logins stays open, however many clients log in.
//! Start at    [`LoginPace::admit`].

use std::time::Duration;

/// Logins that may wait for the venue at the same time, before it has refused one.
const IN_FLIGHT_MAX: usize = 16;
/// Pause after a refusal in nanoseconds: the venue forgives one in this time.
const PAUSE_NS: u64 = 1_000_000_000;
/// Wait in nanoseconds before another attempt while too many logins are at the venue.
const TURN_NS: u64 = 100_000_000;

/// How many logins may be at the venue now.
#[derive(Debug)]
pub(crate) struct LoginPace {
    in_flight: usize,
    /// Grows by one with each answer, and falls to one with a refusal by rate.
    in_flight_max: usize,
    paused_until_ns: u64,
}

impl LoginPace {
    pub fn new() -> Self {
        LoginPace { in_flight: 0, in_flight_max: IN_FLIGHT_MAX, paused_until_ns: 0 }
    }

    /// Counts a login that goes to the venue.
    ///
    /// # Errors
    /// How long to wait, if no login may go now.
    pub fn admit(&mut self, now_ns: u64) -> Result<(), Duration> {
        let pause = self.pause(now_ns);
        if !pause.is_zero() {
            return Err(pause);
        }
        if self.in_flight >= self.in_flight_max {
            return Err(Duration::from_nanos(TURN_NS));
        }
        self.in_flight += 1;
        Ok(())
    }

    /// Counts an answer of the venue, or that there will be none.
    pub fn note_answer(&mut self, now_ns: u64, is_too_fast: bool) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if is_too_fast {
            self.in_flight_max = 1;
            self.paused_until_ns = self.paused_until_ns.max(now_ns).saturating_add(PAUSE_NS);
        } else {
            self.in_flight_max = (self.in_flight_max + 1).min(IN_FLIGHT_MAX);
        }
    }

    /// Returns the rest of the pause after refusals.
    pub fn pause(&self, now_ns: u64) -> Duration {
        Duration::from_nanos(self.paused_until_ns.saturating_sub(now_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The venue of this test allows a number of logins a second, closes after 100 refusals and
    /// forgives one a second.
    #[test]
    fn refusals_never_end_the_connection_however_many_clients_log_in() {
        for allowed_per_s in [0.0, 0.5, 3.0, 40.0] {
            let mut pace = LoginPace::new();
            let (mut allowance, mut refusals, mut worst, mut granted) = (5.0, 0.0_f64, 0.0_f64, 0);
            for step in 0..6_000_u64 {
                let now_ns = step * 10_000_000;
                allowance = f64::min(allowance + allowed_per_s / 100.0, 5.0);
                refusals = f64::max(refusals - 0.01, 0.0);
                let admitted = (0..200).filter(|_| pace.admit(now_ns).is_ok()).count();
                for _ in 0..admitted {
                    let is_too_fast = allowance < 1.0;
                    if is_too_fast {
                        refusals += 1.0;
                    } else {
                        allowance -= 1.0;
                        granted += 1;
                    }
                    pace.note_answer(now_ns, is_too_fast);
                }
                worst = worst.max(refusals);
            }
            assert!(worst < 50.0, "{worst} refusals with {allowed_per_s} logins a second");
            assert!(granted >= 5, "logins are still granted");
        }
    }

    #[test]
    fn logins_at_the_venue_are_bounded_and_grow_again_after_a_refusal() {
        let mut pace = LoginPace::new();
        assert_eq!((0..100).filter(|_| pace.admit(0).is_ok()).count(), IN_FLIGHT_MAX);
        pace.note_answer(0, true);
        assert_eq!(pace.admit(0), Err(Duration::from_nanos(PAUSE_NS)));
        (1..IN_FLIGHT_MAX).for_each(|_| pace.note_answer(0, false));
        assert_eq!((0..100).filter(|_| pace.admit(PAUSE_NS).is_ok()).count(), IN_FLIGHT_MAX);
    }
}
