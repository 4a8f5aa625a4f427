//! The fast way through an array of plain objects: 64 bytes at a time, then object by object.
//!
//! Does        first note where braces stand outside strings (quotes, braces and backslashes as bit masks, a prefix sum
//!             tells the inside of strings), then take these marks in pairs: `}` and `{` with a comma between them, and
//!             behind the brace one of the few beginnings that lead to a symbol. An object with anything else in it is
//!             left to `walk`. With AVX-512, what is all alike is taken by the batch before that (`avx512`).
//! Holds       an object is the same, and has the same worker, as `walk` says, on every kind of lanes.
//! Leaves out  what stands around the array: `cutter`.
//! Start at    [`Scanner::run`], [`Scanner::messages`].

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod shape;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
mod words;

use pitwire_websocket::Data;

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
/// Objects are handed on in runs of at most this many.
pub const RUN_OBJECTS: usize = 512;
/// [`Scanner::messages`] wants room for so many: one in each block that it looks at.
pub const ROOM_OBJECTS: usize = RUN_OBJECTS / 2;
#[cfg(target_arch = "x86_64")]
const PAUSE_MAX: u32 = 63;
/// A longer symbol is not plain.
const SYMBOL_BYTES_MAX: usize = 64;

/// What the vector scan runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// 64-bit words: everywhere, and what the others are compared with.
    Words,
    /// 32 bytes at a time, on x86-64 with AVX2, BMI, POPCNT and PCLMULQDQ.
    Avx2,
    /// 64 bytes at a time, where the processor also has AVX-512 F, BW, CD, DQ, VL, VBMI2 and VPCLMULQDQ.
    Avx512,
}

impl Lanes {
    /// From the plainest to the best.
    pub const ALL: [Lanes; 3] = [Lanes::Words, Lanes::Avx2, Lanes::Avx512];

    /// The best that this processor has.
    pub fn detected() -> Self {
        Lanes::ALL.into_iter().rfind(|lanes| lanes.is_there()).unwrap_or(Lanes::Words)
    }

    pub fn is_there(self) -> bool {
        match self {
            Lanes::Words => true,
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx2 => avx2::is_there(),
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx512 => avx512::is_there(),
            #[cfg(not(target_arch = "x86_64"))]
            Lanes::Avx2 | Lanes::Avx512 => false,
        }
    }
}

/// What is remarkable in a block: one bit a byte.
struct Block {
    quotes: u64,
    /// Braces and backslashes.
    others: u64,
}

/// The operations that differ from one kind of lanes to another.
///
/// # Safety
/// Each may only be called where the processor has what [`Lanes::is_there`] asks for.
trait Ops {
    /// Bytes or-ed together.
    type Union: Copy;

    unsafe fn nothing() -> Self::Union;

    unsafe fn is_ascii(union: Self::Union) -> bool;

    unsafe fn block(bytes: &[u8; BLOCK_BYTES], union: &mut Self::Union) -> Block;

    /// For each bit the sum of it and all bits below it, modulo 2: set from each opening quote up to its closing one.
    unsafe fn inside(quotes: u64) -> u64;

    /// The symbol's length, when `bytes` begin as `shape` says; what lies beyond the bytes is not seen.
    unsafe fn symbol_bytes(bytes: &[u8; PREFIX_BYTES], shape: &Shape) -> Option<u32>;

    /// [`note_marks`] for these lanes, as a function of its own: its loop needs every register.
    unsafe fn note_marks(text: &[u8], span: Span, noted: Noted, marks: &mut Marks, blocks: usize) -> Noted;
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
    keys: Box<[Key; RUN_OBJECTS]>,
    blocks: usize,
    #[cfg(target_arch = "x86_64")]
    batch: Option<Box<avx512::Batch>>,
    #[cfg(target_arch = "x86_64")]
    pauses: Pauses,
}

/// Whole messages, in a frame each.
#[derive(Clone, Copy, Debug)]
pub struct Messages {
    pub messages: u64,
    pub objects: usize,
    /// Behind the last frame.
    pub end: usize,
}

/// `[{`, and at the end `}]`.
#[cfg(target_arch = "x86_64")]
#[inline]
fn is_of_objects(message: &[u8]) -> bool {
    matches!(message, [b'[', b'{', .., b'}', b']'])
}

/// How often objects that are all alike are not looked for, after there were others: twice as often each time.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Default)]
struct Pauses {
    length: u32,
    left: u32,
}

