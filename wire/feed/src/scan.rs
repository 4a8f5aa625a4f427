//! The fast way through an array of plain objects: 64 bytes at a time, then object by object.
//!
//! Does        first note where braces stand outside strings (quotes, braces and backslashes as bit masks, a prefix sum
//!             tells the inside of strings), then take these marks in pairs: `}` and `{` with a comma between them, and
//!             behind the brace one of the few beginnings that lead to a symbol. An object with anything else in it is
//!             left to `walk`.
//! Holds       an object is the same, and has the same worker, as `walk` says, on every kind of lanes.
//! Leaves out  what stands around the array: `cutter`.
//! Start at    [`Scanner::run`].

#[cfg(target_arch = "x86_64")]
mod avx2;
mod shape;
mod words;

use crate::Object;
use crate::route::{Key, Router};
pub use shape::Shapes;
use shape::{PREFIX_BYTES, Shape};

/// Bytes looked at in one step.
const BLOCK_BYTES: usize = 64;
/// So many blocks are gone through before their objects are taken: the text is then still in the nearest cache.
const BLOCKS_MAX: usize = 128;
/// After an object that is not plain, few are: nothing is scanned in vain where every object is like that.
const BLOCKS_MIN: usize = 2;
/// A longer symbol is not plain.
const SYMBOL_BYTES_MAX: usize = 64;

/// What the vector scan runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// 64-bit words: everywhere, and what the others are compared with.
    Words,
    /// 32 bytes at a time, on x86-64 with AVX2, BMI, POPCNT and PCLMULQDQ.
    Avx2,
}

impl Lanes {
    /// The best that this processor has.
    pub fn detected() -> Self {
        if Lanes::Avx2.is_there() { Lanes::Avx2 } else { Lanes::Words }
    }

    pub fn is_there(self) -> bool {
        match self {
            Lanes::Words => true,
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx2 => avx2::is_there(),
            #[cfg(not(target_arch = "x86_64"))]
            Lanes::Avx2 => false,
        }
    }
}

/// What is remarkable in a block: one bit a byte.
struct Block {
    quotes: u64,
    /// Braces and backslashes.
    others: u64,
    /// Not zero when a byte is 0x80 or above.
    beyond_ascii: u32,
}

/// The operations that differ from one kind of lanes to another.
///
/// # Safety
/// Each may only be called where the processor has what [`Lanes::is_there`] asks for.
trait Ops {
    unsafe fn block(bytes: &[u8; BLOCK_BYTES]) -> Block;

    /// For each bit the sum of it and all bits below it, modulo 2: set from each opening quote up to its closing one.
    unsafe fn inside(quotes: u64) -> u64;

    /// The symbol's length, when `bytes` begin as `shape` says; what lies beyond the bytes is not seen.
    unsafe fn symbol_bytes(bytes: &[u8; PREFIX_BYTES], shape: &Shape) -> Option<u32>;

    /// [`note_marks`] for these lanes, as a function of its own: its loop needs every register.
    unsafe fn note_marks(text: &[u8], checked: usize, noted: Noted, marks: &mut Marks, blocks: usize) -> Noted;
}

/// Where to scan: `text[at..end]`, of which bytes before `checked` are known to be UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub at: usize,
    pub end: usize,
    pub checked: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// `at` is behind an object.
    Behind,
    /// `at` is the brace of an object that is not plain, or not whole.
    Object,
    /// `at` is the brace of an object; something behind it is not ASCII and has to be checked.
    Unchecked,
}

#[derive(Clone, Copy, Debug)]
pub struct Ran {
    pub at: usize,
    pub objects: usize,
    pub stop: Stop,
}

/// What tells an object's worker.
#[derive(Debug)]
pub struct Tables {
    pub shapes: Shapes,
    pub router: Router,
}

#[derive(Debug)]
pub struct Scanner {
    lanes: Lanes,
    marks: Box<Marks>,
    blocks: usize,
}

const MARKS: usize = BLOCKS_MAX * BLOCK_BYTES + 3;

/// Offsets of marks: every byte may be one, one may be left from before, and two are written at a time.
type Marks = [u32; MARKS];

impl Scanner {
    pub fn new(lanes: Lanes) -> Self {
        let lanes = if lanes.is_there() { lanes } else { Lanes::Words };
        let marks = vec![0; MARKS].into_boxed_slice().try_into().unwrap_or_else(|_| Box::new([0; MARKS]));
        Scanner { lanes, marks, blocks: BLOCKS_MAX }
    }

