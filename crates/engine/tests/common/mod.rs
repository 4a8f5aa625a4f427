//! Shared parts of the random tests: a seeded generator, a small world, and a flow of commands.
#![allow(dead_code, reason = "each test binary uses its part")]

pub use pitwire_random::SplitMix64;

pub mod cells;
pub mod flow;
pub mod rows;
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
