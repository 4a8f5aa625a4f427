//! The writing side of a ring.
//!
//! Does        records in, published together; never waits: what does not fit is refused.
//! Holds       nothing the reader has not given back is overwritten, whatever the reader writes into its words.
//! Leaves out  waking: [`Producer::publish`] says when.

use crate::bell::Words;
use crate::copy::{OVERSHOOT, copy_record};
use crate::layout::{
    ALIGNMENT, AREA_NAME_BYTES, AT_AREA_BYTES, AT_AREA_NAME, AT_BELL, AT_CAPACITY, AT_HEAD, AT_MAGIC, AT_RECORDS_AT,
    AT_SLEEPING, AT_STARTED_NS, AT_STATE, AT_TAIL, AT_VERSION, AT_WORKER, AT_WORKERS, CAPACITY_MAX, CAPACITY_MIN,
    MAGIC, RECORDS_AT, REFERENCE, REFERENCE_BYTES, STATE_ENDED, STATE_LIVE, VERSION, VERSION_REFERRING, WRAP,
    footprint, ring_record_max,
};
use crate::memory::{Memory, word32, word64};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::Fault;

/// How far before the next record lines are asked for: about two records.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const AHEAD_BYTES: u64 = 192;

/// What a ring's header says of it.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of records; a power of two.
    pub capacity: u64,
    pub worker: u32,
    pub workers: u32,
    pub started_ns: u64,
}

/// Why a record was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The reader has not yet given back enough.
    Full,
    /// It never fits.
    TooLong,
    /// The reader's position is one that it cannot have.
    Broken,
}

pub struct Producer<M> {
    memory: M,
    records: *mut u8,
    capacity: u64,
    /// Bytes written; up to `published` of them the reader may see.
    head: u64,
    published: u64,
    /// The reader's position as last looked at.
    tail: u64,
    /// Bytes from `head` on that may be written without looking again.
    run: usize,
    /// Longest record, a quarter of the ring.
    longest: usize,
}

// SAFETY: `records` points into `memory`, which moves along.
unsafe impl<M: Memory + Send> Send for Producer<M> {}

impl<M: Memory> Producer<M> {
    /// Writes the header of an empty ring. The memory must be zeroed (a new file is) and nobody's yet.
    pub fn create(memory: M, shape: &Shape) -> Result<Self, Fault> {
        Self::create_as(memory, shape, VERSION)
    }

    /// The same for a ring that may refer to records in an area of so many bytes, whose file has that name beside the
    /// ring's.
    pub fn create_referring(memory: M, shape: &Shape, area_name: &str, area_bytes: u64) -> Result<Self, Fault> {
        let room = RECORDS_AT as usize - AT_AREA_NAME;
        if area_name.len() >= AREA_NAME_BYTES.min(room) || memory.bytes() < RECORDS_AT as usize {
            return Err(Fault::Shape);
        }
        // SAFETY: name and the zero behind it fit the header, which nobody reads yet.
        unsafe {
            let to = memory.base().as_ptr().add(AT_AREA_NAME);
            std::ptr::copy_nonoverlapping(area_name.as_ptr(), to, area_name.len());
        }
        word64(&memory, AT_AREA_BYTES).store(area_bytes, Ordering::Relaxed);
        Self::create_as(memory, shape, VERSION_REFERRING)
    }

    fn create_as(memory: M, shape: &Shape, version: u32) -> Result<Self, Fault> {
        let fits = shape.capacity.checked_add(u64::from(RECORDS_AT)).is_some_and(|all| all <= memory.bytes() as u64);
        let range = CAPACITY_MIN..=CAPACITY_MAX;
        if !shape.capacity.is_power_of_two() || !range.contains(&shape.capacity) || !fits {
            return Err(Fault::Shape);
        }
        word32(&memory, AT_VERSION).store(version, Ordering::Relaxed);
        word32(&memory, AT_RECORDS_AT).store(RECORDS_AT, Ordering::Relaxed);
        word64(&memory, AT_CAPACITY).store(shape.capacity, Ordering::Relaxed);
        word32(&memory, AT_WORKER).store(shape.worker, Ordering::Relaxed);
        word32(&memory, AT_WORKERS).store(shape.workers, Ordering::Relaxed);
        word64(&memory, AT_STARTED_NS).store(shape.started_ns, Ordering::Relaxed);
        word64(&memory, AT_HEAD).store(0, Ordering::Relaxed);
        word64(&memory, AT_TAIL).store(0, Ordering::Relaxed);
        word32(&memory, AT_STATE).store(STATE_LIVE, Ordering::Relaxed);
        // Last: who finds the magic finds the rest.
        word64(&memory, AT_MAGIC).store(MAGIC, Ordering::Release);
        // SAFETY: the memory is longer than its header, as checked above.
        let records = unsafe { memory.base().as_ptr().add(RECORDS_AT as usize) };
        #[allow(clippy::cast_possible_truncation)] // below the capacity, which lies in memory
        let longest = ring_record_max(shape.capacity) as usize;
        let mut ring =
            Self { memory, records, capacity: shape.capacity, head: 0, published: 0, tail: 0, run: 0, longest };
        ring.measure();
        Ok(ring)
    }

