//! The scan of plain objects, generic over the vector instructions.
//!
//! Does        first finds braces outside strings: quotes, braces and backslashes become bit masks,
//!             and a prefix sum tells the inside of strings. Then it takes these marks in pairs:
//!             `}` and `{` with a comma between them, and behind the brace one of the known
//!             prefixes of an object.
//! Leaves out  objects with anything else in them: see `walk`.
//! Start at    [`ObjectScan::objects`].

use crate::object::Object;
use crate::scan::prefix::{ObjectPrefix, PREFIX_BYTES, PrefixCache};
use crate::symbol_router::{SymbolKey, SymbolRouter};

/// Bytes examined in one step.
pub const BLOCK_BYTES: usize = 64;
/// Most blocks before their objects are taken. The text is then still in the first-level cache.
pub const BLOCKS_MAX: usize = 128;
/// Most objects of one run.
pub const RUN_OBJECTS: usize = 512;
/// Longest symbol of a plain object, in bytes.
const SYMBOL_BYTES_MAX: usize = 64;

/// Masks of a block, with one bit per byte.
pub struct Block {
    pub quotes: u64,
    /// Braces and backslashes.
    pub others: u64,
}

/// The operations that depend on the instruction set.
///
/// # Safety
/// Each may be called only if the processor supports the instruction set.
pub trait SimdOps {
    /// Bytes combined with OR, to find bytes that are not ASCII.
    type ByteUnion: Copy;

    unsafe fn no_bytes() -> Self::ByteUnion;

    unsafe fn is_ascii(union: Self::ByteUnion) -> bool;

    unsafe fn block(bytes: &[u8; BLOCK_BYTES], union: &mut Self::ByteUnion) -> Block;

    /// Returns the prefix sum modulo 2: set from each opening quote up to its closing one.
    unsafe fn string_mask(quotes: u64) -> u64;

    /// Returns the length of the symbol if `bytes` start with `prefix`. Looks at these bytes only.
    unsafe fn symbol_bytes(bytes: &[u8; PREFIX_BYTES], prefix: &ObjectPrefix) -> Option<u32>;

    /// [`find_marks`] for this instruction set, as a separate function because its loop needs
    /// every register.
    unsafe fn find_marks(
        text: &[u8],
        span: ScanSpan,
        progress: MarkProgress,
        marks: &mut Marks,
        blocks: usize,
    ) -> MarkProgress;
}

/// The text to scan: `text[at..end]`. Bytes before `checked` are known to be UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct ScanSpan {
    pub at: usize,
    pub end: usize,
    pub checked: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanStop {
    /// `at` is behind an object.
    Behind,
    /// `at` is the brace of an object that is not plain or not complete.
    Object,
    /// `at` is the brace of an object. Something behind it is not ASCII and must be checked.
    Unchecked,
}

#[derive(Clone, Copy, Debug)]
pub struct ScanResult {
    pub at: usize,
    pub objects: usize,
    pub stop: ScanStop,
}

/// The routing of objects to workers.
#[derive(Debug)]
pub struct ScanTables {
    pub prefixes: PrefixCache,
    pub router: SymbolRouter,
}

pub const MARKS: usize = BLOCKS_MAX * BLOCK_BYTES + 3;

/// Offsets of marks. Every byte may be one, one may be left over, and two are written at a time.
pub type Marks = [u32; MARKS];

pub struct ObjectScan<'a> {
    pub text: &'a [u8],
    pub span: ScanSpan,
    pub tables: &'a mut ScanTables,
    pub out: &'a mut [Object],
    /// The keys that determine the workers of `out`.
    pub keys: &'a mut [SymbolKey],
    pub marks: &'a mut Marks,
    pub blocks: usize,
}

