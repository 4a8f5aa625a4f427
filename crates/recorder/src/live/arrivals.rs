//! Due times of a live feed's messages.
//!
//! Does        computes the due time of message after message, from a law and a seed.
//! Holds       equal seeds give equal due times on every connection.
//! Start at    [`DueTimes::next`].

use pitwire_random::Xoshiro256;

use crate::pace::Pace;

const SECOND_NS: f64 = 1e9;
/// The bursty law sends at this multiple of the mean rate in a burst.
const BURST_FACTOR: f64 = 5.0;
/// Share of the time that is in bursts, so that half of the messages are.
const BURST_SHARE: f64 = 0.1;
/// Mean length of a burst.
const BURST_MEAN_NS: f64 = 50e6;
/// Stream of the generator that draws gaps.
const ARRIVAL_STREAM: u64 = 1;

/// How the gaps between messages are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalLaw {
    Constant,
    /// Exponential gaps.
    Poisson,
    /// Exponential gaps at two rates. Bursts of 50 ms on average have five times the mean rate and
    /// a tenth of the time.
    Bursty,
    /// This many messages at once, then a pause.
    Batches(u64),
}

/// When messages are due.
#[derive(Clone)]
pub enum MessageTimes {
    /// As fast as each reader reads.
    Max,
    Law {
        law: ArrivalLaw,
        per_s: u64,
        seed: u64,
    },
    /// At the times of a recording, at `speed_milli` thousandths of its speed.
    Recorded {
        speed_milli: u64,
    },
}

impl MessageTimes {
    pub(super) fn start(&self) -> DueTimes {
        match *self {
            MessageTimes::Max => DueTimes::Max,
            MessageTimes::Law { law: ArrivalLaw::Constant, per_s, .. } => {
                DueTimes::Even { pace: Pace::Even { per_s }, n: 0 }
            }
            MessageTimes::Law { law: ArrivalLaw::Batches(batch), per_s, .. } => {
                DueTimes::Batches { pace: Pace::Even { per_s }, batch, n: 0 }
            }
            MessageTimes::Law { law, per_s, seed } => DueTimes::Random(RandomTimes::new(law, per_s, seed)),
            MessageTimes::Recorded { speed_milli } => DueTimes::Recorded(Pace::Recorded { speed_milli }),
        }
    }
}

/// The due times of one connection's messages, in nanoseconds since the first.
pub(super) enum DueTimes {
    Max,
    Even { pace: Pace, n: u64 },
    Batches { pace: Pace, batch: u64, n: u64 },
    Random(RandomTimes),
    Recorded(Pace),
}

impl DueTimes {
    /// Returns when the next message is due. `recorded` returns the time in the source. `None`: at
    /// once.
    pub(super) fn next(&mut self, recorded: impl FnOnce() -> Option<u64>) -> Option<u64> {
        match self {
            DueTimes::Max => None,
            DueTimes::Even { pace, n } => {
                let due_ns = pace.time_of(*n);
                *n += 1;
                Some(due_ns)
            }
            DueTimes::Batches { pace, batch, n } => {
                let due_ns = pace.time_of(*n - *n % *batch);
                *n += 1;
                Some(due_ns)
            }
            DueTimes::Random(times) => Some(times.next()),
            DueTimes::Recorded(pace) => Some(pace.scale(recorded().unwrap_or(0))),
        }
    }
}

pub(super) struct RandomTimes {
    random: Xoshiro256,
    now_ns: f64,
    /// Mean gap in each state: quiet, burst.
    gap_ns: [f64; 2],
    /// Mean time in each state. A Poisson feed never leaves its state.
    stay_ns: [f64; 2],
    state: usize,
    state_ends_ns: f64,
}

