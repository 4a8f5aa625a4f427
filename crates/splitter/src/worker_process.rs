//! The workers' program: starting, watching and ending it.
//!
//! Does        passes the workers' ends as last arguments; notices the end of the program; ends it
//!             with SIGTERM, then SIGKILL.
//! Holds       the program dies with the thread that started it (PR_SET_PDEATHSIG), however that
//!             thread dies.
//! Start at    [`WorkerProcess::start`].

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{self, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::transport_error::TransportError;
use crate::worker_ends::WorkerEnds;

/// Polling interval while waiting for the end of the program.
const GLANCE: Duration = Duration::from_millis(2);

/// The program to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerProgram {
    pub command: String,
    pub arguments: Vec<String>,
    /// Its working directory; `None` for that of the splitter.
    pub workdir: Option<PathBuf>,
}

pub(crate) struct WorkerProcess {
    name: String,
    id: u32,
    handle: OwnedFd,
    watch: Arc<ProcessStatus>,
}

#[derive(Default)]
struct ProcessStatus {
    is_over: AtomicBool,
    status: Mutex<Option<ExitStatus>>,
}

/// A program that is being started, with the value that `make` returned.
pub(crate) type PendingStart<T> = Receiver<Result<(T, WorkerProcess), TransportError>>;

impl WorkerProcess {
    /// Starts the program and waits until it runs.
    ///
    /// # Errors
    /// If the thread or the program cannot be started.
    pub fn start(program: &WorkerProgram, ends: WorkerEnds) -> Result<Self, TransportError> {
        let starting = Self::begin(program.clone(), move || Ok(((), ends)))?;
        // The thread always sends an answer before it ends.
        starting.recv().unwrap_or_else(|_| Err(thread_gone())).map(|((), child)| child)
    }

    /// Starts the program on a new thread, after `make` has made the workers' ends there. The
    /// thread then waits for the end of the program, because the program dies with the thread that
    /// started it. Dropping the receiver ends the program.
    ///
    /// # Errors
    /// If the thread cannot be started. The receiver gets the errors of `make` and of the start.
    pub fn begin<T: Send + 'static>(
        program: WorkerProgram,
        make: impl FnOnce() -> Result<(T, WorkerEnds), TransportError> + Send + 'static,
    ) -> Result<PendingStart<T>, TransportError> {
        let (answer, starting) = sync_channel(1);
        let name = program.command.clone();
        let run = move || {
            let started = make().and_then(|(made, ends)| Ok((made, launch(&program, ends)?)));
            let (made, (mut process, handle)) = match started {
                Ok(started) => started,
                Err(failure) => {
                    // The receiver may be gone.
                    let _ = answer.send(Err(failure));
                    return;
                }
            };
            let watch = Arc::new(ProcessStatus::default());
            let child = WorkerProcess { name: program.command, id: process.id(), handle, watch: Arc::clone(&watch) };
            // If the receiver is gone, dropping the process ends it.
            let _ = answer.send(Ok((made, child)));
            let status = process.wait().ok();
            *watch.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
            watch.is_over.store(true, Ordering::Release);
        };
        let thread = std::thread::Builder::new().name("program".into()).spawn(run);
        let failed =
            |error| TransportError::new(format!("cannot start {name}: {error}"), "allow more threads (ulimit -u)");
        thread.map_err(failed)?;
        Ok(starting)
    }

    /// Returns whether the program has ended. Costs one load.
    pub fn is_over(&self) -> bool {
        self.watch.is_over.load(Ordering::Acquire)
    }

    /// Describes the end: `worker (process 17) ended with exit code 3`.
    pub fn verdict(&self) -> String {
        let status = *self.watch.status.lock().unwrap_or_else(PoisonError::into_inner);
        let how = match status {
            None => "has ended for an unknown reason".to_owned(),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("ended with exit code {code}"),
                (None, Some(signal)) => format!("was ended by signal {signal}"),
                (None, None) => format!("ended: {status}"),
            },
        };
        format!("{} (process {}) {how}", self.name, self.id)
    }

    /// Waits at most `longest`. Returns whether the program has ended.
    pub fn wait(&self, longest: Duration) -> bool {
        let until = Instant::now() + longest;
        while !self.is_over() && Instant::now() < until {
            std::thread::sleep(GLANCE);
        }
        self.is_over()
    }

    /// Sends SIGTERM without waiting.
    pub fn ask_to_end(&self) {
        let _ = pidfd_send_signal(&self.handle, Signal::TERM);
    }

    /// Sends SIGKILL without waiting.
    pub fn kill(&self) {
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
    }

    /// Sends SIGTERM, waits for `grace`, then sends SIGKILL.
    pub fn end(&self, grace: Duration) {
        self.ask_to_end();
        if !self.wait(grace) {
            self.kill();
            // SIGKILL cannot be ignored, but a process inside the kernel may take a moment.
            self.wait(Duration::from_secs(5));
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        if !self.is_over() {
            self.kill();
        }
    }
}

