//! The one source of chance: a seeded generator, and the few distributions drawn from it.
//!
//! Holds       equal seeds and streams give equal draws; streams of one seed do not overlap in practice.
//! Leaves out  secrecy: this is for simulation, never for keys or random auction ends.

use crate::math::{exp, ln};

/// xoshiro256++ (Blackman and Vigna 2019), seeded through SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
    spare_normal: Option<f64>,
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    /// An independent generator for each stream, so that one instrument's draws do not move another's.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut mixer = seed;
        let mut mixer = split_mix(&mut mixer) ^ stream.wrapping_mul(0xd134_2543_de82_ef95);
        let state = std::array::from_fn(|_| split_mix(&mut mixer));
        Random { state, spare_normal: None }
    }

    #[inline]
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform on (0, 1), both ends excluded: 52 bits and a half.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1_u64 << 52) as f64;
        ((self.bits() >> 12) as f64 + 0.5) * STEP
    }

    /// Uniform on `0..n`, by multiplication (Lemire 2019); its bias of n/2^64 is beyond measuring. Zero for `n` zero.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the high half of a product of two 64-bit numbers
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -ln(self.unit()) * mean
    }

    /// Standard normal, by the polar method (Marsaglia and Bray 1964): it needs no sine.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare_normal.take() {
            return spare;
        }
        /// A point misses the disc with probability 0.215; so many misses in a row do not happen.
        const MOST_MISSES: usize = 256;
        for _ in 0..MOST_MISSES {
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

    /// Log-normal about 1 with a Pareto tail of index 3/2 on three draws in a hundred; never above `most`.
    pub fn heavy_tailed(&mut self, spread: f64, most: f64) -> f64 {
        const TAIL_SHARE: f64 = 0.03;
        const TAIL_INDEX: f64 = 1.5;
        let body = exp(spread * self.normal());
        let tail = if self.chance(TAIL_SHARE) { exp(self.exponential(1.0 / TAIL_INDEX)) } else { 1.0 };
        (body * tail).min(most)
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
    fn streams_and_seeds_differ_and_below_reaches_every_value() {
        let first = |seed, stream| Random::new(seed, stream).bits();
        assert_eq!(first(1, 1), first(1, 1));
        assert!(first(1, 1) != first(1, 2) && first(1, 1) != first(2, 1) && first(0, 0) != 0);
        let mut random = Random::new(3, 3);
        let mut seen = [0; 5];
        for _ in 0..5000 {
            seen[usize::try_from(random.below(5)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
