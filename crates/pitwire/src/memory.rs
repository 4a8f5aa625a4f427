//! Memory for large arrays, on huge pages where the machine has them.
//!
//! A million resting orders are some 70 MB, touched at random. On pages of 4 KiB nearly every touch first has to find
//! out where the page is, which costs more than the touch; on pages of 2 MiB the answer is at hand.
//!
//! Holds       whatever is smaller than [`LARGE`] is the system's business and unchanged; advice that the machine does
//!             not take changes nothing but speed.

use std::alloc::{GlobalAlloc, Layout, System};

use rustix::mm::{Advice, madvise};

const HUGE_PAGE: usize = 2 << 20;
/// From here on what a half-used last huge page wastes is little beside what is used.
const LARGE: usize = 4 * HUGE_PAGE;

struct HugeWhereLarge;

#[global_allocator]
static MEMORY: HugeWhereLarge = HugeWhereLarge;

/// The layout that the system is asked for. Depends on nothing but `layout`, so that freeing asks for the same.
fn asked(layout: Layout) -> Layout {
    if layout.size() < LARGE { layout } else { layout.align_to(HUGE_PAGE).unwrap_or(layout) }
}

fn advise(start: *mut u8, bytes: usize) {
    if !start.is_null() && bytes >= LARGE {
        let whole_pages = bytes & !(HUGE_PAGE - 1);
        // SAFETY: the range lies within an allocation just made, of which nobody has a reference yet; the advice
        // concerns page size alone and leaves contents as they are.
        let _ = unsafe { madvise(start.cast(), whole_pages, Advice::LinuxHugepage) };
    }
}

// SAFETY: each method hands on to the system's allocator, with one and the same layout for an allocation's whole life.
unsafe impl GlobalAlloc for HugeWhereLarge {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller vouches for the layout; a larger alignment keeps what it asks of it.
        let start = unsafe { System.alloc(asked(layout)) };
        advise(start, layout.size());
        start
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < LARGE {
            // SAFETY: as the caller vouches.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: as the caller vouches.
        let start = unsafe { self.alloc(layout) };
        if !start.is_null() {
            // SAFETY: `start` begins `layout.size()` bytes that belong to this call. Advised first, zeroed after: the
            // other way round the pages would be there already, and small.
            unsafe { start.write_bytes(0, layout.size()) };
        }
        start
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller vouches that `layout` is the one allocated with; the system was asked for the same.
        unsafe { System.dealloc(start, asked(layout)) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        if layout.size() < LARGE && new_bytes < LARGE {
            // SAFETY: as the caller vouches; both sizes are the system's own business.
            return unsafe { System.realloc(start, layout, new_bytes) };
        }
        // SAFETY: the caller vouches that `new_bytes` is a valid size for this alignment.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_bytes, layout.align()) };
        // SAFETY: as above; the two allocations are distinct and the copy stays within both.
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
    fn what_is_kept_stays_as_sizes_cross_the_threshold_and_back() {
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
