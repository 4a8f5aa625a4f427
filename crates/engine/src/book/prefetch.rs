//! Prefetches what an upcoming command may touch: see [`crate::look_ahead`].
//!
//! Holds       nothing is changed; a slot that is vacant or belongs to another order does no harm.

use pitwire_model::{Side, Ticks};

use super::resting::{Book, key_of};
use super::slab::Slot;
use crate::prefetch::prefetch;

impl<E: Copy + Default> Book<E> {
    /// Prefetches what every order needs of a book.
    #[inline]
    pub fn prefetch(&self) {
        self.ladders[0].prefetch();
        self.ladders[1].prefetch();
        prefetch(&self.slab);
    }

    /// Prefetches what a new order needs if it rests at `price`.
    #[inline]
    pub fn prefetch_entry(&self, side: Side, price: Ticks) {
        self.ladder(side).prefetch_level(key_of(side, price));
        self.slab.prefetch_vacant();
    }

    /// Prefetches a resting order.
    #[inline]
    pub fn prefetch_order(&self, slot: Slot) {
        self.slab.prefetch(slot.0);
    }

    /// Prefetches the neighbours of an order that will be removed, and its level if `with_level`.
    #[inline]
    pub fn prefetch_neighbours(&self, slot: Slot, with_level: bool) {
        if let Some(node) = self.slab.peek(slot.0) {
            self.slab.prefetch(node.previous);
            self.slab.prefetch(node.next);
            if with_level {
                self.ladder(node.owner.side()).prefetch_level(node.key);
            }
        }
    }
}