#[cfg(target_arch = "x86_64")]
impl Pauses {
    #[inline]
    fn is_over(&mut self) -> bool {
        let is_over = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_over
    }

    fn judge(&mut self, are_alike: bool) {
        self.length = if are_alike { 0 } else { (2 * self.length + 1).min(PAUSE_MAX) };
        self.left = self.length;
    }
}

const MARKS: usize = BLOCKS_MAX * BLOCK_BYTES + 3;

/// Offsets of marks: every byte may be one, one may be left from before, and two are written at a time.
type Marks = [u32; MARKS];

impl Scanner {
    pub fn new(lanes: Lanes) -> Self {
        let lanes = if lanes.is_there() { lanes } else { Lanes::Words };
        let marks = vec![0; MARKS].into_boxed_slice().try_into().unwrap_or_else(|_| Box::new([0; MARKS]));
        Scanner {
            lanes,
            marks,
            keys: Box::new([Key::default(); RUN_OBJECTS]),
            blocks: BLOCKS_MAX,
            #[cfg(target_arch = "x86_64")]
            batch: (lanes == Lanes::Avx512).then(avx512::Batch::new),
            #[cfg(target_arch = "x86_64")]
            pauses: Pauses::default(),
        }
    }

    /// HOT. Objects that are all alike; `None` leaves them to [`Run::objects`].
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn alike(&mut self, text: &[u8], span: Span, tables: &Tables, out: &mut [Object]) -> Option<Ran> {
        let batch = self.batch.as_mut().filter(|_| self.pauses.is_over())?;
        let frames = usize::from(text.get(..span.at)?.last_chunk() != Some(b"},"));
        // SAFETY: there is a batch only where `new` has asked the processor.
        let found =
            unsafe { avx512::objects(text, span, frames, (tables.shapes.latest(), &tables.router), batch, out) };
        self.pauses.judge(found.is_some());
        found.map(|found| Ran { at: found.end, objects: found.objects, stop: Stop::Behind })
    }

    /// HOT. Messages of nothing but objects that are all alike, in whole frames that `next` finds from `at` on; into `out`, which has
    /// room for [`ROOM_OBJECTS`] at least. `None` leaves them to [`Scanner::run`].
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub fn messages(
        &mut self,
        text: &[u8],
        at: usize,
        next: impl Fn(usize) -> Option<Data>,
        tables: &Tables,
        out: &mut [Object],
    ) -> Option<Messages> {
        let next = |at| next(at).filter(|data| is_of_objects(text.get(data.start..data.end).unwrap_or_default()));
        let batch = self.batch.as_mut().filter(|_| self.pauses.is_over())?;
        let mut data = next(at)?;
        let (start, mut messages) = (data.start + 1, 1);
        while let Some(another) = next(data.end).filter(|another| another.end - start <= avx512::BATCH_BYTES) {
            batch.border(data.end - start, another.start + 1 - data.end);
            (data, messages) = (another, messages + 1);
        }
        if messages < 2 {
            return None;
        }
        let span = Span { at: start, end: data.end, checked: start };
        // SAFETY: there is a batch only where `new` has asked the processor.
        let found =
            unsafe { avx512::objects(text, span, messages, (tables.shapes.latest(), &tables.router), batch, out) };
        self.pauses.judge(found.is_some());
        let found = found.filter(|found| found.objects == found.opens)?;
        Some(Messages { messages: messages as u64, objects: found.objects, end: data.end })
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub fn messages(
        &mut self,
        _text: &[u8],
        _at: usize,
        _next: impl Fn(usize) -> Option<Data>,
        _tables: &Tables,
        _out: &mut [Object],
    ) -> Option<Messages> {
        None
    }

    /// HOT. Takes plain objects from the brace at `span.at` on, into `out`, which has room for one at least and for
    /// [`RUN_OBJECTS`] at most.
    pub fn run(&mut self, text: &[u8], span: Span, tables: &mut Tables, out: &mut [Object]) -> Ran {
        #[cfg(target_arch = "x86_64")]
        if let Some(ran) = self.alike(text, span, tables, out) {
            return ran;
        }
        let keys = &mut self.keys[..out.len()];
        let mut run = Run { text, span, tables, out, keys, marks: &mut self.marks, blocks: self.blocks };
        let ran = match self.lanes {
            // SAFETY: words ask for nothing.
            Lanes::Words => unsafe { run.objects::<words::Words>() },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `new` has asked the processor.
            Lanes::Avx2 | Lanes::Avx512 => unsafe { avx2::objects(&mut run) },
            #[cfg(not(target_arch = "x86_64"))]
            Lanes::Avx2 | Lanes::Avx512 => Ran { at: span.at, objects: 0, stop: Stop::Object },
        };
        self.blocks = if ran.stop == Stop::Object { BLOCKS_MIN } else { run.blocks };
        let Run { tables, out, keys, .. } = run;
        // In a loop of its own, which waits for many entries of the table at once.
        for (object, key) in out.iter_mut().zip(keys.iter()).take(ran.objects) {
            object.worker = tables.router.worker_of_key(*key);
        }
        ran
    }
}

struct Run<'a> {
    text: &'a [u8],
    span: Span,
    tables: &'a mut Tables,
    out: &'a mut [Object],
    /// What tells the workers of `out`.
    keys: &'a mut [Key],
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
    /// There may be more marks.
    Enough,
    /// There is no more text; or a brace or a backslash stands in a string, and nothing from there on was noted.
    Last,
    /// Something is not ASCII and not known to be UTF-8: what was noted is not to be used.
    Unchecked,
}

