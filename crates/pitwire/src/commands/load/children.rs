//! Splits a run across child processes when one process may not open enough files.
//!
//! Does        starts this program several times, starts their measurements together and adds up
//!             their reports.
//! Holds       A child writes JSON objects to its standard output, one per line: first its
//!             progress, at the end its report. Its standard input carries the start time. The
//!             child stops when its standard input closes.
//! Start at    [`run`] for the parent, [`serve`] for a child.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pitwire_load_generator::{
    LoadPlan, LoadReport, MeasurementStart, NEVER, RunControl, RunError, mono_ns, run as run_here,
};
use serde::{Deserialize, Serialize};

use pitwire_failure::Failure;
use pitwire_terminal::load_progress::{Progress, RunCounts};
use pitwire_terminal::output::say;

/// Delay between the start message and the start of the measurement, in nanoseconds. Every child
/// must read the message within this time.
const SETTLE_NS: i64 = 200_000_000;
const STEP: Duration = Duration::from_millis(50);
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// A message from a child to the parent.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ChildMessage {
    Progress { opened: u64, failed: u64, deliveries: u64, late: u64, lost: u64 },
    Report(Box<LoadReport>),
    Failed { what: String, remedy: String },
}

/// State of a child as known to the parent.
#[derive(Default)]
struct ChildState {
    counts: RunCounts,
    report: Option<LoadReport>,
    failed: Option<Failure>,
    has_ended: bool,
}

/// Runs one share of the plan as a child, and reports to the parent.
///
/// # Errors
/// Never; a failure goes to the parent as a message.
pub fn serve(plan: &LoadPlan, stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    let control = Arc::new(RunControl::default());
    let listener = Arc::clone(&control);
    // This thread ends with the process, because nothing else interrupts a read from standard
    // input.
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            match line.as_deref().map(str::parse::<i64>) {
                Ok(Ok(start_ns)) => listener.set_start_ns(start_ns),
                _ => break,
            }
        }
        listener.stop();
    });
    let mut next = Instant::now();
    let lead = |control: &RunControl| {
        if stop.load(Ordering::Relaxed) {
            control.stop();
        }
        if Instant::now() >= next {
            next = Instant::now() + PROGRESS_EVERY;
            let RunCounts { opened, failed, deliveries, late, lost, .. } = RunCounts::of(control);
            send(&ChildMessage::Progress { opened, failed, deliveries, late, lost });
        }
    };
    match run_here(plan, &control, MeasurementStart::OnSignal, lead) {
        Ok(report) => send(&ChildMessage::Report(Box::new(report))),
        Err(RunError::NothingOpened(refusal)) => {
            send(&ChildMessage::Failed { what: refusal.to_string(), remedy: refusal.remedy().into() });
        }
        Err(RunError::Machine(what)) => send(&ChildMessage::Failed { what, remedy: "see `pitwire doctor`".into() }),
    }
    Ok(())
}

/// Writes a message to the parent.
fn send(message: &ChildMessage) {
    // If the report cannot be written, the parent reports that it is missing.
    if let Ok(line) = serde_json::to_string(message) {
        say(&line);
    }
}

/// Runs the plan in `parts` child processes and adds up their reports.
///
/// # Errors
/// If a child cannot be started, ends early or sends no report.
pub fn run(
    parts: usize,
    plan: &LoadPlan,
    stop: &Arc<AtomicBool>,
    progress: &mut Progress,
) -> Result<LoadReport, Failure> {
    let mut children = Vec::new();
    for index in 0..parts {
        match start(plan, index, parts) {
            Ok(child) => children.push(child),
            Err(error) => {
                end(&mut children);
                return Err(Failure::new(format!("cannot start process {index} of {parts}: {error}"))
                    .remedy("raise the open-file limit, so that fewer are needed: ulimit -n"));
            }
        }
    }
    let states: Vec<Arc<Mutex<ChildState>>> = children.iter_mut().map(listen).collect();
    let outcome = lead(&mut children, &states, plan, stop, progress);
    end(&mut children);
    outcome
}

