//! The child processes that run and export simulations.
//!
//! Start at    [`simulate`] and [`export`], which return when the process has ended.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use pitwire_deribit::SimulationOptions;
use serde::Deserialize;

use super::run_record::{FLOW_FILE, RunState, RunSummary, arguments};
use super::run_store::{JOURNAL, RunStore, bytes_below};

/// Time between two looks at the request to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Time between two measurements of the space.
const MEASURE_EVERY: Duration = Duration::from_millis(500);
/// Bytes kept from the standard error of a process.
const ERROR_BYTES: u64 = 4 * 1024;

/// One line of standard output.
#[derive(Deserialize)]
#[serde(untagged)]
enum OutputLine {
    Progress { done: u64, total: u64 },
    Summary(RunSummary),
    Other {},
}

/// How a process ended.
enum ProcessEnd {
    Exited(ExitStatus, String),
    Stopped,
    /// The process was ended because the disk is full, or because the run used more than it may.
    BeyondBounds(String),
}

impl ProcessEnd {
    /// Returns the state of a run whose process ended so, and its error.
    fn outcome(self) -> (RunState, Option<String>) {
        match self {
            ProcessEnd::Exited(status, _) if status.success() => (RunState::Done, None),
            ProcessEnd::Exited(status, _) if status.signal().is_some() => {
                let signal = status.signal().unwrap_or_default();
                (RunState::Failed, Some(format!("signal {signal} ended the process of the run (start it again)")))
            }
            ProcessEnd::Exited(status, text) if text.trim().is_empty() => {
                let what = format!("the process of the run ended with {status} (look at the log of the venue)");
                (RunState::Failed, Some(what))
            }
            ProcessEnd::Exited(_, text) => (RunState::Failed, Some(text)),
            ProcessEnd::Stopped => (RunState::Stopped, None),
            ProcessEnd::BeyondBounds(why) => (RunState::Failed, Some(why)),
        }
    }
}

/// Runs a simulation to its end and keeps its report and its journal.
pub fn simulate(store: &RunStore, run: u64, program: &Path, options: &SimulationOptions, stops: &AtomicBool) {
    let directory = store.directory_of(run);
    let (state, error) = match prepare(store, run, options) {
        Ok(()) => {
            store.change_and_save(run, |_| {});
            let fixed = ["--out", JOURNAL, "--report", "--json", "--progress"].map(str::to_owned);
            let ended = follow(store, run, program, arguments(options).into_iter().chain(fixed), stops);
            ended.map_or_else(|why| (RunState::Failed, Some(why)), ProcessEnd::outcome)
        }
        Err(why) => (RunState::Failed, Some(why)),
    };
    if state == RunState::Done {
        for report in ["report.json", "report.html"] {
            let _ = fs::rename(directory.join(JOURNAL).join(report), directory.join(report));
        }
    } else {
        store.remove_files(&directory.join(JOURNAL));
    }
    store.measure(run);
    store.change_and_save(run, |record| record.end(state, error));
}

fn prepare(store: &RunStore, run: u64, options: &SimulationOptions) -> Result<(), String> {
    store.make_room(run)?;
    let directory = store.directory_of(run);
    let failed = |error: io::Error| format!("cannot write to {} ({error}; check the disk)", directory.display());
    fs::create_dir(&directory).map_err(failed)?;
    options.flow_file.as_ref().map_or(Ok(()), |text| fs::write(directory.join(FLOW_FILE), text)).map_err(failed)
}

/// Writes the tables of a finished run. A failure leaves the run done, with an error.
pub fn export(store: &RunStore, run: u64, program: &Path, format: &str, stops: &AtomicBool) {
    let tables = store.directory_of(run).join(format);
    store.remove_files(&tables);
    let arguments = ["export", JOURNAL, "--out", format, "--format", format, "--json"].map(str::to_owned);
    let ended = store.check_space().and_then(|()| follow(store, run, program, arguments.into_iter(), stops));
    let error = match ended.map(ProcessEnd::outcome) {
        Ok((RunState::Done, _)) => None,
        Ok((_, error)) => {
            store.remove_files(&tables);
            Some(error.unwrap_or_else(|| "the export was stopped (export again)".into()))
        }
        Err(why) => Some(why),
    };
    store.measure(run);
    store.change_and_save(run, |record| (record.state, record.error) = (RunState::Done, error));
}

