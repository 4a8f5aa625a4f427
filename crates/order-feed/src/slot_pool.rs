//! Storage for the orders and levels of a book: a slab whose keys have four bytes.
//!
//! An order has half a cache line with these keys, so that more orders stay in the caches.
//!
//! Start at    [`SlotPool`].

use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

use slab::Slab;

/// Position in a pool. An `Option` of it has four bytes, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(NonZeroU32);

impl Slot {
    /// Position of the first value of a pool.
    pub const FIRST: Slot = Slot(NonZeroU32::MIN);

    fn of(key: usize) -> Slot {
        // A book has a limit of orders, far below this one.
        let key = u32::try_from(key).unwrap_or(u32::MAX);
        Slot(NonZeroU32::MIN.saturating_add(key))
    }

    fn key(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Values that keep their positions until they are removed.
#[derive(Debug)]
pub(crate) struct SlotPool<T>(Slab<T>);

impl<T> Default for SlotPool<T> {
    fn default() -> Self {
        SlotPool(Slab::new())
    }
}

impl<T> SlotPool<T> {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn insert(&mut self, value: T) -> Slot {
        Slot::of(self.0.insert(value))
    }

    /// Removes a value. Panics if there is none.
    pub fn remove(&mut self, slot: Slot) -> T {
        self.0.remove(slot.key())
    }
}

impl<T> Index<Slot> for SlotPool<T> {
    type Output = T;

    fn index(&self, slot: Slot) -> &T {
        &self.0[slot.key()]
    }
}

impl<T> IndexMut<Slot> for SlotPool<T> {
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.0[slot.key()]
    }
}
