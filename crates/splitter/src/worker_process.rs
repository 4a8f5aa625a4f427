//! The workers' program: started, watched, ended.
//!
//! Does        hand the workers' sides over as last arguments; notice its death; end it politely, then not.
//! Holds       it dies with the thread that started it (PR_SET_PDEATHSIG), however that dies.
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

/// How often its end is looked for while it is waited for.
const GLANCE: Duration = Duration::from_millis(2);

/// What to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerProgram {
    pub command: String,
    pub arguments: Vec<String>,
    /// Where; the splitter's own directory when none is given.
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

/// A program on its way, with what was made for it.
pub(crate) type PendingStart<T> = Receiver<Result<(T, WorkerProcess), TransportError>>;

impl WorkerProcess {
    pub fn start(program: &WorkerProgram, ends: WorkerEnds) -> Result<Self, TransportError> {
        let starting = Self::begin(program.clone(), move || Ok(((), ends)))?;
        // The thread says something before it ends.
        starting.recv().unwrap_or_else(|_| Err(thread_gone())).map(|((), child)| child)
    }

    /// Has a thread of its own make the workers' sides and start the program, and then wait for its end: the program
    /// dies with the thread that started it. Nothing here waits; whoever does not take the answer ends the program.
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
                    // Nobody asks any more.
                    let _ = answer.send(Err(failure));
                    return;
                }
            };
            let watch = Arc::new(ProcessStatus::default());
            let child = WorkerProcess { name: program.command, id: process.id(), handle, watch: Arc::clone(&watch) };
            // Not taken, it is dropped, and that ends it.
            let _ = answer.send(Ok((made, child)));
            let status = process.wait().ok();
            *watch.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
            watch.is_over.store(true, Ordering::Release);
        };
        let thread = std::thread::Builder::new().name("program".into()).spawn(run);
        let told =
            |error| TransportError::new(format!("cannot start {name}: {error}"), "allow more threads (ulimit -u)");
        thread.map_err(told)?;
        Ok(starting)
    }

    /// Whether it has ended; costs a load.
    pub fn is_over(&self) -> bool {
        self.watch.is_over.load(Ordering::Acquire)
    }

    /// `worker (process 17) ended with exit code 3`.
    pub fn verdict(&self) -> String {
        let status = *self.watch.status.lock().unwrap_or_else(PoisonError::into_inner);
        let how = match status {
            None => "has ended, nobody knows how".to_owned(),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("ended with exit code {code}"),
                (None, Some(signal)) => format!("was ended by signal {signal}"),
                (None, None) => format!("ended: {status}"),
            },
        };
        format!("{} (process {}) {how}", self.name, self.id)
    }

    /// Waits, for so long at most; whether it is over.
    pub fn wait(&self, longest: Duration) -> bool {
        let until = Instant::now() + longest;
        while !self.is_over() && Instant::now() < until {
            std::thread::sleep(GLANCE);
        }
        self.is_over()
    }

    /// Asks it to end, and does not wait.
    pub fn ask_to_end(&self) {
        let _ = pidfd_send_signal(&self.handle, Signal::TERM);
    }

    /// WorkerEnds it, and does not wait.
    pub fn kill(&self) {
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
    }

    /// Asks it to end, waits for so long, then ends it.
    pub fn end(&self, grace: Duration) {
        self.ask_to_end();
        if !self.wait(grace) {
            self.kill();
            // Nothing can ignore that; a process inside the kernel may take a moment.
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

/// Starts it with the workers' sides as its last arguments.
fn launch(program: &WorkerProgram, ends: WorkerEnds) -> Result<(process::Child, OwnedFd), TransportError> {
    let mut command = Command::new(&program.command);
    command.args(&program.arguments);
    // A Ctrl-C is for us: the program still takes what was read, and then sees the end.
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
    // SAFETY: between fork and exec only system calls that are safe there: no memory is taken, no lock.
    unsafe { command.pre_exec(move || prepare(&pipes, parent)) };
    let mut child = command.spawn().map_err(|error| no_start(program, &error))?;
    // The readers' ends close here: once the program is gone, writing says so.
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

/// In the child, before its program: keeps the pipes open, dies with its parent.
fn prepare(pipes: &[i32], parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    if rustix::process::getppid() != Some(parent) {
        return Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error()));
    }
    for pipe in pipes {
        // SAFETY: a copy of the parent's open descriptor, which nobody closes between fork and exec.
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

    /// Making rings and starting a program may take long; whoever asked for it goes on.
    #[test]
    fn nobody_waits_for_a_program_on_its_way() {
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
    fn a_program_that_nobody_takes_is_ended() {
        let (go, gone) = channel::<()>();
        let (told, hears) = std::os::unix::net::UnixStream::pair().unwrap();
        let starting = WorkerProcess::begin(program("while :; do sleep 1; done"), move || {
            gone.recv().unwrap();
            Ok((told, WorkerEnds::Rings(Vec::new())))
        });
        drop(starting);
        go.send(()).unwrap();
        // What was made for it is dropped with it.
        let mut end = [0];
        assert_eq!(std::io::Read::read(&mut &hears, &mut end).unwrap(), 0);
    }
}
