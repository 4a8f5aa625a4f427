//! The copy that every trade pays for.
//!
//! Does        length and bytes of a record to where they go, in steps of 16 that may overshoot at both ends.
//! Why         a call of memcpy for some hundred bytes of unknown length costs about as much as all the rest of a hand-over;
//!             `examples/deal.rs` of edge/splitter compares them.

use crate::layout::LENGTH_BYTES;

/// Bytes that [`copy_record`] may write behind a record's last.
pub const OVERSHOOT: usize = STEP - 1;

const STEP: usize = 16;

/// HOT. Writes length and bytes of `text[start..end]` to `to`.
///
/// # Safety
/// `start <= end <= text.len()`, `end - start` fits 32 bits, and `4 + (end - start) + OVERSHOOT` bytes from `to` on may be
/// written and are no part of `text`.
#[inline]
#[allow(clippy::cast_possible_truncation)] // the caller vouches for it
pub unsafe fn copy_record(text: &[u8], start: usize, end: usize, to: *mut u8) {
    debug_assert!(start <= end && end <= text.len());
    let bytes = end - start;
    // SAFETY: the caller vouches for `to`; the source is read up to the next multiple of STEP only when `text` has that
    // much, else exactly.
    unsafe {
        to.cast::<u32>().write_unaligned((bytes as u32).to_le());
        let mut to = to.add(LENGTH_BYTES);
        let mut from = text.as_ptr().add(start);
        if text.len() - end < STEP {
            std::ptr::copy_nonoverlapping(from, to, bytes);
            return;
        }
        let stop = text.as_ptr().add(end);
        while from < stop {
            to.cast::<[u8; STEP]>().write_unaligned(from.cast::<[u8; STEP]>().read_unaligned());
            from = from.add(STEP);
            to = to.add(STEP);
        }
    }
}
