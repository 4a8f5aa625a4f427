//! Guesses of what a command to come will touch: see [`crate::ahead`].
//!
//! Holds       nothing is changed; a slot that has been given to another order since, or never was, does no harm.

use pitwire_model::{Side, Ticks};

use super::{Book, Slot, key_of};
use crate::look_ahead::ask;

impl<E: Copy + Default> Book<E> {
    /// An order is going to come here: what every order asks of a book.
    #[inline]
    pub fn expect(&self) {
        self.ladders[0].expect();
        self.ladders[1].expect();
        ask(&self.slab);
    }

    /// An order is going to rest, perhaps.
    #[inline]
    pub fn expect_entry(&self, side: Side, price: Ticks) {
        self.ladder(side).expect_level(key_of(side, price));
        self.slab.expect_vacant();
    }

    /// An order is going to be touched.
    #[inline]
    pub fn expect_order(&self, slot: Slot) {
        self.slab.expect(slot.0);
    }

    /// An order is going to leave: what lies before and behind it, and its level.
    #[inline]
    pub fn expect_neighbours(&self, slot: Slot, with_level: bool) {
        if let Some(node) = self.slab.peek(slot.0) {
            self.slab.expect(node.previous);
            self.slab.expect(node.next);
            if with_level {
                self.ladder(node.owner.side()).expect_level(node.key);
            }
        }
    }
}
