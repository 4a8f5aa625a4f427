//! The pace of a market: business time, which runs faster when the market is busy.
//!
//! Does        map business time to venue time and back. The pace is the product of a U-shaped day
//!             (Wood, McInish and Ord 1985; Admati and Pfleiderer 1988) and of a random activity
//!             with time constants from seconds to forty minutes, so that trades, volume and
//!             volatility cluster together (Clark 1973; Ané and Geman 2000).
//! Holds       1. the mean of the random activity is 1, and so is that of the day;
//!             2. the pace depends on the seed and on sessions, never on orders.
//! Costs       four random numbers per second of venue time.
//! Start at    [`ActivityClock::venue_time`].

use std::collections::VecDeque;

use pitwire_model::VenueNanos;

use crate::math::exp;
use crate::number::{NANOS_PER_SECOND, nanos};
use crate::random::Random;

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
/// Time constants of the random activity, in seconds. Several of them give the slow decay of a
/// power law over their range.
const CONSTANTS_S: [f64; 4] = [15.0, 120.0, 600.0, 2_400.0];
/// Standard deviation of the logarithm of each part.
const SPREAD: f64 = 0.5;
/// Bounds of the pace.
const PACE: (f64, f64) = (0.02, 12.0);
/// Shape of the day: least pace, and the share that grows with the square of the distance from
/// midday. The mean is 1.
const MIDDAY: f64 = 0.45;
const ENDS: f64 = 1.65;

/// The hours between which the pace has a U shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DayShape {
    /// The pace does not depend on the time of day.
    Flat,
    /// The whole day in UTC.
    AroundTheClock,
    Session {
        opens: VenueNanos,
        closes: VenueNanos,
    },
}

impl DayShape {
    fn pace(self, at: VenueNanos) -> f64 {
        let through = match self {
            DayShape::Flat => return 1.0,
            DayShape::AroundTheClock => (at.0 % DAY) as f64 / DAY as f64,
            DayShape::Session { opens, closes } => {
                let (gone, length) = (at.0.saturating_sub(opens.0), closes.0.saturating_sub(opens.0).max(1));
                (gone as f64 / length as f64).min(1.0)
            }
        };
        MIDDAY + ENDS * (2.0 * through - 1.0) * (2.0 * through - 1.0)
    }
}

/// A stretch of a second or less with one pace.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: u64,
    to: u64,
    /// Business time at `from`, in nanoseconds.
    business: u64,
    pace: f64,
}

impl Stretch {
    fn business_at(&self, at: u64) -> u64 {
        self.business + nanos(self.pace * (at - self.from) as f64 / NANOS_PER_SECOND)
    }

    fn business_end(&self) -> u64 {
        self.business_at(self.to)
    }
}

/// Business time of one instrument.
#[derive(Clone, Debug)]
pub struct ActivityClock {
    pub shape: DayShape,
    /// Logarithms of the parts of the activity, in standard deviations.
    parts: [f64; CONSTANTS_S.len()],
    /// Stretches in time order, without gaps. Stretches that have passed are removed.
    stretches: VecDeque<Stretch>,
    random: Random,
}

impl ActivityClock {
    /// Starts a clock whose business time is the venue time at `start`.
    pub fn new(shape: DayShape, start: VenueNanos, mut random: Random) -> ActivityClock {
        let parts = std::array::from_fn(|_| random.normal());
        let mut clock = ActivityClock { shape, parts, stretches: VecDeque::new(), random };
        clock.add_stretch(start.0, start.0);
        clock
    }

    fn add_stretch(&mut self, from: u64, business: u64) {
        for (part, constant) in self.parts.iter_mut().zip(CONSTANTS_S) {
            let kept = exp(-1.0 / constant);
            *part = *part * kept + (1.0 - kept * kept).sqrt() * self.random.normal();
        }
        let variance = SPREAD * SPREAD * CONSTANTS_S.len() as f64;
        let activity = exp(SPREAD * self.parts.iter().sum::<f64>() - variance / 2.0);
        let pace = (activity * self.shape.pace(VenueNanos(from))).clamp(PACE.0, PACE.1);
        self.stretches.push_back(Stretch { from, to: from.saturating_add(SECOND), business, pace });
    }

    /// Extends the stretches until `reached` is true of the last one.
    fn extend(&mut self, reached: impl Fn(&Stretch) -> bool) {
        while let Some(last) = self.stretches.back().copied() {
            if reached(&last) || last.to == u64::MAX {
                return;
            }
            self.add_stretch(last.to, last.business_end());
        }
    }

