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
/// So many marks are collected before their objects are taken: the text is then still in the nearest cache.
const MARKS_MAX: usize = 512;
/// After an object that is not plain, few are collected: nothing is scanned in vain where every object is like that.
const MARKS_MIN: usize = 8;
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
    is_ascii: bool,
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
    marks_max: usize,
}

/// Offsets of marks. The last block may bring 64, and two are written at a time.
#[derive(Debug)]
struct Marks {
    offsets: [u32; MARKS_MAX + BLOCK_BYTES + 2],
    count: usize,
}

impl Scanner {
    pub fn new(lanes: Lanes) -> Self {
        let lanes = if lanes.is_there() { lanes } else { Lanes::Words };
        let marks = Box::new(Marks { offsets: [0; MARKS_MAX + BLOCK_BYTES + 2], count: 0 });
        Scanner { lanes, marks, marks_max: MARKS_MAX }
    }

    /// HOT. Takes plain objects from the brace at `span.at` on, into `out`, which has room for one at least.
    pub fn run(&mut self, text: &[u8], span: Span, tables: &mut Tables, out: &mut [Object]) -> Ran {
        let mut run = Run { text, span, tables, out, marks: &mut self.marks, marks_max: self.marks_max };
        let ran = match self.lanes {
            // SAFETY: words ask for nothing.
            Lanes::Words => unsafe { run.objects::<words::Words>() },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `new` has asked the processor.
            Lanes::Avx2 => unsafe { avx2::objects(&mut run) },
            #[cfg(not(target_arch = "x86_64"))]
            Lanes::Avx2 => Ran { at: span.at, objects: 0, stop: Stop::Object },
        };
        self.marks_max = if ran.stop == Stop::Object { MARKS_MIN } else { run.marks_max };
        ran
    }
}

struct Run<'a> {
    text: &'a [u8],
    span: Span,
    tables: &'a mut Tables,
    out: &'a mut [Object],
    marks: &'a mut Marks,
    marks_max: usize,
}

