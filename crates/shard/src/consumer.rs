//! The reading side of a ring.
//!
//! Does        passes each published record to a callback once, in order and in place; releases its
//!             space while it goes.
//! Holds       lengths and positions are read once and checked before use, so hostile memory is a
//!             fault and not a crash.
//! Leaves out  sleeping: [`Consumer::arm`] returns what to wait on.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::bell::RingWords;
use crate::fault::RingFault;
use crate::layout::{
    ALIGNMENT, AREA_NAME_BYTES, AT_AREA_BYTES, AT_AREA_NAME, AT_BELL, AT_CAPACITY, AT_MAGIC, AT_RECORDS_AT, AT_TAIL,
    AT_VERSION, AT_WORKER, AT_WORKERS, CAPACITY_MAX, CAPACITY_MIN, LENGTH_BYTES, MAGIC, RECORDS_AT, REFERENCE,
    REFERENCE_BYTES, STATE_LIVE, VERSION, VERSION_REFERRING, WRAP, footprint, ring_record_max,
};
use crate::memory::{Memory, word32, word64};

/// Space is released at the latest after this fraction of the ring.
const GIVE_BACK_PARTS: u64 = 8;
const GIVE_BACK_PARTS_REFERRING: u64 = 64;
/// Prefetch distance for referenced records, in bytes of references.
const AHEAD_BYTES: u64 = 12 * REFERENCE_BYTES as u64;

pub struct Consumer<M, A = M> {
    memory: M,
    /// The memory that references point into.
    area: Option<A>,
    /// Bytes that may be read before their space is released.
    most_held: u64,
    records: *const u8,
    capacity: u64,
    /// Bytes read.
    position: u64,
    given_back: u64,
}

// SAFETY: `records` points into `memory`, which moves with it.
unsafe impl<M: Memory + Send, A: Send> Send for Consumer<M, A> {}

/// Returns the name of the file, in the ring's directory, that the ring refers to; `None` for a
/// ring of version 1.
///
/// # Errors
/// The memory is not a ring, has an unknown version, or contains an invalid name.
pub fn area_name(memory: &impl Memory) -> Result<Option<String>, RingFault> {
    match version(memory)? {
        VERSION => return Ok(None),
        VERSION_REFERRING => {}
        found => return Err(RingFault::Version { found }),
    }
    let mut name = [0; AREA_NAME_BYTES];
    // SAFETY: `version` checked that the header exists. The name is copied before it is examined.
    unsafe { std::ptr::copy_nonoverlapping(memory.base().as_ptr().add(AT_AREA_NAME), name.as_mut_ptr(), name.len()) };
    let name = name.split(|byte| *byte == 0).next().and_then(|name| std::str::from_utf8(name).ok());
    // A file name and no path: the file is in the ring's directory.
    let name = name.filter(|name| !name.is_empty() && !name.contains('/') && *name != "..").ok_or(RingFault::Layout)?;
    Ok(Some(name.to_owned()))
}

fn version(memory: &impl Memory) -> Result<u32, RingFault> {
    if memory.bytes() < RECORDS_AT as usize || word64(memory, AT_MAGIC).load(Ordering::Acquire) != MAGIC {
        return Err(RingFault::NotARing);
    }
    Ok(word32(memory, AT_VERSION).load(Ordering::Relaxed))
}

/// Prefetches a record that a later reference points to. Another core holds its lines, and the
/// processor cannot predict them, because the records of one worker are far apart in the area.
#[inline]
fn prefetch(area: &impl Memory, records: *const u8, at: u64) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[allow(clippy::cast_possible_truncation)] // below the capacity, which lies in memory
        // SAFETY: eight bytes exist at every multiple of 8 below the capacity. Their value is used
        // for a hint only.
        let offset = u32::from_le(unsafe { records.add(at as usize).cast::<u32>().add(1).read_volatile() });
        let line = area.base().as_ptr().cast_const().wrapping_add(offset as usize).cast::<i8>();
        // SAFETY: a prefetch neither reads nor faults, whatever the address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(line);
            _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(64));
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (area, records, at);
}

impl<M: Memory> Consumer<M> {
    /// Opens a ring without references (`--transport shm`). Continues where the last reader
    /// stopped.
    ///
    /// # Errors
    /// The header is invalid.
    pub fn open(memory: M) -> Result<Self, RingFault> {
        Self::open_with(memory, None)
    }
}

impl<M: Memory, A: Memory> Consumer<M, A> {
    /// Opens a ring of either version, with the area that [`area_name`] names, if it names one.
    ///
    /// # Errors
    /// The header is invalid, or the area does not fit it.
    pub fn open_with(memory: M, area: Option<A>) -> Result<Self, RingFault> {
        let found = version(&memory)?;
        if found != (if area.is_some() { VERSION_REFERRING } else { VERSION }) {
            return Err(RingFault::Version { found });
        }
        let wanted = word64(&memory, AT_AREA_BYTES).load(Ordering::Relaxed);
        if area.as_ref().is_some_and(|area| (area.bytes() as u64) < wanted) {
            return Err(RingFault::Layout);
        }
        let capacity = word64(&memory, AT_CAPACITY).load(Ordering::Relaxed);
        let at = word32(&memory, AT_RECORDS_AT).load(Ordering::Relaxed);
        let fits = capacity.checked_add(u64::from(RECORDS_AT)).is_some_and(|all| all <= memory.bytes() as u64);
        let range = CAPACITY_MIN..=CAPACITY_MAX;
        if at != RECORDS_AT || !capacity.is_power_of_two() || !range.contains(&capacity) || !fits {
            return Err(RingFault::Layout);
        }
        let position = word64(&memory, AT_TAIL).load(Ordering::Relaxed);
        // SAFETY: the memory is longer than its header, as checked above.
        let records = unsafe { memory.base().as_ptr().add(RECORDS_AT as usize).cast_const() };
        // A splitter that uses references waits for the space to receive into, and a ring holds
        // many references.
        let most_held = capacity / if area.is_some() { GIVE_BACK_PARTS_REFERRING } else { GIVE_BACK_PARTS };
        let ring = Self { memory, area, most_held, records, capacity, position, given_back: position };
        ring.unread()?;
        Ok(ring)
    }

