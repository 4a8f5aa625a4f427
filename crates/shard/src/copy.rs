//! The copy that every trade pays for.
//!
//! Does        length and bytes of a record to where they go: a fixed number of bytes first, which overshoots at both ends of
//!             a short record, then what a long one has more.
//! Why         a call of memcpy for some hundred bytes of unknown length costs about as much as all the rest of a hand-over,
//!             and a loop of small steps becomes such a call again when it is compiled; `examples/deal.rs` of
//!             crates/splitter compares them.

use crate::layout::LENGTH_BYTES;

/// Bytes that [`copy_record`] may write behind a record's last.
pub const OVERSHOOT: usize = STEP - 1;

/// Nearly every trade fits; as many moves as it takes to copy so much are all that a copy costs.
const STEP: usize = 128;

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
    // SAFETY: the caller vouches for `to`; the source is read in a whole step only when `text` has that much, else exactly.
    unsafe {
        to.cast::<u32>().write_unaligned((bytes as u32).to_le());
        let (from, to) = (text.as_ptr().add(start), to.add(LENGTH_BYTES));
        if text.len() - start < STEP {
            std::ptr::copy_nonoverlapping(from, to, bytes);
            return;
        }
        to.cast::<[u8; STEP]>().write_unaligned(from.cast::<[u8; STEP]>().read_unaligned());
        if bytes > STEP {
            std::ptr::copy_nonoverlapping(from.add(STEP), to.add(STEP), bytes - STEP);
        }
    }
}
