//! A pipe a worker: records staged, one write a hand-over.
//!
//! Does        the original's protocol: a length of four bytes, the object.
//! Holds       1. never waits but in [`Lane::wait`]; 2. what has been staged is written in order and whole.
//! Start at    [`PipeLane::put`].

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use pitwire_shard::{OVERSHOOT, copy_record};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, ioctl_fionread, write};
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};

use super::lane::{Ends, Lane, Refused};
use crate::transport::{Failure, Options};

/// So much is written at once; more is not staged.
const STAGE_BYTES: usize = 64 << 10;
/// Longest record; memory for it is touched only when one comes.
const RECORD_MAX: usize = 2 << 20;
/// What is asked of the kernel first; halved until it agrees.
const PIPE_BYTES: usize = 1 << 20;
const LENGTH_BYTES: usize = 4;

pub(crate) struct PipeLane {
    /// Writing end; none once it has ended.
    pipe: Option<OwnedFd>,
    /// The other end is closed. This one stays open: what the pipe holds can still be counted.
    is_broken: bool,
    pipe_bytes: usize,
    stage: Box<[u8]>,
    staged: usize,
    written: u64,
}

impl Lane for PipeLane {
    fn open_all(options: &Options, _: u64) -> Result<(Vec<Self>, Ends), Failure> {
        let (mut lanes, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..options.workers {
            let (reading, writing) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| no_pipe(error, options.workers))?;
            let flags = fcntl_getfl(&writing).map_err(|error| no_pipe(error, options.workers))?;
            fcntl_setfl(&writing, flags | OFlags::NONBLOCK).map_err(|error| no_pipe(error, options.workers))?;
            lanes.push(Self {
                pipe_bytes: grow(&writing),
                pipe: Some(writing),
                is_broken: false,
                stage: vec![0; STAGE_BYTES + LENGTH_BYTES + RECORD_MAX + OVERSHOOT].into_boxed_slice(),
                staged: 0,
                written: 0,
            });
            ends.push(reading);
        }
        Ok((lanes, Ends::Pipes(ends)))
    }

    fn fits(&self, bytes: usize) -> bool {
        bytes <= RECORD_MAX
    }

    #[inline]
    fn put(&mut self, text: &[u8], start: usize, end: usize) -> Result<(), Refused> {
        if start > end || end > text.len() || end - start > RECORD_MAX {
            return Err(Refused::TooLong);
        }
        if self.staged >= STAGE_BYTES {
            self.write_staged()?;
        }
        // SAFETY: the range is checked above; less than STAGE_BYTES are staged, and behind them is room for the longest
        // record and the overshoot. The stage is no part of the text.
        unsafe { copy_record(text, start, end, self.stage.as_mut_ptr().add(self.staged)) };
        self.staged += LENGTH_BYTES + (end - start);
        Ok(())
    }

    fn hand_over(&mut self) -> Result<bool, Refused> {
        match self.write_staged() {
            // What is left goes next time.
            Ok(()) | Err(Refused::Full) => Ok(false),
            Err(refused) => Err(refused),
        }
    }

    fn wake(&self) {}

    fn is_roomy(&mut self) -> bool {
        let _ = self.write_staged();
        self.staged == 0 && self.unread() <= self.pipe_bytes as u64 / 2
    }

    fn lag_bytes(&mut self) -> u64 {
        self.unread() + self.staged as u64
    }

    fn taken_bytes(&mut self) -> u64 {
        self.written - self.unread()
    }

    fn unread_records(&mut self) -> u64 {
        let left = self.left_in_pipe();
        self.staged = 0;
        left
    }

    fn wait(&mut self, longest: Duration) {
        if let Some(pipe) = &self.pipe {
            let longest = rustix::time::Timespec::try_from(longest).ok();
            // Whatever it answers, the caller looks again.
            let _ = poll(&mut [PollFd::new(pipe, PollFlags::OUT)], longest.as_ref());
        }
    }