    /// HOT. Takes plain objects from the brace at `span.at` on, into `out`, which has room for one at least.
    pub fn run(&mut self, text: &[u8], span: Span, tables: &mut Tables, out: &mut [Object]) -> Ran {
        let mut run = Run { text, span, tables, out, marks: &mut self.marks, blocks: self.blocks };
        let ran = match self.lanes {
            // SAFETY: words ask for nothing.
            Lanes::Words => unsafe { run.objects::<words::Words>() },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `new` has asked the processor.
            Lanes::Avx2 => unsafe { avx2::objects(&mut run) },
            #[cfg(not(target_arch = "x86_64"))]
            Lanes::Avx2 => Ran { at: span.at, objects: 0, stop: Stop::Object },
        };
        self.blocks = if ran.stop == Stop::Object { BLOCKS_MIN } else { run.blocks };
        ran
    }
}

struct Run<'a> {
    text: &'a [u8],
    span: Span,
    tables: &'a mut Tables,
    out: &'a mut [Object],
    marks: &'a mut Marks,
    blocks: usize,
}

/// How far marks have been noted.
#[derive(Clone, Copy)]
struct Noted {
    at: usize,
    count: usize,
    /// All ones when a string goes on at `at`.
    in_string: u64,
    end: NotedEnd,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NotedEnd {
    /// There are enough marks.
    Enough,
    /// There is no more text; or a brace or a backslash stands in a string, and nothing from there on was noted.
    Last,
    /// Something is not ASCII and not known to be UTF-8.
    Unchecked,
}

impl Run<'_> {
    /// # Safety
    /// The processor has what `O` asks for.
    #[inline(always)]
    unsafe fn objects<O: Ops>(&mut self) -> Ran {
        let (text, end) = (self.text, self.span.end);
        let mut object = self.span.at;
        let mut objects = 0;
        // SAFETY: passed on.
        let Some(mut worker) = (unsafe { begin::<O>(text, object, self.tables) }) else {
            return Ran { at: object, objects, stop: Stop::Object };
        };
        let mut noted = Noted { at: object, count: 0, in_string: 0, end: NotedEnd::Enough };
        // The first mark is the brace of the first object.
        let mut next = 1;
        loop {
            // SAFETY: passed on.
            noted = unsafe { O::note_marks(&text[..end], self.span.checked, noted, self.marks, self.blocks) };
            if noted.end == NotedEnd::Unchecked {
                return Ran { at: object, objects, stop: Stop::Unchecked };
            }
            for &[close, open] in self.marks[next..noted.count.max(next)].as_chunks::<2>().0 {
                let (close, open) = (close as usize, open as usize);
                if open != close + 2 || text[close..open] != *b"}," {
                    return self.finish(close, object, objects, worker);
                }
                self.out[objects] = located(object, close + 1, worker);
                objects += 1;
                if objects == self.out.len() {
                    return Ran { at: close + 1, objects, stop: Stop::Behind };
                }
                // SAFETY: passed on.
                let Some(found) = (unsafe { begin::<O>(text, open, self.tables) }) else {
                    return Ran { at: close + 1, objects, stop: Stop::Behind };
                };
                (object, worker) = (open, found);
            }
            let left = noted.count.saturating_sub(next) % 2;
            let mark = self.marks[noted.count.saturating_sub(1)];
            if noted.end == NotedEnd::Last {
                return match left {
                    0 => Ran { at: object, objects, stop: Stop::Object },
                    _ => self.finish(mark as usize, object, objects, worker),
                };
            }
            self.marks[0] = mark;
            (noted.count, next) = (left, 0);
            self.blocks = (self.blocks * 2).min(BLOCKS_MAX);
        }
    }

    /// The mark at `end`, of which no more is known than that it is the first in the object.
    #[cold]
    fn finish(&mut self, end: usize, object: usize, objects: usize, worker: u32) -> Ran {
        if self.text[end] != b'}' {
            return Ran { at: object, objects, stop: Stop::Object };
        }
        self.out[objects] = located(object, end + 1, worker);
        Ran { at: end + 1, objects: objects + 1, stop: Stop::Behind }
    }
}

