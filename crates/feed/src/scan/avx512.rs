//! The scan with AVX-512: sixteen KiB at a time, without a branch that depends on the content.
//!
//! Does        assumes that everything is as in most feeds: each brace outside strings opens an
//!             object right behind `},`, and each object has the same prefix as the latest. It
//!             collects contradictions and checks once, at the end:
//!             1. every `}` or `\` has a `{` two bytes behind it, and every `{` has one of them two
//!                bytes before it;
//!             2. the number of quotes before every `{` is even, so that it is not inside a string;
//!             3. every `{` follows `},` and starts the prefix;
//!             4. everything is ASCII, if it must be UTF-8.
//!             Workers are computed eight at a time, which costs less than looking them up.
//! Holds       a batch that contradicts any of this is declined as a whole, for the scan object by
//!             object.
//! Costs       about 40 instructions per trade of 100 bytes; the other scan takes 175.
//! Start at    [`objects`].

use std::arch::x86_64::*;

use crate::object::Object;
use crate::scan::avx2;
use crate::scan::marks::{BLOCK_BYTES, ScanSpan, long_symbol};
use crate::scan::prefix::{ObjectPrefix, PREFIX_BYTES};
use crate::symbol_router::{OFFSET_BASIS, PRIME, SymbolRouter};

/// Blocks of a batch. Small enough to stay in the first-level cache.
const BLOCKS: usize = 256;
pub const BATCH_BYTES: usize = BLOCKS * BLOCK_BYTES;
/// Blocks whose masks fill one register.
const GROUP: usize = 8;
/// Objects written at once.
const OUT: usize = 16;
/// `},`
const SEPARATOR_BYTES: usize = 2;
/// A symbol and its quote must fit this many bytes, one lane of a register.
const WORD_BYTES: usize = 8;
/// Spare entries behind the last block, so that whole registers can be stored.
const SPARE: usize = GROUP;

pub fn is_supported() -> bool {
    avx2::is_supported()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("vpclmulqdq")
}

/// Masks of a batch, with one bit per byte, and lists with one entry per object.
#[derive(Debug)]
pub struct BatchMasks {
    /// Bytes that belong to messages, not to frame headers. All ones between batches.
    kept: [u64; BLOCKS + SPARE],
    /// Differences that frame borders excuse. All zeros between batches.
    excused: [u64; BLOCKS + SPARE],
    quotes: [u64; BLOCKS],
    opens: [u64; BLOCKS],
    /// Closing braces and backslashes.
    others: [u64; BLOCKS],
    /// Offsets in the text.
    starts: [u32; BLOCKS + SPARE],
    ends: [u32; BLOCKS + SPARE],
    /// First bytes of the symbols.
    words: [u64; BLOCKS],
}

/// The objects of a batch.
#[derive(Clone, Copy, Debug)]
pub struct UniformObjects {
    pub objects: usize,
    /// Number of opening braces.
    pub opens: usize,
    /// Offset behind the last object.
    pub end: usize,
}

impl BatchMasks {
    pub fn new() -> Box<Self> {
        Box::new(BatchMasks {
            kept: [u64::MAX; BLOCKS + SPARE],
            excused: [0; BLOCKS + SPARE],
            quotes: [0; BLOCKS],
            opens: [0; BLOCKS],
            others: [0; BLOCKS],
            starts: [0; BLOCKS + SPARE],
            ends: [0; BLOCKS + SPARE],
            words: [0; BLOCKS],
        })
    }

    /// Marks a frame border: an array ends right before `at`, and `bytes` bytes (at most 8) from
    /// there are the next frame's header and `[`. Both are inside the batch.
    #[inline]
    pub fn mark_frame(&mut self, at: usize, bytes: usize) {
        change(&mut self.kept, at, |bits, shift| bits & !(((1 << (bytes - 1)) - 1) << shift));
        // The brace that ended one object makes the next one expected here, and it begins behind
        // the header.
        change(&mut self.excused, at, |bits, shift| bits ^ (1 | 1 << bytes) << shift);
    }

    /// Removes all borders.
    fn clear(&mut self) {
        self.kept.fill(u64::MAX);
        self.excused.fill(0);
    }

