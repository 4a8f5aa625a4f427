//! The memory where the feed is received if rings refer to it. Every worker maps it; its segments
//! are filled in turn.
//!
//! Does        says where the next bytes may be received, and which workers may refer to them.
//! Holds       1. a segment is reused only when every worker has released all references that were
//!                put before the segment was left;
//!             2. a worker that is many segments behind gets copies instead of references, so it
//!                holds few segments;
//!             3. while no segment is free, all workers get copies.
//! Why         the kernel writes received bytes where workers read them, so we copy nothing.
//! Start at    [`ReceiveSegments::next`].

use std::collections::VecDeque;
use std::fs::{File, OpenOptions, remove_file};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};
use pitwire_shard::Memory;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};

/// Size of a segment in bytes. One large read fits, or a few short ones.
const SEGMENT_BYTES: usize = 256 << 10;
const SEGMENTS: usize = 64;
/// Smallest rest of a segment that is received into. With less, a read would return less than the
/// kernel has.
const WORTH_BYTES: usize = 128 << 10;
/// A worker whose oldest reference is this many segments back gets copies until it has none left.
const BEHIND_SEGMENTS: usize = SEGMENTS / 4;

/// Creates a file with a lock. It is locked before it has a name that a starting splitter would
/// remove.
pub(crate) fn create_locked(path: &Path, mode: u32) -> io::Result<File> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unnamed = path.with_file_name(format!(".new-{name}"));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(&unnamed)?;
    let named = flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from);
    if let Err(error) = named.and_then(|()| std::fs::rename(&unnamed, path)) {
        let _ = remove_file(&unnamed);
        return Err(error);
    }
    Ok(file)
}

#[derive(Debug)]
pub(crate) struct ReceiveArea {
    mapping: MmapRaw,
    path: PathBuf,
    /// Holds the lock, as the file of a ring does.
    _file: File,
}

impl ReceiveArea {
    /// Creates the area in a file of `directory` and maps it.
    ///
    /// # Errors
    /// If the file cannot be created, locked, filled with its size or mapped. No file stays behind.
    pub fn open(directory: &Path, name: &str) -> io::Result<Self> {
        let path = directory.join(name);
        // Workers must not write.
        let file = create_locked(&path, 0o400)?;
        let bytes = SEGMENT_BYTES * SEGMENTS;
        let mapped = fallocate(&file, FallocateFlags::empty(), 0, bytes as u64).map_err(io::Error::from);
        match mapped.and_then(|()| MmapOptions::new().len(bytes).populate().map_raw(&file)) {
            Ok(mapping) => Ok(Self { mapping, path, _file: file }),
            Err(error) => {
                let _ = remove_file(&path);
                Err(error)
            }
        }
    }

    pub fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    pub fn bytes(&self) -> usize {
        self.mapping.bytes()
    }

    /// Returns the address of the area, to recognise text that was received here.
    #[inline]
    pub fn address(&self) -> usize {
        self.mapping.base().as_ptr().addr()
    }
}

impl Drop for ReceiveArea {
    fn drop(&mut self) {
        let _ = remove_file(&self.path);
    }
}

/// A buffer for the next bytes of the feed.
pub struct ReceiveBuffer {
    base: NonNull<u8>,
    bytes: usize,
    _area: Arc<ReceiveArea>,
}

impl ReceiveBuffer {
    /// Returns the whole buffer. Its content is undefined.
    pub fn space(&mut self) -> &mut [u8] {
        // SAFETY: within the area, which is alive. Workers hold no reference into this part, and
        // nothing else in this process touches it before the next receive buffer is requested.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes) }
    }
}

/// A segment that was filled, and the ring position at which each worker releases it.
struct HeldSegment {
    segment: usize,
    heads: Box<[u64]>,
    /// Workers before this one have released it.
    worker: usize,
}

/// Access to the workers' rings.
pub(crate) trait ReferenceHolders {
    /// Returns the position of a worker's ring: bytes put, at least up to the last reference.
    fn head(&self, worker: usize) -> u64;

    /// Returns whether the worker has released all references that were put before `head`.
    fn has_taken(&mut self, worker: usize, head: u64) -> bool;