impl RandomTimes {
    #[allow(clippy::cast_precision_loss)] // Rates below 2^53.
    fn new(law: ArrivalLaw, per_s: u64, seed: u64) -> Self {
        let gap_ns = SECOND_NS / per_s as f64;
        let mut random = Xoshiro256::new(seed, ARRIVAL_STREAM);
        let (gap_ns, stay_ns) = match law {
            ArrivalLaw::Constant | ArrivalLaw::Poisson | ArrivalLaw::Batches(_) => ([gap_ns; 2], [f64::INFINITY; 2]),
            ArrivalLaw::Bursty => {
                let quiet_share = (1.0 - BURST_SHARE * BURST_FACTOR) / (1.0 - BURST_SHARE);
                let quiet_mean_ns = BURST_MEAN_NS * (1.0 - BURST_SHARE) / BURST_SHARE;
                ([gap_ns / quiet_share, gap_ns / BURST_FACTOR], [quiet_mean_ns, BURST_MEAN_NS])
            }
        };
        let state_ends_ns = exponential(&mut random, stay_ns[0]);
        RandomTimes { random, now_ns: 0.0, gap_ns, stay_ns, state: 0, state_ends_ns }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Positive, below 2^53 ns.
    fn next(&mut self) -> u64 {
        loop {
            let next_ns = self.now_ns + exponential(&mut self.random, self.gap_ns[self.state]);
            if next_ns <= self.state_ends_ns {
                self.now_ns = next_ns;
                return next_ns as u64;
            }
            // Exponential gaps have no memory, so the gap is drawn anew at the new rate.
            self.now_ns = self.state_ends_ns;
            self.state = 1 - self.state;
            self.state_ends_ns = self.now_ns + exponential(&mut self.random, self.stay_ns[self.state]);
        }
    }
}

fn exponential(random: &mut Xoshiro256, mean: f64) -> f64 {
    if mean.is_infinite() {
        return mean;
    }
    -mean * random.unit().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(law: ArrivalLaw, count: usize, seed: u64) -> Vec<u64> {
        let mut due = MessageTimes::Law { law, per_s: 1_000, seed }.start();
        (0..count).map(|_| due.next(|| None).unwrap()).collect()
    }

    /// Mean and squared coefficient of variation of the gaps.
    #[allow(clippy::cast_precision_loss)]
    fn gaps(times: &[u64]) -> (f64, f64) {
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        (mean, variance / (mean * mean))
    }

    #[test]
    fn a_constant_rate_has_equal_gaps() {
        assert_eq!(times(ArrivalLaw::Constant, 4, 1), [0, 1_000_000, 2_000_000, 3_000_000]);
    }

    #[test]
    fn a_batch_is_due_at_once_and_the_mean_rate_holds() {
        let ms = 1_000_000;
        assert_eq!(times(ArrivalLaw::Batches(3), 7, 1), [0, 0, 0, 3 * ms, 3 * ms, 3 * ms, 6 * ms]);
    }

    #[test]
    fn poisson_gaps_have_a_coefficient_of_variation_of_one() {
        let (mean, variation) = gaps(&times(ArrivalLaw::Poisson, 200_000, 5));
        // Standard errors at this count: 0.22 % of the mean and 0.6 % of the squared coefficient.
        assert!((mean / 1e6 - 1.0).abs() < 0.01, "{mean}");
        assert!((variation - 1.0).abs() < 0.03, "{variation}");
    }

    #[test]
    fn bursty_gaps_keep_the_mean_rate_and_vary_more() {
        let (mean, variation) = gaps(&times(ArrivalLaw::Bursty, 1_000_000, 5));
        assert!((mean / 1e6 - 1.0).abs() < 0.05, "{mean}");
        // Half of the gaps have a mean of 0.2, half of 1.8: the squared coefficient is
        // (2 * 0.2^2 + 2 * 1.8^2) / 2 - 1 = 2.28.
        assert!((variation - 2.28).abs() < 0.1, "{variation}");
    }

    #[test]
    fn equal_seeds_give_equal_times() {
        for law in [ArrivalLaw::Poisson, ArrivalLaw::Bursty] {
            assert_eq!(times(law, 1_000, 9), times(law, 1_000, 9));
            assert_ne!(times(law, 1_000, 9), times(law, 1_000, 10));
        }
    }
}