fn start(plan: &LoadPlan, index: usize, parts: usize) -> std::io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    // Later arguments override earlier ones. A step of --find-limit differs from the command line.
    command.args(std::env::args_os().skip(1)).args(["--connections", &plan.share.total.to_string()]);
    if let Some(arrivals) = plan.arrivals {
        let process = if arrivals.is_even { "even" } else { "poisson" };
        command.args(["--arrivals", &format!("{process}:{}/s", arrivals.per_s)]);
    }
    command.args(["--part", &format!("{index}/{parts}")]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

/// Starts a thread that reads a child's messages.
fn listen(child: &mut Child) -> Arc<Mutex<ChildState>> {
    let state = Arc::new(Mutex::new(ChildState::default()));
    let shared = Arc::clone(&state);
    let output = child.stdout.take();
    thread::spawn(move || {
        for line in output.into_iter().flat_map(|output| BufReader::new(output).lines()).map_while(Result::ok) {
            let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
            match serde_json::from_str(&line) {
                Ok(ChildMessage::Progress { opened, failed, deliveries, late, lost }) => {
                    state.counts = RunCounts { opened, failed, deliveries, late, lost, start_ns: NEVER };
                }
                Ok(ChildMessage::Report(report)) => state.report = Some(*report),
                Ok(ChildMessage::Failed { what, remedy }) => state.failed = Some(Failure::new(what).remedy(remedy)),
                Err(_) => {}
            }
        }
        shared.lock().unwrap_or_else(PoisonError::into_inner).has_ended = true;
    });
    state
}

fn lead(
    children: &mut [Child],
    states: &[Arc<Mutex<ChildState>>],
    plan: &LoadPlan,
    stop: &Arc<AtomicBool>,
    progress: &mut Progress,
) -> Result<LoadReport, Failure> {
    let mut start_ns = NEVER;
    let arrives = plan.traffic == pitwire_load_generator::Traffic::Listen && plan.arrivals.is_some();
    loop {
        let mut all = RunCounts { start_ns, ..RunCounts::default() };
        let mut running = 0;
        for one in states {
            let mut one = one.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(failure) = one.failed.take() {
                return Err(failure);
            }
            all.opened += one.counts.opened;
            all.failed += one.counts.failed;
            all.deliveries += one.counts.deliveries;
            all.late += one.counts.late;
            all.lost += one.counts.lost;
            running += usize::from(!one.has_ended);
        }
        progress.show_counts(&all);
        if running == 0 {
            return add_up(states);
        }
        if start_ns == NEVER && (arrives || all.opened + all.failed >= u64::from(plan.share.count)) {
            start_ns = mono_ns() + SETTLE_NS;
            for child in &mut *children {
                if let Some(input) = &mut child.stdin {
                    // If the child is gone, its missing report reveals that.
                    let _ = writeln!(input, "{start_ns}").and_then(|()| input.flush());
                }
            }
        }
        if stop.load(Ordering::Relaxed) {
            for child in &mut *children {
                child.stdin = None;
            }
        }
        thread::sleep(STEP);
    }
}

fn add_up(states: &[Arc<Mutex<ChildState>>]) -> Result<LoadReport, Failure> {
    let mut whole = LoadReport::default();
    for one in states {
        let report = one.lock().unwrap_or_else(PoisonError::into_inner).report.take();
        let report = report.ok_or_else(|| {
            Failure::new("a process of the load client ended without a report").remedy("see its error above")
        })?;
        whole.merge(report);
    }
    Ok(whole)
}

/// Ends all children, so that none outlives this process.
fn end(children: &mut [Child]) {
    for child in children.iter_mut() {
        child.stdin = None;
    }
    for child in children {
        // A child that is still running has no more results for us. Kill it instead of waiting.
        if !matches!(child.try_wait(), Ok(Some(_))) {
            let _ = child.kill();
        }
        let _ = child.wait();
    }
}
