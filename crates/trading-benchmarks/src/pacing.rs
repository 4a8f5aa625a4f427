//! When requests are sent: one after another, or at a fixed rate.
//!
//! Holds       at a fixed rate a latency counts from the due time, whatever delays the request.
//! Start at    [`measure`].

use std::future::Future;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pitwire_benchmarks::orders::{Latencies, nanoseconds};
use pitwire_client::Error;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// Time between two requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// Each request waits for the answer to the one before.
    Closed,
    /// Requests per second, whether or not answers arrive.
    Open { rate: NonZeroU64 },
}

impl Pacing {
    pub const fn name(self) -> &'static str {
        match self {
            Pacing::Closed => "closed",
            Pacing::Open { .. } => "open",
        }
    }
}

/// The due times of requests at a fixed rate.
///
/// A timer of the runtime has a resolution of 1 ms, so a timer of the kernel wakes the event loop
/// of the client at the due time. It needs no thread, and no system call while requests are
/// overdue.
pub struct DueTimes {
    rate: NonZeroU64,
    start: Instant,
    /// Number of the next request.
    next: u64,
    count: u64,
    timer: AsyncFd<OwnedFd>,
    /// Number of the request for which the timer is set.
    set_for: Option<u64>,
}

impl DueTimes {
    /// Returns the due times of `count` requests from `start` on. Needs an event loop.
    ///
    /// # Errors
    ///
    /// Fails if the system has no timer left.
    pub fn new(rate: NonZeroU64, count: u64, start: Instant) -> Result<Self, Error> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK);
        let timer = timer.map_err(|errno| no_timer(errno.into()))?;
        // SAFETY: an `OwnedFd` returns the same descriptor and keeps it open until it is dropped.
        let timer = unsafe { AsyncFd::register(timer) }.map_err(|error| no_timer(error.into()))?;
        Ok(DueTimes { rate, start, next: 0, count, timer, set_for: None })
    }

    /// Waits until the next request is due. Returns its due time, or `None` after the last request.
    /// Dropping the future loses no due time.
    ///
    /// # Errors
    ///
    /// Fails if the timer cannot be set.
    pub async fn next(&mut self) -> Result<Option<Instant>, Error> {
        if self.next == self.count {
            return Ok(None);
        }
        self.wait().await?;
        self.next += 1;
        Ok(Some(self.due(self.next - 1)))
    }

    /// Waits until the next request is due, and does not count it as sent. Dropping the future
    /// loses nothing.
    ///
    /// # Errors
    ///
    /// As [`DueTimes::next`].
    pub async fn wait(&mut self) -> Result<(), Error> {
        loop {
            let wait = self.due(self.next).saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return Ok(());
            }
            if self.set_for != Some(self.next) {
                self.set(wait).map_err(no_timer)?;
                self.set_for = Some(self.next);
            }
            self.timer.readable().await.map_err(no_timer)?.clear_ready();
        }
    }

    /// Returns whether a request is due.
    pub fn is_due(&self) -> bool {
        self.next < self.count && self.due(self.next) <= Instant::now()
    }

    /// Returns the number of the next request if it is due, which then counts as sent.
    pub fn take_due(&mut self) -> Option<u64> {
        let number = self.is_due().then_some(self.next)?;
        self.next += 1;
        Some(number)
    }

    /// Returns the due time of a request. The first one has the number 0.
    pub fn due(&self, number: u64) -> Instant {
        self.start + due_after(self.rate, number)
    }

    fn set(&self, wait: Duration) -> io::Result<()> {
        let once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = Timespec::try_from(wait).map_err(io::Error::other)?;
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: once, it_value })?;
        Ok(())
    }
}

fn no_timer(error: io::Error) -> Error {
    Error::Lost { cause: format!("the timer of the due times: {error}") }
}

fn due_after(rate: NonZeroU64, number: u64) -> Duration {
    let ns = u128::from(number) * 1_000_000_000 / u128::from(rate.get());
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Runs `count` operations and records their latencies. An operation returns the time of its answer
/// and may do more after it.
///
/// # Errors
///
/// Returns the first error of an operation.
pub async fn measure<O, F>(pacing: Pacing, count: u64, operation: O) -> Result<Latencies, Error>
where
    O: Fn() -> F,
    F: Future<Output = Result<Instant, Error>>,
{
    let mut latencies = Latencies::new();
    let Pacing::Open { rate } = pacing else {
        for _ in 0..count {
            let started = Instant::now();
            let answered = operation().await?;
            latencies.record(nanoseconds(answered - started));
        }
        return Ok(latencies);
    };
    let mut due_times = DueTimes::new(rate, count, Instant::now())?;
    let mut running = FuturesUnordered::new();
    let mut record = |(due, answered): (Instant, Result<Instant, Error>)| {
        latencies.record(nanoseconds(answered?.saturating_duration_since(due)));
        Ok::<(), Error>(())
    };
    loop {
        tokio::select! {
            due = due_times.next() => {
                let Some(due) = due? else { break };
                let work = operation();
                running.push(async move { (due, work.await) });
            }
            Some(done) = running.next() => record(done)?,
        }
    }
    while let Some(done) = running.next().await {
        record(done)?;
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Mutex;

    use super::*;

    #[test]
    fn due_times_follow_the_rate_without_drift() {
        let rate = NonZeroU64::new(3).unwrap();
        assert_eq!(due_after(rate, 1), Duration::from_nanos(333_333_333));
        assert_eq!(due_after(rate, 3_000_000_000), Duration::from_secs(1_000_000_000));
    }

    #[tokio::test]
    async fn each_due_request_is_taken_once() {
        let hour = Duration::from_secs(3600);
        let start = Instant::now() - hour;
        let rate = NonZeroU64::new(1).unwrap();
        let mut due_times = DueTimes::new(rate, 2, start).unwrap();
        due_times.wait().await.unwrap();
        assert_eq!((due_times.take_due(), due_times.due(1)), (Some(0), start + Duration::from_secs(1)));
        assert_eq!(due_times.next().await.unwrap(), Some(due_times.due(1)));
        assert!(due_times.take_due().is_none() && !due_times.is_due());
        let later = DueTimes::new(rate, 1, Instant::now() + hour).unwrap().take_due();
        assert_eq!(later, None);
    }

    #[tokio::test]
    async fn latency_of_an_open_loop_includes_the_wait_behind_a_slow_answer() {
        const SERVICE: Duration = Duration::from_millis(20);
        // One request at a time takes 20 ms, and all ten are due within 1 ms.
        let server = Arc::new(Mutex::new(()));
        let serve = || {
            let server = Arc::clone(&server);
            async move {
                let _turn = server.lock().await;
                tokio::time::sleep(SERVICE).await;
                Ok(Instant::now())
            }
        };
        let pacing = Pacing::Open { rate: NonZeroU64::new(10_000).unwrap() };
        let open = measure(pacing, 10, serve).await.unwrap();
        // The last request waits for nine others.
        assert!(open.histogram().max() > 9 * nanoseconds(SERVICE));
        let closed = measure(Pacing::Closed, 10, serve).await.unwrap();
        assert_eq!((open.histogram().len(), closed.histogram().len()), (10, 10));
        assert!(closed.histogram().min() >= nanoseconds(SERVICE));
    }

    #[tokio::test]
    async fn failed_operation_ends_the_measurement() {
        let fail = || async { Err(Error::Lost { cause: "cut".into() }) };
        for pacing in [Pacing::Closed, Pacing::Open { rate: NonZeroU64::new(1000).unwrap() }] {
            assert!(measure(pacing, 3, fail).await.is_err());
        }
    }
}
