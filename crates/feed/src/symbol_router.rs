//! From a symbol to its worker.
//!
//! Does        the mapping of the original program: the top 32 bits of FNV-1a 64 of the decoded
//!             symbol, modulo the workers. A table remembers symbols, because a look-up is cheaper
//!             than hashing byte by byte.
//! Start at    [`worker_of`], [`SymbolRouter::worker_of_key`].

/// Parameters of FNV-1a with 64 bits.
pub(crate) const OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
pub(crate) const PRIME: u64 = 0x0000_0100_0000_01B3;

/// Returns the worker of a symbol among `workers` workers.
pub fn worker_of(symbol: &[u8], workers: u32) -> u32 {
    let hash = symbol.iter().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    let top = (hash >> 32) as u32;
    top % workers.max(1)
}

/// A symbol of at most [`SymbolKey::BYTES_MAX`] bytes as one number. The lowest [`WORKER_BITS`]
/// bits are zero, then come the bytes, then the length plus one. No two symbols share a number, and
/// none is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SymbolKey(u64);

/// A table entry is the sum of a key and a worker.
const WORKER_BITS: u32 = 13;
const WORKERS_MAX: u64 = 1 << WORKER_BITS;

impl SymbolKey {
    pub const BYTES_MAX: u32 = 6;

    /// Makes the key of the lowest `bytes` bytes of `text`.
    #[inline(always)]
    pub fn new(text: u64, bytes: u32) -> Self {
        debug_assert!(bytes <= Self::BYTES_MAX);
        SymbolKey((text & ((1 << (8 * bytes)) - 1) | u64::from(bytes + 1) << (8 * Self::BYTES_MAX)) << WORKER_BITS)
    }

    /// Makes the key of a symbol that is too long: the worker itself. Smaller than every other key.
    pub fn of_worker(worker: u32) -> Self {
        SymbolKey(worker.into())
    }

    fn worker(self, workers: u32) -> u32 {
        if let Ok(worker) = u32::try_from(self.0) {
            return worker;
        }
        let bytes = (self.0 >> WORKER_BITS).to_le_bytes();
        worker_of(&bytes[..usize::from(bytes[6]) - 1], workers)
    }
}

const SETS_BITS: u32 = 13;

/// Maps symbols to workers. The recent ones are in a table: sets of two, the later symbol first.
#[derive(Debug)]
pub struct SymbolRouter {
    workers: u32,
    sets: Box<[[u64; 2]; 1 << SETS_BITS]>,
}

impl SymbolRouter {
    pub fn new(workers: u32) -> Self {
        let sets = vec![[0; 2]; 1 << SETS_BITS].into_boxed_slice();
        let sets = sets.try_into().unwrap_or_else(|_| Box::new([[0; 2]; 1 << SETS_BITS]));
        SymbolRouter { workers: workers.max(1), sets }
    }

    /// Returns the number of workers, at least one.
    pub fn workers(&self) -> u32 {
        self.workers
    }

    pub fn worker_of(&self, symbol: &[u8]) -> u32 {
        worker_of(symbol, self.workers)
    }

    /// HOT. Returns the worker of a short symbol.
    #[inline(always)]
    pub fn worker_of_key(&mut self, key: SymbolKey) -> u32 {
        // Sixty-two odd factors were tried on four lists of tickers; this one spread them well.
        let set = (key.0.wrapping_mul(0xC9D0_5F06_EFC4_1B2F) >> (64 - SETS_BITS)) as usize & ((1 << SETS_BITS) - 1);
        // An entry minus another key is not a valid worker, because keys are multiples of
        // 2^WORKER_BITS.
        let [later, earlier] = self.sets[set];
        let worker = later.wrapping_sub(key.0).min(earlier.wrapping_sub(key.0));
        #[expect(clippy::cast_possible_truncation, reason = "below 2^13")]
        if worker < WORKERS_MAX { worker as u32 } else { self.remember(key, set) }
    }

    #[cold]
    #[inline(never)]
    fn remember(&mut self, key: SymbolKey, set: usize) -> u32 {
        let worker = key.worker(self.workers);
        if key.0 > u32::MAX.into() && u64::from(worker) < WORKERS_MAX {
            self.sets[set] = [key.0 + u64::from(worker), self.sets[set][0]];
        }
        worker
    }
}