    /// Sets whether the worker gets references or copies from now on.
    fn refer(&mut self, worker: usize, refers: bool);
}

pub(crate) struct ReceiveSegments {
    area: Arc<ReceiveArea>,
    workers: usize,
    /// The segment being filled, and its filled bytes. `None` if all are held.
    current: Option<usize>,
    filled: usize,
    left: VecDeque<HeldSegment>,
    /// Workers that get references to the current segment.
    refers: Box<[bool]>,
    free: Vec<usize>,
    /// Reused, so that nothing is allocated while running.
    spare: Vec<Box<[u64]>>,
}

impl ReceiveSegments {
    pub fn new(area: Arc<ReceiveArea>, workers: usize) -> Self {
        let heads = |_| vec![0; workers].into_boxed_slice();
        Self {
            area,
            workers,
            current: Some(0),
            filled: 0,
            left: VecDeque::with_capacity(SEGMENTS),
            refers: vec![true; workers].into_boxed_slice(),
            free: (1..SEGMENTS).rev().collect(),
            spare: (0..SEGMENTS).map(heads).collect(),
        }
    }

    /// Returns where to receive next. Everything received before must have been routed.
    pub fn next(&mut self, rings: &mut impl ReferenceHolders) -> Option<ReceiveBuffer> {
        if self.current.is_none() || SEGMENT_BYTES - self.filled < WORTH_BYTES {
            self.next_segment(rings);
        }
        let offset = self.current? * SEGMENT_BYTES + self.filled;
        // SAFETY: within the mapping.
        let base = unsafe { self.area.mapping.base().add(offset) };
        Some(ReceiveBuffer { base, bytes: SEGMENT_BYTES - self.filled, _area: Arc::clone(&self.area) })
    }

    /// Notes that `bytes` bytes were received there.
    pub fn commit_received(&mut self, bytes: usize) {
        self.filled = (self.filled + bytes).min(SEGMENT_BYTES);
    }

    /// Releases all segments: the program was restarted with new rings.
    pub fn release_all(&mut self) {
        self.left.iter_mut().for_each(|left| left.worker = self.workers);
        self.refers.fill(true);
    }

    /// Returns how many filled segments are not free.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.left.len()
    }

    fn next_segment(&mut self, rings: &mut impl ReferenceHolders) {
        if let Some(segment) = self.current.take() {
            let mut heads = self.spare.pop().unwrap_or_else(|| vec![0; self.workers].into_boxed_slice());
            for (worker, (head, refers)) in heads.iter_mut().zip(&self.refers).enumerate() {
                // A worker that got copies holds nothing of it.
                *head = if *refers { rings.head(worker) } else { 0 };
            }
            self.left.push_back(HeldSegment { segment, heads, worker: 0 });
        }
        let mut index = 0;
        while let Some(left) = self.left.get_mut(index) {
            while left.worker < self.workers && rings.has_taken(left.worker, left.heads[left.worker]) {
                left.worker += 1;
            }
            let is_free = left.worker == self.workers;
            // A worker that holds this segment usually holds the later ones too, unless it is
            // stopped.
            if !is_free {
                index += 1;
                continue;
            }
            if let Some(HeldSegment { segment, heads, .. }) = self.left.remove(index) {
                self.free.push(segment);
                self.spare.push(heads);
            }
        }
        self.judge(rings);
        // The segment that was released last is most likely still in a cache.
        self.current = self.free.pop();
        self.filled = 0;
    }

    /// Decides which workers get references and which get copies.
    fn judge(&mut self, rings: &mut impl ReferenceHolders) {
        let old = self.left.len().checked_sub(BEHIND_SEGMENTS).and_then(|index| self.left.get(index));
        for (worker, refers) in self.refers.iter_mut().enumerate() {
            let head = if *refers { old.map_or(0, |left| left.heads[worker]) } else { rings.head(worker) };
            let is_on_time = rings.has_taken(worker, head);
            if is_on_time != *refers {
                rings.refer(worker, is_on_time);
                *refers = is_on_time;
            }
        }
    }
}