    /// Returns which worker this ring is for, and how many there are.
    pub fn worker(&self) -> (u32, u32) {
        let word = |at| word32(&self.memory, at).load(Ordering::Relaxed);
        (word(AT_WORKER), word(AT_WORKERS))
    }

    /// HOT. Calls `each` for every published record and returns how many there were.
    ///
    /// The bytes are in the ring and valid only during the call of `each`.
    ///
    /// # Errors
    /// The ring holds a length or a position that no splitter writes.
    pub fn take(&mut self, mut each: impl FnMut(&[u8])) -> Result<u64, RingFault> {
        let unread = self.unread()?;
        let head = self.position + unread;
        let mut taken = 0;
        while self.position < head {
            let left = head - self.position;
            if let Some(record) = self.next(left)? {
                each(record);
                taken += 1;
            }
            if self.position - self.given_back >= self.most_held {
                self.give_back();
            }
        }
        self.give_back();
        Ok(taken)
    }

    /// Returns the record at the position, or `None` if the rest of the ring up to its end is
    /// unused. `left` is the number of published bytes, a positive multiple of 8.
    fn next(&mut self, left: u64) -> Result<Option<&[u8]>, RingFault> {
        let at = self.position & (self.capacity - 1);
        let to_end = self.capacity - at;
        #[allow(clippy::cast_possible_truncation)] // below the capacity, which lies in memory
        // SAFETY: `at` is a multiple of 8 below the capacity, so eight bytes exist.
        let place = unsafe { self.records.add(at as usize) };
        // SAFETY: as above.
        let found = unsafe { place.cast::<u32>().read_volatile() };
        let found = u32::from_le(found);
        if found == WRAP {
            if to_end > left {
                return Err(RingFault::Length { found, at: self.position });
            }
            self.position += to_end;
            return Ok(None);
        }
        if found & REFERENCE != 0 && self.area.is_some() {
            return self.referred(found & !REFERENCE, place, left).map(Some);
        }
        let length = found as usize;
        let bytes = footprint(length) as u64;
        if u64::from(found) > ring_record_max(self.capacity) || bytes > to_end.min(left) {
            return Err(RingFault::Length { found, at: self.position });
        }
        self.position += bytes;
        // SAFETY: length and record are between `place` and the end of the ring, and before the
        // head. The writer does not touch them until the tail has passed them, which happens after
        // the last use of this slice.
        Ok(Some(unsafe { std::slice::from_raw_parts(place.add(LENGTH_BYTES), length) }))
    }

    /// Returns the record that the reference at `place` points to. Eight bytes exist at `place`.
    #[inline]
    fn referred(&mut self, found: u32, place: *const u8, left: u64) -> Result<&[u8], RingFault> {
        // SAFETY: the caller guarantees eight bytes, aligned as records are.
        let offset = u32::from_le(unsafe { place.cast::<u32>().add(1).read_volatile() }) as usize;
        let length = found as usize;
        let at = self.position;
        match &self.area {
            Some(area) if offset + length <= area.bytes() => {
                // Behind the head the writer is at work, and a prefetch there would take the line
                // away from it.
                if left > AHEAD_BYTES {
                    prefetch(area, self.records, (at + AHEAD_BYTES) & (self.capacity - 1));
                }
                self.position += REFERENCE_BYTES as u64;
                // SAFETY: within the area. The writer does not touch it until the tail has passed
                // the reference.
                Ok(unsafe { std::slice::from_raw_parts(area.base().as_ptr().cast_const().add(offset), length) })
            }
            _ => Err(RingFault::Length { found, at }),
        }
    }

    fn give_back(&mut self) {
        if self.given_back != self.position {
            self.given_back = self.position;
            self.words().tail.store(self.position, Ordering::Release);
        }
    }

    /// Returns how many bytes are published and not read, after checking the positions.
    fn unread(&self) -> Result<u64, RingFault> {
        let head = self.words().head.load(Ordering::Acquire);
        let aligned = (head | self.position).is_multiple_of(ALIGNMENT as u64);
        match head.checked_sub(self.position) {
            Some(unread) if unread <= self.capacity && aligned => Ok(unread),
            _ => Err(RingFault::Positions { head, tail: self.position }),
        }
    }

    /// Returns the size of the ring in bytes of records.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns whether the splitter has ended the ring. Call [`Consumer::take`] once more after
    /// that, because the end is published last.
    pub fn is_ended(&self) -> bool {
        self.words().state.load(Ordering::Acquire) != STATE_LIVE
    }

    /// Announces a sleep: returns the value to wait on at [`Consumer::bell`], or `None` if there is
    /// something to read.
    pub fn arm(&self) -> Option<u32> {
        self.words().arm(self.position)
    }

    /// Ends a sleep, however the wait ended.
    pub fn disarm(&self) {
        self.words().disarm();
    }

    pub fn bell(&self) -> &AtomicU32 {
        word32(&self.memory, AT_BELL)
    }

    fn words(&self) -> RingWords<'_, AtomicU64, AtomicU32> {
        RingWords::of(&self.memory)
    }
}
