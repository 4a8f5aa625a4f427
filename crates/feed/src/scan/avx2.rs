//! The scan with AVX2: 32 bytes at a time.

use std::arch::x86_64::{
    __m256i, _mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_set1_epi8, _mm256_andnot_si256,
    _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8, _mm256_setr_epi8,
    _mm256_setzero_si256, _mm256_shuffle_epi8,
};

use crate::scan::marks::{self, BLOCK_BYTES, Block, MarkProgress, Marks, ObjectScan, ScanResult, ScanSpan, SimdOps};
use crate::scan::prefix::{ObjectPrefix, PREFIX_BYTES};

pub struct Avx2;

pub fn is_supported() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("pclmulqdq")
}

/// # Safety
/// [`is_supported`] must be true.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,pclmulqdq")]
pub unsafe fn objects(run: &mut ObjectScan<'_>) -> ScanResult {
    // SAFETY: the caller's guarantee.
    unsafe { run.objects::<Avx2>() }
}

/// # Safety
/// [`is_supported`] must be true.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,pclmulqdq")]
#[inline(never)]
unsafe fn find_marks(
    text: &[u8],
    span: ScanSpan,
    progress: MarkProgress,
    marks: &mut Marks,
    blocks: usize,
) -> MarkProgress {
    // SAFETY: the caller's guarantee.
    unsafe { marks::find_marks::<Avx2>(text, span, progress, marks, blocks) }
}

/// # Safety
/// [`is_supported`] must be true.
#[inline(always)]
unsafe fn load(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: 32 bytes are readable, and the load is unaligned.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// # Safety
/// [`is_supported`] must be true.
#[inline(always)]
unsafe fn bits(lanes: __m256i) -> u32 {
    // SAFETY: the caller's guarantee.
    unsafe { _mm256_movemask_epi8(lanes) }.cast_unsigned()
}

#[inline(always)]
fn both(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl SimdOps for Avx2 {
    type ByteUnion = __m256i;

    #[inline(always)]
    unsafe fn no_bytes() -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn is_ascii(union: __m256i) -> bool {
        // SAFETY: the caller's guarantee.
        unsafe { bits(union) == 0 }
    }

    #[inline(always)]
    unsafe fn block(bytes: &[u8; BLOCK_BYTES], union: &mut __m256i) -> Block {
        let halves = bytes.as_chunks::<32>().0;
        // SAFETY: the caller has AVX2.
        unsafe {
            // `"`, `{`, `\` and `}` differ in their low four bits, which index the shuffle. A byte
            // that equals its entry is one of them. No other byte equals its entry; bytes from 0x80
            // on get 0.
            let of_low_bits = _mm256_setr_epi8(
                1, 0, 0x22, 0, 0, 0, 0, 0, 0, 0, 0, 0x7B, 0x5C, 0x7D, 0, 0, //
                1, 0, 0x22, 0, 0, 0, 0, 0, 0, 0, 0, 0x7B, 0x5C, 0x7D, 0, 0,
            );
            let quote = _mm256_set1_epi8(0x22);
            let (low, high) = (load(&halves[0]), load(&halves[1]));
            let quotes = |lanes| _mm256_cmpeq_epi8(quote, lanes);
            let chosen = |lanes| _mm256_cmpeq_epi8(_mm256_shuffle_epi8(of_low_bits, lanes), lanes);
            let others = |lanes| bits(_mm256_andnot_si256(quotes(lanes), chosen(lanes)));
            *union = _mm256_or_si256(*union, _mm256_or_si256(low, high));
            Block { quotes: both(bits(quotes(low)), bits(quotes(high))), others: both(others(low), others(high)) }
        }
    }

    #[inline(always)]
    unsafe fn string_mask(quotes: u64) -> u64 {
        // SAFETY: the caller has PCLMULQDQ. A carry-less product with all ones is the prefix sum
        // modulo 2.
        unsafe {
            let product = _mm_clmulepi64_si128::<0>(_mm_cvtsi64_si128(quotes.cast_signed()), _mm_set1_epi8(-1));
            _mm_cvtsi128_si64(product).cast_unsigned()
        }
    }

    #[inline(always)]
    unsafe fn symbol_bytes(bytes: &[u8; PREFIX_BYTES], prefix: &ObjectPrefix) -> Option<u32> {
        // SAFETY: the caller has AVX2.
        unsafe {
            let lanes = load(bytes);
            let same = bits(_mm256_cmpeq_epi8(lanes, load(&prefix.bytes)));
            if same & prefix.mask != prefix.mask {
                return None;
            }
            let quotes = bits(_mm256_cmpeq_epi8(lanes, _mm256_set1_epi8(0x22)));
            Some((quotes >> prefix.symbol_bit()).trailing_zeros())
        }
    }

    #[inline]
    unsafe fn find_marks(
        text: &[u8],
        span: ScanSpan,
        progress: MarkProgress,
        marks: &mut Marks,
        blocks: usize,
    ) -> MarkProgress {
        // SAFETY: the caller's guarantee.
        unsafe { find_marks(text, span, progress, marks, blocks) }
    }
}