/// Starts a process and follows it until it ends, or ends it.
fn follow(
    store: &RunStore,
    run: u64,
    program: &Path,
    arguments: impl Iterator<Item = String>,
    stops: &AtomicBool,
) -> Result<ProcessEnd, String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(store.directory_of(run));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        command.spawn().map_err(|error| format!("cannot start {} ({error}; try again)", program.display()))?;
    let (sender, lines) = channel();
    let is_of_member = store.record(run).is_some_and(|record| record.member.is_some());
    if is_of_member {
        limit_memory(&child, store.bounds.member_memory_bytes);
    }
    let readers = (child.stdout.take(), child.stderr.take());
    let output = readers.0.map(|stdout| thread::spawn(move || read_lines(stdout, &sender)));
    let errors = readers.1.map(|stderr| thread::spawn(move || read_errors(stderr)));
    let deadline = is_of_member.then(|| Instant::now() + store.bounds.member_time);
    let why = supervise(store, run, &mut child, &lines, stops, deadline);
    if why.is_some() {
        // It fails only if the process has ended by itself.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| format!("cannot wait for the process of the run: {error}"))?;
    drop(output.map(thread::JoinHandle::join));
    lines.try_iter().for_each(|line| take(store, run, line));
    let text = errors.and_then(|thread| thread.join().ok()).unwrap_or_default();
    Ok(why.unwrap_or(ProcessEnd::Exited(status, text)))
}

/// Limits the address space of a process. A process above the limit ends by itself.
fn limit_memory(child: &Child, bytes: u64) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        // It fails only if the process has ended already.
        let _ = prlimit(Some(Pid::from_child(child)), Resource::As, limit);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (child, bytes);
}

/// Takes lines of the process until it ends. Returns the reason if it must be ended.
fn supervise(
    store: &RunStore,
    run: u64,
    child: &mut Child,
    lines: &Receiver<OutputLine>,
    stops: &AtomicBool,
    deadline: Option<Instant>,
) -> Option<ProcessEnd> {
    let mut measured = Instant::now();
    loop {
        if stops.load(Ordering::Relaxed) {
            return Some(ProcessEnd::Stopped);
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let most_s = store.bounds.member_time.as_secs();
            let why = format!("the run of a member takes longer than {most_s} s (make it shorter)");
            return Some(ProcessEnd::BeyondBounds(why));
        }
        if measured.elapsed() >= MEASURE_EVERY {
            if let Err(why) = check_size(store, run).and_then(|()| store.check_space()) {
                return Some(ProcessEnd::BeyondBounds(why));
            }
            measured = Instant::now();
        }
        match lines.recv_timeout(LOOK_EVERY) {
            Ok(line) => take(store, run, line),
            Err(RecvTimeoutError::Timeout) => {}
            // Standard output is closed, so the process has ended or is about to.
            Err(RecvTimeoutError::Disconnected) => match child.try_wait() {
                Ok(None) => thread::sleep(LOOK_EVERY),
                _ => return None,
            },
        }
    }
}

fn check_size(store: &RunStore, run: u64) -> Result<(), String> {
    let most = store.bounds.run_bytes;
    if bytes_below(&store.directory_of(run)) <= most {
        return Ok(());
    }
    Err(format!("the run has more than {} MiB of files (make it shorter, or run `pitwire sim`)", most >> 20))
}

fn take(store: &RunStore, run: u64, line: OutputLine) {
    store.change(run, |record| {
        if record.state == RunState::Starting {
            record.state = RunState::Running;
        }
        match line {
            OutputLine::Progress { done, total } => (record.done, record.total) = (done, total),
            OutputLine::Summary(summary) => record.result = Some(summary),
            OutputLine::Other {} => {}
        }
    });
}

fn read_lines(stdout: ChildStdout, lines: &Sender<OutputLine>) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        if let Ok(line) = serde_json::from_str(&line) {
            // Sending fails only if the follower has ended.
            let _ = lines.send(line);
        }
    }
}

/// Returns the beginning of the standard error of a process as one line.
fn read_errors(mut stderr: ChildStderr) -> String {
    let mut text = Vec::new();
    let _ = stderr.by_ref().take(ERROR_BYTES).read_to_end(&mut text);
    let _ = io::copy(&mut stderr, &mut io::sink());
    let text = String::from_utf8_lossy(&text);
    let text = text.trim();
    text.strip_prefix("pitwire: ").unwrap_or(text).replace('\n', "; ")
}
