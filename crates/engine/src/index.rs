//! The index from order id to slot: an open-addressing hash table of buckets, one cache line each.
//!
//! Every cancel and fill needs a lookup. This table compares an id with a whole bucket at once, so
//! that there is no mispredicted branch on the lane, and it nearly always reads one cache line.
//! Removal leaves no tombstones.
//!
//! Holds       1. from the home bucket of an entry up to the bucket that contains it, the last lane
//!                of every bucket before is taken. A search can stop at a bucket whose last lane is
//!                vacant;
//!             2. at most half of the lanes are taken. The table is never iterated, because its
//!                order must not become visible;
//!             3. id 0 marks a vacant lane. The order with id 0 is stored separately.
//! Costs       get, insert, remove: constant on average; growth doubles the table and moves every
//!             entry.

use std::hint::select_unpredictable;

use pitwire_model::{InstrumentId, OrderId};

use crate::book::Slot;
use crate::prefetch::prefetch;

const LANES: usize = 4;
const SMALLEST: usize = 16;
const VACANT: u64 = 0;
/// A place at which no order rests.
const NOWHERE: (InstrumentId, Slot) = (InstrumentId(0), Slot(0));
/// 2^64 divided by the golden ratio. Spreads consecutive ids over the whole table (Knuth, volume 3,
/// 6.4).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Bucket {
    ids: [u64; LANES],
    instruments: [u32; LANES],
    slots: [u32; LANES],
}

impl Bucket {
    const EMPTY: Bucket = Bucket { ids: [VACANT; LANES], instruments: [0; LANES], slots: [0; LANES] };

    /// HOT. Returns the lane of `id`, without a branch on which lane it is.
    #[inline]
    fn lane_of(&self, id: u64) -> Option<usize> {
        let is = |lane: usize| usize::from(self.ids[lane] == id);
        // At most one lane contains the id. If lanes 1 to 3 do not, only lane 0 can.
        let lane = is(1) + 2 * is(2) + 3 * is(3);
        (self.ids[lane % LANES] == id).then_some(lane % LANES)
    }

    /// HOT. Returns the first vacant lane; `None` if the bucket is full.
    #[inline]
    fn vacancy(&self) -> Option<usize> {
        let lane = self.first_vacant();
        (self.ids[lane % LANES] == VACANT).then_some(lane % LANES)
    }

    /// HOT. Returns the first vacant lane, or the last lane if none is vacant.
    #[inline]
    fn first_vacant(&self) -> usize {
        let taken = |lane: usize| self.ids[lane] != VACANT;
        usize::from(taken(0)) * (1 + usize::from(taken(1)) * (1 + usize::from(taken(2))))
    }

    /// HOT. Returns whether entries whose home is this bucket may be in later buckets.
    #[inline]
    fn may_overflow(&self) -> bool {
        self.ids[LANES - 1] != VACANT
    }

    #[inline]
    fn at(&self, lane: usize) -> (InstrumentId, Slot) {
        (InstrumentId(self.instruments[lane]), Slot(self.slots[lane]))
    }

    #[inline]
    fn put(&mut self, lane: usize, id: u64, instrument: InstrumentId, slot: Slot) {
        self.ids[lane] = id;
        self.instruments[lane] = instrument.0;
        self.slots[lane] = slot.0;
    }
}

#[inline]
fn packed((instrument, slot): (InstrumentId, Slot)) -> u64 {
    u64::from(instrument.0) << 32 | u64::from(slot.0)
}

#[inline]
#[allow(clippy::cast_possible_truncation)]
fn unpacked(place: u64) -> (InstrumentId, Slot) {
    (InstrumentId((place >> 32) as u32), Slot(place as u32))
}

/// The lane for an order that is not in the index yet.
#[derive(Clone, Copy, Debug)]
pub struct Vacancy {
    at: usize,
    lane: usize,
}

impl Vacancy {
    /// The lane has to be searched when the order is inserted.
    const UNKNOWN: Vacancy = Vacancy { at: usize::MAX, lane: 0 };
}

/// The slots of all live orders of the venue.
#[derive(Debug)]
pub struct OrderIndex {
    buckets: Vec<Bucket>,
    /// Entries in the buckets.
    len: usize,
    /// 64 minus the binary logarithm of the number of buckets.
    shift: u32,
    /// The order with id 0.
    zero: Option<(InstrumentId, Slot)>,
}

impl Default for OrderIndex {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl OrderIndex {
    pub fn with_capacity(orders: usize) -> Self {
        let buckets = orders.saturating_mul(2).div_ceil(LANES).next_power_of_two().max(SMALLEST);
        OrderIndex { buckets: vec![Bucket::EMPTY; buckets], len: 0, shift: 64 - buckets.trailing_zeros(), zero: None }
    }

    fn places(&self) -> usize {
        self.buckets.len() * LANES
    }