/// Notes marks of so many blocks from `noted.at` on, unless the text ends or something odd stands in a string. At most one
/// mark has been noted before.
///
/// # Safety
/// The processor has what `O` asks for.
#[inline(always)]
unsafe fn note_marks<O: Ops>(text: &[u8], checked: usize, noted: Noted, marks: &mut Marks, blocks: usize) -> Noted {
    let Noted { mut at, mut count, mut in_string, .. } = noted;
    assert!(count <= 1);
    let mut padded = [0; BLOCK_BYTES];
    for _ in 0..blocks.min(BLOCKS_MAX) {
        let bytes = match text.get(at..).and_then(<[u8]>::first_chunk) {
            Some(bytes) => bytes,
            None if at < text.len() => {
                // Zeros are no marks.
                padded[..text.len() - at].copy_from_slice(&text[at..]);
                &padded
            }
            None => return Noted { at, count, in_string, end: NotedEnd::Last },
        };
        // SAFETY: passed on.
        let (block, sums) = unsafe {
            let block = O::block(bytes);
            let sums = O::inside(block.quotes);
            (block, sums)
        };
        let in_strings = sums ^ in_string;
        let odd = block.others & in_strings;
        let found = block.others;
        if odd | u64::from(block.beyond_ascii) != 0 {
            if block.beyond_ascii != 0 && (at + BLOCK_BYTES).min(text.len()) > checked {
                return Noted { at, count, in_string, end: NotedEnd::Unchecked };
            }
            if odd != 0 {
                let before = found & ((odd & odd.wrapping_neg()) - 1);
                note(before, at, &mut marks[count..]);
                count += before.count_ones() as usize;
                return Noted { at, count, in_string, end: NotedEnd::Last };
            }
        }
        let here = found.count_ones() as usize;
        // Two are written whatever comes, so that the usual block needs no branch.
        // SAFETY: `count` was at most 1 and grew by at most 64 for each of fewer than BLOCKS_MAX blocks.
        unsafe {
            *marks.get_unchecked_mut(count) = offset(at, found);
            *marks.get_unchecked_mut(count + 1) = offset(at, found & found.wrapping_sub(1));
        }
        if here > 2 {
            note(found, at, &mut marks[count..]);
        }
        count += here;
        at += BLOCK_BYTES;
        in_string = 0_u64.wrapping_sub(in_strings >> 63);
    }
    Noted { at, count, in_string, end: NotedEnd::Enough }
}

#[cold]
#[inline(never)]
fn note(mut found: u64, at: usize, slots: &mut [u32]) {
    for slot in slots.iter_mut().take(found.count_ones() as usize) {
        *slot = offset(at, found);
        found &= found.wrapping_sub(1);
    }
}

/// The worker of the object that begins at `object`, if it begins as it should.
///
/// # Safety
/// The processor has what `O` asks for.
#[inline(always)]
unsafe fn begin<O: Ops>(text: &[u8], object: usize, tables: &mut Tables) -> Option<u32> {
    let bytes: &[u8; PREFIX_BYTES] = text.get(object..)?.first_chunk()?;
    let mut shape = tables.shapes.latest();
    // SAFETY: passed on.
    let mut symbol_bytes = unsafe { O::symbol_bytes(bytes, shape) };
    if symbol_bytes.is_none() {
        shape = tables.shapes.find(bytes)?;
        // SAFETY: passed on.
        symbol_bytes = unsafe { O::symbol_bytes(bytes, shape) };
    }
    let symbol_bytes = symbol_bytes?;
    let start = shape.symbol_start();
    if symbol_bytes > Key::BYTES_MAX {
        return long_symbol(text, object + start, &tables.router);
    }
    let word: &[u8; 8] = bytes[start..].first_chunk()?;
    Some(tables.router.worker_of_key(Key::new(u64::from_le_bytes(*word), symbol_bytes)))
}

#[cold]
#[inline(never)]
fn long_symbol(text: &[u8], start: usize, router: &Router) -> Option<u32> {
    let rest = &text[start..];
    let bytes = rest.iter().take(SYMBOL_BYTES_MAX).position(|byte| *byte == b'"')?;
    Some(router.worker_of(&rest[..bytes]))
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "what is scanned at once is at most OBJECT_BYTES_MAX long")]
fn located(start: usize, end: usize, worker: u32) -> Object {
    Object { start: start as u32, end: end as u32, worker }
}

/// Of the lowest bit of a block at `at`.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "see `located`")]
fn offset(at: usize, bits: u64) -> u32 {
    at as u32 + bits.trailing_zeros()
}
