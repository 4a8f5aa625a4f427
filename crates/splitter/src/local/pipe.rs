//! A pipe a worker: records staged, one write a hand-over.
//!
//! Does        the original's protocol: a length of four bytes, the object.
//! Holds       1. never waits but in [`WorkerChannel::wait`]; 2. what has been staged is written in order and whole;
//!             3. where pages are lent instead of copied (vmsplice), none is written to while the pipe holds it: a pipe
//!                holds at most its size, which lies right before the staged bytes, and these go round a lap that is longer.
//! Start at    [`PipeChannel::put`].

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use pitwire_shard::{OVERSHOOT, copy_record};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, ioctl_fionread, write};
use rustix::pipe::{IoSliceRaw, PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, vmsplice};

use super::channel::{PutError, WorkerChannel};
use super::page_buffer::PageBuffer;
use crate::transport::TransportOptions;
use crate::transport_error::TransportError;
use crate::worker_ends::WorkerEnds;

/// So much is written at once; more is not staged.
const STAGE_BYTES: usize = 64 << 10;
/// Longest record; memory for it is touched only when one comes.
const RECORD_MAX: usize = 2 << 20;
/// What is asked of the kernel first; halved until it agrees.
const PIPE_BYTES: usize = 1 << 20;
const LENGTH_BYTES: usize = 4;
/// Less is copied: it may share a page of the pipe with what comes before and after it, a lent piece takes one of its own.
const LENT_LEAST: usize = 8 << 10;
/// With more workers a read brings each of them less than that: nothing would be lent, and memory taken for it.
const LENT_WORKERS: u32 = 16;
/// Staged bytes begin again at the front once they have come so far.
const LAP_BYTES: usize = PIPE_BYTES + 4 * STAGE_BYTES;
/// What has not been taken of a lap, more than is staged before it is written, and a longest record.
const ROOM_BYTES: usize = LAP_BYTES + 2 * STAGE_BYTES + LENGTH_BYTES + RECORD_MAX + OVERSHOOT;

pub(crate) struct PipeChannel {
    /// Writing end; none once it has ended.
    pipe: Option<OwnedFd>,
    /// The other end is closed. This one stays open: what the pipe holds can still be counted.
    is_broken: bool,
    pipe_bytes: usize,
    /// Who reads takes copies, so that pages may be lent.
    lends: bool,
    stage: PageBuffer,
    /// Where the staged bytes begin; what is lent and not read lies right before.
    from: usize,
    staged: usize,
    written: u64,
}

impl WorkerChannel for PipeChannel {
    fn open_all(options: &TransportOptions, _: u64) -> Result<(Vec<Self>, WorkerEnds), TransportError> {
        let (mut channels, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..options.workers {
            let (reading, writing) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| no_pipe(error, options.workers))?;
            let flags = fcntl_getfl(&writing).map_err(|error| no_pipe(error, options.workers))?;
            fcntl_setfl(&writing, flags | OFlags::NONBLOCK).map_err(|error| no_pipe(error, options.workers))?;
            let pipe_bytes = grow(&writing);
            let lends = options.lends_pages() && options.workers <= LENT_WORKERS && pipe_bytes <= PIPE_BYTES;
            channels.push(Self {
                pipe_bytes,
                lends,
                pipe: Some(writing),
                is_broken: false,
                stage: PageBuffer::new(ROOM_BYTES, if lends { LAP_BYTES } else { 0 })
                    .map_err(|error| no_pipe(error, options.workers))?,
                from: 0,
                staged: 0,
                written: 0,
            });
            ends.push(reading);
        }
        Ok((channels, WorkerEnds::Pipes(ends)))
    }

    fn fits(&self, bytes: usize) -> bool {
        bytes <= RECORD_MAX
    }

