//! From order id to where it rests: a flat open-addressing table.
//!
//! Our own because a lookup is part of every cancel and fill: linear probing over 16-byte entries touches one cache
//! line where a general map touches two, and removal leaves no tombstones.
//!
//! Holds       1. an entry lies between its home and the next vacant place, without a gap;
//!             2. at most half the places are taken; looked up, never iterated: its order must not be observable.
//! Costs       get, insert, remove: constant in the mean; growth doubles and moves everything.

use pitwire_model::{InstrumentId, OrderId};

use crate::book::Slot;

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: u64,
    instrument: u32,
    /// `VACANT` when nothing is here; no order rests in that slot.
    slot: u32,
}

const VACANT: u32 = u32::MAX;
const NOTHING: Entry = Entry { id: 0, instrument: 0, slot: VACANT };
const SMALLEST: usize = 64;
/// 2^64 divided by the golden ratio: spreads consecutive ids over the whole table (Knuth, volume 3, 6.4).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Live orders of the whole venue.
#[derive(Debug)]
pub struct OrderIndex {
    entries: Vec<Entry>,
    len: usize,
    /// 64 minus the table's binary logarithm.
    shift: u32,
}

impl Default for OrderIndex {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl OrderIndex {
    pub fn with_capacity(orders: usize) -> Self {
        let places = orders.saturating_mul(2).next_power_of_two().max(SMALLEST);
        OrderIndex { entries: vec![NOTHING; places], len: 0, shift: 64 - places.trailing_zeros() }
    }

    /// Makes room for so many orders in all, those here included.
    pub fn reserve(&mut self, orders: usize) {
        if orders.saturating_mul(2) > self.entries.len() {
            self.grow(orders);
        }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    fn home(&self, id: u64) -> usize {
        (id.wrapping_mul(GOLDEN) >> self.shift) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.entries.len() - 1)
    }

    /// Where an id is, or the vacant place where it would go.
    #[inline]
    fn place(&self, id: u64) -> usize {
        let mut at = self.home(id);
        loop {
            let entry = &self.entries[at];
            if entry.slot == VACANT || entry.id == id {
                return at;
            }
            at = self.after(at);
        }
    }

    /// HOT.
    #[inline]
    pub fn get(&self, id: OrderId) -> Option<(InstrumentId, Slot)> {
        let entry = &self.entries[self.place(id.0)];
        (entry.slot != VACANT).then_some((InstrumentId(entry.instrument), Slot(entry.slot)))
    }

    #[inline]
    pub fn contains(&self, id: OrderId) -> bool {
        self.get(id).is_some()
    }

    /// HOT. An id that is here already gets the new place.
    #[inline]
    pub fn insert(&mut self, id: OrderId, instrument: InstrumentId, slot: Slot) {
        if self.len * 2 >= self.entries.len() {
            self.grow(self.len * 2);
        }
        let at = self.place(id.0);
        self.len += usize::from(self.entries[at].slot == VACANT);
        self.entries[at] = Entry { id: id.0, instrument: instrument.0, slot: slot.0 };
    }

    /// HOT. Closes the gap by moving back those entries that probed past it.
    #[inline]
    pub fn remove(&mut self, id: OrderId) -> Option<(InstrumentId, Slot)> {
        let mut gap = self.place(id.0);
        let found = self.entries[gap];
        if found.slot == VACANT {
            return None;
        }
        self.len -= 1;
        let mask = self.entries.len() - 1;
        let mut at = self.after(gap);
        while self.entries[at].slot != VACANT {
            let home = self.home(self.entries[at].id);
            // Whether the gap lies on this entry's way from its home: distances are counted around the table.
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask) {
                self.entries[gap] = self.entries[at];
                gap = at;
            }
            at = self.after(at);
        }
        self.entries[gap] = NOTHING;
        Some((InstrumentId(found.instrument), Slot(found.slot)))
    }

    #[cold]
    fn grow(&mut self, orders: usize) {
        let mut larger = OrderIndex::with_capacity(orders.max(self.len + 1));
        for entry in self.entries.iter().filter(|entry| entry.slot != VACANT) {
            let at = larger.place(entry.id);
            larger.entries[at] = *entry;
        }
        larger.len = self.len;
        *self = larger;
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn agrees_with_a_sorted_map() {
        let (mut index, mut model) = (OrderIndex::default(), BTreeMap::new());
        let mut state = 3_u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for step in 0..200_000_u64 {
            // Ids that share a home as well as ids that are spread.
            let id = OrderId(if random(2) == 0 { random(300) } else { random(300) << 56 });
            let slot = u32::try_from(step).unwrap();
            if random(5) < 3 {
                index.insert(id, InstrumentId(slot % 7), Slot(slot));
                model.insert(id, (InstrumentId(slot % 7), Slot(slot)));
            } else {
                assert_eq!(index.remove(id), model.remove(&id), "step {step}");
            }
            let probe = OrderId(random(300));
            assert_eq!(index.get(probe), model.get(&probe).copied(), "step {step}");
            assert_eq!(index.len(), model.len());
        }
        assert!(model.iter().all(|(id, place)| index.get(*id) == Some(*place)));
    }
}