    /// Returns the venue time of a business time.
    pub fn venue_time(&mut self, business: VenueNanos) -> VenueNanos {
        self.extend(|stretch| stretch.business_end() >= business.0);
        let at = self.stretches.partition_point(|stretch| stretch.business_end() < business.0);
        let Some(stretch) = self.stretches.get(at) else { return VenueNanos(u64::MAX) };
        let gone = business.0.saturating_sub(stretch.business) as f64 / NANOS_PER_SECOND;
        VenueNanos((stretch.from + nanos(gone / stretch.pace)).min(stretch.to))
    }

    /// Returns the business time of a venue time, and the pace then.
    pub fn business_time(&mut self, at: VenueNanos) -> (VenueNanos, f64) {
        self.extend(|stretch| stretch.to >= at.0);
        let place = self.stretches.partition_point(|stretch| stretch.to < at.0);
        match self.stretches.get(place) {
            Some(stretch) if at.0 >= stretch.from => (VenueNanos(stretch.business_at(at.0)), stretch.pace),
            Some(stretch) => (VenueNanos(stretch.business), stretch.pace),
            None => (at, 1.0),
        }
    }

    /// Returns the business time of a venue time that the clock has reached, or its nearest time.
    pub fn known_business_time(&self, at: VenueNanos) -> VenueNanos {
        let place = self.stretches.partition_point(|stretch| stretch.to < at.0);
        let stretch = self.stretches.get(place).or_else(|| self.stretches.back());
        stretch.map_or(at, |stretch| VenueNanos(stretch.business_at(at.0.clamp(stretch.from, stretch.to))))
    }

    /// Forgets the time before `at`.
    pub fn forget_before(&mut self, at: VenueNanos) {
        while self.stretches.len() > 1 && self.stretches.front().is_some_and(|stretch| stretch.to < at.0) {
            self.stretches.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_agree_and_never_go_back() {
        let start = VenueNanos(1_767_225_600_000_000_000);
        let mut clock = ActivityClock::new(DayShape::AroundTheClock, start, Random::new(3, 1));
        let (mut business, mut before) = (start, start);
        for step in 0..20_000_u64 {
            business = VenueNanos(business.0 + 1 + step * 7919 % 700_000_000);
            let at = clock.venue_time(business);
            assert!(at >= before, "time went back");
            let (again, _) = clock.business_time(at);
            assert!(again.0.abs_diff(business.0) <= 20, "{again} and {business}");
            before = at;
            clock.forget_before(at);
            assert!(clock.stretches.len() < 5);
        }
    }

    #[test]
    fn the_day_has_a_u_shape_with_mean_one() {
        const HOUR: u64 = 3_600 * SECOND;
        let shape = DayShape::Session { opens: VenueNanos(9 * HOUR), closes: VenueNanos(17 * HOUR) };
        let paces: Vec<f64> = (0..480).map(|m| shape.pace(VenueNanos(9 * HOUR + (2 * m + 1) * 30 * SECOND))).collect();
        let mean = paces.iter().sum::<f64>() / 480.0;
        assert!((mean - 1.0).abs() < 0.001, "{mean}");
        assert!(paces[0] > 3.0 * paces[240] && paces[479] > 3.0 * paces[240]);
        assert_eq!(DayShape::Flat.pace(VenueNanos(5)), 1.0);
    }

    #[test]
    fn the_random_activity_has_mean_one_and_clusters() {
        let mut clock = ActivityClock::new(DayShape::Flat, VenueNanos(0), Random::new(11, 1));
        // The mean of a single clock over a run varies too much.
        let (mut sum, mut count, mut alike) = (0.0, 0.0, 0.0);
        for seed in 0..400 {
            clock = ActivityClock::new(DayShape::Flat, VenueNanos(0), Random::new(seed, 1));
            let (_, first) = clock.business_time(VenueNanos(SECOND / 2));
            let (_, later) = clock.business_time(VenueNanos(60 * SECOND));
            sum += first;
            count += 1.0;
            alike += crate::math::ln(first) * crate::math::ln(later);
        }
        assert!((sum / count - 1.0_f64).abs() < 0.15, "{}", sum / count);
        assert!(alike / count > 0.2, "{}", alike / count);
        assert!(clock.stretches.len() == 60);
    }
}