/// How far marks were found.
#[derive(Clone, Copy)]
pub struct MarkProgress {
    at: usize,
    count: usize,
    /// All ones if a string continues at `at`.
    in_string: u64,
    end: MarkEnd,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MarkEnd {
    /// There may be more marks.
    Enough,
    /// The text ended, or a brace or backslash is inside a string. Marks from there on were not
    /// stored.
    Last,
    /// A byte is not ASCII and not known to be UTF-8. The marks must not be used.
    Unchecked,
}

impl ObjectScan<'_> {
    /// # Safety
    /// The processor supports `O`.
    #[inline(always)]
    pub unsafe fn objects<O: SimdOps>(&mut self) -> ScanResult {
        let text = self.text;
        let mut object = self.span.at;
        let mut objects = 0;
        // SAFETY: the caller's guarantee.
        let Some(mut key) = (unsafe { begin::<O>(text, object, self.tables) }) else {
            return ScanResult { at: object, objects, stop: ScanStop::Object };
        };
        let mut progress = MarkProgress { at: object, count: 0, in_string: 0, end: MarkEnd::Enough };
        // The first mark is the brace of the first object.
        let mut next = 1;
        loop {
            // SAFETY: the caller's guarantee.
            progress = unsafe { O::find_marks(text, self.span, progress, self.marks, self.blocks) };
            if progress.end == MarkEnd::Unchecked {
                return ScanResult { at: object, objects, stop: ScanStop::Unchecked };
            }
            for &[close, open] in self.marks[next..progress.count.max(next)].as_chunks::<2>().0 {
                let (close, open) = (close as usize, open as usize);
                if open != close + 2 || text[close..open] != *b"}," {
                    return self.finish(close, object, objects, key);
                }
                self.out[objects] = located(object, close + 1);
                self.keys[objects] = key;
                objects += 1;
                if objects == self.out.len() {
                    return ScanResult { at: close + 1, objects, stop: ScanStop::Behind };
                }
                // SAFETY: the caller's guarantee.
                let Some(found) = (unsafe { begin::<O>(text, open, self.tables) }) else {
                    return ScanResult { at: close + 1, objects, stop: ScanStop::Behind };
                };
                (object, key) = (open, found);
            }
            let left = progress.count.saturating_sub(next) % 2;
            let mark = self.marks[progress.count.saturating_sub(1)];
            if progress.end == MarkEnd::Last {
                return match left {
                    0 => ScanResult { at: object, objects, stop: ScanStop::Object },
                    _ => self.finish(mark as usize, object, objects, key),
                };
            }
            self.marks[0] = mark;
            (progress.count, next) = (left, 0);
            self.blocks = (self.blocks * 2).min(BLOCKS_MAX);
        }
    }

    /// Handles the mark at `end`, the first one inside the object.
    #[cold]
    fn finish(&mut self, end: usize, object: usize, objects: usize, key: SymbolKey) -> ScanResult {
        if self.text[end] != b'}' {
            return ScanResult { at: object, objects, stop: ScanStop::Object };
        }
        self.out[objects] = located(object, end + 1);
        self.keys[objects] = key;
        ScanResult { at: end + 1, objects: objects + 1, stop: ScanStop::Behind }
    }
}

/// Finds the marks of `blocks` blocks from `progress.at` on, until the span ends or a mark is
/// inside a string. At most one mark was found before.
///
/// # Safety
/// The processor supports `O`.
#[inline(always)]
pub unsafe fn find_marks<O: SimdOps>(
    text: &[u8],
    span: ScanSpan,
    progress: MarkProgress,
    marks: &mut Marks,
    blocks: usize,
) -> MarkProgress {
    // Copied one by one, so that they stay in registers.
    let MarkProgress { mut at, mut count, mut in_string, .. } = progress;
    let mut end = MarkEnd::Enough;
    assert!(count <= 1);
    // SAFETY: the caller's guarantee.
    let mut union = unsafe { O::no_bytes() };
    let (whole, last) = text[..span.end].get(at..).unwrap_or_default().as_chunks();
    let blocks = blocks.min(BLOCKS_MAX);
    for bytes in whole.iter().take(blocks) {
        // SAFETY: the caller's guarantee.
        let block = unsafe { O::block(bytes, &mut union) };
        // SAFETY: the caller's guarantee.
        let in_strings = unsafe { O::string_mask(block.quotes) } ^ in_string;
        in_string = 0_u64.wrapping_sub(in_strings >> 63);
        let odd = block.others & in_strings;
        // SAFETY: `count` was at most 1 and grew by at most 64 in each of fewer than BLOCKS_MAX
        // blocks.
        count += unsafe { store_marks(marks, count, at, block.others, odd) };
        at += BLOCK_BYTES;
        if odd != 0 {
            end = MarkEnd::Last;
            break;
        }
    }
    if whole.len() < blocks && end == MarkEnd::Enough {
        // SAFETY: the caller's guarantee.
        let block = unsafe { last_block::<O>(text, at, last, &mut union) };
        // SAFETY: the caller's guarantee.
        let odd = block.others & (unsafe { O::string_mask(block.quotes) } ^ in_string);
        // SAFETY: as above, because this is one of `blocks` too.
        count += unsafe { store_marks(marks, count, at, block.others, odd) };
        at += BLOCK_BYTES;
        end = MarkEnd::Last;
    }
    // SAFETY: the caller's guarantee.
    if !unsafe { O::is_ascii(union) } && at.min(span.end) > span.checked {
        end = MarkEnd::Unchecked;
    }
    MarkProgress { at, count, in_string, end }
}

