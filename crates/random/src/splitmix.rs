//! SplitMix64: the generator for everything but long streams of floating-point draws.

/// SplitMix64 (Steele, Lea and Flood 2014). Its state is one number, so a seed stands for a whole
/// run.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Creates a generator. Every seed is good, including zero.
    pub const fn new(seed: u64) -> Self {
        SplitMix64(seed)
    }

    /// Returns the next 64 random bits.
    #[inline]
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, or zero if `bound` is zero.
    ///
    /// It is the high half of a product (Lemire 2019). The bias is at most `bound / 2^64`.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the high half of a product of two 64-bit numbers
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }

    /// Returns a number below `bound` as a remainder, or zero if `bound` is zero.
    ///
    /// Only for the operations files of the benchmarks, whose published figures depend on this
    /// sequence.
    #[inline]
    pub const fn remainder(&mut self, bound: u64) -> u64 {
        let bits = self.next();
        if bound == 0 { 0 } else { bits % bound }
    }

    /// Like [`below`](Self::below), for 32-bit numbers.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // below a u32
    pub const fn below_u32(&mut self, bound: u32) -> u32 {
        self.below(bound as u64) as u32
    }

    /// Returns an index below `len`, or zero if `len` is zero.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // below a usize
    pub const fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns a number from `low` to `high`, both included.
    #[inline]
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns a signed number from `low` to `high`, both included.
    #[inline]
    pub const fn between_signed(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1).cast_unsigned()).cast_signed()
    }

    /// Returns true once in `n` draws on average.
    #[inline]
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns true in half of the draws: the lowest bit of the next number.
    #[inline]
    pub const fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// Returns one element of `from`.
    ///
    /// # Panics
    ///
    /// Panics if `from` is empty.
    #[inline]
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// Shuffles `items` (Fisher and Yates, from the end).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SplitMix64;

    #[test]
    fn the_sequence_is_the_published_one() {
        // The first outputs of Vigna's reference program for the seed 1234567.
        let mut random = SplitMix64::new(1_234_567);
        let first: [u64; 3] = std::array::from_fn(|_| random.next());
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn every_bounded_draw_reaches_all_values_and_none_beyond() {
        let mut random = SplitMix64::new(7);
        let mut seen = [[false; 10]; 3];
        for _ in 0..1_000 {
            seen[0][random.index(10)] = true;
            seen[1][usize::try_from(random.remainder(10)).unwrap()] = true;
            seen[2][usize::try_from(random.between_signed(-5, 4) + 5).unwrap()] = true;
        }
        assert_eq!(seen, [[true; 10]; 3]);
        assert_eq!((random.below(0), random.remainder(0), random.index(0)), (0, 0, 0));
    }

    #[test]
    fn a_shuffle_keeps_every_element() {
        let mut items: Vec<u32> = (0..100).collect();
        SplitMix64::new(3).shuffle(&mut items);
        assert_ne!(items[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