    /// Excludes everything from `length` on. `last` are the two bytes before it.
    fn end(&mut self, length: usize, last: [u8; 2]) {
        let blocks = length.div_ceil(BLOCK_BYTES);
        if !length.is_multiple_of(BLOCK_BYTES) {
            self.kept[blocks - 1] &= (1 << (length % BLOCK_BYTES)) - 1;
        }
        self.kept[blocks..blocks.next_multiple_of(GROUP)].fill(0);
        // The successors of these bytes are outside the batch.
        let seen = blocks.next_multiple_of(GROUP) * BLOCK_BYTES;
        for (at, _) in (length..seen).zip(last).filter(|(_, byte)| *byte == b'}') {
            self.excused[at / BLOCK_BYTES] ^= 1 << (at % BLOCK_BYTES);
        }
    }
}

/// Changes the 64 bits from the byte that contains bit `at`. `f` receives the offset within that
/// byte.
#[inline]
fn change(mask: &mut [u64; BLOCKS + SPARE], at: usize, f: impl FnOnce(u64, usize) -> u64) {
    let shift = at % 8;
    // SAFETY: reinterprets numbers as their bytes, of the same total size.
    let bytes = unsafe { std::slice::from_raw_parts_mut(mask.as_mut_ptr().cast::<u8>(), size_of_val(mask)) };
    if let Some(bytes) = bytes.get_mut(at / 8..).and_then(|bytes| bytes.first_chunk_mut()) {
        *bytes = f(u64::from_le_bytes(*bytes), shift).to_le_bytes();
    }
}

/// Finds the objects from the brace at `span.at` on, in at most [`BATCH_BYTES`], as many as fit
/// `out` in groups of sixteen. `None` if anything contradicts the assumptions. `frames` objects
/// follow no other: the first of each frame.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi2,vpclmulqdq,avx2,bmi1,bmi2,popcnt")]
pub fn objects(
    text: &[u8],
    span: ScanSpan,
    frames: usize,
    tables: (&ObjectPrefix, &SymbolRouter),
    batch: &mut BatchMasks,
    out: &mut [Object],
) -> Option<UniformObjects> {
    let (prefix, router) = tables;
    let rest = text.get(span.at..span.end).unwrap_or_default();
    let bytes = &rest[..rest.len().min(BATCH_BYTES)];
    let Some(&last) = bytes.last_chunk::<2>().filter(|_| span.at >= SEPARATOR_BYTES) else {
        batch.clear();
        return None;
    };
    batch.end(bytes.len(), last);
    let is_ascii = note(bytes, batch);
    let found = find(span.at, bytes.len().div_ceil(BLOCK_BYTES), batch);
    if !is_ascii && span.at + bytes.len() > span.checked {
        return None;
    }
    let (opens, closes) = found?;
    // The last two bytes are excused, so a surplus brace there ends no object.
    let mut objects = closes.min(opens).min(out.len() / OUT * OUT);
    while objects > 0 && batch.starts[objects - 1] as usize + PREFIX_BYTES > text.len() {
        objects -= 1;
    }
    let end = batch.ends[objects.checked_sub(1)?] as usize;
    // SAFETY: all starts are at least `span.at`, and the last one has a whole prefix before the
    // end.
    let begun = unsafe { begin(text, prefix, &batch.starts[..objects], &mut batch.words) }?;
    // The byte behind the last object was not checked: it could be ended by a backslash.
    if begun + frames != objects || text[end - 1] != b'}' {
        return None;
    }
    write(text, prefix, router, batch, &mut out[..objects.next_multiple_of(OUT)], objects)?;
    Some(UniformObjects { objects, opens, end })
}

/// Fills the masks of `bytes`, in whole groups. Returns whether all bytes are ASCII.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi2,vpclmulqdq,avx2,bmi1,bmi2,popcnt")]
fn note(bytes: &[u8], batch: &mut BatchMasks) -> bool {
    let mut union = _mm512_setzero_si512();
    let quotes = batch.quotes.as_chunks_mut::<GROUP>().0.iter_mut();
    let masks = quotes.zip(batch.opens.as_chunks_mut::<GROUP>().0).zip(batch.others.as_chunks_mut::<GROUP>().0);
    let masks = masks.zip(batch.kept.as_chunks_mut::<GROUP>().0);
    let mut block = bytes.as_ptr();
    for (((quotes, opens), others), kept) in masks.take(bytes.len().div_ceil(GROUP * BLOCK_BYTES)) {
        for index in 0..GROUP {
            // SAFETY: masked-out bytes are not read, and those are all behind `bytes`.
            let lanes = unsafe { _mm512_maskz_loadu_epi8(kept[index], block.cast()) };
            (quotes[index], opens[index], others[index]) = masks_of(lanes);
            union = _mm512_or_si512(union, lanes);
            block = block.wrapping_add(BLOCK_BYTES);
        }
        *kept = [u64::MAX; GROUP];
    }
    _mm512_movepi8_mask(union) == 0
}

