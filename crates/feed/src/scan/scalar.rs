//! The scan with 64-bit words, for every processor.

use crate::scan::marks::{self, BLOCK_BYTES, Block, MarkProgress, Marks, ScanSpan, SimdOps};
use crate::scan::prefix::{ObjectPrefix, PREFIX_BYTES};

pub struct ScalarWords;

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = LOW_BITS << 7;

/// Returns the high bit of each byte of `word` that equals `byte`.
#[inline(always)]
fn equal(word: u64, byte: u8) -> u64 {
    let differing = word ^ (LOW_BITS * u64::from(byte));
    // Adding to the low seven bits carries into the high bit unless they are all zero, and never
    // further.
    !(((differing & !HIGH_BITS) + !HIGH_BITS) | differing) & HIGH_BITS
}

/// Gathers the high bits of eight bytes.
#[inline(always)]
fn gathered(high_bits: u64) -> u64 {
    (high_bits >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

impl SimdOps for ScalarWords {
    type ByteUnion = u64;

    #[inline(always)]
    unsafe fn no_bytes() -> u64 {
        0
    }

    #[inline(always)]
    unsafe fn is_ascii(union: u64) -> bool {
        union & HIGH_BITS == 0
    }

    #[inline(always)]
    unsafe fn block(bytes: &[u8; BLOCK_BYTES], union: &mut u64) -> Block {
        let (mut quotes, mut others) = (0, 0);
        for (index, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
            let word = u64::from_le_bytes(*word);
            quotes |= gathered(equal(word, b'"')) << (8 * index);
            others |= gathered(equal(word, b'{') | equal(word, b'}') | equal(word, b'\\')) << (8 * index);
            *union |= word;
        }
        Block { quotes, others }
    }

    #[inline(always)]
    unsafe fn string_mask(quotes: u64) -> u64 {
        [1, 2, 4, 8, 16, 32].iter().fold(quotes, |sums, shift| sums ^ (sums << shift))
    }

    #[inline(always)]
    unsafe fn symbol_bytes(bytes: &[u8; PREFIX_BYTES], prefix: &ObjectPrefix) -> Option<u32> {
        let start = prefix.symbol_start();
        if bytes[..start] != prefix.bytes[..start] {
            return None;
        }
        Some((0..).zip(&bytes[start..]).find(|(_, byte)| **byte == b'"').map_or(u32::BITS, |(bytes, _)| bytes))
    }

    unsafe fn find_marks(
        text: &[u8],
        span: ScanSpan,
        progress: MarkProgress,
        marks: &mut Marks,
        blocks: usize,
    ) -> MarkProgress {
        // SAFETY: the scalar scan needs no processor feature.
        unsafe { marks::find_marks::<ScalarWords>(text, span, progress, marks, blocks) }
    }
}
