//! Distributions over one seeded generator.
//!
//! Does        draw exponential, normal and heavy-tailed numbers for the order flow.
//! Holds       equal seeds and streams give equal draws on every machine: `exp` and `ln` are our
//!             own.
//! Leaves out  secrecy: the order flow is a simulation. Random auction ends come from elsewhere.
//! Start at    [`Random`].

use pitwire_random::Xoshiro256;

use crate::math::{exp, ln};

/// A generator with the distributions that the order flow draws from.
#[derive(Clone, Debug)]
pub struct Random {
    uniform: Xoshiro256,
    /// The polar method makes two normal numbers at a time; this is the second one.
    spare_normal: Option<f64>,
}

impl Random {
    /// Creates the generator of one stream. The draws of one instrument do not change those of
    /// another.
    pub fn new(seed: u64, stream: u64) -> Self {
        Random { uniform: Xoshiro256::new(seed, stream), spare_normal: None }
    }

    /// Returns a uniform number on (0, 1), both ends excluded.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        self.uniform.unit()
    }

    /// Returns a uniform number on `0..bound`; zero for a `bound` of zero.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        self.uniform.below(bound)
    }

    /// Returns true with the given probability.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Returns an exponential number with the given mean.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -ln(self.unit()) * mean
    }

    /// Returns a standard normal number by the polar method (Marsaglia and Bray 1964), which needs
    /// no sine.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare_normal.take() {
            return spare;
        }
        /// Bound of the loop. A point misses the disc with probability 0.215, so the bound is never
        /// reached.
        const MAX_MISSES: usize = 256;
        for _ in 0..MAX_MISSES {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square < 1.0 && square > 0.0 {
                let factor = (-2.0 * ln(square) / square).sqrt();
                self.spare_normal = Some(y * factor);
                return x * factor;
            }
        }
        0.0
    }

    /// Returns a log-normal number around 1, with a Pareto tail of index 3/2 in three draws of a
    /// hundred. It never exceeds `max`.
    pub fn heavy_tailed(&mut self, spread: f64, max: f64) -> f64 {
        const TAIL_SHARE: f64 = 0.03;
        const TAIL_INDEX: f64 = 1.5;
        let body = exp(spread * self.normal());
        let tail = if self.chance(TAIL_SHARE) { exp(self.exponential(1.0 / TAIL_INDEX)) } else { 1.0 };
        (body * tail).min(max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distributions_have_their_moments() {
        let mut random = Random::new(7, 0);
        const DRAWS: u32 = 200_000;
        let mut sums = [0.0; 6];
        for _ in 0..DRAWS {
            let (unit, wait, normal) = (random.unit(), random.exponential(2.0), random.normal());
            assert!(unit > 0.0 && unit < 1.0 && wait > 0.0);
            for (sum, value) in sums.iter_mut().zip([unit, wait, wait * wait, normal, normal * normal, normal.powi(4)])
            {
                *sum += value / f64::from(DRAWS);
            }
        }
        for (got, want) in sums.into_iter().zip([0.5, 2.0, 8.0, 0.0, 1.0, 3.0]) {
            assert!((got - want).abs() < 0.01 + 0.02 * want, "{got} is not near {want}");
        }
    }
}
