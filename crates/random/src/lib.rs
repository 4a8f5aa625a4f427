//! Deterministic random numbers from a seed, for simulations, synthetic feeds and tests.
//!
//! Does        draw 64-bit numbers and the few uniform choices that the workspace needs.
//! Holds       1. equal seeds give equal sequences on every machine;
//!             2. the sequences never change: golden journals, tape hashes and recorded feeds
//!                depend on them.
//! Leaves out  1. secrets: never use these numbers for keys, tokens or random auction ends;
//!             2. distributions that need logarithms: they are in `crates/order-flow`.
//! Start at    [`SplitMix64`] for nearly everything, [`Xoshiro256`] for long streams of `f64`.

mod splitmix;
mod xoshiro;

pub use splitmix::SplitMix64;
pub use xoshiro::Xoshiro256;