    /// Allocates memory for this many orders in all.
    pub fn reserve(&mut self, orders: usize) {
        if orders.saturating_mul(2) > self.places() {
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
        (at + 1) & (self.buckets.len() - 1)
    }

    /// HOT. Returns the bucket and lane of an id other than 0.
    #[inline]
    fn find(&self, id: u64) -> Option<(usize, usize)> {
        let mut at = self.home(id);
        loop {
            let bucket = &self.buckets[at];
            if let Some(lane) = bucket.lane_of(id) {
                return Some((at, lane));
            }
            if !bucket.may_overflow() {
                return None;
            }
            at = self.after(at);
        }
    }

    /// HOT. Returns the lane for a new order; `None` if the id is already in the index. One search
    /// for both.
    #[inline(always)]
    pub fn vacancy_for(&self, id: OrderId) -> Option<Vacancy> {
        let at = self.home(id.0);
        let bucket = &self.buckets[at];
        if bucket.may_overflow() || id.0 == VACANT {
            return (!self.contains(id)).then_some(Vacancy::UNKNOWN);
        }
        // The last lane is vacant. New ids are almost never in the index already, so three
        // predicted branches cost less than the comparison without branches.
        if bucket.ids[0] == id.0 || bucket.ids[1] == id.0 || bucket.ids[2] == id.0 {
            return None;
        }
        Some(Vacancy { at, lane: bucket.first_vacant() })
    }

    /// HOT. Inserts an order into the lane that [`OrderIndex::vacancy_for`] found. The index must
    /// not have changed since.
    #[inline(always)]
    pub fn insert_at(&mut self, vacancy: Vacancy, id: OrderId, instrument: InstrumentId, slot: Slot) {
        let full = self.len * 2 >= self.places();
        match self.buckets.get_mut(vacancy.at) {
            Some(bucket) if !full => {
                debug_assert!(
                    bucket.ids[vacancy.lane % LANES] == VACANT,
                    "the index has not changed since the vacancy was found"
                );
                self.len += 1;
                bucket.put(vacancy.lane % LANES, id.0, instrument, slot);
            }
            _ => self.insert(id, instrument, slot),
        }
    }

    /// HOT. Returns the instrument and slot of a live order.
    #[inline]
    pub fn get(&self, id: OrderId) -> Option<(InstrumentId, Slot)> {
        if id.0 == VACANT {
            return self.zero;
        }
        self.find(id.0).map(|(at, lane)| self.buckets[at].at(lane))
    }

    /// HOT. Guesses the place of an order without a branch. Looks only into its home bucket and
    /// returns [`NOWHERE`] if it is not there. For prefetching.
    #[inline]
    pub fn guess(&self, id: OrderId) -> (InstrumentId, Slot) {
        let Some(bucket) = self.buckets.get(self.home(id.0)) else { return NOWHERE };
        let is = |lane: usize| usize::from(bucket.ids[lane] == id.0);
        let lane = is(1) + 2 * is(2) + 3 * is(3);
        let (instrument, slot) = bucket.at(lane % LANES);
        select_unpredictable(bucket.ids[lane % LANES] == id.0, (instrument, slot), NOWHERE)
    }

    /// HOT. Prefetches the home bucket of an order.
    #[inline]
    pub fn prefetch(&self, id: OrderId) {
        prefetch(self.buckets.as_ptr().wrapping_add(self.home(id.0)));
    }

    /// HOT. Prefetches the bucket after the home bucket if the order may be there. The home bucket
    /// should be in the cache.
    #[inline]
    pub fn prefetch_next_bucket(&self, id: OrderId) {
        let home = self.home(id.0);
        let Some(bucket) = self.buckets.get(home) else { return };
        let next = self.after(home);
        prefetch(self.buckets.as_ptr().wrapping_add(select_unpredictable(bucket.may_overflow(), next, home)));
    }

    /// HOT. Returns whether an order is live.
    #[inline]
    pub fn contains(&self, id: OrderId) -> bool {
        self.get(id).is_some()
    }

    /// HOT. Inserts an order. Its id must not be in the index; every caller has just checked or
    /// removed it.
    #[inline]
    pub fn insert(&mut self, id: OrderId, instrument: InstrumentId, slot: Slot) {
        debug_assert!(!self.contains(id), "an id is inserted once");
        if id.0 == VACANT {
            self.zero = Some((instrument, slot));
            return;
        }
        if self.len * 2 >= self.places() {
            self.grow(self.len * 2);
        }
        self.len += 1;
        let mut at = self.home(id.0);
        loop {
            let bucket = &mut self.buckets[at];
            if let Some(lane) = bucket.vacancy() {
                return bucket.put(lane, id.0, instrument, slot);
            }
            at = self.after(at);
        }
    }

    /// HOT. Removes an order and returns its place.
    #[inline(always)]
    pub fn remove(&mut self, id: OrderId) -> Option<(InstrumentId, Slot)> {
        let at = self.home(id.0);
        let bucket = &mut self.buckets[at];
        match bucket.lane_of(id.0) {
            Some(lane) if id.0 != VACANT => {
                bucket.ids[lane % LANES] = VACANT;
                let found = bucket.at(lane % LANES);
                self.len -= 1;
                if lane == LANES - 1 {
                    self.close_gap(at);
                }
                Some(found)
            }
            _ => self.remove_beyond(id).map(unpacked),
        }
    }

    /// Removes an order that is not in its home bucket. Returns the place in one word, so that it
    /// stays in registers.
    #[inline(never)]
    fn remove_beyond(&mut self, id: OrderId) -> Option<u64> {
        if id.0 == VACANT {
            return self.zero.take().map(packed);
        }
        let (at, lane) = self.find(id.0)?;
        let bucket = &mut self.buckets[at];
        bucket.ids[lane] = VACANT;
        let found = bucket.at(lane);
        self.len -= 1;
        if lane == LANES - 1 {
            self.close_gap(at);
        }
        Some(packed(found))
    }

    /// Fills the vacant last lane of a bucket with an entry from a later bucket that had overflowed
    /// it, and continues with the lane that this entry leaves. Ends, because half of the table is
    /// vacant.
    #[inline(never)]
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.buckets.len() - 1;
        let mut at = gap;
        loop {
            at = self.after(at);
            let bucket = self.buckets[at];
            let overflowed = (0..LANES).find(|from| {
                let id = bucket.ids[*from];
                // The gap lies between the home of this entry and its bucket. Distances wrap around
                // the table.
                id != VACANT && (at.wrapping_sub(self.home(id)) & mask) >= (at.wrapping_sub(gap) & mask)
            });
            if let Some(from) = overflowed {
                let (instrument, slot) = bucket.at(from);
                self.buckets[gap].put(LANES - 1, bucket.ids[from], instrument, slot);
                self.buckets[at].ids[from] = VACANT;
                if from < LANES - 1 {
                    return;
                }
                gap = at;
            } else if !bucket.may_overflow() {
                return;
            }
        }
    }

