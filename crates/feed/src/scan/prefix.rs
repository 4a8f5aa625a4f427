//! Prefixes of objects that lead straight to the symbol.
//!
//! Does        remembers a few: the text before the symbol in a feed's objects, such as
//!             `{"ev":"T","sym":"`. An object that starts with the same bytes has its symbol at the
//!             same offset, whatever the bytes mean.
//! Start at    [`PrefixCache::latest`], [`PrefixCache::learn`].

/// Bytes of an object that are compared at once.
pub const PREFIX_BYTES: usize = 32;
/// Longest prefix. A short symbol and its quote fit behind it.
const SYMBOL_START_MAX: usize = PREFIX_BYTES - 8;
/// The bytes between two objects.
const SEPARATOR: &[u8] = b"},";
const SHAPES: usize = 4;

/// The prefix of the objects of most feeds of trades. Others are learnt.
const COMMON_PREFIX: &[u8] = br#"{"ev":"T","sym":""#;

#[derive(Clone, Copy, Debug)]
pub struct ObjectPrefix {
    pub bytes: [u8; PREFIX_BYTES],
    /// One bit for each byte of the prefix.
    pub mask: u32,
    symbol_start: u32,
    behind: [u8; PREFIX_BYTES],
}

impl ObjectPrefix {
    #[expect(clippy::cast_possible_truncation, reason = "at most SYMBOL_START_MAX")]
    fn new(beginning: &[u8]) -> Option<Self> {
        if beginning.len() > SYMBOL_START_MAX {
            return None;
        }
        let mut bytes = [0; PREFIX_BYTES];
        bytes[..beginning.len()].copy_from_slice(beginning);
        let mut behind = [0; PREFIX_BYTES];
        behind[..SEPARATOR.len()].copy_from_slice(SEPARATOR);
        behind[SEPARATOR.len()..][..beginning.len()].copy_from_slice(beginning);
        Some(ObjectPrefix { bytes, mask: (1 << beginning.len()) - 1, symbol_start: beginning.len() as u32, behind })
    }

    /// Returns the bit of the symbol's first byte.
    #[inline(always)]
    pub fn symbol_bit(&self) -> u32 {
        // The mask only tells the compiler that the value is below 32.
        self.symbol_start & 31
    }

    #[inline(always)]
    pub fn symbol_start(&self) -> usize {
        self.symbol_bit() as usize
    }

    /// Returns the prefix behind `},`, and a mask of its bytes.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub fn behind(&self) -> (&[u8; PREFIX_BYTES], u32) {
        (&self.behind, self.mask << SEPARATOR.len())
    }

    fn beginning(&self) -> &[u8] {
        &self.bytes[..self.symbol_start()]
    }
}

#[derive(Debug)]
pub struct PrefixCache {
    prefixes: [Option<ObjectPrefix>; SHAPES],
    /// A copy of the prefix that matched last.
    latest: ObjectPrefix,
    learnt: usize,
}

impl PrefixCache {
    pub fn new() -> Self {
        let none = ObjectPrefix { bytes: [0; 32], mask: 0, symbol_start: 0, behind: [0; 32] };
        let mut prefixes = PrefixCache { prefixes: [None; SHAPES], latest: none, learnt: 0 };
        prefixes.learn(COMMON_PREFIX);
        prefixes
    }

    #[inline(always)]
    pub fn latest(&self) -> &ObjectPrefix {
        &self.latest
    }

    /// Finds a prefix that `bytes` start with, and makes it the latest.
    #[cold]
    #[inline(never)]
    pub fn find(&mut self, bytes: &[u8; PREFIX_BYTES]) -> Option<&ObjectPrefix> {
        self.latest = self.prefixes.iter().flatten().find(|prefix| bytes.starts_with(prefix.beginning())).copied()?;
        Some(&self.latest)
    }

    /// Adds a prefix that led to a symbol. The oldest is replaced.
    pub fn learn(&mut self, beginning: &[u8]) {
        let Some(prefix) = ObjectPrefix::new(beginning) else { return };
        if self.prefixes.iter().flatten().any(|known| known.beginning() == beginning) {
            return;
        }
        self.prefixes[self.learnt % SHAPES] = Some(prefix);
        self.learnt += 1;
        self.latest = prefix;
    }
}
