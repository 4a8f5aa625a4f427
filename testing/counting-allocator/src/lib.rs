//! An allocator for tests that counts allocations.
//!
//! Start at    [`CountingAllocator`].

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

thread_local! {
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
}
static OF_PROGRAM: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);

/// The system's allocator with counters. A test sets it by `#[global_allocator]`.
pub struct CountingAllocator;

impl CountingAllocator {
    /// Returns how often the calling thread has allocated. The test harness allocates on others.
    pub fn allocations_of_thread() -> u64 {
        OF_THREAD.get()
    }

    /// Returns how often the program has allocated.
    pub fn allocations() -> u64 {
        OF_PROGRAM.load(Ordering::Relaxed)
    }

    /// Returns the bytes that are allocated now.
    pub fn live_bytes() -> i64 {
        LIVE_BYTES.load(Ordering::Relaxed)
    }
}

fn size(layout: &Layout) -> i64 {
    i64::try_from(layout.size()).unwrap_or(i64::MAX)
}

// SAFETY: every call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends may allocate after its counter is gone.
        let _ = OF_THREAD.try_with(|count| count.set(count.get() + 1));
        OF_PROGRAM.fetch_add(1, Ordering::Relaxed);
        LIVE_BYTES.fetch_add(size(&layout), Ordering::Relaxed);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(size(&layout), Ordering::Relaxed);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.dealloc(start, layout) }
    }
}
