//! The copy of a record into a ring or a pipe buffer.
//!
//! Does        writes the length and the bytes: first a fixed number of bytes, more than a short
//!             record has, then the rest of a long one.
//! Why         a memcpy call for about a hundred bytes of unknown length costs as much as the rest
//! of a hand-over, and the
//!             compiler turns a loop of small steps into such a call. `examples/route.rs` of
//!             crates/splitter compares them.

use crate::layout::LENGTH_BYTES;

/// How many bytes [`copy_record`] may write behind the end of a record.
pub const OVERSHOOT: usize = STEP - 1;

/// Size of the fixed copy, in bytes. Nearly every trade fits.
const STEP: usize = 128;

/// HOT. Writes length and bytes of `text[start..end]` to `to`.
///
/// # Safety
/// `start <= end <= text.len()`; `end - start` fits 32 bits; `4 + (end - start) + OVERSHOOT` bytes
/// from `to` on are writable and not part of `text`.
#[inline]
#[allow(clippy::cast_possible_truncation)] // the caller vouches for it
pub unsafe fn copy_record(text: &[u8], start: usize, end: usize, to: *mut u8) {
    debug_assert!(start <= end && end <= text.len());
    let bytes = end - start;
    // SAFETY: the caller guarantees `to`. The source is read in one fixed step only if `text` has
    // that many bytes.
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
