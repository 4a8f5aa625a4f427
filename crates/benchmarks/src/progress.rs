//! The progress of a benchmark, as counters that another thread reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Steps of a benchmark. Counting a step costs a few nanoseconds and no system call.
#[derive(Debug, Default)]
pub struct BenchProgress {
    done: AtomicU64,
    total: AtomicU64,
}

impl BenchProgress {
    /// Plans further steps.
    pub fn plan(&self, steps: u64) {
        self.total.fetch_add(steps, Relaxed);
    }

    /// Counts steps that are done.
    pub fn add(&self, steps: u64) {
        self.done.fetch_add(steps, Relaxed);
    }

    /// Returns the steps that are done, and all steps.
    pub fn read(&self) -> (u64, u64) {
        (self.done.load(Relaxed), self.total.load(Relaxed))
    }
}
