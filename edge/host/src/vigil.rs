//! How long the loop stays awake before it sleeps.
//!
//! A wake-up costs more than an order: tens of microseconds where the machine's other core has gone to sleep as well.
//! After requests came, more often do; so the loop looks again for a little while. It is kept up only as long as it
//! pays, and a venue to which nobody speaks does not do it at all. Nor is it done for a peer on the loop's own core, which
//! cannot speak meanwhile: the server sees to that.

/// Longer than a peer on this machine takes from an answer to its next request.
const AWAKE_NS: u64 = 50_000;
/// How sure of it one can become.
const MOST_CREDIT: i8 = 8;
/// When it has not paid, it is tried again after so many turns with requests, and twice as many each time it has not paid
/// again: whoever shares the core with the loop is late by that.
const TRY_AGAIN: u32 = 64;
const TRY_AGAIN_AT_MOST: u32 = 4_096;

#[derive(Debug)]
pub(crate) struct Vigil {
    credit: i8,
    passed_over: u32,
    try_again: u32,
}

impl Default for Vigil {
    fn default() -> Self {
        Vigil { credit: 0, passed_over: 0, try_again: TRY_AGAIN }
    }
}

impl Vigil {
    /// How long to stay awake after a turn with requests; 0 for not at all.
    pub fn begin(&mut self) -> u64 {
        if self.credit >= 0 {
            return AWAKE_NS;
        }
        self.passed_over += 1;
        if self.passed_over < self.try_again {
            return 0;
        }
        self.passed_over = 0;
        AWAKE_NS
    }

    /// Whether something came while it was awake.
    pub fn end(&mut self, has_paid: bool) {
        if has_paid {
            self.try_again = TRY_AGAIN;
        } else if self.credit < 0 {
            self.try_again = (self.try_again * 2).min(TRY_AGAIN_AT_MOST);
        }
        let credit = if has_paid { self.credit + 2 } else { self.credit - 1 };
        self.credit = credit.clamp(-MOST_CREDIT, MOST_CREDIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_given_up_where_it_does_not_pay_and_found_again_where_it_does() {
        let mut vigil = Vigil::default();
        let mut awake = |paid: bool, turns: usize| {
            let mut times = 0;
            for _ in 0..turns {
                if vigil.begin() > 0 {
                    times += 1;
                    vigil.end(paid);
                }
            }
            times
        };
        assert_eq!(awake(true, 100), 100);
        // A few tries, then next to none: less than one answer in a hundred may be late by them, also at first.
        assert!(awake(false, 100) < 20);
        assert!(awake(false, 10_000) < 12);
        // A peer that has moved to another core is found again before long.
        assert!(awake(true, 10_000) > 4_000);
        assert_eq!(awake(true, 1_000), 1_000);
        // One that does so often is found sooner: what has paid is tried again soon.
        awake(false, 20);
        assert!(awake(true, 1_000) > 800);
    }
}