/// Returns the masks of quotes, of opening braces, and of closing braces or backslashes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn masks_of(lanes: __m512i) -> (u64, u64, u64) {
    // `}` and `\` differ in their low four bits, which index the shuffle. A byte that equals its
    // entry is one of them. Bytes from 0x80 on get 0, and the byte with index 0 is not 1.
    let of_low_bits = _mm512_broadcast_i32x4(_mm_setr_epi8(1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x5C, 0x7D, 0, 0));
    (
        _mm512_cmpeq_epi8_mask(lanes, _mm512_set1_epi8(0x22)),
        _mm512_cmpeq_epi8_mask(lanes, _mm512_set1_epi8(0x7B)),
        _mm512_cmpeq_epi8_mask(lanes, _mm512_shuffle_epi8(of_low_bits, lanes)),
    )
}

/// Lists starts and ends of objects. Returns how many there are, if the masks contradict nothing.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi2,vpclmulqdq,avx2,bmi1,bmi2,popcnt")]
fn find(first: usize, blocks: usize, batch: &mut BatchMasks) -> Option<(usize, usize)> {
    let ones = _mm512_set1_epi64(-1);
    // The first object may follow no other, as if one had ended before it.
    let mut others_before = _mm512_setr_epi64(0, 0, 0, 0, 0, 0, 0, 1 << 62);
    let mut against = _mm512_setzero_si512();
    let mut last_bits = _mm512_add_epi64(
        _mm512_set1_epi64(first.cast_signed() as i64 + 63),
        _mm512_setr_epi64(0, 64, 128, 192, 256, 320, 384, 448),
    );
    let (mut in_string, mut opened, mut closed) = (0_u8, 0, 0);
    let masks = batch.quotes.as_chunks::<GROUP>().0.iter().zip(batch.opens.as_chunks::<GROUP>().0);
    let masks = masks.zip(batch.others.as_chunks::<GROUP>().0).zip(batch.excused.as_chunks_mut::<GROUP>().0);
    for (((quotes, opens), others), excused) in masks.take(blocks.div_ceil(GROUP)) {
        // SAFETY: each is 64 bytes.
        let (quotes, opens, others, excuses) = unsafe {
            (
                _mm512_loadu_si512(quotes.as_ptr().cast()),
                _mm512_loadu_si512(opens.as_ptr().cast()),
                _mm512_loadu_si512(others.as_ptr().cast()),
                _mm512_loadu_si512(excused.as_ptr().cast()),
            )
        };
        *excused = [0; GROUP];
        // A carry-less product with all ones is the prefix sum modulo 2.
        let even = _mm512_clmulepi64_epi128::<0x00>(quotes, ones);
        let odd = _mm512_clmulepi64_epi128::<0x01>(quotes, ones);
        let within = _mm512_unpacklo_epi64(even, odd);
        let mut sums = _mm512_movepi64_mask(within);
        sums ^= sums << 1;
        sums ^= sums << 2;
        sums ^= sums << 4;
        let inside = _mm512_mask_xor_epi64(within, sums << 1 ^ in_string, within, ones);
        in_string ^= 0_u8.wrapping_sub(sums >> 7);
        let before = _mm512_alignr_epi64::<7>(others, others_before);
        others_before = others;
        let expected = _mm512_shldi_epi64::<2>(others, before);
        let both = _mm512_or_si512(opens, others);
        // against | (opens ^ expected ^ excuses)
        against = _mm512_ternarylogic_epi64::<0xF6>(against, _mm512_xor_si512(opens, excuses), expected);
        // against | (a & b): a brace in a string, and two braces in one block.
        against = _mm512_ternarylogic_epi64::<0xF8>(against, both, inside);
        against = _mm512_ternarylogic_epi64::<0xF8>(against, opens, _mm512_add_epi64(opens, ones));
        against = _mm512_ternarylogic_epi64::<0xF8>(against, others, _mm512_add_epi64(others, ones));
        let begin = _mm512_sub_epi64(last_bits, _mm512_lzcnt_epi64(opens));
        let end = _mm512_sub_epi64(_mm512_sub_epi64(last_bits, ones), _mm512_lzcnt_epi64(others));
        last_bits = _mm512_add_epi64(last_bits, _mm512_set1_epi64((GROUP * BLOCK_BYTES) as i64));
        opened += list(batch.starts[opened..].first_chunk_mut()?, begin, _mm512_test_epi64_mask(opens, opens));
        closed += list(batch.ends[closed..].first_chunk_mut()?, end, _mm512_test_epi64_mask(others, others));
    }
    (_mm512_test_epi64_mask(against, against) == 0).then_some((opened, closed))
}

