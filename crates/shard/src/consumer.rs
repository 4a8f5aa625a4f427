//! The reading side of a ring.
//!
//! Does        each published record once, in order, where it lies; gives the room back while it goes.
//! Holds       lengths and positions are looked at once and checked before they are used: hostile memory is a fault.
//! Leaves out  sleeping: [`Consumer::arm`] says on what.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::Fault;
use crate::bell::Words;
use crate::layout::{
    ALIGNMENT, AREA_NAME_BYTES, AT_AREA_BYTES, AT_AREA_NAME, AT_BELL, AT_CAPACITY, AT_HEAD, AT_MAGIC, AT_RECORDS_AT,
    AT_SLEEPING, AT_STATE, AT_TAIL, AT_VERSION, AT_WORKER, AT_WORKERS, CAPACITY_MAX, CAPACITY_MIN, LENGTH_BYTES, MAGIC,
    RECORDS_AT, REFERENCE, REFERENCE_BYTES, STATE_LIVE, VERSION, VERSION_REFERRING, WRAP, footprint, ring_record_max,
};
use crate::memory::{Memory, word32, word64};

/// The room that has been read is given back at the latest after this part of the ring.
const GIVE_BACK_PARTS: u64 = 8;
const GIVE_BACK_PARTS_REFERRING: u64 = 64;
/// How far ahead records that are referred to are asked for.
const AHEAD_BYTES: u64 = 12 * REFERENCE_BYTES as u64;

pub struct Consumer<M, A = M> {
    memory: M,
    /// Where records lie that the ring refers to.
    area: Option<A>,
    /// As far as may be read before room is given back.
    most_held: u64,
    records: *const u8,
    capacity: u64,
    /// Bytes read.
    position: u64,
    given_back: u64,
}

// SAFETY: `records` points into `memory`, which moves along.
unsafe impl<M: Memory + Send, A: Send> Send for Consumer<M, A> {}

/// The name of the file beside the ring's that it refers to, if its version does.
pub fn area_name(memory: &impl Memory) -> Result<Option<String>, Fault> {
    match version(memory)? {
        VERSION => return Ok(None),
        VERSION_REFERRING => {}
        found => return Err(Fault::Version { found }),
    }
    let mut name = [0; AREA_NAME_BYTES];
    // SAFETY: the name lies in the header, which `version` has seen to be there; a copy is looked at, whatever it says.
    unsafe { std::ptr::copy_nonoverlapping(memory.base().as_ptr().add(AT_AREA_NAME), name.as_mut_ptr(), name.len()) };
    let name = name.split(|byte| *byte == 0).next().and_then(|name| std::str::from_utf8(name).ok());
    // A name and no way: it lies beside the ring.
    let name = name.filter(|name| !name.is_empty() && !name.contains('/') && *name != "..").ok_or(Fault::Shape)?;
    Ok(Some(name.to_owned()))
}

fn version(memory: &impl Memory) -> Result<u32, Fault> {
    if memory.bytes() < RECORDS_AT as usize || word64(memory, AT_MAGIC).load(Ordering::Acquire) != MAGIC {
        return Err(Fault::NotARing);
    }
    Ok(word32(memory, AT_VERSION).load(Ordering::Relaxed))
}

/// Asks for the lines of a record that is referred to some places ahead: another core has them, and in the area a worker's
/// records lie too far apart for the processor to guess.
#[inline]
fn announce(area: &impl Memory, records: *const u8, at: u64) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[allow(clippy::cast_possible_truncation)] // below the capacity, which lies in memory
        // SAFETY: eight bytes are there, as at every multiple of 8 below the capacity; what they say is only asked for.
        let offset = u32::from_le(unsafe { records.add(at as usize).cast::<u32>().add(1).read_volatile() });
        let line = area.base().as_ptr().cast_const().wrapping_add(offset as usize).cast::<i8>();
        // SAFETY: a hint, which neither reads nor faults, whatever the address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(line);
            _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(64));
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (area, records, at);
}

impl<M: Memory> Consumer<M> {
    /// Checks the header; goes on where the last reader stopped. For rings that refer to nothing (`--transport shm`).
    pub fn open(memory: M) -> Result<Self, Fault> {
        Self::open_with(memory, None)
    }
}