    #[cold]
    fn grow(&mut self, orders: usize) {
        let mut larger = OrderIndex::with_capacity(orders.max(self.len + 1));
        for bucket in &self.buckets {
            for lane in (0..LANES).filter(|lane| bucket.ids[*lane] != VACANT) {
                let (instrument, slot) = bucket.at(lane);
                larger.insert(OrderId(bucket.ids[lane]), instrument, slot);
            }
        }
        if let Some((instrument, slot)) = self.zero {
            larger.insert(OrderId(0), instrument, slot);
        }
        *self = larger;
    }

    pub fn len(&self) -> usize {
        self.len + usize::from(self.zero.is_some())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use pitwire_random::SplitMix64;

    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn guess_is_the_place_of_an_order_or_nowhere() {
        let mut index = OrderIndex::default();
        let mut guessed = 0;
        for id in 0..3_000_u64 {
            // Every third id shares its home bucket with many others.
            let id = OrderId(if id % 3 == 0 { id << 52 } else { id.wrapping_mul(GOLDEN) });
            if !index.contains(id) {
                index.insert(id, InstrumentId(3), Slot(u32::try_from(index.len()).unwrap() + 1));
            }
            for other in [id, OrderId(id.0 ^ 1), OrderId(0), OrderId(!id.0)] {
                let guess = index.guess(other);
                let known = index.get(other).is_some_and(|place| place == guess);
                assert!(known || guess == NOWHERE, "{other:?}: {guess:?}");
                guessed += usize::from(known && other == id);
                index.prefetch(other);
                index.prefetch_next_bucket(other);
            }
        }
        assert!(guessed > 1_500, "only {guessed} of 3,000 orders are in their home bucket");
    }

    #[test]
    fn index_agrees_with_a_sorted_map() {
        let (mut index, mut model) = (OrderIndex::default(), BTreeMap::new());
        let mut source = SplitMix64::new(3);
        let mut random = move |below: u64| source.below(below);
        for step in 0..200_000_u64 {
            // Some ids share a home bucket, others are spread.
            let id = OrderId(if random(2) == 0 { random(300) } else { random(300) << 56 });
            let slot = u32::try_from(step).unwrap();
            if random(5) < 3 {
                let vacancy = index.vacancy_for(id);
                assert_eq!(vacancy.is_none(), model.contains_key(&id), "step {step}");
                match vacancy {
                    Some(vacancy) => index.insert_at(vacancy, id, InstrumentId(slot % 7), Slot(slot)),
                    None => {
                        assert_eq!(index.remove(id), model.remove(&id), "step {step}");
                        index.insert(id, InstrumentId(slot % 7), Slot(slot));
                    }
                }
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