impl Run<'_> {
    /// # Safety
    /// The processor has what `O` asks for.
    #[inline(always)]
    unsafe fn objects<O: Ops>(&mut self) -> Ran {
        let text = self.text;
        let mut object = self.span.at;
        let mut objects = 0;
        // SAFETY: passed on.
        let Some(mut key) = (unsafe { begin::<O>(text, object, self.tables) }) else {
            return Ran { at: object, objects, stop: Stop::Object };
        };
        let mut noted = Noted { at: object, count: 0, in_string: 0, end: NotedEnd::Enough };
        // The first mark is the brace of the first object.
        let mut next = 1;
        loop {
            // SAFETY: passed on.
            noted = unsafe { O::note_marks(text, self.span, noted, self.marks, self.blocks) };
            if noted.end == NotedEnd::Unchecked {
                return Ran { at: object, objects, stop: Stop::Unchecked };
            }
            for &[close, open] in self.marks[next..noted.count.max(next)].as_chunks::<2>().0 {
                let (close, open) = (close as usize, open as usize);
                if open != close + 2 || text[close..open] != *b"}," {
                    return self.finish(close, object, objects, key);
                }
                self.out[objects] = located(object, close + 1);
                self.keys[objects] = key;
                objects += 1;
                if objects == self.out.len() {
                    return Ran { at: close + 1, objects, stop: Stop::Behind };
                }
                // SAFETY: passed on.
                let Some(found) = (unsafe { begin::<O>(text, open, self.tables) }) else {
                    return Ran { at: close + 1, objects, stop: Stop::Behind };
                };
                (object, key) = (open, found);
            }
            let left = noted.count.saturating_sub(next) % 2;
            let mark = self.marks[noted.count.saturating_sub(1)];
            if noted.end == NotedEnd::Last {
                return match left {
                    0 => Ran { at: object, objects, stop: Stop::Object },
                    _ => self.finish(mark as usize, object, objects, key),
                };
            }
            self.marks[0] = mark;
            (noted.count, next) = (left, 0);
            self.blocks = (self.blocks * 2).min(BLOCKS_MAX);
        }
    }

    /// The mark at `end`, of which no more is known than that it is the first in the object.
    #[cold]
    fn finish(&mut self, end: usize, object: usize, objects: usize, key: Key) -> Ran {
        if self.text[end] != b'}' {
            return Ran { at: object, objects, stop: Stop::Object };
        }
        self.out[objects] = located(object, end + 1);
        self.keys[objects] = key;
        Ran { at: end + 1, objects: objects + 1, stop: Stop::Behind }
    }
}

