//! Where the feed is received when rings only refer to it: memory that every worker maps, in segments that are filled in turn.
//!
//! Does        say where the next bytes may be received; tell who may refer to them.
//! Holds       1. a segment is received into again only when every worker that still reads has given back all references
//!                that were put before the segment was left;
//!             2. a worker that is so many segments behind is referred to nothing more: it gets copies in its ring, and so holds
//!                few segments, however long it stands;
//!             3. when no segment is free, there is nowhere to receive here: all are given copies until one is.
//! Why         the kernel writes what it received right to where workers read it: no copy of ours.
//! Start at    [`ReceiveSegments::next`].

use std::collections::VecDeque;
use std::fs::{File, OpenOptions, remove_file};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

use pitwire_shard::Memory;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};

use crate::mapping::Mapping;

/// One read fits, or a few short ones.
const SEGMENT_BYTES: usize = 256 << 10;
const SEGMENTS: usize = 64;
/// Less is not received into: a read would bring less than the kernel has.
const WORTH_BYTES: usize = 128 << 10;
/// A worker with a reference older than so many segments gets copies until it has none.
const BEHIND_SEGMENTS: usize = SEGMENTS / 4;

#[derive(Debug)]
pub(crate) struct ReceiveArea {
    mapping: Mapping,
    path: PathBuf,
    /// Holds the lock, as a ring's does.
    _file: File,
}

impl ReceiveArea {
    pub fn open(directory: &Path, name: &str) -> io::Result<Self> {
        let path = directory.join(name);
        // Who reads is not to write. As with rings: locked before it has a name that a starting splitter takes for a left-over.
        let unnamed = directory.join(format!(".new-{name}"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o400).open(&unnamed)?;
        let named = flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from);
        if let Err(error) = named.and_then(|()| std::fs::rename(&unnamed, &path)) {
            let _ = remove_file(&unnamed);
            return Err(error);
        }
        let bytes = SEGMENT_BYTES * SEGMENTS;
        let mapped = fallocate(&file, FallocateFlags::empty(), 0, bytes as u64).map_err(io::Error::from);
        match mapped.and_then(|()| Mapping::of(&file, bytes)) {
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

    /// Where text lies that was received here, if it was.
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

/// Where the next bytes of the feed may be received.
pub struct ReceiveBuffer {
    base: NonNull<u8>,
    bytes: usize,
    _area: Arc<ReceiveArea>,
}

impl ReceiveBuffer {
    /// All of it; what lies there is of no worth.
    pub fn space(&mut self) -> &mut [u8] {
        // SAFETY: within the area, which lives; workers have no reference into it, and nobody else in this process touches it
        // before the next receive_buffer is asked for.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes) }
    }
}

/// A segment that was left, and by what each worker gives it back.
struct HeldSegment {
    segment: usize,
    heads: Box<[u64]>,
    /// Workers before this one have given it back.
    worker: usize,
}

/// What is known of a worker's ring.
pub(crate) trait ReferenceHolders {
    /// Bytes put into a worker's ring, up to the last reference at least.
    fn head(&self, worker: usize) -> u64;

    /// Whether it holds no reference any more that was put before its ring's position was `head`.
    fn has_taken(&mut self, worker: usize, head: u64) -> bool;

    /// Whether it is referred to what is received from now on.
    fn refer(&mut self, worker: usize, refers: bool);
}

pub(crate) struct ReceiveSegments {
    area: Arc<ReceiveArea>,
    workers: usize,
    /// The one being filled, and up to where. None: all are held.
    current: Option<usize>,
    filled: usize,
    left: VecDeque<HeldSegment>,
    /// Workers that are referred to what lies in the current one.
    refers: Box<[bool]>,
    free: Vec<usize>,
    /// CpuUse again, so that nothing is allocated in passing.
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

    /// Where to receive next. Everything received before has been dealt.
    pub fn next(&mut self, rings: &mut impl ReferenceHolders) -> Option<ReceiveBuffer> {
        if self.current.is_none() || SEGMENT_BYTES - self.filled < WORTH_BYTES {
            self.go_on(rings);
        }
        let offset = self.current? * SEGMENT_BYTES + self.filled;
        // SAFETY: within the mapping.
        let base = unsafe { self.area.mapping.base().add(offset) };
        Some(ReceiveBuffer { base, bytes: SEGMENT_BYTES - self.filled, _area: Arc::clone(&self.area) })
    }

    /// So many bytes have been received there.
    pub fn commit_received(&mut self, bytes: usize) {
        self.filled = (self.filled + bytes).min(SEGMENT_BYTES);
    }

    /// No worker holds anything any more: their program and their rings are others.
    pub fn release_all(&mut self) {
        self.left.iter_mut().for_each(|left| left.worker = self.workers);
        self.refers.fill(true);
    }

    /// Segments that were left and are not free.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.left.len()
    }

    fn go_on(&mut self, rings: &mut impl ReferenceHolders) {
        if let Some(segment) = self.current.take() {
            let mut heads = self.spare.pop().unwrap_or_else(|| vec![0; self.workers].into_boxed_slice());
            for (worker, (head, refers)) in heads.iter_mut().zip(&self.refers).enumerate() {
                // Who got copies holds nothing of it.
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
            // Whoever holds this one holds those behind it too, unless it stands: then others are freed behind it.
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
        // The one that was freed last: what it holds is the likeliest to lie in a cache.
        self.current = self.free.pop();
        self.filled = 0;
    }

    /// Who gets references and who copies.
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
