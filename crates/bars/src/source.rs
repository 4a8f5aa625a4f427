//! Where a shard's records come from: a pipe's descriptor, or a ring in shared memory.
//!
//! Does        take what is there, wait when there is nothing, and know how it ended.
//! Holds       whatever the bytes of a pipe or ring say, the answer is an error with a remedy, never a panic.
//! Start at    [`RecordSource::open`], [`RecordSource::take`].

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use pitwire_shard::{Consumer, Memory, RingFault, StreamReader, area_name};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;

/// Bytes of one read of a pipe.
const READ: usize = 256 << 10;
/// Reads of a pipe before the caller is asked again.
const READS: usize = 16;
/// A busy ring is worth dozing for: its splitter then need not ring the bell.
const DOZE: Duration = Duration::from_micros(100);
/// How often a silent ring's splitter is asked whether it lives.
const SILENCE: Duration = Duration::from_millis(200);

/// How far a source has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceState {
    /// Records were there.
    Busy,
    /// Nothing came for as long as the caller would wait.
    Idle,
    /// All has been taken, and nothing more will come.
    Ended,
    /// As before, but the splitter did not say so: it was killed.
    Died,
}

#[derive(Debug)]
pub enum SourceError {
    /// The name on the command line leads to nothing that can be read.
    Open {
        name: String,
        error: io::Error,
    },
    Read {
        name: String,
        error: io::Error,
    },
    Fault {
        name: String,
        fault: RingFault,
    },
}

impl SourceError {
    pub fn remedy(&self) -> &'static str {
        match self {
            SourceError::Open { .. } => {
                "give what `pitwire split` appended: descriptors that are open, or names of rings"
            }
            SourceError::Read { .. } => "start splitter and worker again",
            SourceError::Fault { fault, .. } => fault.remedy(),
        }
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceError::Open { name, error } => write!(f, "{name} cannot be opened as a shard: {error}"),
            SourceError::Read { name, error } => write!(f, "{name}: {error}"),
            SourceError::Fault { name, fault } => write!(f, "{name}: {fault}"),
        }
    }
}

impl std::error::Error for SourceError {}

pub struct RecordSource {
    name: String,
    transport: SourceTransport,
}

enum SourceTransport {
    Pipe { file: File, intake: StreamReader },
    Ring { ring: Consumer<Mapping>, file: File, asked: Instant },
}

impl RecordSource {
    /// A number is a descriptor, anything else the name of a ring.
    pub fn open(name: &str) -> Result<RecordSource, SourceError> {
        let failed = |error: io::Error| SourceError::Open { name: name.to_string(), error };
        let transport = if name.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() {
            // Opened anew, so that not waiting on it is our own affair and not everybody's who has the pipe.
            let path = format!("/proc/self/fd/{name}");
            let not_waiting = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            let file = File::options().read(true).custom_flags(not_waiting).open(path).map_err(failed)?;
            SourceTransport::Pipe { file, intake: StreamReader::new(READ) }
        } else {
            let file = File::options().read(true).write(true).open(name).map_err(failed)?;
            let mapping = Mapping::of(&file).map_err(failed)?;
            let fault = |fault| SourceError::Fault { name: name.to_string(), fault };
            // What the ring refers to, if it does, lies beside it.
            let area = match area_name(&mapping).map_err(fault)? {
                None => None,
                Some(area) => {
                    let path = Path::new(name).with_file_name(area);
                    let file = File::open(path).map_err(failed)?;
                    Some(Mapping::to_read(&file).map_err(failed)?)
                }
            };
            let ring = Consumer::open_with(mapping, area).map_err(fault)?;
            SourceTransport::Ring { ring, file, asked: Instant::now() }
        };
        Ok(RecordSource { name: name.to_string(), transport })
    }

    /// HOT. Everything that is there; waits at most `patience` for the first.
    pub fn take(&mut self, patience: Duration, mut each: impl FnMut(&[u8])) -> Result<SourceState, SourceError> {
        let taken = match &mut self.transport {
            SourceTransport::Pipe { file, intake } => take_pipe(file, intake, patience, each),
            SourceTransport::Ring { ring, file, asked } => take_ring(ring, patience, &mut each).and_then(|state| {
                if state == SourceState::Idle { ask_after(ring, file, asked, each) } else { Ok(state) }
            }),
        };
        taken.map_err(|trouble| match trouble {
            ReadFailure::Io(error) => SourceError::Read { name: self.name.clone(), error },
            ReadFailure::Fault(fault) => SourceError::Fault { name: self.name.clone(), fault },
        })
    }
}

