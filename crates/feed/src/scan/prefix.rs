//! Beginnings of objects that lead straight to a symbol.
//!
//! Does        hold a few: what a feed's objects had in front of their symbols, such as `{"ev":"T","sym":"`. An object
//!             that begins with the very same bytes has its symbol at the same place, whatever these bytes mean.
//! Start at    [`PrefixCache::latest`], [`PrefixCache::learn`].

/// So many bytes of an object are compared at once.
pub const PREFIX_BYTES: usize = 32;
/// Behind a beginning there is room in these bytes for a short symbol and its quote.
const SYMBOL_START_MAX: usize = PREFIX_BYTES - 8;
/// What stands between two objects.
const SEPARATOR: &[u8] = b"},";
const SHAPES: usize = 4;

/// What the objects of most feeds of trades begin with; others are learnt.
const COMMON_PREFIX: &[u8] = br#"{"ev":"T","sym":""#;

#[derive(Clone, Copy, Debug)]
pub struct ObjectPrefix {
    pub bytes: [u8; PREFIX_BYTES],
    /// One bit a byte that is part of it.
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

    /// The bit of the symbol's first byte.
    #[inline(always)]
    pub fn symbol_bit(&self) -> u32 {
        // The mask changes nothing but what the compiler knows.
        self.symbol_start & 31
    }

    #[inline(always)]
    pub fn symbol_start(&self) -> usize {
        self.symbol_bit() as usize
    }

    /// The same bytes behind `},`, and one bit for each but these two.
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
    /// A copy of the one that fitted last.
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

    /// Another that fits `bytes`; from now on it is the latest.
    #[cold]
    #[inline(never)]
    pub fn find(&mut self, bytes: &[u8; PREFIX_BYTES]) -> Option<&ObjectPrefix> {
        self.latest = self.prefixes.iter().flatten().find(|prefix| bytes.starts_with(prefix.beginning())).copied()?;
        Some(&self.latest)
    }

    /// An object's symbol stands behind `beginning`; so it will in others. The oldest gives way.
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
