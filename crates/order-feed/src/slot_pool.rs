//! Storage for the orders and levels of a book: a slab whose positions have four bytes, and an
//! index of its values by key.
//!
//! The index has positions only, and each value its key. So the index of 20,000 orders has 160 KB
//! and not 560 KB, and more of both stays in the caches.
//!
//! Start at    [`SlotPool`].

use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
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

/// A value with the key by which its pool finds it. The key never changes.
pub(crate) trait PoolValue {
    type Key: Copy + Eq + Hash;
    fn key(&self) -> Self::Key;
}

/// Values that keep their positions until they are removed. Each has another key.
#[derive(Debug)]
pub(crate) struct SlotPool<T> {
    values: Slab<T>,
    index: HashTable<Slot>,
    hasher: DefaultHashBuilder,
}

impl<T> Default for SlotPool<T> {
    fn default() -> Self {
        SlotPool { values: Slab::new(), index: HashTable::new(), hasher: DefaultHashBuilder::default() }
    }
}

impl<T: PoolValue> SlotPool<T> {
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns the position of the value with a key.
    #[inline]
    pub fn find(&self, key: T::Key) -> Option<Slot> {
        self.index.find(self.hasher.hash_one(key), |slot| self[*slot].key() == key).copied()
    }

    /// Returns the position of the new value, or `None` if the pool has a value with its key.
    #[inline]
    pub fn insert(&mut self, value: T) -> Option<Slot> {
        let SlotPool { values, index, hasher } = self;
        let key = value.key();
        let has_key = |slot: &Slot| values[slot.key()].key() == key;
        let hash = |slot: &Slot| hasher.hash_one(values[slot.key()].key());
        match index.entry(hasher.hash_one(key), has_key, hash) {
            Entry::Occupied(_) => None,
            Entry::Vacant(entry) => {
                let slot = Slot::of(values.insert(value));
                entry.insert(slot);
                Some(slot)
            }
        }
    }

    /// Removes a value. Panics if there is none.
    #[inline]
    pub fn remove(&mut self, slot: Slot) -> T {
        let value = self.values.remove(slot.key());
        if let Ok(entry) = self.index.find_entry(self.hasher.hash_one(value.key()), |other| *other == slot) {
            entry.remove();
        }
        value
    }
}

impl<T> Index<Slot> for SlotPool<T> {
    type Output = T;

    fn index(&self, slot: Slot) -> &T {
        &self.values[slot.key()]
    }
}

impl<T> IndexMut<Slot> for SlotPool<T> {
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.values[slot.key()]
    }
}
