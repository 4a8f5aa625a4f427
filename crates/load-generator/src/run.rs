//! A run: threads started, begun together, added up.
//!
//! Start at    [`run`].

use std::time::Duration;

use crate::clock::mono_ns;
use crate::control::{Control, NEVER};
use crate::plan::{Plan, Traffic};
use crate::refusal::Refusal;
use crate::report::Report;
use crate::worker::{Outcome, Worker};

/// So often whoever leads is asked.
const STEP: Duration = Duration::from_millis(50);
/// From the last connection to the first message that is measured.
const SETTLE_NS: i64 = 100_000_000;

/// Why there is no report.
#[derive(Debug)]
pub enum RunError {
    /// Not one connection opened.
    Hopeless(Refusal),
    Machine(String),
}

/// Who says when measuring begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// As soon as every connection is open or has failed.
    WhenOpen,
    /// [`Control::start_at`], from outside.
    WhenTold,
}

/// Runs `plan` to its end. `lead` is called several times a second, and may stop it.
pub fn run(plan: &Plan, control: &Control, start: Start, mut lead: impl FnMut(&Control)) -> Result<Report, RunError> {
    let threads = plan.threads.clamp(1, plan.share.count.max(1) as usize);
    let outcomes = std::thread::scope(|scope| {
        let mut running = Vec::new();
        for index in 0..threads {
            let share = plan.share.part(index, threads);
            let worker = move || Worker::new(plan, share, control, index)?.run();
            let spawned = std::thread::Builder::new().name(format!("load-{index}")).spawn_scoped(scope, worker);
            match spawned {
                Ok(handle) => running.push(handle),
                Err(error) => {
                    control.stop();
                    return Err(RunError::Machine(format!("cannot start a thread: {error}")));
                }
            }
        }
        while running.iter().any(|handle| !handle.is_finished()) {
            begin(plan, control, start);
            lead(control);
            std::thread::sleep(STEP);
        }
        let joined = running.into_iter().map(|handle| match handle.join() {
            Ok(outcome) => outcome.map_err(RunError::Machine),
            Err(_) => Err(RunError::Machine("a thread of the load client died".into())),
        });
        joined.collect::<Result<Vec<Outcome>, RunError>>()
    })?;
    match control.hopeless() {
        Some(refusal) => Err(RunError::Hopeless(refusal)),
        None => Ok(add_up(outcomes)),
    }
}

fn begin(plan: &Plan, control: &Control, start: Start) {
    if start == Start::WhenTold || control.start_ns() != NEVER {
        return;
    }
    let arrives = plan.traffic == Traffic::Listen && plan.arrivals.is_some();
    if arrives || is_open(plan, control) {
        control.start_at(mono_ns() + SETTLE_NS);
    }
}

/// Whether every connection is open or has failed.
pub fn is_open(plan: &Plan, control: &Control) -> bool {
    use std::sync::atomic::Ordering::Relaxed;
    control.opened.load(Relaxed) + control.failed.load(Relaxed) >= u64::from(plan.share.count)
}

fn add_up(outcomes: Vec<Outcome>) -> Report {
    let expected = outcomes.iter().filter_map(|outcome| outcome.expected);
    let bounds = expected.reduce(|(first, last), (other, newest)| (first.min(other), last.max(newest)));
    let mut report = Report::default();
    let mut lasts = Vec::new();
    for outcome in outcomes {
        report.merge(outcome.report);
        lasts.extend(outcome.lasts);
    }
    if let Some((first, last)) = bounds.filter(|_| !report.spread.is_torn()) {
        let missing = |had: &u64| last.saturating_sub((*had).max(first.saturating_sub(1)));
        report.tally.undelivered = lasts.iter().map(missing).sum();
        report.tally.late += report.tally.undelivered;
    }
    report
}
