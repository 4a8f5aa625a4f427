//! Delays between attempts to connect: growing, with jitter.
//!
//! The client library counts attempts from zero after each completed handshake. A server that drops
//! every connection after its handshake would therefore be asked again at once, for ever.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Upper bound of the second delay. The first attempt waits for nothing.
const DELAY_MIN: Duration = Duration::from_millis(100);
/// Upper bound of every delay.
const DELAY_MAX: Duration = Duration::from_secs(4);
/// A connection that lasted this long was a good one: the delays start from the smallest again. It
/// is longer than an attempt that times out.
const GOOD_CONNECTION: Duration = Duration::from_secs(15);

#[derive(Debug, Default)]
pub(crate) struct ReconnectDelay {
    state: Mutex<DelayState>,
}

#[derive(Clone, Copy, Debug, Default)]
struct DelayState {
    /// End of the last delay, when an attempt began.
    attempt: Option<Instant>,
    bound: Duration,
}

impl ReconnectDelay {
    /// Returns the delay before the next attempt.
    pub(crate) fn next(&self) -> Duration {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Without random numbers, the delays grow without jitter.
        state.next(Instant::now(), getrandom::u32().unwrap_or(u32::MAX))
    }
}

impl DelayState {
    /// Returns a delay between half of the bound and the bound, and doubles the bound.
    fn next(&mut self, now: Instant, random: u32) -> Duration {
        let bound = match self.attempt {
            None => Duration::ZERO,
            Some(attempt) if now.saturating_duration_since(attempt) >= GOOD_CONNECTION => DELAY_MIN,
            Some(_) => self.bound.max(DELAY_MIN),
        };
        let delay = bound / 2 + (bound / 2).mul_f64(f64::from(random) / f64::from(u32::MAX));
        self.attempt = Some(now + delay);
        self.bound = (2 * bound).min(DELAY_MAX);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_until_a_connection_lasts() {
        let (mut state, mut now) = (DelayState::default(), Instant::now());
        let mut delays = Vec::new();
        for _ in 0..9 {
            let delay = state.next(now, u32::MAX);
            delays.push(delay.as_millis());
            now += delay;
        }
        assert_eq!(delays, [0, 100, 200, 400, 800, 1_600, 3_200, 4_000, 4_000]);
        assert_eq!(state.next(now + GOOD_CONNECTION, u32::MAX).as_millis(), 100);
    }

    #[test]
    fn jitter_takes_up_to_half_of_a_delay() {
        let mut state = DelayState::default();
        let now = Instant::now();
        assert_eq!(state.next(now, 0), Duration::ZERO);
        assert_eq!(state.next(now, 0).as_millis(), 50);
        let third = state.next(now, u32::MAX / 2).as_millis();
        assert!((145..=155).contains(&third), "{third}");
    }
}
