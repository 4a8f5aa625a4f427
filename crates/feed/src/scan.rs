//! The fast way through an array of plain objects: 64 bytes at a time, then object by object.
//!
//! Does        first note where braces stand outside strings (quotes, braces and backslashes as bit masks, a prefix sum
//!             tells the inside of strings), then take these marks in pairs: `}` and `{` with a comma between them, and
//!             behind the brace one of the few beginnings that lead to a symbol. An object with anything else in it is
//!             left to `walk`. With AVX-512, what is all alike is taken by the batch before that (`avx512`).
//! Holds       an object is the same, and has the same worker, as `walk` says, on every kind of lanes.
//! Leaves out  what stands around the array: `reader`.
//! Start at    [`Scanner::run`], [`Scanner::messages`].

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod marks;
mod prefix;
mod scalar;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

use pitwire_websocket::Data;

use crate::object::Object;
use crate::symbol_router::SymbolKey;
use marks::{BLOCKS_MAX, MARKS, Marks, ObjectScan};
pub use marks::{RUN_OBJECTS, ScanResult, ScanSpan, ScanStop, ScanTables};
pub use prefix::PrefixCache;

/// After an object that is not plain, few are: nothing is scanned in vain where every object is like that.
const BLOCKS_MIN: usize = 2;
/// [`Scanner::messages`] wants room for so many: one in each block that it looks at.
pub const ROOM_OBJECTS: usize = RUN_OBJECTS / 2;
#[cfg(target_arch = "x86_64")]
const PAUSE_MAX: u32 = 63;
/// What the vector scan runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimdLevel {
    /// 64-bit words: everywhere, and what the others are compared with.
    Words,
    /// 32 bytes at a time, on x86-64 with AVX2, BMI, POPCNT and PCLMULQDQ.
    Avx2,
    /// 64 bytes at a time, where the processor also has AVX-512 F, BW, CD, DQ, VL, VBMI2 and VPCLMULQDQ.
    Avx512,
}

impl SimdLevel {
    /// From the plainest to the best.
    pub const ALL: [SimdLevel; 3] = [SimdLevel::Words, SimdLevel::Avx2, SimdLevel::Avx512];

    /// The best that this processor has.
    pub fn detected() -> Self {
        SimdLevel::ALL.into_iter().rfind(|lanes| lanes.is_supported()).unwrap_or(SimdLevel::Words)
    }

    pub fn is_supported(self) -> bool {
        match self {
            SimdLevel::Words => true,
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2 => avx2::is_supported(),
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => avx512::is_supported(),
            #[cfg(not(target_arch = "x86_64"))]
            SimdLevel::Avx2 | SimdLevel::Avx512 => false,
        }
    }
}

#[derive(Debug)]
pub struct Scanner {
    lanes: SimdLevel,
    marks: Box<Marks>,
    keys: Box<[SymbolKey; RUN_OBJECTS]>,
    blocks: usize,
    #[cfg(target_arch = "x86_64")]
    batch: Option<Box<avx512::BatchMasks>>,
    #[cfg(target_arch = "x86_64")]
    backoff: BatchBackoff,
}

/// Whole messages, in a frame each.
#[derive(Clone, Copy, Debug)]
pub struct UniformMessages {
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
struct BatchBackoff {
    length: u32,
    left: u32,
}

#[cfg(target_arch = "x86_64")]
impl BatchBackoff {
    #[inline]
    fn is_due(&mut self) -> bool {
        let is_over = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_over
    }

    fn record(&mut self, are_alike: bool) {
        self.length = if are_alike { 0 } else { (2 * self.length + 1).min(PAUSE_MAX) };
        self.left = self.length;
    }
}

impl Scanner {
    pub fn new(lanes: SimdLevel) -> Self {
        let lanes = if lanes.is_supported() { lanes } else { SimdLevel::Words };
        let marks = vec![0; MARKS].into_boxed_slice().try_into().unwrap_or_else(|_| Box::new([0; MARKS]));
        Scanner {
            lanes,
            marks,
            keys: Box::new([SymbolKey::default(); RUN_OBJECTS]),
            blocks: BLOCKS_MAX,
            #[cfg(target_arch = "x86_64")]
            batch: (lanes == SimdLevel::Avx512).then(avx512::BatchMasks::new),
            #[cfg(target_arch = "x86_64")]
            backoff: BatchBackoff::default(),
        }
    }

