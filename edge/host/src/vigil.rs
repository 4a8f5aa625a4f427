//! How long the loop stays awake before it sleeps.
//!
//! A wake-up costs more than an order: tens of microseconds where the machine's other core has gone to sleep as well.
//! After requests came, more often do; so the loop looks again for a little while. It is kept up only as long as it
//! pays, and a venue to which nobody speaks does not do it at all.

/// Longer than a peer on this machine takes from an answer to its next request.
const AWAKE_NS: u64 = 50_000;
/// How sure of it one can become.
const MOST_CREDIT: i8 = 8;
/// When it has not paid, it is tried again after so many turns with requests.
const TRY_AGAIN: u8 = 32;

#[derive(Debug, Default)]
pub(crate) struct Vigil {
    credit: i8,
    passed_over: u8,
}

impl Vigil {
    /// How long to stay awake after a turn with requests; 0 for not at all.
    pub fn begin(&mut self) -> u64 {
        if self.credit >= 0 {
            return AWAKE_NS;
        }
        self.passed_over += 1;
        if self.passed_over < TRY_AGAIN {
            return 0;
        }
        self.passed_over = 0;
        AWAKE_NS
    }

    /// Whether something came while it was awake.
    pub fn end(&mut self, has_paid: bool) {
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
        // Requests a millisecond apart: awake for 50 us in 32 of them is nothing.
        assert!(awake(false, 3_200) < 120);
        assert!(awake(true, 1_000) > 800);
    }
}
