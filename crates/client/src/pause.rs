//! Pauses that grow between attempts.

use std::time::Duration;

/// Pauses that double up to a bound. A random part keeps clients of one venue from returning all at
/// the same time.
#[derive(Debug)]
pub(crate) struct GrowingPause {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl GrowingPause {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        GrowingPause { first, longest, next: first }
    }

    /// Returns the next pause: between half and all of the present bound.
    pub(crate) fn next(&mut self) -> Duration {
        let bound = self.next;
        self.next = (bound * 2).min(self.longest);
        // Without random numbers the pause is the longest that is allowed now.
        let part = getrandom::u32().map_or(1.0, |random| f64::from(random) / f64::from(u32::MAX));
        bound.mul_f64(0.5 + part / 2.0)
    }

    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_doubles_up_to_its_bound_and_keeps_at_least_half() {
        let mut pause = GrowingPause::new(Duration::from_millis(100), Duration::from_millis(500));
        for bound_ms in [100, 200, 400, 500, 500] {
            let pause = pause.next();
            let bound = Duration::from_millis(bound_ms);
            assert!(pause >= bound / 2 && pause <= bound, "{pause:?} of {bound:?}");
        }
        pause.reset();
        assert!(pause.next() <= Duration::from_millis(100));
    }
}