    #[inline]
    fn put(&mut self, text: &[u8], start: usize, end: usize) -> Result<(), PutError> {
        if start > end || end > text.len() || end - start > RECORD_MAX {
            return Err(PutError::TooLong);
        }
        if self.staged >= STAGE_BYTES || end - start > STAGE_BYTES {
            self.make_room(end - start)?;
        }
        // SAFETY: the range is checked above; less than STAGE_BYTES are staged, from no further than LAP_BYTES on, and behind
        // them is room for the longest record and the overshoot. The stage is no part of the text.
        unsafe { copy_record(text, start, end, self.stage.as_mut_ptr().add(self.from + self.staged)) };
        self.staged += LENGTH_BYTES + (end - start);
        Ok(())
    }

    fn hand_over(&mut self) -> Result<bool, PutError> {
        match self.write_staged() {
            // What is left goes next time.
            Ok(()) | Err(PutError::Full) => Ok(false),
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
        let left = count_records(self.staged());
        self.staged = 0;
        left
    }

    fn end(&mut self) {
        self.pipe = None;
    }
}

impl PipeChannel {
    fn staged(&self) -> &[u8] {
        &self.stage[self.from..self.from + self.staged]
    }

    /// Makes sure that less than `STAGE_BYTES` are staged, within the lap, and that no lent page lies where so many bytes go.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, bytes: usize) -> Result<(), PutError> {
        self.write_staged()?;
        // A longer record than usual reaches into the lap before: everything of that must have been read.
        if self.lends && bytes > STAGE_BYTES && self.unread() > 0 {
            return Err(PutError::Full);
        }
        Ok(())
    }

    /// As much as fits; `Full` when `STAGE_BYTES` and more are left.
    #[cold]
    #[inline(never)]
    fn write_staged(&mut self) -> Result<(), PutError> {
        let pipe = self.pipe.as_ref().filter(|_| !self.is_broken).ok_or(PutError::Broken)?;
        if self.staged == 0 {
            return Ok(());
        }
        let is_lent = self.lends && self.staged >= LENT_LEAST;
        let written = loop {
            let staged = self.staged();
            let given = if is_lent {
                // SAFETY: these bytes stay as they are until the pipe has been read beyond them: see the head of this file.
                unsafe { vmsplice(pipe, &[IoSliceRaw::from_slice(staged)], SpliceFlags::NONBLOCK) }
            } else {
                write(pipe, staged)
            };
            match given {
                Ok(written) => break written,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break 0,
                // The other end is closed. SIGPIPE is ignored, as in every program of Rust's.
                Err(_) => {
                    self.is_broken = true;
                    return Err(PutError::Broken);
                }
            }
        };
        self.written += written as u64;
        self.staged -= written;
        if is_lent {
            self.from += written;
            self.go_round();
        } else {
            self.stage.copy_within(self.from + written..self.from + written + self.staged, self.from);
        }
        if self.staged >= STAGE_BYTES { Err(PutError::Full) } else { Ok(()) }
    }

    /// Back to the front, once the lap is done and what is staged fits before all that may not have been read.
    fn go_round(&mut self) {
        if self.from < LAP_BYTES || self.staged + OVERSHOOT > self.from - self.pipe_bytes {
            return;
        }
        let staged = self.from..self.from + self.staged;
        self.from = 0;
        // Who reads may have made the pipe larger: then a lap is not long enough any more. What is lent stays as it is.
        let size = self.pipe.as_ref().and_then(|pipe| fcntl_getpipe_size(pipe).ok());
        if size.is_none_or(|size| size > self.pipe_bytes)
            && let Ok(mut fresh) = PageBuffer::new(ROOM_BYTES, 0)
        {
            fresh[..self.staged].copy_from_slice(&self.stage[staged]);
            (self.stage, self.lends) = (fresh, false);
            return;
        }
        self.stage.copy_within(staged, 0);
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
        left.extend_from_slice(self.staged());
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

fn no_pipe(error: Errno, workers: u32) -> TransportError {
    TransportError::new(
        format!("cannot make {workers} pipes: {error}"),
        "allow more open files (ulimit -n), or use fewer workers",
    )
}

#[cfg(test)]
mod tests;
