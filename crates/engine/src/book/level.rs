//! A queue of orders at one price, linked through the slab.

/// The end of a queue, and of the free list. The slab has a node at this index that belongs to no
/// order, so that links to and from an end are written without a test.
pub(crate) const NIL: u32 = 0;

/// A queue of orders at one price, oldest first. 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PriceLevel {
    pub head: u32,
    pub tail: u32,
    /// Sum of the lots that the orders display.
    pub lots: u64,
}

impl PriceLevel {
    pub const EMPTY: PriceLevel = PriceLevel { head: NIL, tail: NIL, lots: 0 };

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }
}
