//! A ring to a worker: a file in shared memory.
//!
//! Does        makes and maps the files, and removes those of splitters that died.
//! Holds       the exclusive lock of a file means that its splitter is alive. A file without it is
//!             stale.
//! Start at    [`RingChannel::open_all`].

use std::fs::{File, remove_file};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use memmap2::{MmapOptions, MmapRaw};
use pitwire_shard::layout::{RECORDS_AT, ring_record_max};
use pitwire_shard::{Producer, RingConfig};
use rustix::fs::{FlockOperation, flock};
use rustix::thread::futex;

use super::channel::{PutError, WorkerChannel};
use crate::receive_area::{ReceiveArea, create_locked};
use crate::transport::TransportOptions;
use crate::transport_error::TransportError;
use crate::worker_ends::WorkerEnds;

const PREFIX: &str = "pitwire-split-";
/// Polling interval while a full ring is waited for. No bell rings in this direction.
const POLL_INTERVAL: Duration = Duration::from_micros(100);

pub(crate) struct RingChannel {
    ring: Producer<MmapRaw>,
    /// Text at `referred_bytes` addresses from here on is referred to and not copied. 0 bytes
    /// without an area.
    referred_from: usize,
    referred_bytes: usize,
    /// Position of the ring when references were switched off. No reference is behind it.
    referred_head: u64,
    area: Option<Arc<ReceiveArea>>,
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl WorkerChannel for RingChannel {
    fn open_all(options: &TransportOptions, generation: u64) -> Result<(Vec<Self>, WorkerEnds), TransportError> {
        remove_left_overs(&options.ring_directory);
        let started_ns = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let started_ns = u64::try_from(started_ns).unwrap_or(u64::MAX);
        let mut channels: Vec<Self> = Vec::new();
        for worker in 0..options.workers {
            let name = format!("{PREFIX}{}-{started_ns}-{generation}-{worker}", std::process::id());
            let path = options.ring_directory.join(name);
            let shape = RingConfig { capacity: options.ring_bytes, worker, workers: options.workers, started_ns };
            let channel = Self::open(path.clone(), &shape, options.area.clone());
            channels.push(channel.map_err(|error| no_ring(&path, options, &error))?);
        }
        let ends = channels.iter().map(|channel| channel.path.clone()).collect();
        Ok((channels, WorkerEnds::Rings(ends)))
    }

    fn fits(&self, bytes: usize) -> bool {
        bytes as u64 <= ring_record_max(self.ring.capacity())
    }

    #[inline]
    fn put(&mut self, text: &[u8], start: usize, end: usize) -> Result<(), PutError> {
        let at = text.as_ptr().addr().wrapping_sub(self.referred_from);
        if at >= self.referred_bytes {
            return self.ring.put(text, start, end);
        }
        if start > end || end > text.len() {
            return Err(PutError::TooLong);
        }
        #[expect(clippy::cast_possible_truncation, reason = "an area is far smaller than 2^32")]
        self.ring.put_reference((at + start) as u32, end - start)
    }

    fn head(&self) -> u64 {
        if self.referred_bytes > 0 { self.ring.head() } else { self.referred_head }
    }

    fn has_taken(&mut self, head: u64) -> bool {
        self.ring.has_taken(head)
    }

    fn refer(&mut self, refers: bool) {
        self.referred_head = self.head();
        self.referred_bytes = self.area.as_ref().filter(|_| refers).map_or(0, |area| area.bytes());
    }

    fn hand_over(&mut self) -> Result<bool, PutError> {
        Ok(self.ring.publish())
    }

    fn wake(&self) {
        // A shared futex, because the sleeper may be another process.
        let _ = futex::wake(self.ring.bell(), futex::Flags::empty(), 1);
    }

    fn is_roomy(&mut self) -> bool {
        self.ring.unread_bytes() <= self.ring.capacity() / 2
    }

    fn pending_bytes(&mut self) -> u64 {
        self.ring.unread_bytes()
    }

    fn taken_bytes(&mut self) -> u64 {
        self.ring.taken_bytes()
    }

    fn unread_records(&mut self) -> u64 {
        self.ring.unread_records()
    }

    fn wait(&mut self, longest: Duration) {
        std::thread::sleep(longest.min(POLL_INTERVAL));
    }

    fn is_handed_over(&self) -> bool {
        true
    }

    fn give_up(&mut self) -> u64 {
        0
    }

    fn end(&mut self) {
        if self.ring.end() {
            self.wake();
        }
    }
}

impl Drop for RingChannel {
    fn drop(&mut self) {
        self.end();
        let _ = remove_file(&self.path);
    }
}

impl RingChannel {
    fn open(path: PathBuf, shape: &RingConfig, area: Option<Arc<ReceiveArea>>) -> io::Result<Self> {
        let file = create_locked(&path, 0o600)?;
        // From here on the file is removed if something fails.
        let made = Self::prepare(&file, shape, area.as_deref());
        match made {
            Ok(ring) => {
                let referred_from = area.as_ref().map_or(0, |area| area.address());
                let mut channel =
                    Self { ring, referred_from, referred_bytes: 0, referred_head: 0, area, path, _file: file };
                channel.refer(true);
                Ok(channel)
            }
            Err(error) => {
                let _ = remove_file(&path);
                Err(error)
            }
        }
    }

    fn prepare(file: &File, shape: &RingConfig, area: Option<&ReceiveArea>) -> io::Result<Producer<MmapRaw>> {
        let bytes = shape.capacity.saturating_add(u64::from(RECORDS_AT));
        // Allocates the memory now, so that a full /dev/shm is an error here and not a signal
        // later.
        rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
        let mapping =
            MmapOptions::new().len(usize::try_from(bytes).map_err(io::Error::other)?).populate().map_raw(file)?;
        let made = match area {
            Some(area) => Producer::create_referring(mapping, shape, area.name(), area.bytes() as u64),
            None => Producer::create(mapping, shape),
        };
        made.map_err(io::Error::other)
    }
}

/// Creates the area that all rings refer to.
pub(super) fn open_area(options: &TransportOptions) -> Result<ReceiveArea, TransportError> {
    remove_left_overs(&options.ring_directory);
    let started_ns = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let name = format!("{PREFIX}{}-{started_ns}-area", std::process::id());
    ReceiveArea::open(&options.ring_directory, &name).map_err(|error| {
        TransportError::new(
            format!("cannot make {name} in {}: {error}", options.ring_directory.display()),
            "make room for 16 MiB there, or use --transport shm or pipe",
        )
    })
}

/// Removes the files of splitters that died, whose lock is free.
fn remove_left_overs(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(file) = File::open(entry.path()) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = remove_file(entry.path());
        }
    }
}

fn no_ring(path: &Path, options: &TransportOptions, error: &io::Error) -> TransportError {
    let megabytes = (options.ring_bytes >> 20).max(1) * u64::from(options.workers);
    TransportError::new(
        format!("cannot make the ring {}: {error}", path.display()),
        format!("make room for {megabytes} MiB there, or use smaller rings, fewer workers or --transport pipe"),
    )
}
