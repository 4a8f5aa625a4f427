//! When each message of ours is due, whatever happened to the ones before.
//!
//! Does        one thread's part of an arrival process: even for each connection, even over all, or Poisson.
//! Holds       a due time never depends on an answer: the load is an open loop.
//! Start at    [`Schedule::next`].

use pitwire_random::SplitMix64;

use crate::plan::{Arrivals, Share};

#[derive(Debug)]
pub struct Schedule {
    share: Share,
    pace: Pace,
    random: SplitMix64,
    /// Of the message that [`Schedule::due_ns`] speaks of, from the beginning.
    due_ns: f64,
    sent: u64,
}

#[derive(Clone, Copy, Debug)]
enum Pace {
    /// Each connection once a period, their phases spread evenly over it.
    EachPeriod(f64),
    /// The whole share, evenly.
    Even(f64),
    /// The whole share, intervals exponential with this mean.
    Poisson(f64),
}

impl Schedule {
    /// Each connection of `share` once a period; or, with `arrivals`, all of the run together at that rate.
    pub fn new(share: Share, period_ns: f64, arrivals: Option<Arrivals>, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed ^ u64::from(share.first).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let (pace, due_ns) = match arrivals {
            None => (Pace::EachPeriod(period_ns), period_ns * phase(share, 0)),
            Some(Arrivals { per_s, is_even }) => {
                let interval = 1e9 / (per_s * share.fraction());
                if is_even {
                    (Pace::Even(interval), interval * phase(share, 0))
                } else {
                    (Pace::Poisson(interval), interval * exponential(&mut random))
                }
            }
        };
        Schedule { share, pace, random, due_ns, sent: 0 }
    }

    /// When the next message is due, in nanoseconds from the beginning.
    #[allow(clippy::cast_possible_truncation)]
    pub fn due_ns(&self) -> i64 {
        self.due_ns as i64
    }

    /// Takes the message that is due: the connection that sends it, counted within the share.
    #[allow(clippy::cast_precision_loss)]
    pub fn take(&mut self) -> u32 {
        let count = u64::from(self.share.count.max(1));
        let place = u32::try_from(self.sent % count).unwrap_or(0);
        self.sent += 1;
        match self.pace {
            Pace::EachPeriod(period) => {
                let (round, next) = (self.sent / count, u32::try_from(self.sent % count).unwrap_or(0));
                self.due_ns = period * (round as f64 + phase(self.share, next));
            }
            // From the count, not from the last: rounding must not add up.
            Pace::Even(interval) => self.due_ns = interval * (self.sent as f64 + phase(self.share, 0)),
            Pace::Poisson(mean) => self.due_ns += mean * exponential(&mut self.random),
        }
        place
    }
}

/// Where in a period the `place`th connection of the share has its turn: all of the run's are spread evenly.
fn phase(share: Share, place: u32) -> f64 {
    f64::from(share.first + place) / f64::from(share.total.max(1))
}

/// Draws from the exponential distribution with mean 1.
#[allow(clippy::cast_precision_loss)]
fn exponential(random: &mut SplitMix64) -> f64 {
    let uniform = ((random.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -uniform.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(schedule: &mut Schedule, count: usize) -> Vec<(i64, u32)> {
        (0..count).map(|_| (schedule.due_ns(), schedule.take())).collect()
    }

    #[test]
    fn heartbeats_are_spread_over_the_period() {
        let share = Share { first: 2, count: 2, total: 4 };
        let mut schedule = Schedule::new(share, 1_000.0, None, 1);
        assert_eq!(take(&mut schedule, 5), [(500, 0), (750, 1), (1_500, 0), (1_750, 1), (2_500, 0)]);
    }

    #[test]
    fn even_arrivals_of_the_shares_interleave() {
        let arrivals = Some(Arrivals { per_s: 1e6, is_even: true });
        let half = |first| Schedule::new(Share { first, count: 1, total: 2 }, 0.0, arrivals, 1);
        assert_eq!(take(&mut half(0), 3), [(0, 0), (2_000, 0), (4_000, 0)]);
        assert_eq!(take(&mut half(1), 3), [(1_000, 0), (3_000, 0), (5_000, 0)]);
    }

    #[test]
    fn a_second_holds_what_the_rate_says() {
        let mut schedule = Schedule::new(Share::whole(4), 0.0, Some(Arrivals { per_s: 300.0, is_even: true }), 1);
        let dues = take(&mut schedule, 3_001);
        assert_eq!((dues[300].0, dues[3_000].0), (1_000_000_000, 10_000_000_000));
    }

    #[test]
    fn poisson_arrivals_have_mean_and_variance_of_one_another() {
        let arrivals = Some(Arrivals { per_s: 1e6, is_even: false });
        let mut schedule = Schedule::new(Share::whole(10), 0.0, arrivals, 7);
        let dues: Vec<f64> = take(&mut schedule, 100_001).iter().map(|(due, _)| *due as f64).collect();
        let gaps: Vec<f64> = dues.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Of an exponential distribution the standard deviation is the mean: 1,000 ns here.
        assert!((mean - 1_000.0).abs() < 15.0, "{mean}");
        assert!((variance.sqrt() - 1_000.0).abs() < 25.0, "{variance}");
    }

    #[test]
    fn a_seed_names_a_load() {
        let arrivals = Some(Arrivals { per_s: 1e3, is_even: false });
        let load = |seed| take(&mut Schedule::new(Share::whole(3), 0.0, arrivals, seed), 50);
        assert_eq!(load(1), load(1));
        assert_ne!(load(1), load(2));
    }
}