impl Run<'_> {
    /// # Safety
    /// The processor has what `O` asks for.
    #[inline(always)]
    unsafe fn objects<O: Ops>(&mut self) -> Ran {
        let mut object = self.span.at;
        let mut objects = 0;
        // SAFETY: passed on.
        let Some(mut worker) = (unsafe { self.begin::<O>(object) }) else {
            return Ran { at: object, objects, stop: Stop::Object };
        };
        let (mut at, mut inside) = (object, 0);
        self.marks.count = 0;
        // The first mark is the brace of the first object.
        let mut next = 1;
        loop {
            // SAFETY: passed on.
            let noted = unsafe { self.note_marks::<O>(&mut at, &mut inside) };
            if !noted.is_ascii && at.min(self.span.end) > self.span.checked {
                return Ran { at: object, objects, stop: Stop::Unchecked };
            }
            let is_last = noted.is_odd || at >= self.span.end;
            while next + 1 < self.marks.count {
                let end = self.marks.offsets[next] as usize;
                let following = self.marks.offsets[next + 1] as usize;
                if following != end + 2 || self.text[end] != b'}' || self.text[end + 1] != b',' {
                    return self.finish(end, object, objects, worker);
                }
                self.out[objects] = span_of(object, end + 1, worker);
                objects += 1;
                if objects == self.out.len() {
                    return Ran { at: end + 1, objects, stop: Stop::Behind };
                }
                // SAFETY: passed on.
                match unsafe { self.begin::<O>(following) } {
                    Some(found) => (object, worker) = (following, found),
                    None => return Ran { at: end + 1, objects, stop: Stop::Behind },
                }
                next += 2;
            }
            let left = self.marks.offsets[next];
            match (next < self.marks.count, is_last) {
                (true, true) => return self.finish(left as usize, object, objects, worker),
                (false, true) => return Ran { at: object, objects, stop: Stop::Object },
                (true, false) => {
                    self.marks.offsets[0] = left;
                    self.marks.count = 1;
                }
                (false, false) => self.marks.count = 0,
            }
            next = 0;
            self.marks_max = (self.marks_max * 2).min(MARKS_MAX);
        }
    }

    /// The mark at `end`, of which no more is known than that it is the first in the object.
    fn finish(&mut self, end: usize, object: usize, objects: usize, worker: u32) -> Ran {
        if self.text[end] != b'}' {
            return Ran { at: object, objects, stop: Stop::Object };
        }
        self.out[objects] = span_of(object, end + 1, worker);
        Ran { at: end + 1, objects: objects + 1, stop: Stop::Behind }
    }

    /// Notes marks from `at` on, until there are enough, the span ends, or something odd stands in a string.
    ///
    /// # Safety
    /// The processor has what `O` asks for.
    #[inline(always)]
    unsafe fn note_marks<O: Ops>(&mut self, at: &mut usize, inside: &mut u64) -> Noted {
        let mut noted = Noted { is_odd: false, is_ascii: true };
        while *at < self.span.end && self.marks.count < self.marks_max && !noted.is_odd {
            let mut padded = [0; BLOCK_BYTES];
            let bytes = match self.text[*at..self.span.end].first_chunk() {
                Some(bytes) => bytes,
                None => {
                    padded[..self.span.end - *at].copy_from_slice(&self.text[*at..self.span.end]);
                    &padded
                }
            };
            // SAFETY: passed on.
            let (block, sums) = unsafe {
                let block = O::block(bytes);
                let sums = O::inside(block.quotes);
                (block, sums)
            };
            let in_strings = sums ^ *inside;
            // All ones when the block ends inside a string.
            *inside = 0_u64.wrapping_sub(in_strings >> 63);
            noted.is_ascii &= block.is_ascii;
            let odd = block.others & in_strings;
            let mut marks = block.others;
            if odd != 0 {
                marks &= (odd & odd.wrapping_neg()) - 1;
                noted.is_odd = true;
            }
            self.marks.push(*at, marks);
            *at += BLOCK_BYTES;
        }
        noted
    }

    /// The worker of the object that begins at `object`, if it begins as it should.
    ///
    /// # Safety
    /// The processor has what `O` asks for.
    #[inline(always)]
    unsafe fn begin<O: Ops>(&mut self, object: usize) -> Option<u32> {
        let bytes: &[u8; PREFIX_BYTES] = self.text.get(object..)?.first_chunk()?;
        let mut shape = self.tables.shapes.latest();
        // SAFETY: passed on.
        let mut symbol_bytes = unsafe { O::symbol_bytes(bytes, shape) };
        if symbol_bytes.is_none() {
            shape = self.tables.shapes.find(bytes)?;
            // SAFETY: passed on.
            symbol_bytes = unsafe { O::symbol_bytes(bytes, shape) };
        }
        let symbol_bytes = symbol_bytes?;
        let start = shape.symbol_start();
        if symbol_bytes > Key::BYTES_MAX {
            return long_symbol(self.text, object + start, &self.tables.router);
        }
        let word: &[u8; 8] = bytes[start..].first_chunk()?;
        Some(self.tables.router.worker_of_key(Key::new(u64::from_le_bytes(*word), symbol_bytes)))
    }
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
fn span_of(start: usize, end: usize, worker: u32) -> Object {
    Object { start: start as u32, end: end as u32, worker }
}

struct Noted {
    /// A brace or a backslash stands in a string: nothing from there on was noted.
    is_odd: bool,
    is_ascii: bool,
}

impl Marks {
    /// Two are written whatever comes, so that the usual block needs no branch.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "see `span_of`")]
    fn push(&mut self, at: usize, mut marks: u64) {
        let count = marks.count_ones() as usize;
        let offsets = &mut self.offsets[self.count..];
        let mut take = |slot: &mut u32| {
            *slot = at as u32 + marks.trailing_zeros();
            marks &= marks.wrapping_sub(1);
        };
        if count <= 2 {
            offsets[..2].iter_mut().for_each(&mut take);
        } else {
            offsets[..count].iter_mut().for_each(&mut take);
        }
        self.count += count;
    }
}