/// Stores the marks of a block up to one inside a string. Returns how many.
///
/// # Safety
/// `marks` has room for 64 from `count` on.
#[inline(always)]
unsafe fn store_marks(marks: &mut Marks, count: usize, at: usize, others: u64, odd: u64) -> usize {
    let later = others & others.wrapping_sub(1);
    // Always writes two, so that the usual block needs no branch.
    // SAFETY: the caller guarantees the room.
    unsafe {
        *marks.get_unchecked_mut(count) = offset(at, others);
        *marks.get_unchecked_mut(count + 1) = offset(at, later);
    }
    if odd | (later & later.wrapping_sub(1)) == 0 {
        others.count_ones() as usize
    } else {
        store_many_marks(&mut marks[count..], at, others, odd)
    }
}

/// Returns the masks of the last block, of which only `last` counts.
///
/// # Safety
/// The processor supports `O`.
#[inline(always)]
unsafe fn last_block<O: SimdOps>(text: &[u8], at: usize, last: &[u8], union: &mut O::ByteUnion) -> Block {
    if let Some(bytes) = text[at..].first_chunk() {
        // What follows in the text is not part of the span, but may be read.
        let mut with_others = *union;
        // SAFETY: the caller's guarantee.
        let (block, is_ascii) = unsafe {
            let block = O::block(bytes, &mut with_others);
            (block, O::is_ascii(with_others))
        };
        if is_ascii {
            let ours = (1_u64 << last.len()) - 1;
            return Block { quotes: block.quotes & ours, others: block.others & ours };
        }
    }
    // Zeros are not marks.
    let mut padded = [0; BLOCK_BYTES];
    padded[..last.len()].copy_from_slice(last);
    // SAFETY: the caller's guarantee.
    unsafe { O::block(&padded, union) }
}

/// Stores the marks of a block with any number of them.
#[inline(never)]
fn store_many_marks(slots: &mut [u32], at: usize, others: u64, odd: u64) -> usize {
    let mut found = if odd == 0 { others } else { others & ((odd & odd.wrapping_neg()) - 1) };
    let count = found.count_ones() as usize;
    for slot in &mut slots[..count] {
        *slot = offset(at, found);
        found &= found - 1;
    }
    count
}

/// Returns the key of the object that begins at `object`, if it starts with a known prefix.
///
/// # Safety
/// The processor supports `O`.
#[inline(always)]
unsafe fn begin<O: SimdOps>(text: &[u8], object: usize, tables: &mut ScanTables) -> Option<SymbolKey> {
    let bytes: &[u8; PREFIX_BYTES] = text.get(object..)?.first_chunk()?;
    let mut prefix = tables.prefixes.latest();
    // SAFETY: the caller's guarantee.
    let mut symbol_bytes = unsafe { O::symbol_bytes(bytes, prefix) };
    if symbol_bytes.is_none() {
        prefix = tables.prefixes.find(bytes)?;
        // SAFETY: the caller's guarantee.
        symbol_bytes = unsafe { O::symbol_bytes(bytes, prefix) };
    }
    let symbol_bytes = symbol_bytes?;
    let start = prefix.symbol_start();
    if symbol_bytes > SymbolKey::BYTES_MAX {
        return long_symbol(text, object + start, &tables.router).map(SymbolKey::of_worker);
    }
    let word: &[u8; 8] = bytes[start..].first_chunk()?;
    Some(SymbolKey::new(u64::from_le_bytes(*word), symbol_bytes))
}

#[cold]
#[inline(never)]
pub fn long_symbol(text: &[u8], start: usize, router: &SymbolRouter) -> Option<u32> {
    let rest = &text[start..];
    let bytes = rest.iter().take(SYMBOL_BYTES_MAX).position(|byte| *byte == b'"')?;
    Some(router.worker_of(&rest[..bytes]))
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "what is scanned at once is at most OBJECT_BYTES_MAX long")]
fn located(start: usize, end: usize) -> Object {
    Object { start: start as u32, end: end as u32, worker: 0 }
}

/// Returns the offset of the lowest set bit of the block at `at`.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "see `located`")]
fn offset(at: usize, bits: u64) -> u32 {
    at as u32 + bits.trailing_zeros()
}
