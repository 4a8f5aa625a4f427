//! From order id to where it rests: a flat open-addressing table of buckets, one cache line each.
//!
//! Our own because a lookup is part of every cancel and fill: an id is compared with a whole bucket at once, so where in
//! it the id lies is no branch to guess wrong, and nearly always the first line touched is the last. Removal leaves no
//! tombstones.
//!
//! Holds       1. from an entry's home up to the bucket it lies in, every bucket's last lane is taken: a bucket whose
//!                last lane is vacant has never been passed by, or no longer is;
//!             2. at most half the places are taken; looked up, never iterated: its order must not be observable;
//!             3. id 0 marks a vacant place; an order whose id is 0 is kept apart.
//! Costs       get, insert, remove: constant in the mean; growth doubles and moves everything.

use std::hint::select_unpredictable;

use pitwire_model::{InstrumentId, OrderId};

use crate::book::Slot;
use crate::look_ahead::ask;

const LANES: usize = 4;
const SMALLEST: usize = 16;
const VACANT: u64 = 0;
/// A slot at which no order ever rests.
const NOWHERE: (InstrumentId, Slot) = (InstrumentId(0), Slot(0));
/// 2^64 divided by the golden ratio: spreads consecutive ids over the whole table (Knuth, volume 3, 6.4).
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

    /// HOT. The lane that holds `id`: found without a branch on which one it is.
    #[inline]
    fn lane_of(&self, id: u64) -> Option<usize> {
        let is = |lane: usize| usize::from(self.ids[lane] == id);
        // At most one lane holds an id, and if none of the others does it can only be the first.
        let lane = is(1) + 2 * is(2) + 3 * is(3);
        (self.ids[lane % LANES] == id).then_some(lane % LANES)
    }

    /// HOT. The first vacant lane, if any is.
    #[inline]
    fn vacancy(&self) -> Option<usize> {
        let lane = self.first_vacant();
        (self.ids[lane % LANES] == VACANT).then_some(lane % LANES)
    }

    /// HOT. The first vacant lane; the last lane if none is.
    #[inline]
    fn first_vacant(&self) -> usize {
        let taken = |lane: usize| self.ids[lane] != VACANT;
        usize::from(taken(0)) * (1 + usize::from(taken(1)) * (1 + usize::from(taken(2))))
    }

    /// HOT. Whether entries that belong here may lie further on.
    #[inline]
    fn is_passed(&self) -> bool {
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

/// Where an order that is not here yet is going to be.
#[derive(Clone, Copy, Debug)]
pub struct Vacancy {
    at: usize,
    lane: usize,
}

impl Vacancy {
    /// To be looked for once it is needed.
    const UNKNOWN: Vacancy = Vacancy { at: usize::MAX, lane: 0 };
}

/// Live orders of the whole venue.
#[derive(Debug)]
pub struct OrderIndex {
    buckets: Vec<Bucket>,
    /// Entries in the buckets.
    len: usize,
    /// 64 minus the binary logarithm of the number of buckets.
    shift: u32,
    /// The order whose id is 0.
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

    /// Makes room for so many orders in all, those here included.
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

    /// HOT. The bucket and lane of an id other than 0.
    #[inline]
    fn find(&self, id: u64) -> Option<(usize, usize)> {
        let mut at = self.home(id);
        loop {
            let bucket = &self.buckets[at];
            if let Some(lane) = bucket.lane_of(id) {
                return Some((at, lane));
            }
            if !bucket.is_passed() {
                return None;
            }
            at = self.after(at);
        }
    }

    /// HOT. Whether an order is here and, if not, where it is going to be: one look for both. None if it is here.
    #[inline(always)]
    pub fn vacancy_for(&self, id: OrderId) -> Option<Vacancy> {
        let at = self.home(id.0);
        let bucket = &self.buckets[at];
        if bucket.is_passed() || id.0 == VACANT {
            return (!self.contains(id)).then_some(Vacancy::UNKNOWN);
        }
        // The last lane is vacant: it holds nobody, and some lane is vacant. Ids are hardly ever here already, so three
        // branches cost less than a sum.
        if bucket.ids[0] == id.0 || bucket.ids[1] == id.0 || bucket.ids[2] == id.0 {
            return None;
        }
        Some(Vacancy { at, lane: bucket.first_vacant() })
    }

    /// HOT. Puts an order where [`OrderIndex::vacancy_for`] has found room for it. Nothing has come or gone since.
    #[inline(always)]
    pub fn insert_at(&mut self, vacancy: Vacancy, id: OrderId, instrument: InstrumentId, slot: Slot) {
        let full = self.len * 2 >= self.places();
        match self.buckets.get_mut(vacancy.at) {
            Some(bucket) if !full => {
                debug_assert!(bucket.ids[vacancy.lane % LANES] == VACANT, "nothing came since the vacancy was found");
                self.len += 1;
                bucket.put(vacancy.lane % LANES, id.0, instrument, slot);
            }
            _ => self.insert(id, instrument, slot),
        }
    }

    /// HOT.
    #[inline]
    pub fn get(&self, id: OrderId) -> Option<(InstrumentId, Slot)> {
        if id.0 == VACANT {
            return self.zero;
        }
        self.find(id.0).map(|(at, lane)| self.buckets[at].at(lane))
    }

    /// HOT. Where an order probably rests: [`NOWHERE`] unless it lies where it belongs (of id 0, nothing is known). For
    /// guesses: no branch.
    #[inline]
    pub fn guess(&self, id: OrderId) -> (InstrumentId, Slot) {
        let Some(bucket) = self.buckets.get(self.home(id.0)) else { return NOWHERE };
        let is = |lane: usize| usize::from(bucket.ids[lane] == id.0);
        let lane = is(1) + 2 * is(2) + 3 * is(3);
        let (instrument, slot) = bucket.at(lane % LANES);
        select_unpredictable(bucket.ids[lane % LANES] == id.0, (instrument, slot), NOWHERE)
    }

    /// HOT. An order that is going to be looked for, or put here.
    #[inline]
    pub fn expect(&self, id: OrderId) {
        ask(self.buckets.as_ptr().wrapping_add(self.home(id.0)));
    }

    /// HOT. The same once that line has come: the one behind it, if the order may lie there.
    #[inline]
    pub fn expect_beyond(&self, id: OrderId) {
        let home = self.home(id.0);
        let Some(bucket) = self.buckets.get(home) else { return };
        let next = self.after(home);
        ask(self.buckets.as_ptr().wrapping_add(select_unpredictable(bucket.is_passed(), next, home)));
    }

    /// HOT.
    #[inline]
    pub fn contains(&self, id: OrderId) -> bool {
        self.get(id).is_some()
    }

    /// HOT. The id must not be here already: every caller has just asked, or taken it out.
    #[inline]
    pub fn insert(&mut self, id: OrderId, instrument: InstrumentId, slot: Slot) {
        debug_assert!(!self.contains(id), "an id is entered once");
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

    /// HOT.
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

    /// The same of an order that is not in the bucket it belongs into. In one word, so that what is found stays in
    /// registers.
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

    /// The last lane of a bucket is vacant: takes back an entry that had to pass the bucket by, and so on where that one
    /// came from. Ends where nothing passes: half the table is vacant.
    #[inline(never)]
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.buckets.len() - 1;
        let mut at = gap;
        loop {
            at = self.after(at);
            let bucket = self.buckets[at];
            let passed_by = (0..LANES).find(|from| {
                let id = bucket.ids[*from];
                // Whether the gap lies on this entry's way from its home: distances are counted around the table.
                id != VACANT && (at.wrapping_sub(self.home(id)) & mask) >= (at.wrapping_sub(gap) & mask)
            });
            if let Some(from) = passed_by {
                let (instrument, slot) = bucket.at(from);
                self.buckets[gap].put(LANES - 1, bucket.ids[from], instrument, slot);
                self.buckets[at].ids[from] = VACANT;
                if from < LANES - 1 {
                    return;
                }
                gap = at;
            } else if !bucket.is_passed() {
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
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_guess_is_the_place_of_an_order_or_nowhere() {
        let mut index = OrderIndex::default();
        let mut guessed = 0;
        for id in 0..3_000_u64 {
            // Every third shares its home with many.
            let id = OrderId(if id % 3 == 0 { id << 52 } else { id.wrapping_mul(GOLDEN) });
            if !index.contains(id) {
                index.insert(id, InstrumentId(3), Slot(u32::try_from(index.len()).unwrap() + 1));
            }
            for other in [id, OrderId(id.0 ^ 1), OrderId(0), OrderId(!id.0)] {
                let guess = index.guess(other);
                let known = index.get(other).is_some_and(|place| place == guess);
                assert!(known || guess == NOWHERE, "{other:?}: {guess:?}");
                guessed += usize::from(known && other == id);
                index.expect(other);
                index.expect_beyond(other);
            }
        }
        assert!(guessed > 1_500, "only {guessed} of 3,000 orders are found where they belong");
    }

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