/// Notes marks of so many blocks from `noted.at` on, unless the span ends or something odd stands in a string. At most one
/// mark has been noted before.
///
/// # Safety
/// The processor has what `O` asks for.
#[inline(always)]
unsafe fn note_marks<O: Ops>(text: &[u8], span: Span, noted: Noted, marks: &mut Marks, blocks: usize) -> Noted {
    // One by one, and nothing of them by reference: they have to stay in registers.
    let Noted { mut at, mut count, mut in_string, .. } = noted;
    let mut end = NotedEnd::Enough;
    assert!(count <= 1);
    // SAFETY: passed on.
    let mut union = unsafe { O::nothing() };
    let (whole, last) = text[..span.end].get(at..).unwrap_or_default().as_chunks();
    let blocks = blocks.min(BLOCKS_MAX);
    for bytes in whole.iter().take(blocks) {
        // SAFETY: passed on.
        let block = unsafe { O::block(bytes, &mut union) };
        // SAFETY: passed on.
        let in_strings = unsafe { O::inside(block.quotes) } ^ in_string;
        in_string = 0_u64.wrapping_sub(in_strings >> 63);
        let odd = block.others & in_strings;
        // SAFETY: `count` was at most 1 and grew by at most 64 for each of fewer than BLOCKS_MAX blocks.
        count += unsafe { note_block(marks, count, at, block.others, odd) };
        at += BLOCK_BYTES;
        if odd != 0 {
            end = NotedEnd::Last;
            break;
        }
    }
    if whole.len() < blocks && end == NotedEnd::Enough {
        // SAFETY: passed on.
        let block = unsafe { last_block::<O>(text, at, last, &mut union) };
        // SAFETY: passed on.
        let odd = block.others & (unsafe { O::inside(block.quotes) } ^ in_string);
        // SAFETY: as above, since this is one of `blocks` too.
        count += unsafe { note_block(marks, count, at, block.others, odd) };
        at += BLOCK_BYTES;
        end = NotedEnd::Last;
    }
    // SAFETY: passed on.
    if !unsafe { O::is_ascii(union) } && at.min(span.end) > span.checked {
        end = NotedEnd::Unchecked;
    }
    Noted { at, count, in_string, end }
}

/// The marks of a block, up to one that is odd: how many.
///
/// # Safety
/// From `count` on there is room for 64 marks.
#[inline(always)]
unsafe fn note_block(marks: &mut Marks, count: usize, at: usize, others: u64, odd: u64) -> usize {
    let later = others & others.wrapping_sub(1);
    // Two are written whatever comes, so that the usual block needs no branch.
    // SAFETY: the caller has room for them.
    unsafe {
        *marks.get_unchecked_mut(count) = offset(at, others);
        *marks.get_unchecked_mut(count + 1) = offset(at, later);
    }
    if odd | (later & later.wrapping_sub(1)) == 0 {
        others.count_ones() as usize
    } else {
        note_crowd(&mut marks[count..], at, others, odd)
    }
}

/// The block of which only `last` counts.
///
/// # Safety
/// The processor has what `O` asks for.
#[inline(always)]
unsafe fn last_block<O: Ops>(text: &[u8], at: usize, last: &[u8], union: &mut O::Union) -> Block {
    if let Some(bytes) = text[at..].first_chunk() {
        // What follows in the text is not ours, but may be looked at.
        let mut with_others = *union;
        // SAFETY: passed on.
        let (block, is_ascii) = unsafe {
            let block = O::block(bytes, &mut with_others);
            (block, O::is_ascii(with_others))
        };
        if is_ascii {
            let ours = (1_u64 << last.len()) - 1;
            return Block { quotes: block.quotes & ours, others: block.others & ours };
        }
    }
    // Zeros are no marks.
    let mut padded = [0; BLOCK_BYTES];
    padded[..last.len()].copy_from_slice(last);
    // SAFETY: passed on.
    unsafe { O::block(&padded, union) }
}

/// The same for a block with anything in it.
#[inline(never)]
fn note_crowd(slots: &mut [u32], at: usize, others: u64, odd: u64) -> usize {
    let mut found = if odd == 0 { others } else { others & ((odd & odd.wrapping_neg()) - 1) };
    let count = found.count_ones() as usize;
    for slot in &mut slots[..count] {
        *slot = offset(at, found);
        found &= found - 1;
    }
    count
}

/// What tells the worker of the object that begins at `object`, if it begins as it should.
///
/// # Safety
/// The processor has what `O` asks for.
#[inline(always)]
unsafe fn begin<O: Ops>(text: &[u8], object: usize, tables: &mut Tables) -> Option<Key> {
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
        return long_symbol(text, object + start, &tables.router).map(Key::of_worker);
    }
    let word: &[u8; 8] = bytes[start..].first_chunk()?;
    Some(Key::new(u64::from_le_bytes(*word), symbol_bytes))
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
fn located(start: usize, end: usize) -> Object {
    Object { start: start as u32, end: end as u32, worker: 0 }
}

/// Of the lowest bit of a block at `at`.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "see `located`")]
fn offset(at: usize, bits: u64) -> u32 {
    at as u32 + bits.trailing_zeros()
}
