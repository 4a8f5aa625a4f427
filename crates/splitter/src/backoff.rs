//! Delays between connection attempts.
//!
//! Holds       the delay doubles after each failure up to 30 seconds, with jitter, so that many
//!             readers do not reconnect at once.
//! Start at    [`Backoff::next_ns`].

const FIRST_NS: u64 = 100_000_000;
const LONGEST_NS: u64 = 30_000_000_000;

#[derive(Debug)]
pub(crate) struct Backoff {
    ceiling_ns: u64,
}

impl Backoff {
    pub fn new() -> Self {
        Backoff { ceiling_ns: FIRST_NS }
    }

    /// Starts again from the shortest delay, after a connection that was useful.
    pub fn reset(&mut self) {
        self.ceiling_ns = FIRST_NS;
    }

    /// Returns a delay between half of the ceiling and the ceiling, chosen by `chance`, and doubles
    /// the ceiling.
    pub fn next_ns(&mut self, chance: u64) -> u64 {
        let half_ns = self.ceiling_ns / 2;
        self.ceiling_ns = (self.ceiling_ns * 2).min(LONGEST_NS);
        half_ns + chance % (half_ns + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_thirty_seconds_with_jitter() {
        for (chance, expected_ms) in [
            (0, [50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 15_000, 15_000]),
            // A chance of u64::MAX only checks the range.
            (u64::MAX, [0; 11]),
        ] {
            let mut backoff = Backoff::new();
            for expected_ms in expected_ms {
                let ceiling_ns = backoff.ceiling_ns;
                let wait_ns = backoff.next_ns(chance);
                assert!((ceiling_ns / 2..=ceiling_ns).contains(&wait_ns));
                assert!(chance != 0 || wait_ns == expected_ms * 1_000_000, "{wait_ns}");
            }
        }
        let mut backoff = Backoff::new();
        assert_eq!(backoff.next_ns(FIRST_NS / 2), FIRST_NS, "the longest wait can happen");
        backoff.reset();
        assert_eq!(backoff.next_ns(0), FIRST_NS / 2);
    }
}