    /// HOT. `text[start..end]` becomes a record, to be seen after [`Producer::publish`].
    #[inline]
    pub fn put(&mut self, text: &[u8], start: usize, end: usize) -> Result<(), Refused> {
        if start > end || end > text.len() || end - start > self.longest {
            return Err(Refused::TooLong);
        }
        let bytes = footprint(end - start);
        if bytes + OVERSHOOT > self.run {
            return self.put_at_edge(&text[start..end]);
        }
        // SAFETY: the range is checked above; `run` bytes from `head` on are ours to write, and a run is less than 2^32.
        unsafe { copy_record(text, start, end, self.place()) };
        self.advance(bytes);
        self.announce();
        Ok(())
    }

    /// HOT, of a ring made by [`Producer::create_referring`]. So many bytes at `offset` of the area are a record, to be seen after
    /// [`Producer::publish`]. Longer ones than [`Producer::put`] takes are refused here too.
    #[inline]
    pub fn put_reference(&mut self, offset: u32, bytes: usize) -> Result<(), Refused> {
        if bytes > self.longest {
            return Err(Refused::TooLong);
        }
        if self.run < REFERENCE_BYTES {
            self.look()?;
            if self.run < REFERENCE_BYTES {
                return Err(Refused::Full);
            }
        }
        #[allow(clippy::cast_possible_truncation)] // at most a quarter of 2^32
        let length = u64::from(bytes as u32 | REFERENCE);
        // SAFETY: `run` bytes from `head` on are ours to write, and `head` is a multiple of 8.
        unsafe { self.place().cast::<u64>().write((length | u64::from(offset) << 32).to_le()) };
        self.advance(REFERENCE_BYTES);
        self.announce();
        if self.run == 0 {
            self.measure();
        }
        Ok(())
    }

    /// Bytes put, published or not.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Whether the reader has given back all before `position`; looks only if it has not been seen to.
    pub fn has_taken(&mut self, position: u64) -> bool {
        if self.tail < position {
            // A position that it cannot have moves nothing.
            let _ = self.look();
        }
        self.tail >= position
    }

    /// Near the end of the ring or of what the reader has given back: exactly as many bytes, after another look.
    #[cold]
    #[inline(never)]
    fn put_at_edge(&mut self, record: &[u8]) -> Result<(), Refused> {
        let bytes = footprint(record.len());
        if self.put_exactly(record, bytes) {
            return Ok(());
        }
        self.look()?;
        if self.put_exactly(record, bytes) { Ok(()) } else { Err(Refused::Full) }
    }

    fn put_exactly(&mut self, record: &[u8], bytes: usize) -> bool {
        let to_end = self.to_end();
        if bytes as u64 > to_end {
            if self.free() < to_end + bytes as u64 {
                return false;
            }
            // SAFETY: at least ALIGNMENT bytes are left before the end, and they are free.
            unsafe { self.place().cast::<u32>().write_unaligned(WRAP) };
            self.head += to_end;
            self.measure();
        }
        if bytes > self.run {
            return false;
        }
        // SAFETY: `run` bytes from `head` on are ours to write; `bytes` holds length and record.
        unsafe {
            let to = self.place();
            #[allow(clippy::cast_possible_truncation)] // at most a quarter of 2^32
            to.cast::<u32>().write_unaligned((record.len() as u32).to_le());
            std::ptr::copy_nonoverlapping(record.as_ptr(), to.add(4), record.len());
        }
        self.advance(bytes);
        true
    }

