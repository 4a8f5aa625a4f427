//! Beginnings of objects that lead straight to a symbol.
//!
//! Does        hold a few: what a feed's objects had in front of their symbols, such as `{"ev":"T","sym":"`. An object
//!             that begins with the very same bytes has its symbol at the same place, whatever these bytes mean.
//! Start at    [`Shapes::latest`], [`Shapes::learn`].

/// So many bytes of an object are compared at once.
pub const PREFIX_BYTES: usize = 32;
/// Behind a beginning there is room in these bytes for a short symbol and its quote.
const SYMBOL_START_MAX: usize = PREFIX_BYTES - 8;
/// What stands between two objects.
const BETWEEN: &[u8] = b"},";
const SHAPES: usize = 4;

/// What the objects of most feeds of trades begin with; others are learnt.
const USUAL: &[u8] = br#"{"ev":"T","sym":""#;

#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub bytes: [u8; PREFIX_BYTES],
    /// One bit a byte that is part of it.
    pub mask: u32,
    symbol_start: u32,
    behind: [u8; PREFIX_BYTES],
}

impl Shape {
    #[expect(clippy::cast_possible_truncation, reason = "at most SYMBOL_START_MAX")]
    fn new(beginning: &[u8]) -> Option<Self> {
        if beginning.len() > SYMBOL_START_MAX {
            return None;
        }
        let mut bytes = [0; PREFIX_BYTES];
        bytes[..beginning.len()].copy_from_slice(beginning);
        let mut behind = [0; PREFIX_BYTES];
        behind[..BETWEEN.len()].copy_from_slice(BETWEEN);
        behind[BETWEEN.len()..][..beginning.len()].copy_from_slice(beginning);
        Some(Shape { bytes, mask: (1 << beginning.len()) - 1, symbol_start: beginning.len() as u32, behind })
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
        (&self.behind, self.mask << BETWEEN.len())
    }

    fn beginning(&self) -> &[u8] {
        &self.bytes[..self.symbol_start()]
    }
}

#[derive(Debug)]
pub struct Shapes {
    shapes: [Option<Shape>; SHAPES],
    /// A copy of the one that fitted last.
    latest: Shape,
    learnt: usize,
}

impl Shapes {
    pub fn new() -> Self {
        let none = Shape { bytes: [0; 32], mask: 0, symbol_start: 0, behind: [0; 32] };
        let mut shapes = Shapes { shapes: [None; SHAPES], latest: none, learnt: 0 };
        shapes.learn(USUAL);
        shapes
    }

    #[inline(always)]
    pub fn latest(&self) -> &Shape {
        &self.latest
    }

    /// Another that fits `bytes`; from now on it is the latest.
    #[cold]
    #[inline(never)]
    pub fn find(&mut self, bytes: &[u8; PREFIX_BYTES]) -> Option<&Shape> {
        self.latest = self.shapes.iter().flatten().find(|shape| bytes.starts_with(shape.beginning())).copied()?;
        Some(&self.latest)
    }

    /// An object's symbol stands behind `beginning`; so it will in others. The oldest gives way.
    pub fn learn(&mut self, beginning: &[u8]) {
        let Some(shape) = Shape::new(beginning) else { return };
        if self.shapes.iter().flatten().any(|known| known.beginning() == beginning) {
            return;
        }
        self.shapes[self.learnt % SHAPES] = Some(shape);
        self.learnt += 1;
        self.latest = shape;
    }
}
