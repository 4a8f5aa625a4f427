//! The workers' program: started, watched, ended.
//!
//! Does        hand the workers' sides over as last arguments; notice its death; end it politely, then not.
//! Holds       it dies with the thread that started it (PR_SET_PDEATHSIG), however that dies.
//! Start at    [`Child::start`].

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::lanes::Ends;
use crate::transport::Failure;

/// How often its end is looked for while it is waited for.
const GLANCE: Duration = Duration::from_millis(2);

/// What to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub command: String,
    pub arguments: Vec<String>,
    /// Where; the splitter's own directory when none is given.
    pub workdir: Option<PathBuf>,
}

pub(crate) struct Child {
    name: String,
    id: u32,
    handle: OwnedFd,
    watch: Arc<Watch>,
}

#[derive(Default)]
struct Watch {
    is_over: AtomicBool,
    status: Mutex<Option<ExitStatus>>,
}

impl Child {
    pub fn start(program: &Program, ends: Ends) -> Result<Self, Failure> {
        let mut command = Command::new(&program.command);
        command.args(&program.arguments);
        // A Ctrl-C is for us: the program still takes what was read, and then sees the end.
        command.process_group(0);
        match &ends {
            Ends::Pipes(pipes) => command.args(pipes.iter().map(|pipe| pipe.as_raw_fd().to_string())),
            Ends::Rings(paths) => command.args(paths),
        };
        if let Some(workdir) = &program.workdir {
            command.current_dir(workdir);
        }
        let pipes: Vec<i32> = match &ends {
            Ends::Pipes(pipes) => pipes.iter().map(AsRawFd::as_raw_fd).collect(),
            Ends::Rings(_) => Vec::new(),
        };
        let parent = rustix::process::getpid();
        // SAFETY: between fork and exec only system calls that are safe there: no memory is taken, no lock.
        unsafe { command.pre_exec(move || prepare(&pipes, parent)) };
        let child = command.spawn().map_err(|error| no_start(program, &error))?;
        // The readers' ends close here: once the program is gone, writing says so.
        drop(ends);
        Self::watch(child, program)
    }

    fn watch(mut child: std::process::Child, program: &Program) -> Result<Self, Failure> {
        let id = child.id();
        let watch = Arc::new(Watch::default());
        let handle = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(rustix::io::Errno::SRCH);
        let handle = handle.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let handle = match handle {
            Ok(handle) => handle,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(no_start(program, &error.into()));
            }
        };
        let seen = Arc::clone(&watch);
        std::thread::Builder::new()
            .name("program".into())
            .spawn(move || {
                let status = child.wait().ok();
                *seen.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
                seen.is_over.store(true, Ordering::Release);
            })
            .map_err(|error| no_start(program, &error))?;
        Ok(Self { name: program.command.clone(), id, handle, watch })
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

    /// Asks it to end, waits for so long, then ends it.
    pub fn end(&self, grace: Duration) {
        let _ = pidfd_send_signal(&self.handle, Signal::TERM);
        if !self.wait(grace) {
            let _ = pidfd_send_signal(&self.handle, Signal::KILL);
            // Nothing can ignore that; a process inside the kernel may take a moment.
            self.wait(Duration::from_secs(5));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.is_over() {
            let _ = pidfd_send_signal(&self.handle, Signal::KILL);
        }
    }
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

fn no_start(program: &Program, error: &io::Error) -> Failure {
    let place = program.workdir.as_ref().map(|place| format!(" in {}", place.display())).unwrap_or_default();
    Failure::new(
        format!("cannot start {}{place}: {error}", program.command),
        "check the program's path, that it may be executed, and --workdir",
    )
}
