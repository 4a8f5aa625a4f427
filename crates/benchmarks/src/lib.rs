//! The benchmarks behind `pitwire engine-bench`, `order-bench`, `journal-bench` and `feed-bench`.
//!
//! Does        generate the load, run it, time it, and return the figures.
//! Leaves out  arguments and printing, which are in `crates/pitwire`; starting venues and comparing
//!             builds, which are in `scripts/bench.py`.
//! Start at    [`engine::time_run`], [`orders::pairs::measure`], `journal::JournalBenchmark`.

pub mod engine;
#[cfg(feature = "feed")]
pub mod feed;
#[cfg(feature = "journal")]
pub mod journal;
pub mod orders;
mod progress;

pub use progress::BenchProgress;
