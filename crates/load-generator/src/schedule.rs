//! When each message is due, independent of earlier ones.
//!
//! Does        one worker's part of an arrival process: even per connection, even over all, or
//!             Poisson.
//! Holds       a due time never depends on an answer: the load is an open loop.
//! Start at    [`Schedule::take`].

use pitwire_random::SplitMix64;

use crate::plan::{Arrivals, ConnectionShare};

#[derive(Debug)]
pub struct Schedule {
    share: ConnectionShare,
    pace: ArrivalProcess,
    random: SplitMix64,
    /// When the next message is due, in nanoseconds from the start.
    due_ns: f64,
    sent: u64,
}

#[derive(Clone, Copy, Debug)]
enum ArrivalProcess {
    /// Each connection once per period of this many nanoseconds, with phases spread evenly over it.
    EachPeriod(f64),
    /// The share as a whole, at even intervals of this many nanoseconds.
    Even(f64),
    /// The share as a whole, at exponential intervals with this mean in nanoseconds.
    Poisson(f64),
}

impl Schedule {
    /// Schedules each connection of `share` once per period; or, with `arrivals`, the whole run at
    /// that rate.
    pub fn new(share: ConnectionShare, period_ns: f64, arrivals: Option<Arrivals>, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed ^ u64::from(share.first).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let (pace, due_ns) = match arrivals {
            None => (ArrivalProcess::EachPeriod(period_ns), period_ns * phase(share, 0)),
            Some(Arrivals { per_s, is_even }) => {
                let interval = 1e9 / (per_s * share.fraction());
                if is_even {
                    (ArrivalProcess::Even(interval), interval * phase(share, 0))
                } else {
                    (ArrivalProcess::Poisson(interval), interval * exponential(&mut random))
                }
            }
        };
        Schedule { share, pace, random, due_ns, sent: 0 }
    }

    /// Returns when the next message is due, in nanoseconds from the start.
    #[allow(clippy::cast_possible_truncation)]
    pub fn due_ns(&self) -> i64 {
        self.due_ns as i64
    }

    /// Takes the next message and returns the connection that sends it, counted within the share.
    #[allow(clippy::cast_precision_loss)]
    pub fn take(&mut self) -> u32 {
        let count = u64::from(self.share.count.max(1));
        let place = u32::try_from(self.sent % count).unwrap_or(0);
        self.sent += 1;
        match self.pace {
            ArrivalProcess::EachPeriod(period) => {
                let (round, next) = (self.sent / count, u32::try_from(self.sent % count).unwrap_or(0));
                self.due_ns = period * (round as f64 + phase(self.share, next));
            }
            // Computed from the count rather than from the last due time, so that rounding does not
            // add up.
            ArrivalProcess::Even(interval) => self.due_ns = interval * (self.sent as f64 + phase(self.share, 0)),
            ArrivalProcess::Poisson(mean) => self.due_ns += mean * exponential(&mut self.random),
        }
        place
    }
}

/// Returns the position of a connection in the period, from 0 to 1. The connections of the run are
/// spread evenly.
fn phase(share: ConnectionShare, place: u32) -> f64 {
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
        let share = ConnectionShare { first: 2, count: 2, total: 4 };
        let mut schedule = Schedule::new(share, 1_000.0, None, 1);
        assert_eq!(take(&mut schedule, 5), [(500, 0), (750, 1), (1_500, 0), (1_750, 1), (2_500, 0)]);
    }

    #[test]
    fn even_arrivals_of_the_shares_interleave() {
        let arrivals = Some(Arrivals { per_s: 1e6, is_even: true });
        let half = |first| Schedule::new(ConnectionShare { first, count: 1, total: 2 }, 0.0, arrivals, 1);
        assert_eq!(take(&mut half(0), 3), [(0, 0), (2_000, 0), (4_000, 0)]);
        assert_eq!(take(&mut half(1), 3), [(1_000, 0), (3_000, 0), (5_000, 0)]);
    }

    #[test]
    fn even_arrivals_keep_the_rate_exactly() {
        let mut schedule =
            Schedule::new(ConnectionShare::whole(4), 0.0, Some(Arrivals { per_s: 300.0, is_even: true }), 1);
        let dues = take(&mut schedule, 3_001);
        assert_eq!((dues[300].0, dues[3_000].0), (1_000_000_000, 10_000_000_000));
    }

    #[test]
    fn poisson_intervals_are_exponential() {
        let arrivals = Some(Arrivals { per_s: 1e6, is_even: false });
        let mut schedule = Schedule::new(ConnectionShare::whole(10), 0.0, arrivals, 7);
        let dues: Vec<f64> = take(&mut schedule, 100_001).iter().map(|(due, _)| *due as f64).collect();
        let gaps: Vec<f64> = dues.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // The standard deviation of an exponential distribution equals its mean: 1,000 ns here.
        assert!((mean - 1_000.0).abs() < 15.0, "{mean}");
        assert!((variance.sqrt() - 1_000.0).abs() < 25.0, "{variance}");
    }

    #[test]
    fn same_seed_gives_same_schedule() {
        let arrivals = Some(Arrivals { per_s: 1e3, is_even: false });
        let load = |seed| take(&mut Schedule::new(ConnectionShare::whole(3), 0.0, arrivals, seed), 50);
        assert_eq!(load(1), load(1));
        assert_ne!(load(1), load(2));
    }
}
