//! When requests are sent: one after another, or at a fixed rate.
//!
//! Holds       at a fixed rate a latency counts from the due time, whatever delays the request.
//! Start at    [`measure`].

use std::future::Future;
use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use pitwire_benchmarks::orders::{Latencies, nanoseconds};
use pitwire_client::Error;
use rustix::thread::set_current_timer_slack;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

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

    /// Returns the due times of `count` requests from `start` on. Each is sent at its time.
    pub fn due_times(rate: NonZeroU64, count: u64, start: Instant) -> mpsc::UnboundedReceiver<Instant> {
        let (sender, due_times) = mpsc::unbounded_channel();
        // A timer of the runtime has a resolution of 1 ms, so a thread keeps the time.
        thread::spawn(move || {
            // Without it the kernel delays a timer by up to 50 us. If it fails, latencies are
            // larger.
            let _ = set_current_timer_slack(NonZeroU64::new(1));
            for number in 0..count {
                let due = start + due_after(rate, number);
                thread::sleep(due.saturating_duration_since(Instant::now()));
                if sender.send(due).is_err() {
                    return;
                }
            }
        });
        due_times
    }
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
    F: Future<Output = Result<Instant, Error>> + Send + 'static,
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
    let mut due_times = Pacing::due_times(rate, count, Instant::now());
    let mut running = JoinSet::new();
    let mut record = |done: (Instant, Result<Instant, Error>)| {
        latencies.record(nanoseconds(done.1?.saturating_duration_since(done.0)));
        Ok::<(), Error>(())
    };
    loop {
        tokio::select! {
            due = due_times.recv() => {
                let Some(due) = due else { break };
                let work = operation();
                running.spawn(async move { (due, work.await) });
            }
            Some(Ok(done)) = running.join_next() => record(done)?,
        }
    }
    while let Some(done) = running.join_next().await {
        // Operations do not panic.
        if let Ok(done) = done {
            record(done)?;
        }
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
