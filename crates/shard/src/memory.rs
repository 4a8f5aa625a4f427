//! Memory that two sides share.
//!
//! Does        say what a ring asks of its memory; give tests (and programs in one process) memory of the heap.
//! Leaves out  mapping files: the caller's.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Memory for a ring, which another thread or process may read and write at the same time.
///
/// # Safety
/// `base` stays the same for as long as `self` and its clones live, begins a page (4,096), and `bytes` bytes from it on
/// can be read and written; nobody in this process makes Rust references into them but the ring.
pub unsafe trait Memory {
    fn base(&self) -> NonNull<u8>;
    fn bytes(&self) -> usize;
}

/// A ring's memory on the heap, shared by its clones.
#[derive(Clone)]
pub struct Heap(Arc<[Page]>);

#[repr(align(4096))]
struct Page(#[allow(dead_code)] UnsafeCell<[u8; 4096]>);

// SAFETY: the bytes are reached by raw pointers and atomics alone; the ring's protocol says who may when.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Heap {
    /// Zeroed, for a ring of `capacity` bytes of records.
    pub fn for_ring(capacity: usize) -> Self {
        let pages = capacity.div_ceil(4096) + 1;
        Self((0..pages).map(|_| Page(UnsafeCell::new([0; 4096]))).collect())
    }
}

// SAFETY: a slice of pages is contiguous, aligned to 4,096, lives as long as any clone, and gives no references out.
unsafe impl Memory for Heap {
    fn base(&self) -> NonNull<u8> {
        // The pointer comes from the whole slice, so that all of it may be reached by it.
        NonNull::from(&*self.0).cast()
    }

    fn bytes(&self) -> usize {
        self.0.len() * 4096
    }
}

// SAFETY: the same memory, for whoever shares it.
unsafe impl<M: Memory> Memory for Arc<M> {
    fn base(&self) -> NonNull<u8> {
        (**self).base()
    }

    fn bytes(&self) -> usize {
        (**self).bytes()
    }
}

/// The word at `at` of a ring's header.
pub(crate) fn word64(memory: &impl Memory, at: usize) -> &AtomicU64 {
    assert!(at.is_multiple_of(8) && at + 8 <= memory.bytes(), "a header word outside the header");
    // SAFETY: in bounds and aligned (the base begins a page), valid as long as `memory`; shared words are reached by
    // atomics alone.
    unsafe { AtomicU64::from_ptr(memory.base().as_ptr().add(at).cast()) }
}

/// The half word at `at` of a ring's header.
pub(crate) fn word32(memory: &impl Memory, at: usize) -> &AtomicU32 {
    assert!(at.is_multiple_of(4) && at + 4 <= memory.bytes(), "a header word outside the header");
    // SAFETY: as in `word64`.
    unsafe { AtomicU32::from_ptr(memory.base().as_ptr().add(at).cast()) }
}