/// Stores the selected numbers. Returns how many there are.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx2,popcnt")]
fn list(place: &mut [u32; GROUP], numbers: __m512i, are_there: u8) -> usize {
    let numbers = _mm256_maskz_compress_epi32(are_there, _mm512_cvtepi64_epi32(numbers));
    // SAFETY: 32 bytes.
    unsafe { _mm256_storeu_si256(place.as_mut_ptr().cast(), numbers) };
    are_there.count_ones() as usize
}

/// Returns how many objects follow `},`, if all start with `prefix`. Fills `words`.
///
/// # Safety
/// `text` has at least two bytes before each start and PREFIX_BYTES from it on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi2,vpclmulqdq,avx2,bmi1,bmi2,popcnt")]
unsafe fn begin(text: &[u8], prefix: &ObjectPrefix, starts: &[u32], words: &mut [u64; BLOCKS]) -> Option<usize> {
    let (behind, mask) = prefix.behind();
    // SAFETY: 32 bytes are readable.
    let behind: __m256i = unsafe { _mm256_loadu_si256(behind.as_ptr().cast()) };
    let (nothing, lanes) = (_mm256_setzero_si256(), _mm256_movm_epi8(mask));
    let (mut against, mut between) = (nothing, nothing);
    let symbol = SEPARATOR_BYTES + prefix.symbol_start();
    for (start, word) in starts.iter().zip(words) {
        debug_assert!((SEPARATOR_BYTES..=text.len() - PREFIX_BYTES).contains(&(*start as usize)));
        // SAFETY: the caller's guarantee. A symbol starts at least eight bytes before the end of
        // the prefix.
        let differing = unsafe {
            let before = text.as_ptr().add(*start as usize - SEPARATOR_BYTES);
            *word = before.add(symbol).cast::<u64>().read_unaligned();
            _mm256_xor_si256(behind, _mm256_loadu_si256(before.cast()))
        };
        // against | (differing & lanes)
        against = _mm256_ternarylogic_epi64::<0xF8>(against, differing, lanes);
        between = _mm256_sub_epi16(between, _mm256_cmpeq_epi16(differing, nothing));
    }
    (_mm256_testz_si256(against, against) != 0).then_some(_mm256_extract_epi16::<0>(between).cast_unsigned() as usize)
}

/// How to interleave three registers into objects: the first two by index, the third where its bit
/// is set.
struct LaneOrder {
    of_two: [i32; OUT],
    of_third: [i32; OUT],
    is_third: u16,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "below 48")]
const LANE_ORDERS: [LaneOrder; 3] = {
    let mut all = [const { LaneOrder { of_two: [0; OUT], of_third: [0; OUT], is_third: 0 } }; 3];
    let mut at = 0;
    while at < 3 * OUT {
        let (woven, lane, object) = (&mut all[at / OUT], at % OUT, at / 3);
        match at % 3 {
            0 => woven.of_two[lane] = object as i32,
            1 => woven.of_two[lane] = (OUT + object) as i32,
            _ => {
                woven.of_third[lane] = object as i32;
                woven.is_third |= 1 << lane;
            }
        }
        at += 1;
    }
    all
};

