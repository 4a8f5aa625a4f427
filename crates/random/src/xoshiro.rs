//! xoshiro256++: the generator of the order flow, whose draws are mostly floating-point.

use crate::SplitMix64;

/// xoshiro256++ (Blackman and Vigna 2019), seeded through SplitMix64.
#[derive(Clone, Debug)]
pub struct Xoshiro256([u64; 4]);

impl Xoshiro256 {
    /// Creates the generator of one stream. Streams of one seed are independent, so the draws of
    /// one instrument do not change those of another.
    pub fn new(seed: u64, stream: u64) -> Self {
        let seed = SplitMix64::new(seed).next() ^ stream.wrapping_mul(0xd134_2543_de82_ef95);
        let mut mixer = SplitMix64::new(seed);
        Xoshiro256(std::array::from_fn(|_| mixer.next()))
    }

    /// Returns the next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
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

    /// Returns a uniform number on (0, 1), both ends excluded, with 52 bits and a half.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1_u64 << 52) as f64;
        ((self.next_u64() >> 12) as f64 + 0.5) * STEP
    }

    /// Returns a uniform number on `0..bound` by multiplication (Lemire 2019); zero for a `bound`
    /// of zero.
    ///
    /// The bias is at most `bound / 2^64`.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the high half of a product of two 64-bit numbers
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Xoshiro256;

    #[test]
    fn seeds_and_streams_give_different_sequences() {
        let first = |seed, stream| Xoshiro256::new(seed, stream).next_u64();
        assert_eq!(first(1, 1), first(1, 1));
        assert!(first(1, 1) != first(1, 2) && first(1, 1) != first(2, 1) && first(0, 0) != 0);
    }

    #[test]
    fn bounded_draws_are_uniform() {
        let mut random = Xoshiro256::new(3, 3);
        let mut seen = [0; 5];
        for _ in 0..5000 {
            seen[usize::try_from(random.below(5)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
