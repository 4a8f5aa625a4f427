//! The allocator of the process. It places large arrays on huge pages if the machine has them.
//!
//! One million resting orders take about 70 MB and are accessed at random. With pages of 4 KiB
//! nearly every access misses the TLB, which costs more than the access itself. With pages of 2 MiB
//! it does not.
//!
//! Holds       allocations smaller than [`LARGE`] go to the system allocator unchanged. If the
//!             machine refuses huge pages, only speed changes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pitwire_trading_benchmarks::AllocationCounter;
use rustix::mm::{Advice, madvise};

const HUGE_PAGE: usize = 2 << 20;
/// Smallest allocation on huge pages, in bytes. At this size the unused rest of the last page is
/// small.
const LARGE: usize = 4 * HUGE_PAGE;

struct HugePageAllocator;

#[global_allocator]
static MEMORY: HugePageAllocator = HugePageAllocator;

/// Whether allocations are counted. Only `pitwire bench` sets it, because threads that count share
/// a cache line.
static IS_COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static ALLOCATED_BYTES: AtomicU64 = AtomicU64::new(0);

/// The counter of all allocations of this process.
pub const ALLOCATION_COUNTER: AllocationCounter = AllocationCounter {
    start: || IS_COUNTING.store(true, Ordering::Relaxed),
    read: || (ALLOCATIONS.load(Ordering::Relaxed), ALLOCATED_BYTES.load(Ordering::Relaxed)),
};

fn count(bytes: usize) {
    if IS_COUNTING.load(Ordering::Relaxed) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        ALLOCATED_BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Returns the layout to request from the system. It depends on `layout` alone, so that freeing
/// requests the same.
fn system_layout(layout: Layout) -> Layout {
    if layout.size() < LARGE { layout } else { layout.align_to(HUGE_PAGE).unwrap_or(layout) }
}

fn advise(start: *mut u8, bytes: usize) {
    if !start.is_null() && bytes >= LARGE {
        let whole_pages = bytes & !(HUGE_PAGE - 1);
        // SAFETY: the range lies within a new allocation without references. The advice concerns
        // the page size and leaves the contents unchanged.
        let _ = unsafe { madvise(start.cast(), whole_pages, Advice::LinuxHugepage) };
    }
}

// SAFETY: every method forwards to the system allocator, with the same layout for the whole life of
// an allocation.
unsafe impl GlobalAlloc for HugePageAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller guarantees the layout. A larger alignment still satisfies it.
        let start = unsafe { System.alloc(system_layout(layout)) };
        advise(start, layout.size());
        start
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < LARGE {
            count(layout.size());
            // SAFETY: as guaranteed by the caller.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: as guaranteed by the caller.
        let start = unsafe { self.alloc(layout) };
        if !start.is_null() {
            // SAFETY: `layout.size()` bytes from `start` belong to this call. The advice comes
            // first, because zeroing would create small pages.
            unsafe { start.write_bytes(0, layout.size()) };
        }
        start
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees that `layout` is the one of the allocation. The system was
        // asked for the same.
        unsafe { System.dealloc(start, system_layout(layout)) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        if layout.size() < LARGE && new_bytes < LARGE {
            count(new_bytes);
            // SAFETY: as guaranteed by the caller. Both sizes belong to the system allocator.
            return unsafe { System.realloc(start, layout, new_bytes) };
        }
        // SAFETY: the caller guarantees that `new_bytes` is a valid size for this alignment.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_bytes, layout.align()) };
        // SAFETY: as above. The two allocations are distinct, and the copy stays within both.
        unsafe {
            let grown = self.alloc(new_layout);
            if !grown.is_null() {
                grown.copy_from_nonoverlapping(start, layout.size().min(new_bytes));
                self.dealloc(start, layout);
            }
            grown
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn contents_survive_resizing_across_the_threshold() {
        let mut bytes: Vec<u8> = Vec::new();
        for at in 0..40_000_000_u32 {
            bytes.push(at.to_le_bytes()[0] ^ at.to_le_bytes()[2]);
        }
        for keep in [30_000_000, super::LARGE, super::LARGE - 1, 100] {
            bytes.truncate(keep);
            bytes.shrink_to_fit();
            let sound = (0_u32..).zip(&bytes).all(|(at, byte)| *byte == at.to_le_bytes()[0] ^ at.to_le_bytes()[2]);
            assert!(sound, "{keep} bytes");
        }
        assert!(vec![0_u8; 3 * super::LARGE].iter().all(|byte| *byte == 0));
    }
}
