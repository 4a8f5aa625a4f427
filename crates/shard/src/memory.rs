//! Memory that two sides share.
//!
//! Does        states the requirements on a ring's memory; provides heap memory for tests and for
//!             use within one process.
//! Leaves out  mapping files: the caller does it, with `memmap2`.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use memmap2::MmapRaw;

/// Memory for a ring, which another thread or process may read and write at the same time.
///
/// # Safety
/// `base` is constant while `self` and its clones live, and begins a page of 4,096 bytes. `bytes`
/// bytes from `base` on are readable and writable. Nothing in this process but the ring creates
/// Rust references into them.
pub unsafe trait Memory {
    fn base(&self) -> NonNull<u8>;
    fn bytes(&self) -> usize;
}

/// Heap memory for a ring, shared by its clones.
#[derive(Clone)]
pub struct HeapMemory(Arc<[Page]>);

#[repr(align(4096))]
struct Page(#[allow(dead_code)] UnsafeCell<[u8; 4096]>);

// SAFETY: the bytes are accessed through raw pointers and atomics only, as the ring's protocol
// prescribes.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl HeapMemory {
    /// Allocates zeroed memory for a ring of `capacity` bytes of records.
    pub fn for_ring(capacity: usize) -> Self {
        let pages = capacity.div_ceil(4096) + 1;
        Self((0..pages).map(|_| Page(UnsafeCell::new([0; 4096]))).collect())
    }
}

// SAFETY: a slice of pages is contiguous, aligned to 4,096 bytes, lives as long as any clone, and
// lends no references.
unsafe impl Memory for HeapMemory {
    fn base(&self) -> NonNull<u8> {
        // The pointer comes from the whole slice, so it may access all of it.
        NonNull::from(&*self.0).cast()
    }

    fn bytes(&self) -> usize {
        self.0.len() * 4096
    }
}

// SAFETY: the same memory through a shared pointer.
unsafe impl<M: Memory> Memory for Arc<M> {
    fn base(&self) -> NonNull<u8> {
        (**self).base()
    }

    fn bytes(&self) -> usize {
        (**self).bytes()
    }
}

// SAFETY: the kernel maps whole pages and keeps them in place until the mapping is dropped. A
// mapping gives its address and length only. A ring's areas are mapped for reading only, and only
// read.
unsafe impl Memory for MmapRaw {
    fn base(&self) -> NonNull<u8> {
        // The kernel maps nothing at address zero, so the fallback is never used.
        NonNull::new(self.as_mut_ptr()).unwrap_or(NonNull::dangling())
    }

    fn bytes(&self) -> usize {
        self.len()
    }
}

/// Returns the 64-bit word at offset `at` of a ring's header.
pub(crate) fn word64(memory: &impl Memory, at: usize) -> &AtomicU64 {
    assert!(at.is_multiple_of(8) && at + 8 <= memory.bytes(), "header word out of bounds");
    // SAFETY: in bounds and aligned, because the base begins a page; valid as long as `memory`.
    // Shared words are accessed through atomics only.
    unsafe { AtomicU64::from_ptr(memory.base().as_ptr().add(at).cast()) }
}

/// Returns the 32-bit word at offset `at` of a ring's header.
pub(crate) fn word32(memory: &impl Memory, at: usize) -> &AtomicU32 {
    assert!(at.is_multiple_of(4) && at + 4 <= memory.bytes(), "header word out of bounds");
    // SAFETY: as in `word64`.
    unsafe { AtomicU32::from_ptr(memory.base().as_ptr().add(at).cast()) }
}
