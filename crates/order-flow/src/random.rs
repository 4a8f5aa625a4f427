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
    spare: Option<SpareNormal>,
}

/// A normal number that has been drawn and not returned.
#[derive(Clone, Copy, Debug)]
enum SpareNormal {
    Number(f64),
    /// One coordinate of a point in the unit disc, and the squared distance of the point from the
    /// centre. The number takes a logarithm, which is perhaps not needed.
    Point {
        coordinate: f64,
        square: f64,
    },
}

impl SpareNormal {
    fn number(self) -> f64 {
        match self {
            SpareNormal::Number(number) => number,
            SpareNormal::Point { coordinate, square } => coordinate * polar_factor(square),
        }
    }
}

fn polar_factor(square: f64) -> f64 {
    (-2.0 * ln(square) / square).sqrt()
}

impl Random {
    /// Creates the generator of one stream. The draws of one instrument do not change those of
    /// another.
    pub fn new(seed: u64, stream: u64) -> Self {
        Random { uniform: Xoshiro256::new(seed, stream), spare: None }
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
        if let Some(spare) = self.spare.take() {
            return spare.number();
        }
        let Some((x, y, square)) = self.point() else { return 0.0 };
        let factor = polar_factor(square);
        self.spare = Some(SpareNormal::Number(y * factor));
        x * factor
    }

    /// Returns what [`Random::normal`] would return, or `None` if that is below `low` or above
    /// `high`. Most numbers outside cost no logarithm.
    pub fn normal_between(&mut self, low: f64, high: f64) -> Option<f64> {
        let next = match self.spare.take() {
            Some(spare) => spare,
            None => match self.point() {
                Some((x, y, square)) => {
                    self.spare = Some(SpareNormal::Point { coordinate: y, square });
                    SpareNormal::Point { coordinate: x, square }
                }
                None => SpareNormal::Number(0.0),
            },
        };
        if let SpareNormal::Point { coordinate, square } = next {
            // -ln(s) >= 1 - s, so the square of the number is at least this. The factor is a margin
            // for rounding.
            let least = 0.999 * 2.0 * (1.0 - square) / square * coordinate * coordinate;
            let bound = if coordinate < 0.0 { -low } else { high };
            if bound < 0.0 || least > bound * bound {
                return None;
            }
        }
        Some(next.number()).filter(|number| (low..=high).contains(number))
    }

    /// Returns a point in the unit disc without its centre, and the square of its distance from
    /// the centre.
    fn point(&mut self) -> Option<(f64, f64, f64)> {
        /// Bound of the loop. A point misses the disc with probability 0.215, so the bound is never
        /// reached.
        const MAX_MISSES: usize = 256;
        for _ in 0..MAX_MISSES {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square < 1.0 && square > 0.0 {
                return Some((x, y, square));
            }
        }
        None
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

    #[test]
    fn bounded_draws_are_the_normal_draws_inside_the_bounds() {
        let bounds = [
            (-0.05, 0.0),
            (0.0, 0.05),
            (-0.5, 2.0),
            (1.0, 1.5),
            (-3.0, -2.5),
            (0.3, -0.3),
            (f64::NEG_INFINITY, -1.0),
            (0.5, f64::INFINITY),
        ];
        let (mut plain, mut bounded) = (Random::new(7, 0), Random::new(7, 0));
        for number in 0..200_000 {
            let (low, high) = bounds[number % bounds.len()];
            let expected = plain.normal();
            // Unbounded draws may come between.
            let drawn = if number % 11 == 0 { Some(bounded.normal()) } else { bounded.normal_between(low, high) };
            let is_inside = number % 11 == 0 || (low..=high).contains(&expected);
            assert_eq!(drawn.map(f64::to_bits), is_inside.then_some(expected.to_bits()), "{number}");
        }
    }
}