    /// HOT. Objects that are all alike; `None` leaves them to [`ObjectScan::objects`].
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn uniform_objects(
        &mut self,
        text: &[u8],
        span: ScanSpan,
        tables: &ScanTables,
        out: &mut [Object],
    ) -> Option<ScanResult> {
        let batch = self.batch.as_mut().filter(|_| self.backoff.is_due())?;
        let frames = usize::from(text.get(..span.at)?.last_chunk() != Some(b"},"));
        // SAFETY: there is a batch only where `new` has asked the processor.
        let found =
            unsafe { avx512::objects(text, span, frames, (tables.prefixes.latest(), &tables.router), batch, out) };
        self.backoff.record(found.is_some());
        found.map(|found| ScanResult { at: found.end, objects: found.objects, stop: ScanStop::Behind })
    }

    /// HOT. UniformMessages of nothing but objects that are all alike, in whole frames that `next` finds from `at` on; into `out`, which has
    /// room for [`ROOM_OBJECTS`] at least. `None` leaves them to [`Scanner::run`].
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub fn messages(
        &mut self,
        text: &[u8],
        at: usize,
        next: impl Fn(usize) -> Option<Data>,
        tables: &ScanTables,
        out: &mut [Object],
    ) -> Option<UniformMessages> {
        let next = |at| next(at).filter(|data| is_of_objects(text.get(data.start..data.end).unwrap_or_default()));
        let batch = self.batch.as_mut().filter(|_| self.backoff.is_due())?;
        let mut data = next(at)?;
        let (start, mut messages) = (data.start + 1, 1);
        while let Some(another) = next(data.end).filter(|another| another.end - start <= avx512::BATCH_BYTES) {
            batch.mark_frame(data.end - start, another.start + 1 - data.end);
            (data, messages) = (another, messages + 1);
        }
        if messages < 2 {
            return None;
        }
        let span = ScanSpan { at: start, end: data.end, checked: start };
        // SAFETY: there is a batch only where `new` has asked the processor.
        let found =
            unsafe { avx512::objects(text, span, messages, (tables.prefixes.latest(), &tables.router), batch, out) };
        self.backoff.record(found.is_some());
        let found = found.filter(|found| found.objects == found.opens)?;
        Some(UniformMessages { messages: messages as u64, objects: found.objects, end: data.end })
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub fn messages(
        &mut self,
        _text: &[u8],
        _at: usize,
        _next: impl Fn(usize) -> Option<Data>,
        _tables: &ScanTables,
        _out: &mut [Object],
    ) -> Option<UniformMessages> {
        None
    }

    /// HOT. Takes plain objects from the brace at `span.at` on, into `out`, which has room for one at least and for
    /// [`RUN_OBJECTS`] at most.
    pub fn run(&mut self, text: &[u8], span: ScanSpan, tables: &mut ScanTables, out: &mut [Object]) -> ScanResult {
        #[cfg(target_arch = "x86_64")]
        if let Some(scanned) = self.uniform_objects(text, span, tables, out) {
            return scanned;
        }
        let keys = &mut self.keys[..out.len()];
        let mut run = ObjectScan { text, span, tables, out, keys, marks: &mut self.marks, blocks: self.blocks };
        let scanned = match self.lanes {
            // SAFETY: words ask for nothing.
            SimdLevel::Words => unsafe { run.objects::<scalar::ScalarWords>() },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `new` has asked the processor.
            SimdLevel::Avx2 | SimdLevel::Avx512 => unsafe { avx2::objects(&mut run) },
            #[cfg(not(target_arch = "x86_64"))]
            SimdLevel::Avx2 | SimdLevel::Avx512 => ScanResult { at: span.at, objects: 0, stop: ScanStop::Object },
        };
        self.blocks = if scanned.stop == ScanStop::Object { BLOCKS_MIN } else { run.blocks };
        let ObjectScan { tables, out, keys, .. } = run;
        // In a loop of its own, which waits for many entries of the table at once.
        for (object, key) in out.iter_mut().zip(keys.iter()).take(scanned.objects) {
            object.worker = tables.router.worker_of_key(*key);
        }
        scanned
    }
}