    fn is_handed_over(&self) -> bool {
        self.staged == 0
    }

    fn give_up(&mut self) -> u64 {
        let left = count_records(&self.stage[..self.staged]);
        self.staged = 0;
        left
    }

    fn end(&mut self) {
        self.pipe = None;
    }
}

impl PipeLane {
    /// As much as fits; `Full` when `STAGE_BYTES` and more are left.
    #[cold]
    #[inline(never)]
    fn write_staged(&mut self) -> Result<(), Refused> {
        let pipe = self.pipe.as_ref().filter(|_| !self.is_broken).ok_or(Refused::Broken)?;
        if self.staged == 0 {
            return Ok(());
        }
        let written = loop {
            match write(pipe, &self.stage[..self.staged]) {
                Ok(written) => break written,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break 0,
                // The other end is closed. SIGPIPE is ignored, as in every program of Rust's.
                Err(_) => {
                    self.is_broken = true;
                    return Err(Refused::Broken);
                }
            }
        };
        self.written += written as u64;
        self.stage.copy_within(written..self.staged, 0);
        self.staged -= written;
        if self.staged >= STAGE_BYTES { Err(Refused::Full) } else { Ok(()) }
    }

    fn unread(&self) -> u64 {
        self.pipe.as_ref().and_then(|pipe| ioctl_fionread(pipe).ok()).unwrap_or(0)
    }

    /// What the pipe still holds and what was staged, read back and counted, once the worker is gone.
    ///
    /// The pipe's content outlives its readers as long as this end is open. It may begin inside a record: the first place
    /// from which lengths lead exactly to the end, over objects, is where a record begins.
    fn left_in_pipe(&mut self) -> u64 {
        let mut left = Vec::new();
        if let Some(pipe) = &self.pipe {
            let path = format!("/proc/self/fd/{}", pipe.as_fd().as_raw_fd());
            let unread = self.unread();
            // Somebody whom the program started may still read on, and the writing end is open: never waits.
            let flags = OFlags::NONBLOCK.bits().cast_signed();
            if let Ok(reading) = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path) {
                let _ = std::io::Read::read_to_end(&mut std::io::Read::take(reading, unread), &mut left);
            }
        }
        left.extend_from_slice(&self.stage[..self.staged]);
        count_records(&left)
    }
}

/// Records in the end of a stream that may begin inside one; that one counts.
fn count_records(stream: &[u8]) -> u64 {
    if stream.is_empty() {
        return 0;
    }
    let whole = |from: usize| {
        let (mut at, mut records) = (from, 0);
        while at < stream.len() {
            let length = stream[at..].first_chunk::<LENGTH_BYTES>()?;
            let length = u32::from_le_bytes(*length) as usize;
            let record = stream[at + LENGTH_BYTES..].get(..length)?;
            if record.first() != Some(&b'{') || record.last() != Some(&b'}') {
                return None;
            }
            at += LENGTH_BYTES + length;
            records += 1;
        }
        Some(records)
    };
    let longest = stream.len().min(RECORD_MAX + LENGTH_BYTES);
    (0..=longest).find_map(|from| whole(from).map(|records| records + u64::from(from > 0))).unwrap_or(1)
}

/// As large as the kernel allows, at most [`PIPE_BYTES`].
fn grow(pipe: &OwnedFd) -> usize {
    let mut wanted = PIPE_BYTES;
    while wanted > 4096 && fcntl_setpipe_size(pipe, wanted).is_err() {
        wanted /= 2;
    }
    fcntl_getpipe_size(pipe).unwrap_or(4096)
}

fn no_pipe(error: Errno, workers: u32) -> Failure {
    Failure::new(
        format!("cannot make {workers} pipes: {error}"),
        "allow more open files (ulimit -n), or use fewer workers",
    )
}

#[cfg(test)]
mod tests;