impl<M: Memory, A: Memory> Consumer<M, A> {
    /// The same for a ring of either version: with the area that [`area_name`] names, if it names one.
    pub fn open_with(memory: M, area: Option<A>) -> Result<Self, Fault> {
        let found = version(&memory)?;
        if found != (if area.is_some() { VERSION_REFERRING } else { VERSION }) {
            return Err(Fault::Version { found });
        }
        let wanted = word64(&memory, AT_AREA_BYTES).load(Ordering::Relaxed);
        if area.as_ref().is_some_and(|area| (area.bytes() as u64) < wanted) {
            return Err(Fault::Shape);
        }
        let capacity = word64(&memory, AT_CAPACITY).load(Ordering::Relaxed);
        let at = word32(&memory, AT_RECORDS_AT).load(Ordering::Relaxed);
        let fits = capacity.checked_add(u64::from(RECORDS_AT)).is_some_and(|all| all <= memory.bytes() as u64);
        let range = CAPACITY_MIN..=CAPACITY_MAX;
        if at != RECORDS_AT || !capacity.is_power_of_two() || !range.contains(&capacity) || !fits {
            return Err(Fault::Shape);
        }
        let position = word64(&memory, AT_TAIL).load(Ordering::Relaxed);
        // SAFETY: the memory is longer than its header, as checked above.
        let records = unsafe { memory.base().as_ptr().add(RECORDS_AT as usize).cast_const() };
        // Who refers waits for the room to receive into, and a ring holds many references.
        let most_held = capacity / if area.is_some() { GIVE_BACK_PARTS_REFERRING } else { GIVE_BACK_PARTS };
        let ring = Self { memory, area, most_held, records, capacity, position, given_back: position };
        ring.unread()?;
        Ok(ring)
    }

    /// Which worker this ring is for, and of how many.
    pub fn worker(&self) -> (u32, u32) {
        let word = |at| word32(&self.memory, at).load(Ordering::Relaxed);
        (word(AT_WORKER), word(AT_WORKERS))
    }

    /// HOT. Each record that is there now; how many.
    ///
    /// The bytes lie in the ring and are valid during the call of `each` alone.
    pub fn take(&mut self, mut each: impl FnMut(&[u8])) -> Result<u64, Fault> {
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

    /// The record at the position, or nothing when the rest up to the end of the ring is empty. `left`: bytes that are
    /// published; a multiple of 8 and more than none.
    fn next(&mut self, left: u64) -> Result<Option<&[u8]>, Fault> {
        let at = self.position & (self.capacity - 1);
        let to_end = self.capacity - at;
        #[allow(clippy::cast_possible_truncation)] // below the capacity, which lies in memory
        // SAFETY: `at` is a multiple of 8 below the capacity, so eight bytes are there.
        let place = unsafe { self.records.add(at as usize) };
        // SAFETY: as above.
        let found = unsafe { place.cast::<u32>().read_volatile() };
        let found = u32::from_le(found);
        if found == WRAP {
            if to_end > left {
                return Err(Fault::Length { found, at: self.position });
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
            return Err(Fault::Length { found, at: self.position });
        }
        self.position += bytes;
        // SAFETY: length and record lie between `place` and the end of the ring, and before the head: the writer leaves
        // them alone until the tail has passed them, which happens after the last use of this slice.
        Ok(Some(unsafe { std::slice::from_raw_parts(place.add(LENGTH_BYTES), length) }))
    }

    /// The record that the reference at `place` means, of which eight bytes are there.
    #[inline]
    fn referred(&mut self, found: u32, place: *const u8, left: u64) -> Result<&[u8], Fault> {
        // SAFETY: the caller vouches for eight bytes, aligned as records are.
        let offset = u32::from_le(unsafe { place.cast::<u32>().add(1).read_volatile() }) as usize;
        let length = found as usize;
        let at = self.position;
        match &self.area {
            Some(area) if offset + length <= area.bytes() => {
                // Beyond the head the writer is at work: who looks there takes the line away from it.
                if left > AHEAD_BYTES {
                    announce(area, self.records, (at + AHEAD_BYTES) & (self.capacity - 1));
                }
                self.position += REFERENCE_BYTES as u64;
                // SAFETY: within the area, which the writer leaves alone there until the tail has passed the reference.
                Ok(unsafe { std::slice::from_raw_parts(area.base().as_ptr().cast_const().add(offset), length) })
            }
            _ => Err(Fault::Length { found, at }),
        }
    }

    fn give_back(&mut self) {
        if self.given_back != self.position {
            self.given_back = self.position;
            self.words().tail.store(self.position, Ordering::Release);
        }
    }

    /// Bytes published and not read, checked.
    fn unread(&self) -> Result<u64, Fault> {
        let head = self.words().head.load(Ordering::Acquire);
        let aligned = (head | self.position).is_multiple_of(ALIGNMENT as u64);
        match head.checked_sub(self.position) {
            Some(unread) if unread <= self.capacity && aligned => Ok(unread),
            _ => Err(Fault::Positions { head, tail: self.position }),
        }
    }

    /// Bytes of records that the ring holds.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Whether the splitter has said that nothing more comes. Take once more after this: it says so last.
    pub fn is_ended(&self) -> bool {
        self.words().state.load(Ordering::Acquire) != STATE_LIVE
    }

    /// About to sleep: the value with which to wait on [`Consumer::bell`], or `None` when there is something to do.
    pub fn arm(&self) -> Option<u32> {
        self.words().arm(self.position)
    }

    /// Awake again, for whatever reason.
    pub fn disarm(&self) {
        self.words().disarm();
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
