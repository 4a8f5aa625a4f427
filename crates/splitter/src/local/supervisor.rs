//! Supervises what reads the records: a program, restarted as the policy says, or built-in
//! counters.
//!
//! Does        starts, watches, restarts with growing delays, and ends it.
//! Leaves out  the records of a program that ended: see `local`.

use std::time::{Duration, Instant};

use crate::counters::{CounterResults, CounterThreads};
use crate::policy::SlowWorkerPolicy;
use crate::transport::TransportOptions;
use crate::transport_error::TransportError;
use crate::worker_ends::WorkerEnds;
use crate::worker_process::{PendingStart, WorkerProcess, WorkerProgram};

const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// After a run of this length the next restart has the shortest delay again.
const SOUND_RUN: Duration = Duration::from_secs(10);
/// After this many short runs in a row the program is not restarted.
const SHORT_RUNS: u32 = 10;

pub(super) struct Supervisor {
    child: Option<WorkerProcess>,
    counters: Option<CounterThreads>,
    started: Instant,
    due: Option<Instant>,
    /// When the program is killed, after the request to end.
    ends: Option<Instant>,
    pause: Duration,
    short_runs: u32,
    restarts: u64,
}

impl Supervisor {
    /// Starts the program of the workers, or threads that count in its place.
    ///
    /// # Errors
    /// If the program or a thread cannot be started, or for the policy `restart` without a program.
    pub fn start(options: &TransportOptions, ends: WorkerEnds) -> Result<Self, TransportError> {
        let (child, counters) = match &options.program {
            Some(program) => (Some(WorkerProcess::start(program, ends)?), None),
            None if options.policy == SlowWorkerPolicy::Restart => {
                return Err(TransportError::new(
                    "--on-slow restart without a program to start",
                    "name one after --, or choose spill, block, conflate or drop",
                ));
            }
            None => (None, Some(CounterThreads::start(ends)?)),
        };
        Ok(Self::of(child, counters))
    }

    pub(super) fn of(child: Option<WorkerProcess>, counters: Option<CounterThreads>) -> Self {
        let pause = SHORTEST_PAUSE;
        Self { child, counters, started: Instant::now(), due: None, ends: None, pause, short_runs: 0, restarts: 0 }
    }

    /// Returns whether the program has ended, and no restart is planned.
    pub fn is_over(&self) -> bool {
        self.due.is_none() && self.child.as_ref().is_some_and(WorkerProcess::is_over)
    }

    pub fn is_running(&self) -> bool {
        self.due.is_none() && self.ends.is_none() && self.child.is_some()
    }

    /// Returns whether a restart is planned.
    pub fn is_waiting(&self) -> bool {
        self.due.is_some()
    }

    pub fn is_due(&self) -> bool {
        self.due.is_some_and(|due| Instant::now() >= due)
    }

    pub fn verdict(&self) -> String {
        self.child.as_ref().map(WorkerProcess::verdict).unwrap_or_default()
    }

    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Asks the program to end. [`Supervisor::urge`] kills it after `grace`.
    pub fn ask_to_end(&mut self, grace: Duration) {
        if let Some(child) = &self.child {
            child.ask_to_end();
            self.ends = Some(Instant::now() + grace);
        }
    }

    /// Kills the program if it did not end in time.
    pub fn urge(&self) {
        if let (Some(child), Some(ends)) = (&self.child, self.ends)
            && Instant::now() >= ends
        {
            child.kill();
        }
    }

    pub fn may_restart(&self) -> bool {
        self.short_runs < SHORT_RUNS || self.started.elapsed() >= SOUND_RUN
    }

    /// Plans a restart and returns the delay.
    pub fn plan_restart(&mut self) -> Duration {
        if self.started.elapsed() >= SOUND_RUN {
            (self.pause, self.short_runs) = (SHORTEST_PAUSE, 0);
        }
        self.ends = None;
        let pause = self.pause;
        self.due = Some(Instant::now() + pause);
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        self.short_runs += 1;
        pause
    }

    /// Restarts the program on another thread, with what `make` makes for it. Does not block.
    ///
    /// # Errors
    /// If the thread cannot be started. The receiver gets the errors of `make` and of the start.
    pub fn restart<T: Send + 'static>(
        &mut self,
        program: WorkerProgram,
        make: impl FnOnce() -> Result<(T, WorkerEnds), TransportError> + Send + 'static,
    ) -> Result<PendingStart<T>, TransportError> {
        (self.started, self.due, self.child) = (Instant::now(), None, None);
        WorkerProcess::begin(program, make)
    }

    /// Takes over the restarted program.
    pub fn is_back(&mut self, child: WorkerProcess) {
        self.child = Some(child);
        self.restarts += 1;
    }

    /// Waits for the counters, or at most `patience` for the program, which is then asked to end
    /// and killed.
    pub fn finish(&mut self, patience: Duration, grace: Duration) -> (CounterResults, Option<String>) {
        let found = self.counters.take().map(CounterThreads::finish).unwrap_or_default();
        let program = self.child.take().map(|child| {
            if !child.wait(patience) {
                child.end(grace);
            }
            child.verdict()
        });
        (found, program)
    }
}
