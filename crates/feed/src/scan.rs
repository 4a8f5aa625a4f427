//! The fast scan of an array of plain objects, with the best instruction set that the processor
//! supports.
//!
//! Does        chooses between the scan of whole uniform batches (`avx512`) and the scan object by
//!             object (`marks`).
//! Holds       an object has the same bounds and the same worker as `walk` says, with every
//!             instruction set.
//! Leaves out  everything outside the array: see `object_reader`.
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

/// Blocks scanned after an object that is not plain. Few, because the next ones are likely not
/// plain either.
const BLOCKS_MIN: usize = 2;
/// Room that [`Scanner::messages`] needs: one object per block.
pub const ROOM_OBJECTS: usize = RUN_OBJECTS / 2;
#[cfg(target_arch = "x86_64")]
const PAUSE_MAX: u32 = 63;
/// The instruction set of the scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimdLevel {
    /// 64-bit words on every processor. Tests compare the others with it.
    Words,
    /// 32 bytes at a time, on x86-64 with AVX2, BMI, POPCNT and PCLMULQDQ.
    Avx2,
    /// 64 bytes at a time, with AVX-512 F, BW, CD, DQ, VL, VBMI2 and VPCLMULQDQ in addition.
    Avx512,
}

impl SimdLevel {
    /// From the simplest to the best.
    pub const ALL: [SimdLevel; 3] = [SimdLevel::Words, SimdLevel::Avx2, SimdLevel::Avx512];

    /// Returns the best that this processor supports.
    pub fn detected() -> Self {
        SimdLevel::ALL.into_iter().rfind(|simd| simd.is_supported()).unwrap_or(SimdLevel::Words)
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
    simd: SimdLevel,
    marks: Box<Marks>,
    keys: Box<[SymbolKey; RUN_OBJECTS]>,
    blocks: usize,
    #[cfg(target_arch = "x86_64")]
    batch: Option<Box<avx512::BatchMasks>>,
    #[cfg(target_arch = "x86_64")]
    backoff: BatchBackoff,
}

/// Whole messages, each in one frame.
#[derive(Clone, Copy, Debug)]
pub struct UniformMessages {
    pub messages: u64,
    pub objects: usize,
    /// Offset behind the last frame.
    pub end: usize,
}

/// Returns whether a message starts with `[{` and ends with `}]`.
#[cfg(target_arch = "x86_64")]
#[inline]
fn is_of_objects(message: &[u8]) -> bool {
    matches!(message, [b'[', b'{', .., b'}', b']'])
}

/// Delays the next try of the batch scan after a failed one. The delay doubles each time.
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
    pub fn new(simd: SimdLevel) -> Self {
        let simd = if simd.is_supported() { simd } else { SimdLevel::Words };
        let marks = vec![0; MARKS].into_boxed_slice().try_into().unwrap_or_else(|_| Box::new([0; MARKS]));
        Scanner {
            simd,
            marks,
            keys: Box::new([SymbolKey::default(); RUN_OBJECTS]),
            blocks: BLOCKS_MAX,
            #[cfg(target_arch = "x86_64")]
            batch: (simd == SimdLevel::Avx512).then(avx512::BatchMasks::new),
            #[cfg(target_arch = "x86_64")]
            backoff: BatchBackoff::default(),
        }
    }

    /// HOT. Scans a batch of uniform objects. `None` leaves them to [`ObjectScan::objects`].
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
        // SAFETY: a batch exists only if `new` found the processor features.
        let found =
            unsafe { avx512::objects(text, span, frames, (tables.prefixes.latest(), &tables.router), batch, out) };
        self.backoff.record(found.is_some());
        found.map(|found| ScanResult { at: found.end, objects: found.objects, stop: ScanStop::Behind })
    }

    /// HOT. Scans whole messages that contain only uniform objects, in the frames that `next` finds
    /// from `at` on. `out` has room for at least [`ROOM_OBJECTS`]. `None` leaves them to
    /// [`Scanner::run`].
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
        // SAFETY: a batch exists only if `new` found the processor features.
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

    /// HOT. Scans plain objects from the brace at `span.at` on. `out` has room for one object at
    /// least and for [`RUN_OBJECTS`] at most.
    pub fn run(&mut self, text: &[u8], span: ScanSpan, tables: &mut ScanTables, out: &mut [Object]) -> ScanResult {
        #[cfg(target_arch = "x86_64")]
        if let Some(scanned) = self.uniform_objects(text, span, tables, out) {
            return scanned;
        }
        let keys = &mut self.keys[..out.len()];
        let mut run = ObjectScan { text, span, tables, out, keys, marks: &mut self.marks, blocks: self.blocks };
        let scanned = match self.simd {
            // SAFETY: the scalar scan needs no processor feature.
            SimdLevel::Words => unsafe { run.objects::<scalar::ScalarWords>() },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `new` found the processor features.
            SimdLevel::Avx2 | SimdLevel::Avx512 => unsafe { avx2::objects(&mut run) },
            #[cfg(not(target_arch = "x86_64"))]
            SimdLevel::Avx2 | SimdLevel::Avx512 => ScanResult { at: span.at, objects: 0, stop: ScanStop::Object },
        };
        self.blocks = if scanned.stop == ScanStop::Object { BLOCKS_MIN } else { run.blocks };
        let ObjectScan { tables, out, keys, .. } = run;
        // A separate loop, so that many table look-ups are in flight at once.
        for (object, key) in out.iter_mut().zip(keys.iter()).take(scanned.objects) {
            object.worker = tables.router.worker_of_key(*key);
        }
        scanned
    }
}
