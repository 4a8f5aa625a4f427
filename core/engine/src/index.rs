//! From order id to where it rests.

use hashbrown::HashMap;
use pitwire_model::{InstrumentId, OrderId};
use rustc_hash::FxBuildHasher;

use crate::book::Slot;

/// Live orders of the whole venue. Looked up, never iterated: a hash map's order must not be observable.
#[derive(Debug, Default)]
pub struct OrderIndex {
    places: HashMap<OrderId, (InstrumentId, Slot), FxBuildHasher>,
}

impl OrderIndex {
    pub fn with_capacity(orders: usize) -> Self {
        OrderIndex { places: HashMap::with_capacity_and_hasher(orders, FxBuildHasher) }
    }

    /// Makes room for so many more.
    pub fn reserve(&mut self, orders: usize) {
        self.places.reserve(orders);
    }

    #[inline]
    pub fn get(&self, id: OrderId) -> Option<(InstrumentId, Slot)> {
        self.places.get(&id).copied()
    }

    #[inline]
    pub fn contains(&self, id: OrderId) -> bool {
        self.places.contains_key(&id)
    }

    #[inline]
    pub fn insert(&mut self, id: OrderId, instrument: InstrumentId, slot: Slot) {
        self.places.insert(id, (instrument, slot));
    }

    #[inline]
    pub fn remove(&mut self, id: OrderId) -> Option<(InstrumentId, Slot)> {
        self.places.remove(&id)
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}
