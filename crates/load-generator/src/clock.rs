//! Clocks, and the CPU time of a thread.

use std::fs;

use rustix::time::{ClockId, Timespec, clock_gettime};

fn nanoseconds(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

pub fn mono_ns() -> i64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// Wall clock minus monotonic clock, in nanoseconds.
pub fn wall_ns() -> i64 {
    nanoseconds(clock_gettime(ClockId::Realtime)) - mono_ns()
}

pub fn timespec(ns: i64) -> Timespec {
    Timespec { tv_sec: ns.div_euclid(1_000_000_000), tv_nsec: ns.rem_euclid(1_000_000_000) }
}

/// How long this thread ran, and how long it was runnable without a processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTime {
    pub cpu_ns: u64,
    pub waiting_ns: u64,
}

impl CpuTime {
    pub fn now() -> Self {
        let cpu_ns = u64::try_from(nanoseconds(clock_gettime(ClockId::ThreadCPUTime))).unwrap_or(0);
        // A kernel without scheduler statistics reports no waiting time.
        let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let waiting_ns = text.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0);
        CpuTime { cpu_ns, waiting_ns }
    }

    pub fn since(self, before: CpuTime) -> CpuTime {
        CpuTime {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            waiting_ns: self.waiting_ns.saturating_sub(before.waiting_ns),
        }
    }
}
