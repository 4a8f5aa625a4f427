//! The writing side of a ring.
//!
//! Does        writes records and publishes them together. Never waits: a record that does not fit
//!             is refused.
//! Holds       nothing that the reader has not released is overwritten, whatever the reader writes
//!             into its words.
//! Leaves out  waking the reader: [`Producer::publish`] tells when.

use crate::bell::RingWords;
use crate::copy::{OVERSHOOT, copy_record};
use crate::layout::{
    ALIGNMENT, AREA_NAME_BYTES, AT_AREA_BYTES, AT_AREA_NAME, AT_BELL, AT_CAPACITY, AT_HEAD, AT_MAGIC, AT_RECORDS_AT,
    AT_STARTED_NS, AT_STATE, AT_TAIL, AT_VERSION, AT_WORKER, AT_WORKERS, CAPACITY_MAX, CAPACITY_MIN, MAGIC, RECORDS_AT,
    REFERENCE, REFERENCE_BYTES, STATE_ENDED, STATE_LIVE, VERSION, VERSION_REFERRING, WRAP, footprint, ring_record_max,
};
use crate::memory::{Memory, word32, word64};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::fault::RingFault;

/// Prefetch distance in bytes: about two records.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const AHEAD_BYTES: u64 = 192;

/// The parameters in a ring's header.
#[derive(Clone, Copy, Debug)]
pub struct RingConfig {
    /// Size of the ring in bytes of records; a power of two.
    pub capacity: u64,
    pub worker: u32,
    pub workers: u32,
    pub started_ns: u64,
}

/// Why a record was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutError {
    /// The reader has not released enough space.
    Full,
    /// The record is longer than the ring allows.
    TooLong,
    /// The reader wrote a position that is impossible.
    Broken,
}

pub struct Producer<M> {
    memory: M,
    records: *mut u8,
    capacity: u64,
    /// Bytes written. Those before `published` are visible to the reader.
    head: u64,
    published: u64,
    /// The reader's position when it was last loaded.
    tail: u64,
    /// Bytes from `head` on that may be written without loading the reader's position again.
    run: usize,
    /// Longest record: a quarter of the ring.
    longest: usize,
}

// SAFETY: `records` points into `memory`, which moves with it.
unsafe impl<M: Memory + Send> Send for Producer<M> {}

impl<M: Memory> Producer<M> {
    /// Writes the header of an empty ring. The memory must be zeroed, as in a new file, and unused.
    ///
    /// # Errors
    /// The capacity is not a power of two, or does not fit the memory.
    pub fn create(memory: M, shape: &RingConfig) -> Result<Self, RingFault> {
        Self::create_as(memory, shape, VERSION)
    }

    /// Creates a ring that may refer to records in an area of `area_bytes` bytes, whose file is in
    /// the ring's directory.
    ///
    /// # Errors
    /// As [`Producer::create`], or the name is too long.
    pub fn create_referring(
        memory: M,
        shape: &RingConfig,
        area_name: &str,
        area_bytes: u64,
    ) -> Result<Self, RingFault> {
        let room = RECORDS_AT as usize - AT_AREA_NAME;
        if area_name.len() >= AREA_NAME_BYTES.min(room) || memory.bytes() < RECORDS_AT as usize {
            return Err(RingFault::Layout);
        }
        // SAFETY: the name and its terminating zero fit the header, which has no reader yet.
        unsafe {
            let to = memory.base().as_ptr().add(AT_AREA_NAME);
            std::ptr::copy_nonoverlapping(area_name.as_ptr(), to, area_name.len());
        }
        word64(&memory, AT_AREA_BYTES).store(area_bytes, Ordering::Relaxed);
        Self::create_as(memory, shape, VERSION_REFERRING)
    }