    fn place(&self) -> *mut u8 {
        #[allow(clippy::cast_possible_truncation)] // below the capacity, which lies in memory
        let at = (self.head & (self.capacity - 1)) as usize;
        // SAFETY: below the capacity, which the memory has behind its header.
        unsafe { self.records.add(at) }
    }

    /// Asks for the lines that the next records go to: the reader's core has them, and a store that finds them there waits.
    /// Measured with `examples/deal.rs` of crates/splitter, rings of 1 MiB, a busy reader: 23 to 29 ns a record without, 17 to
    /// 22 ns with it.
    #[inline]
    fn announce(&self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            #[allow(clippy::cast_possible_truncation)] // below the capacity, which lies in memory
            let at = ((self.head + AHEAD_BYTES) & (self.capacity - 1)) as usize;
            let line = self.records.wrapping_add(at);
            // SAFETY: a hint, which neither reads nor writes nor faults, whatever the address; processors that do not know it
            // pass over it.
            unsafe {
                std::arch::asm!(
                    "prefetchw [{line}]", "prefetchw [{line} + 64]",
                    line = in(reg) line, options(nostack, preserves_flags, readonly)
                );
            }
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.head += bytes as u64;
        self.run -= bytes;
    }

    fn to_end(&self) -> u64 {
        self.capacity - (self.head & (self.capacity - 1))
    }

    fn free(&self) -> u64 {
        self.capacity - (self.head - self.tail)
    }

    fn measure(&mut self) {
        #[allow(clippy::cast_possible_truncation)] // at most the capacity, which lies in memory
        let run = self.free().min(self.to_end()) as usize;
        self.run = run & !(ALIGNMENT - 1);
    }

    /// Takes over the reader's position, if it can be one.
    fn look(&mut self) -> Result<(), Refused> {
        let tail = self.words().tail.load(Ordering::Acquire);
        if tail < self.tail || tail > self.published {
            return Err(Refused::Broken);
        }
        self.tail = tail;
        self.measure();
        Ok(())
    }

    /// Everything put so far may be read. True: wake who waits on [`Producer::bell`].
    #[must_use = "a sleeper is waiting to be woken"]
    pub fn publish(&mut self) -> bool {
        if self.published == self.head {
            return false;
        }
        self.published = self.head;
        self.words().publish(self.head)
    }

    /// Nothing more will come; what was put before is published. True: wake.
    #[must_use = "a sleeper is waiting to be woken"]
    pub fn end(&mut self) -> bool {
        let wakes = self.publish();
        self.words().end(STATE_ENDED) || wakes
    }

    /// Bytes that the reader has not given back; all of them when its position cannot be one.
    pub fn unread_bytes(&mut self) -> u64 {
        let looked = self.look();
        if looked.is_err() { self.capacity } else { self.head - self.tail }
    }

    /// Bytes that the reader has given back since the beginning.
    pub fn taken_bytes(&mut self) -> u64 {
        let _ = self.look();
        self.tail
    }

    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Records that the reader has not given back, counted one by one. For when it is gone.
    pub fn unread_records(&mut self) -> u64 {
        if self.look().is_err() {
            self.tail = self.published;
        }
        let (mut at, mut count) = (self.tail, 0);
        while at < self.head {
            #[allow(clippy::cast_possible_truncation)] // below the capacity
            let offset = (at & (self.capacity - 1)) as usize;
            // SAFETY: a multiple of 8 below the capacity, so four bytes are there; only this side writes records.
            let length = unsafe { self.records.add(offset).cast::<u32>().read_unaligned() };
            if length == WRAP {
                at += self.capacity - offset as u64;
            } else {
                let length = u32::from_le(length);
                at += if length & REFERENCE == 0 { footprint(length as usize) } else { REFERENCE_BYTES } as u64;
                count += 1;
            }
        }
        count
    }

    pub fn bell(&self) -> &AtomicU32 {
        word32(&self.memory, AT_BELL)
    }

    fn words(&self) -> Words<'_, AtomicU64, AtomicU32> {
        Words {
            head: word64(&self.memory, AT_HEAD),
            bell: word32(&self.memory, AT_BELL),
            state: word32(&self.memory, AT_STATE),
            tail: word64(&self.memory, AT_TAIL),
            sleeping: word32(&self.memory, AT_SLEEPING),
        }
    }
}
