//! How counters read: all pipes or all rings, in turn.
//!
//! Does        takes all available records; pauses briefly when there are none; then sleeps.
//! Leaves out  what records mean: see `stream_checker`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use memmap2::{MmapOptions, MmapRaw};
use pitwire_shard::layout::RECORDS_AT;
use pitwire_shard::{Consumer, StreamReader, area_name};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read};
use rustix::thread::futex;
use rustix::time::Timespec;

use crate::stream_checker::{StreamChecker, StreamCounts};

/// Bytes per read of a pipe. The buffers of all pipes stay in a core's cache.
const READ_BYTES: usize = 64 << 10;
/// If a pipe returned at least this many bytes, the next pass starts at once. Small reads contend
/// with the splitter for the pipe's lock, and pausing beside a full pipe makes the splitter wait.
const WORTH_BYTES: usize = 32 << 10;
/// Pause before the bell is armed, so that a busy feed never has to ring it.
const POLL_INTERVAL: Duration = Duration::from_micros(100);
/// Longest sleep.
const SLEEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

pub(super) struct Pipes {
    pipes: Vec<Option<(OwnedFd, StreamReader)>>,
    tallies: Vec<StreamChecker>,
}

impl Pipes {
    /// Opens the pipes of some of all `workers`.
    ///
    /// # Errors
    /// If a pipe cannot be set to non-blocking.
    pub fn open(ends: Vec<OwnedFd>, workers: usize) -> io::Result<Self> {
        let mut pipes = Vec::new();
        for end in ends {
            fcntl_setfl(&end, fcntl_getfl(&end)? | OFlags::NONBLOCK)?;
            pipes.push(Some((end, StreamReader::new(READ_BYTES))));
        }
        let tallies = pipes.iter().map(|_| StreamChecker::new(workers)).collect();
        Ok(Self { pipes, tallies })
    }

    pub fn count(&mut self) -> Vec<StreamCounts> {
        while self.pipes.iter().any(Option::is_some) {
            let found = self.turn();
            if found < WORTH_BYTES {
                std::thread::sleep(POLL_INTERVAL);
            }
            if found == 0 && self.turn() == 0 {
                self.sleep();
            }
        }
        self.tallies.iter().map(StreamChecker::counted).collect()
    }

    /// Reads each pipe once. Returns the most bytes that one of them returned.
    fn turn(&mut self) -> usize {
        let mut found = 0;
        for (place, tally) in self.pipes.iter_mut().zip(&mut self.tallies) {
            let Some((pipe, intake)) = place else { continue };
            match read(&*pipe, intake.space()) {
                Ok(bytes) if bytes > 0 => {
                    intake.filled(bytes);
                    found = found.max(bytes);
                    if intake.take(|record| tally.record(record)).is_err() {
                        tally.fault();
                        *place = None;
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                // The end, or a pipe that cannot be read.
                Ok(_) | Err(_) => {
                    if !intake.is_whole() {
                        tally.fault();
                    }
                    *place = None;
                }
            }
        }
        found
    }

    fn sleep(&self) {
        let mut waits: Vec<PollFd<'_>> =
            self.pipes.iter().flatten().map(|(pipe, _)| PollFd::new(pipe, PollFlags::IN)).collect();
        if !waits.is_empty() {
            // All pipes are read next, whatever poll returns.
            let _ = poll(&mut waits, Some(&SLEEP));
        }
    }
}

pub(super) struct Rings {
    rings: Vec<Option<Consumer<MmapRaw, Arc<MmapRaw>>>>,
    tallies: Vec<StreamChecker>,
}

impl Rings {
    /// Opens the rings of some of all `workers`.
    ///
    /// # Errors
    /// If a file cannot be opened or mapped, is too short, or is not a ring of this version.
    pub fn open(paths: &[PathBuf], workers: usize) -> io::Result<Self> {
        let mut rings = Vec::new();
        // All rings refer to one area.
        let mut area = None;
        for path in paths {
            let file = OpenOptions::new().read(true).write(true).open(path)?;
            let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
            if bytes <= RECORDS_AT as usize {
                return Err(io::Error::other(format!("{} is no ring", path.display())));
            }
            let mapping = MmapOptions::new().len(bytes).populate().map_raw(&file)?;
            if let Some(name) = area_name(&mapping).map_err(io::Error::other)?
                && area.is_none()
            {
                let file = File::open(path.with_file_name(name))?;
                let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
                area = Some(Arc::new(MmapOptions::new().len(bytes).populate().map_raw_read_only(&file)?));
            }
            rings.push(Some(Consumer::open_with(mapping, area.clone()).map_err(io::Error::other)?));
        }
        let tallies = rings.iter().map(|_| StreamChecker::new(workers)).collect();
        Ok(Self { rings, tallies })
    }

    pub fn count(&mut self) -> Vec<StreamCounts> {
        while self.rings.iter().any(Option::is_some) {
            if !self.turn() {
                std::thread::sleep(POLL_INTERVAL);
                if !self.turn() {
                    self.sleep();
                }
            }
        }
        self.tallies.iter().map(StreamChecker::counted).collect()
    }

    fn turn(&mut self) -> bool {
        let mut found = false;
        for (place, tally) in self.rings.iter_mut().zip(&mut self.tallies) {
            let Some(ring) = place else { continue };
            // Checked before the records, because the end is published after the last of them.
            let is_ended = ring.is_ended();
            match ring.take(|record| tally.record(record)) {
                Ok(0) if is_ended => *place = None,
                Ok(taken) => found |= taken > 0,
                Err(_) => {
                    tally.fault();
                    *place = None;
                }
            }
        }
        found
    }

    /// Sleeps on all bells at once, if all rings are empty.
    fn sleep(&self) {
        let rings = || self.rings.iter().flatten();
        let armed: Vec<_> = rings().map(|ring| ring.arm().map(|rung| (ring.bell(), rung))).collect();
        if armed.iter().all(Option::is_some) {
            let mut waits: Vec<futex::Wait> = Vec::with_capacity(armed.len());
            for (bell, rung) in armed.iter().flatten() {
                let mut wait = futex::Wait::new();
                wait.val = u64::from(*rung);
                wait.uaddr = futex::WaitPtr::new(bell.as_ptr().cast());
                wait.flags = futex::WaitFlags::SIZE_U32;
                waits.push(wait);
            }
            sleep_on(&waits);
        }
        rings().for_each(Consumer::disarm);
    }
}

/// Waits until one of the bells is rung, at most for the longest sleep.
fn sleep_on(waits: &[futex::Wait]) {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let mut until = Timespec { tv_sec: now.tv_sec, tv_nsec: now.tv_nsec + SLEEP.tv_nsec };
    if until.tv_nsec >= 1_000_000_000 {
        (until.tv_sec, until.tv_nsec) = (until.tv_sec + 1, until.tv_nsec - 1_000_000_000);
    }
    // The kernel waits on at most 128. The others are checked when it returns.
    let waits = &waits[..waits.len().min(128)];
    let slept = futex::waitv(waits, futex::WaitvFlags::empty(), Some(&until), rustix::time::ClockId::Monotonic);
    if slept == Err(Errno::NOSYS) {
        // Kernels before 5.16 lack the system call.
        std::thread::sleep(POLL_INTERVAL * 10);
    }
}