/// Fills `out`. `None` if a long symbol has no end.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi2,vpclmulqdq,avx2,bmi1,bmi2,popcnt")]
fn write(
    text: &[u8],
    prefix: &ObjectPrefix,
    router: &SymbolRouter,
    batch: &BatchMasks,
    out: &mut [Object],
    objects: usize,
) -> Option<()> {
    let divisor = Divisor::new(router.workers());
    let lists = batch.words.as_chunks::<OUT>().0.iter();
    let lists = lists.zip(batch.starts.as_chunks::<OUT>().0).zip(batch.ends.as_chunks::<OUT>().0);
    for (index, (out, ((words, starts), ends))) in out.as_chunks_mut::<OUT>().0.iter_mut().zip(lists).enumerate() {
        // SAFETY: sixteen words are 128 bytes, and sixteen offsets 64.
        let (low, high, starts, ends) = unsafe {
            (
                _mm512_loadu_si512(words.as_ptr().cast()),
                _mm512_loadu_si512(words[GROUP..].as_ptr().cast()),
                _mm512_loadu_si512(starts.as_ptr().cast()),
                _mm512_loadu_si512(ends.as_ptr().cast()),
            )
        };
        let (low, low_long) = workers_of(low, &divisor);
        let (high, high_long) = workers_of(high, &divisor);
        let workers = _mm512_inserti64x4::<1>(_mm512_zextsi256_si512(low), high);
        let place = out.as_mut_ptr().cast::<__m512i>();
        for (part, woven) in LANE_ORDERS.iter().enumerate() {
            // SAFETY: 64 bytes each.
            let (of_two, of_third) = unsafe {
                (_mm512_loadu_si512(woven.of_two.as_ptr().cast()), _mm512_loadu_si512(woven.of_third.as_ptr().cast()))
            };
            let two = _mm512_permutex2var_epi32(starts, of_two, ends);
            let three = _mm512_mask_permutexvar_epi32(two, woven.is_third, of_third, workers);
            // SAFETY: sixteen objects of three u32 in this order are three times 64 bytes.
            unsafe { _mm512_storeu_si512(place.add(part), three) };
        }
        let long = u32::from(low_long) | u32::from(high_long) << GROUP;
        if long != 0 {
            let count = (objects - index * OUT).min(OUT);
            long_ones(text, prefix, router, &mut out[..count], long)?;
        }
    }
    Some(())
}

/// Sets the workers of symbols without a quote in their first eight bytes.
#[cold]
#[inline(never)]
fn long_ones(text: &[u8], prefix: &ObjectPrefix, router: &SymbolRouter, out: &mut [Object], long: u32) -> Option<()> {
    for (_, object) in out.iter_mut().enumerate().filter(|(lane, _)| long >> lane & 1 != 0) {
        object.worker = long_symbol(text, object.start as usize + prefix.symbol_start(), router)?;
    }
    Some(())
}

/// A number of workers and its reciprocal.
struct Divisor {
    divisor: __m512i,
    reciprocal: __m512d,
}

impl Divisor {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(divisor: u32) -> Self {
        Divisor { divisor: _mm512_set1_epi64(divisor.into()), reciprocal: _mm512_set1_pd(1.0 / f64::from(divisor)) }
    }

    /// Returns the remainders of numbers below 2^32.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn remainder(&self, numbers: __m512i) -> __m512i {
        let quotients = _mm512_cvttpd_epu64(_mm512_mul_pd(_mm512_cvtepu64_pd(numbers), self.reciprocal));
        let left = _mm512_sub_epi64(numbers, _mm512_mul_epu32(quotients, self.divisor));
        // A quotient may be one too small, never too large: the error is far below the reciprocal.
        _mm512_min_epu64(left, _mm512_sub_epi64(left, self.divisor))
    }
}

/// Returns the workers of symbols that end with a quote within the word, and the mask of words that
/// do not.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn workers_of(words: __m512i, divisor: &Divisor) -> (__m256i, u8) {
    const LOW_BITS: i64 = 0x0101_0101_0101_0101;
    let differing = _mm512_xor_si512(words, _mm512_set1_epi64(LOW_BITS * 0x22));
    // The lowest set bit belongs to the first quote byte.
    let borrowed = _mm512_sub_epi64(differing, _mm512_set1_epi64(LOW_BITS));
    let quotes = _mm512_ternarylogic_epi64::<0x20>(borrowed, differing, _mm512_set1_epi64(LOW_BITS << 7));
    let below = _mm512_andnot_si512(quotes, _mm512_sub_epi64(quotes, _mm512_set1_epi64(1)));
    let prime = _mm512_set1_epi64(PRIME.cast_signed());
    let mut hash = _mm512_set1_epi64(OFFSET_BASIS.cast_signed());
    for index in 0..WORD_BYTES - 1 {
        // Byte `index` of each lane, zero-extended.
        let low = 0x8080_8080_8080_8000_u64.cast_signed() | index as i64;
        let bytes =
            _mm512_shuffle_epi8(words, _mm512_setr_epi64(low, low + 8, low, low + 8, low, low + 8, low, low + 8));
        let is_supported = _mm512_test_epi64_mask(below, _mm512_set1_epi64(0x80 << (8 * index)));
        hash = _mm512_mask_mullo_epi64(hash, is_supported, _mm512_xor_si512(hash, bytes), prime);
    }
    let workers = divisor.remainder(_mm512_srli_epi64::<32>(hash));
    (_mm512_cvtepi64_epi32(workers), _mm512_testn_epi64_mask(quotes, quotes))
}
