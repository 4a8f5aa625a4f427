//! Runs a plan: starts the threads, begins measuring, merges the results.
//!
//! Start at    [`run`].

use std::time::Duration;

use crate::clock::mono_ns;
use crate::machine_load::MachineProbe;
use crate::open_failure::OpenFailure;
use crate::plan::{LoadPlan, Traffic};
use crate::report::LoadReport;
use crate::run_control::{NEVER, RunControl};
use crate::worker::{Worker, WorkerResult};

/// Interval at which `observe` is called.
const OBSERVE_INTERVAL: Duration = Duration::from_millis(50);
/// Delay between the last opened connection and the start of measuring, in nanoseconds.
const START_DELAY_NS: i64 = 100_000_000;

/// Why a run has no report.
#[derive(Debug)]
pub enum RunError {
    /// No connection opened.
    NothingOpened(OpenFailure),
    Machine(String),
}

/// The start of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasurementStart {
    /// Every connection is open or has failed.
    WhenOpen,
    /// The caller calls [`RunControl::set_start_ns`].
    OnSignal,
}

/// Runs `plan` to its end. Calls `observe` twenty times a second, which may stop the run.
///
/// # Errors
/// No connection opened, or this machine lacks a resource.
pub fn run(
    plan: &LoadPlan,
    control: &RunControl,
    start: MeasurementStart,
    mut observe: impl FnMut(&RunControl),
) -> Result<LoadReport, RunError> {
    let threads = plan.threads.clamp(1, plan.share.count.max(1) as usize);
    let mut probe = MachineProbe::new(plan.server);
    let results = std::thread::scope(|scope| {
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
            observe_machine(plan, control, &mut probe);
            observe(control);
            std::thread::sleep(OBSERVE_INTERVAL);
        }
        let joined = running.into_iter().map(|handle| match handle.join() {
            Ok(result) => result.map_err(RunError::Machine),
            Err(_) => Err(RunError::Machine("a thread of the load client panicked".into())),
        });
        joined.collect::<Result<Vec<WorkerResult>, RunError>>()
    })?;
    match control.fatal_failure() {
        Some(refusal) => Err(RunError::NothingOpened(refusal)),
        None => Ok(LoadReport { machine: probe.load(), ..add_up(results) }),
    }
}

fn begin(plan: &LoadPlan, control: &RunControl, start: MeasurementStart) {
    if start == MeasurementStart::OnSignal || control.start_ns() != NEVER {
        return;
    }
    let arrives = plan.traffic == Traffic::Listen && plan.arrivals.is_some();
    if arrives || is_open(plan, control) {
        control.set_start_ns(mono_ns() + START_DELAY_NS);
    }
}

/// Reads the use of processors at the start and at the end of measuring.
fn observe_machine(plan: &LoadPlan, control: &RunControl, probe: &mut MachineProbe) {
    let start_ns = control.start_ns();
    let lasts_ns = i64::try_from(plan.duration.as_nanos()).unwrap_or(NEVER);
    let now_ns = mono_ns();
    if start_ns != NEVER && now_ns >= start_ns {
        probe.start();
    }
    if now_ns >= start_ns.saturating_add(lasts_ns) {
        probe.finish();
    }
}

/// Returns whether every connection is open or has failed.
pub fn is_open(plan: &LoadPlan, control: &RunControl) -> bool {
    use std::sync::atomic::Ordering::Relaxed;
    control.opened.load(Relaxed) + control.failed.load(Relaxed) >= u64::from(plan.share.count)
}

fn add_up(results: Vec<WorkerResult>) -> LoadReport {
    let expected = results.iter().filter_map(|result| result.expected);
    let bounds = expected.reduce(|(first, last), (other, newest)| (first.min(other), last.max(newest)));
    let mut report = LoadReport::default();
    let mut last_sequences = Vec::new();
    for result in results {
        report.merge(result.report);
        last_sequences.extend(result.last_sequences);
    }
    if let Some((first, last)) = bounds.filter(|_| !report.spread.has_conflict()) {
        let missing = |had: &u64| last.saturating_sub((*had).max(first.saturating_sub(1)));
        report.counters.undelivered = last_sequences.iter().map(missing).sum();
        report.counters.late += report.counters.undelivered;
    }
    report
}
