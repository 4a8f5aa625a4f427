//! Shared parts of the random tests: a seeded generator, a small world, and a flow of commands.
#![allow(dead_code, reason = "each test binary uses its part")]

pub mod cells;
pub mod floor;
pub mod flow;
pub mod world;

/// Returns the seed from `TEST_SEED=…`, or a new seed for each run.
pub fn test_seed() -> u64 {
    match std::env::var("TEST_SEED") {
        Ok(text) => text.parse().expect("TEST_SEED is a number"),
        Err(_) => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            SplitMix64::new(u64::from(now.expect("a clock after 1970").subsec_nanos())).next() >> 16
        }
    }
}

/// SplitMix64 by Steele, Lea and Flood. Its state is one number, so a seed reproduces a whole run.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`. The bias is negligible for small bounds.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1).cast_unsigned()).cast_signed()
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn small(&mut self, bound: u32) -> u32 {
        u32::try_from(self.below(bound.into())).expect("it is below a u32")
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let at = self.small(u32::try_from(from.len()).expect("a short list"));
        from[at as usize]
    }
}
