//! A pipe to a worker: records are staged, and written with one system call per hand-over.
//!
//! Does        the protocol of the original program: a length of four bytes, then the object.
//! Holds       1. nothing blocks except [`WorkerChannel::wait`];
//!             2. staged records are written in order and whole;
//!             3. a page that the kernel borrows instead of copying it (vmsplice) stays unchanged
//!                while the pipe refers to it. The borrowed bytes are at most as many as the pipe
//!                holds and lie before the staged ones; the staging area is longer than that.
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

/// Bytes staged before a write.
const STAGE_BYTES: usize = 64 << 10;
/// Longest record in bytes. Memory for it is touched only if one arrives.
const RECORD_MAX: usize = 2 << 20;
/// Requested size of a pipe in bytes; halved until the kernel agrees.
const PIPE_BYTES: usize = 1 << 20;
const LENGTH_BYTES: usize = 4;
/// Least bytes to lend. Less is copied, because a lent piece occupies a whole page of the pipe.
const LENT_LEAST: usize = 8 << 10;
/// Most workers with lent pages. With more, each write is shorter than [`LENT_LEAST`], so nothing
/// would be lent.
const LENT_WORKERS: u32 = 16;
/// Staging starts again at the front after this many bytes.
const LAP_BYTES: usize = PIPE_BYTES + 4 * STAGE_BYTES;
/// Size of the staging area: a lap, what may be staged beyond it, and a longest record.
const ROOM_BYTES: usize = LAP_BYTES + 2 * STAGE_BYTES + LENGTH_BYTES + RECORD_MAX + OVERSHOOT;

pub(crate) struct PipeChannel {
    /// The write end; `None` after the end.
    pipe: Option<OwnedFd>,
    /// The worker closed its end. Ours stays open, so that the content of the pipe can be counted.
    is_broken: bool,
    pipe_bytes: usize,
    /// The reader copies what it reads, so pages may be lent.
    lends: bool,
    stage: PageBuffer,
    /// Where the staged bytes begin. Lent bytes that are not read are right before.
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
        // SAFETY: the range is checked above. Less than STAGE_BYTES are staged, starting at
        // LAP_BYTES at most, and behind them is room for the longest record and the overshoot. The
        // staging area is not part of the text.
        unsafe { copy_record(text, start, end, self.stage.as_mut_ptr().add(self.from + self.staged)) };
        self.staged += LENGTH_BYTES + (end - start);
        Ok(())
    }

    fn hand_over(&mut self) -> Result<bool, PutError> {
        match self.write_staged() {
            // The rest is written next time.
            Ok(()) | Err(PutError::Full) => Ok(false),
            Err(refused) => Err(refused),
        }
    }

    fn wake(&self) {}

    fn is_roomy(&mut self) -> bool {
        let _ = self.write_staged();
        self.staged == 0 && self.unread() <= self.pipe_bytes as u64 / 2
    }

    fn pending_bytes(&mut self) -> u64 {
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
            // The caller checks again, whatever poll returns.
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

    /// Ensures that less than `STAGE_BYTES` are staged, and that no lent page is where `bytes` more
    /// go.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, bytes: usize) -> Result<(), PutError> {
        self.write_staged()?;
        // A record longer than usual reaches into the previous lap, all of which must have been
        // read.
        if self.lends && bytes > STAGE_BYTES && self.unread() > 0 {
            return Err(PutError::Full);
        }
        Ok(())
    }

    /// Writes as much as the pipe accepts. Returns `Full` if `STAGE_BYTES` or more are left.
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
                // SAFETY: these bytes do not change until the pipe has been read beyond them; see
                // the module header.
                unsafe { vmsplice(pipe, &[IoSliceRaw::from_slice(staged)], SpliceFlags::NONBLOCK) }
            } else {
                write(pipe, staged)
            };
            match given {
                Ok(written) => break written,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break 0,
                // The worker closed its end. Rust programs ignore SIGPIPE.
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

    /// Returns to the front after a lap, if the staged bytes fit before everything that may not
    /// have been read.
    fn go_round(&mut self) {
        if self.from < LAP_BYTES || self.staged + OVERSHOOT > self.from - self.pipe_bytes {
            return;
        }
        let staged = self.from..self.from + self.staged;
        self.from = 0;
        // The reader may have enlarged the pipe, and then a lap is too short. Lent pages stay as
        // they are.
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

    /// Counts the records left in the pipe and in the stage, after the worker is gone.
    ///
    /// The content of a pipe outlives its readers as long as this end is open. It may begin inside
    /// a record. A record begins at the first offset from which lengths lead exactly to the end,
    /// over objects.
    fn left_in_pipe(&mut self) -> u64 {
        let mut left = Vec::new();
        if let Some(pipe) = &self.pipe {
            let path = format!("/proc/self/fd/{}", pipe.as_fd().as_raw_fd());
            let unread = self.unread();
            // A child of the program may still read, and the write end is open, so this must not
            // block.
            let flags = OFlags::NONBLOCK.bits().cast_signed();
            if let Ok(reading) = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path) {
                let _ = std::io::Read::read_to_end(&mut std::io::Read::take(reading, unread), &mut left);
            }
        }
        left.extend_from_slice(self.staged());
        count_records(&left)
    }
}

/// Counts the records at the end of a stream that may begin inside one. That one counts.
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

/// Enlarges a pipe as far as the kernel allows, at most to [`PIPE_BYTES`]. Returns its size.
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
