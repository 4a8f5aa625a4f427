//! From a symbol to its worker.
//!
//! Does        the original's mapping: the top 32 bits of FNV-1a 64 of the decoded symbol, modulo the workers; and a
//!             table of symbols seen, since a look-up is cheaper than hashing byte by byte.
//! Start at    [`worker_of`], [`Router::worker_of_key`].

/// The worker of a symbol among `workers`.
pub fn worker_of(symbol: &[u8], workers: u32) -> u32 {
    const OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01B3;
    let hash = symbol.iter().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    #[expect(clippy::cast_possible_truncation, reason = "the top 32 bits of 64")]
    let top = (hash >> 32) as u32;
    top % workers.max(1)
}

/// A symbol of at most [`Key::BYTES_MAX`] bytes in one number: its bytes, and above them its length and one, so that no
/// two symbols share a number and none is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key(u64);

impl Key {
    pub const BYTES_MAX: u32 = 7;

    /// Of the first `bytes` of `text`, which are the lowest of the number.
    #[inline(always)]
    pub fn new(text: u64, bytes: u32) -> Self {
        debug_assert!(bytes <= Self::BYTES_MAX);
        Key(text & ((1 << (8 * bytes)) - 1) | u64::from(bytes + 1) << 56)
    }

    fn worker(self, workers: u32) -> u32 {
        let bytes = self.0.to_le_bytes();
        worker_of(&bytes[..usize::from(bytes[7]) - 1], workers)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key: Key,
    worker: u32,
}

const ENTRIES_BITS: u32 = 14;

/// Symbols to workers, the recent ones from a table.
#[derive(Debug)]
pub struct Router {
    workers: u32,
    entries: Box<[Entry; 1 << ENTRIES_BITS]>,
}

impl Router {
    pub fn new(workers: u32) -> Self {
        let entries = vec![Entry::default(); 1 << ENTRIES_BITS].into_boxed_slice();
        let entries = entries.try_into().unwrap_or_else(|_| Box::new([Entry::default(); 1 << ENTRIES_BITS]));
        Router { workers: workers.max(1), entries }
    }

    pub fn worker_of(&self, symbol: &[u8]) -> u32 {
        worker_of(symbol, self.workers)
    }

    /// HOT. The same for a short symbol.
    #[inline(always)]
    pub fn worker_of_key(&mut self, key: Key) -> u32 {
        // Fibonacci hashing: the top bits of the product depend on every byte.
        let index = (key.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - ENTRIES_BITS)) as usize;
        let entry = self.entries[index & ((1 << ENTRIES_BITS) - 1)];
        if entry.key == key { entry.worker } else { self.remember(key, index) }
    }

    #[cold]
    #[inline(never)]
    fn remember(&mut self, key: Key, index: usize) -> u32 {
        let worker = key.worker(self.workers);
        self.entries[index] = Entry { key, worker };
        worker
    }
}
