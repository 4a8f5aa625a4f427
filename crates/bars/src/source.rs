//! The source of a shard's records: the descriptor of a pipe, or a ring in shared memory.
//!
//! Does        takes all available records, waits if there are none, and determines how the source
//!             ended.
//! Holds       any content of a pipe or ring gives records or an error with a remedy, never a
//!             panic.
//! Start at    [`RecordSource::open`], [`RecordSource::take`].

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use memmap2::{MmapOptions, MmapRaw};
use pitwire_shard::{Consumer, RingFault, StreamReader, area_name};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::futex;

/// Size of one read of a pipe, in bytes.
const READ: usize = 256 << 10;
/// Reads of a pipe per call.
const READS: usize = 16;
/// Pause before sleeping on a ring, so that the splitter of a busy ring need not ring the bell.
const POLL_INTERVAL: Duration = Duration::from_micros(100);
/// Interval at which a silent ring's splitter is checked for life.
const SILENCE: Duration = Duration::from_millis(200);

/// The state of a source after a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceState {
    /// There were records.
    Busy,
    /// Nothing arrived within the caller's patience.
    Idle,
    /// Everything was read, and nothing more will come.
    Ended,
    /// As before, but the splitter was killed without ending the source.
    Died,
}

#[derive(Debug)]
pub enum SourceError {
    /// The name on the command line cannot be opened.
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
    Ring { ring: Consumer<MmapRaw>, file: File, asked: Instant },
}

impl RecordSource {
    /// Opens a descriptor if `name` is a number, otherwise the ring with this name.
    ///
    /// # Errors
    /// It cannot be opened, or is not a valid ring.
    pub fn open(name: &str) -> Result<RecordSource, SourceError> {
        let failed = |error: io::Error| SourceError::Open { name: name.to_string(), error };
        let transport = if name.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() {
            // Opened again, so that non-blocking mode does not affect other holders of the pipe.
            let path = format!("/proc/self/fd/{name}");
            let not_waiting = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            let file = File::options().read(true).custom_flags(not_waiting).open(path).map_err(failed)?;
            SourceTransport::Pipe { file, intake: StreamReader::new(READ) }
        } else {
            let file = File::options().read(true).write(true).open(name).map_err(failed)?;
            let mapping = map_ring(&file).map_err(failed)?;
            let fault = |fault| SourceError::Fault { name: name.to_string(), fault };
            // The area that the ring refers to is in the same directory.
            let area = match area_name(&mapping).map_err(fault)? {
                None => None,
                Some(area) => {
                    let path = Path::new(name).with_file_name(area);
                    let file = File::open(path).map_err(failed)?;
                    Some(map_area(&file).map_err(failed)?)
                }
            };
            let ring = Consumer::open_with(mapping, area).map_err(fault)?;
            SourceTransport::Ring { ring, file, asked: Instant::now() }
        };
        Ok(RecordSource { name: name.to_string(), transport })
    }

    /// HOT. Reads everything that is there. Waits at most `patience` for the first record.
    ///
    /// # Errors
    /// Reading fails, or the content is invalid.
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
    ring: &mut Consumer<MmapRaw>,
    patience: Duration,
    mut each: impl FnMut(&[u8]),
) -> Result<SourceState, ReadFailure> {
    // Checked before the records: records published before the end are read with it.
    let is_ended = ring.is_ended();
    if ring.take(&mut each).map_err(ReadFailure::Fault)? > 0 {
        return Ok(SourceState::Busy);
    }
    if is_ended {
        return Ok(SourceState::Ended);
    }
    std::thread::sleep(POLL_INTERVAL);
    if ring.take(&mut each).map_err(ReadFailure::Fault)? > 0 {
        return Ok(SourceState::Busy);
    }
    if let Some(rung) = ring.arm() {
        // The next call checks for records, however the wait ended.
        let _ = futex::wait(ring.bell(), futex::Flags::empty(), rung, Some(&timespec(patience)));
        ring.disarm();
    }
    Ok(SourceState::Idle)
}

/// Checks from time to time whether the splitter of a silent ring is alive.
fn ask_after(
    ring: &mut Consumer<MmapRaw>,
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
    // Reads the records published before the splitter died.
    let is_ended = ring.is_ended();
    let taken = ring.take(each).map_err(ReadFailure::Fault)?;
    Ok(match (taken, is_ended) {
        (0, false) => SourceState::Died,
        (0, true) => SourceState::Ended,
        _ => SourceState::Busy,
    })
}

/// Returns whether the splitter has died. It holds an exclusive lock on each of its rings while it
/// lives.
fn is_abandoned(file: &File) -> bool {
    let is_free = file.try_lock_shared().is_ok();
    if is_free {
        // Released at once, because this was only a test.
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

/// Maps the file of a ring.
fn map_ring(file: &File) -> io::Result<MmapRaw> {
    check_size(file)?;
    MmapOptions::new().map_raw(file)
}

/// Maps the area that a ring refers to, for reading.
fn map_area(file: &File) -> io::Result<MmapRaw> {
    check_size(file)?;
    MmapOptions::new().map_raw_read_only(file)
}

/// Checks that there is something to map.
fn check_size(file: &File) -> io::Result<()> {
    if file.metadata()?.len() > 0 { Ok(()) } else { Err(io::Error::new(io::ErrorKind::InvalidData, "it is empty")) }
}

#[cfg(test)]
mod tests;