/// Starts the program with the workers' ends as its last arguments.
fn launch(program: &WorkerProgram, ends: WorkerEnds) -> Result<(process::Child, OwnedFd), TransportError> {
    let mut command = Command::new(&program.command);
    command.args(&program.arguments);
    // Ctrl-C is for the splitter only: the program still takes the records read, and then sees the
    // end.
    command.process_group(0);
    match &ends {
        WorkerEnds::Pipes(pipes) => command.args(pipes.iter().map(|pipe| pipe.as_raw_fd().to_string())),
        WorkerEnds::Rings(paths) => command.args(paths),
    };
    if let Some(workdir) = &program.workdir {
        command.current_dir(workdir);
    }
    let pipes: Vec<i32> = match &ends {
        WorkerEnds::Pipes(pipes) => pipes.iter().map(AsRawFd::as_raw_fd).collect(),
        WorkerEnds::Rings(_) => Vec::new(),
    };
    let parent = rustix::process::getpid();
    // SAFETY: only async-signal-safe system calls run between fork and exec; no allocation and no
    // lock.
    unsafe { command.pre_exec(move || prepare(&pipes, parent)) };
    let mut child = command.spawn().map_err(|error| no_start(program, &error))?;
    // Closes our copies of the read ends, so that writing fails once the program is gone.
    drop(ends);
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(rustix::io::Errno::SRCH);
    match id.and_then(|pid| pidfd_open(pid, PidfdFlags::empty())) {
        Ok(handle) => Ok((child, handle)),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(no_start(program, &error.into()))
        }
    }
}

pub(crate) fn thread_gone() -> TransportError {
    TransportError::new("the thread that starts the workers' program has ended", "start the splitter again")
}

/// Runs in the child before exec: keeps the pipes open, and makes the child die with its parent.
fn prepare(pipes: &[i32], parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    if rustix::process::getppid() != Some(parent) {
        return Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error()));
    }
    for pipe in pipes {
        // SAFETY: a copy of the parent's open descriptor, which nothing closes between fork and
        // exec.
        let pipe = unsafe { BorrowedFd::borrow_raw(*pipe) };
        fcntl_setfd(pipe, FdFlags::empty())?;
    }
    Ok(())
}

fn no_start(program: &WorkerProgram, error: &io::Error) -> TransportError {
    let place = program.workdir.as_ref().map(|place| format!(" in {}", place.display())).unwrap_or_default();
    TransportError::new(
        format!("cannot start {}{place}: {error}", program.command),
        "check the program's path, that it may be executed, and --workdir",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{TryRecvError, channel};

    use super::*;

    fn program(script: &str) -> WorkerProgram {
        WorkerProgram { command: "sh".into(), arguments: vec!["-c".into(), script.into()], workdir: None }
    }

    /// Making rings and starting a program may take long, and the caller goes on meanwhile.
    #[test]
    fn starting_a_program_does_not_block() {
        let (go, gone) = channel::<()>();
        let starting = WorkerProcess::begin(program("exit 7"), move || {
            gone.recv().unwrap();
            Ok(("made", WorkerEnds::Rings(Vec::new())))
        });
        let starting = starting.unwrap();
        assert!(matches!(starting.try_recv(), Err(TryRecvError::Empty)));
        go.send(()).unwrap();
        let (made, child) = starting.recv().unwrap().unwrap();
        assert!(child.wait(Duration::from_secs(20)));
        assert!(made == "made" && child.verdict().ends_with("ended with exit code 7"), "{}", child.verdict());
    }

    #[test]
    fn a_program_that_is_not_taken_is_ended() {
        let (go, gone) = channel::<()>();
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let starting = WorkerProcess::begin(program("while :; do sleep 1; done"), move || {
            gone.recv().unwrap();
            Ok((near, WorkerEnds::Rings(Vec::new())))
        });
        drop(starting);
        go.send(()).unwrap();
        // Everything made for it is dropped with it.
        let mut end = [0];
        assert_eq!(std::io::Read::read(&mut &far, &mut end).unwrap(), 0);
    }
}