enum ReadFailure {
    Io(io::Error),
    Fault(RingFault),
}

fn take_pipe(
    file: &mut File,
    intake: &mut StreamReader,
    patience: Duration,
    mut each: impl FnMut(&[u8]),
) -> Result<SourceState, ReadFailure> {
    let mut state = SourceState::Idle;
    for _ in 0..READS {
        match file.read(intake.space()) {
            Ok(0) if intake.is_whole() => return Ok(SourceState::Ended),
            Ok(0) => return Ok(SourceState::Died),
            Ok(bytes) => {
                intake.filled(bytes);
                intake.take(&mut each).map_err(ReadFailure::Fault)?;
                state = SourceState::Busy;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if state == SourceState::Busy || !wait_for_bytes(file, patience)? {
                    return Ok(state);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ReadFailure::Io(error)),
        }
    }
    Ok(state)
}

fn wait_for_bytes(file: &File, patience: Duration) -> Result<bool, ReadFailure> {
    let mut wanted = [PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN)];
    match poll(&mut wanted, Some(&timespec(patience))) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(ReadFailure::Io(error.into())),
    }
}

fn take_ring(
    ring: &mut Consumer<Mapping>,
    patience: Duration,
    mut each: impl FnMut(&[u8]),
) -> Result<SourceState, ReadFailure> {
    // ReaderRequest before the take: what was published before the end is taken with it.
    let is_ended = ring.is_ended();
    if ring.take(&mut each).map_err(ReadFailure::Fault)? > 0 {
        return Ok(SourceState::Busy);
    }
    if is_ended {
        return Ok(SourceState::Ended);
    }
    std::thread::sleep(DOZE);
    if ring.take(&mut each).map_err(ReadFailure::Fault)? > 0 {
        return Ok(SourceState::Busy);
    }
    if let Some(rung) = ring.arm() {
        // Woken, too late, or interrupted: the next take sees.
        let _ = futex::wait(ring.bell(), futex::Flags::empty(), rung, Some(&timespec(patience)));
        ring.disarm();
    }
    Ok(SourceState::Idle)
}

/// Nothing came: now and then, whether anybody is there to send something.
fn ask_after(
    ring: &mut Consumer<Mapping>,
    file: &File,
    asked: &mut Instant,
    each: impl FnMut(&[u8]),
) -> Result<SourceState, ReadFailure> {
    if asked.elapsed() < SILENCE {
        return Ok(SourceState::Idle);
    }
    *asked = Instant::now();
    if !is_abandoned(file) {
        return Ok(SourceState::Idle);
    }
    // Whatever was published before it died is still ours.
    let is_ended = ring.is_ended();
    let taken = ring.take(each).map_err(ReadFailure::Fault)?;
    Ok(match (taken, is_ended) {
        (0, false) => SourceState::Died,
        (0, true) => SourceState::Ended,
        _ => SourceState::Busy,
    })
}

/// A splitter keeps an exclusive lock on each of its rings for as long as it lives.
fn is_abandoned(file: &File) -> bool {
    let is_free = file.try_lock_shared().is_ok();
    if is_free {
        // Given back at once: it was a question, not a claim.
        let _ = file.unlock();
    }
    is_free
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

/// A ring's file in our memory.
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    fn of(file: &File) -> io::Result<Mapping> {
        Mapping::with(file, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn to_read(file: &File) -> io::Result<Mapping> {
        Mapping::with(file, ProtFlags::READ)
    }

    fn with(file: &File, protection: ProtFlags) -> io::Result<Mapping> {
        let bytes = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        if bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is empty"));
        }
        // SAFETY: a new mapping at a place of the kernel's choice touches nothing that exists.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file.as_fd(), 0)? };
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        Ok(Mapping { base, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `of` with this length, and nobody has a pointer into it any more: the consumer owns us.
        // A failure would leave the mapping, which ends with the process.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: the mapping begins a page, stays where it is until dropped, is `bytes` long as the file was when it was mapped,
// and is reached by the consumer alone.
unsafe impl Memory for Mapping {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

// SAFETY: nothing about the mapping belongs to a thread.
unsafe impl Send for Mapping {}

#[cfg(test)]
mod tests;