    fn create_as(memory: M, shape: &RingConfig, version: u32) -> Result<Self, RingFault> {
        let fits = shape.capacity.checked_add(u64::from(RECORDS_AT)).is_some_and(|all| all <= memory.bytes() as u64);
        let range = CAPACITY_MIN..=CAPACITY_MAX;
        if !shape.capacity.is_power_of_two() || !range.contains(&shape.capacity) || !fits {
            return Err(RingFault::Layout);
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
        // Last, so that a reader that finds the magic number finds everything else.
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

    /// HOT. Writes `text[start..end]` as a record. [`Producer::publish`] makes it visible.
    ///
    /// # Errors
    /// The record does not fit now, or never fits, or the reader wrote an impossible position.
    #[inline]
    pub fn put(&mut self, text: &[u8], start: usize, end: usize) -> Result<(), PutError> {
        if start > end || end > text.len() || end - start > self.longest {
            return Err(PutError::TooLong);
        }
        let bytes = footprint(end - start);
        if bytes + OVERSHOOT > self.run {
            return self.put_at_edge(&text[start..end]);
        }
        // SAFETY: the range is checked above. `run` bytes from `head` on are ours to write, and a
        // run is below 2^32.
        unsafe { copy_record(text, start, end, self.place()) };
        self.advance(bytes);
        self.prefetch();
        Ok(())
    }

    /// HOT. Writes a reference to `bytes` bytes at `offset` of the area, in a ring made by
    /// [`Producer::create_referring`]. [`Producer::publish`] makes it visible.
    ///
    /// # Errors
    /// As [`Producer::put`], with the same longest record.
    #[inline]
    pub fn put_reference(&mut self, offset: u32, bytes: usize) -> Result<(), PutError> {
        if bytes > self.longest {
            return Err(PutError::TooLong);
        }
        if self.run < REFERENCE_BYTES {
            self.look()?;
            if self.run < REFERENCE_BYTES {
                return Err(PutError::Full);
            }
        }
        #[allow(clippy::cast_possible_truncation)] // at most a quarter of 2^32
        let length = u64::from(bytes as u32 | REFERENCE);
        // SAFETY: `run` bytes from `head` on are ours to write, and `head` is a multiple of 8.
        unsafe { self.place().cast::<u64>().write((length | u64::from(offset) << 32).to_le()) };
        self.advance(REFERENCE_BYTES);
        self.prefetch();
        if self.run == 0 {
            self.measure();
        }
        Ok(())
    }

    /// Returns how many bytes were written, published or not.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Returns whether the reader has released everything before `position`. Loads its position
    /// only if necessary.
    pub fn has_taken(&mut self, position: u64) -> bool {
        if self.tail < position {
            // An impossible position changes nothing.
            let _ = self.look();
        }
        self.tail >= position
    }

    /// Writes near the end of the ring or of the released space, without overshoot and after
    /// loading the tail again.
    #[cold]
    #[inline(never)]
    fn put_at_edge(&mut self, record: &[u8]) -> Result<(), PutError> {
        let bytes = footprint(record.len());
        if self.put_exactly(record, bytes) {
            return Ok(());
        }
        self.look()?;
        if self.put_exactly(record, bytes) { Ok(()) } else { Err(PutError::Full) }
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
        // SAFETY: `run` bytes from `head` on are ours to write; `bytes` covers length and record.
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

    /// Prefetches the lines that the next records go to. The reader's core holds them, and a store
    /// would wait for them. Measured with `examples/route.rs` of crates/splitter, rings of 1 MiB
    /// and a busy reader: 23 to 29 ns a record without, 17 to 22 ns with it.
    #[inline]
    fn prefetch(&self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            #[allow(clippy::cast_possible_truncation)] // below the capacity, which lies in memory
            let at = ((self.head + AHEAD_BYTES) & (self.capacity - 1)) as usize;
            let line = self.records.wrapping_add(at);
            // SAFETY: a prefetch neither reads nor writes nor faults, whatever the address.
            // Processors without the instruction ignore it.
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

    /// Loads the reader's position, if it is possible.
    fn look(&mut self) -> Result<(), PutError> {
        let tail = self.words().tail.load(Ordering::Acquire);
        if tail < self.tail || tail > self.published {
            return Err(PutError::Broken);
        }
        self.tail = tail;
        self.measure();
        Ok(())
    }

    /// Publishes all written records. Returns whether the caller must wake the reader on
    /// [`Producer::bell`].
    #[must_use = "a sleeper is waiting to be woken"]
    pub fn publish(&mut self) -> bool {
        if self.published == self.head {
            return false;
        }
        self.published = self.head;
        self.words().publish(self.head)
    }

    /// Publishes everything and ends the ring. Returns whether the caller must wake the reader.
    #[must_use = "a sleeper is waiting to be woken"]
    pub fn end(&mut self) -> bool {
        let wakes = self.publish();
        self.words().end(STATE_ENDED) || wakes
    }

    /// Returns how many bytes the reader has not released; all of them if its position is
    /// impossible.
    pub fn unread_bytes(&mut self) -> u64 {
        let looked = self.look();
        if looked.is_err() { self.capacity } else { self.head - self.tail }
    }

    /// Returns how many bytes the reader has released since the start.
    pub fn taken_bytes(&mut self) -> u64 {
        let _ = self.look();
        self.tail
    }

    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Counts the records that the reader has not released, one by one. For use after the reader is
    /// gone.
    pub fn unread_records(&mut self) -> u64 {
        if self.look().is_err() {
            self.tail = self.published;
        }
        let (mut at, mut count) = (self.tail, 0);
        while at < self.head {
            #[allow(clippy::cast_possible_truncation)] // below the capacity
            let offset = (at & (self.capacity - 1)) as usize;
            // SAFETY: a multiple of 8 below the capacity, so four bytes exist; only this side
            // writes records.
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

    fn words(&self) -> RingWords<'_, AtomicU64, AtomicU32> {
        RingWords::of(&self.memory)
    }
}
