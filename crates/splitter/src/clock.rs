//! The monotonic clock, the wall clock and CPU time.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Returns the monotonic time in nanoseconds.
pub(crate) fn mono_ns() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// Returns nanoseconds since 1970.
pub(crate) fn epoch_ns() -> u64 {
    nanos(clock_gettime(ClockId::Realtime))
}

/// Returns the CPU time of this thread in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

/// Returns the CPU time of all threads of this process, including those that ended, in nanoseconds.
pub(crate) fn process_cpu_ns() -> u64 {
    nanos(clock_gettime(ClockId::ProcessCPUTime))
}

fn nanos(time: Timespec) -> u64 {
    let (seconds, rest) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    seconds * 1_000_000_000 + rest
}
