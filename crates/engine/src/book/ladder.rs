//! One side of a book: price levels by key, best key lowest.
//!
//! A key is a price for asks and the complement of a price for bids, so that both sides share the
//! same code. A side that has never had more than `FEW` levels stores them in the ladder itself,
//! unordered, so that a quiet book needs two or three cache lines. On a busier side, keys near the
//! best one are in a window of slots with a two-level bitmap; worse keys are in a sorted map. The
//! window starts narrow and widens when enough orders have come outside it.
//!
//! Holds       1. a level exists exactly when an order rests on it;
//!             2. `best` is the lowest key at which an order rests;
//!             3. without a window, `summary` has a bit for each occupied inline level, and `far`
//!                is empty;
//!             4. with a window, no key is below `base`, keys in `base..base + width()` are in the
//!                window, which contains the best key, and all others are in `far`;
//!             5. `base` is a multiple of 64, so that a bitmap word never wraps;
//!             6. the width of the window is a power of two from `NARROWEST` to `WIDEST`, or zero
//!                without a window.
//! Costs       best, find, insert, remove in the window or among inline levels: constant. Moving or
//!             widening the window: the occupied levels that move, at most `WIDEST`.
//! Start at    `Ladder::level_mut`, then `Ladder::make_room_for`.

use std::collections::BTreeMap;
use std::hint::select_unpredictable;

use super::level::PriceLevel;
use crate::prefetch::prefetch;

const NARROWEST: u32 = 128;
const WIDEST: u32 = 4096;
/// The bitmap has one bit for each key modulo `WIDEST`, whatever the width of the window.
const WORDS: usize = (WIDEST / 64) as usize;
const WIDEN_BY: u32 = 4;
/// Number of levels that a side can store without a window.
const FEW: usize = 8;

/// The best key of a side without orders.
const NO_KEY: u64 = u64::MAX;

/// The levels of a side without a window. Two and a half cache lines; the first two levels are on
/// the first line.
#[derive(Debug)]
#[repr(C, align(64))]
struct InlineLevels {
    keys: [u32; FEW],
    levels: [PriceLevel; FEW],
}

impl InlineLevels {
    const NONE: InlineLevels = InlineLevels { keys: [0; FEW], levels: [PriceLevel::EMPTY; FEW] };

    /// Returns the index of a key among the `taken` ones. Compares all keys, so there is no branch
    /// on the position.
    #[inline]
    fn place_of(&self, taken: u64, key: u32) -> Option<usize> {
        let found = (0..FEW).fold(0, |found, at| found | u64::from(self.keys[at] == key) << at) & taken;
        (found != 0).then(|| found.trailing_zeros() as usize % FEW)
    }

    /// Returns the lowest taken key that is at least `least`; [`NO_KEY`] if there is none.
    #[inline]
    fn lowest(&self, taken: u64, least: u64) -> u64 {
        let key = |at: usize| u64::from(self.keys[at]);
        let counts = |at: usize| taken >> at & 1 == 1 && key(at) >= least;
        (0..FEW).fold(NO_KEY, |lowest, at| lowest.min(select_unpredictable(counts(at), key(at), NO_KEY)))
    }
}

/// One side of a book. The field order puts what every order reads on one cache line, and the
/// inline levels of a quiet side on the next.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Ladder {
    /// Best key, or [`NO_KEY`].
    best: u64,
    /// One bit for each non-zero word of `words`; without a window, for each occupied level of
    /// `few`.
    summary: u64,
    base: u32,
    /// Orders outside the window since it was last widened.
    strays: u32,
    /// The window; empty without one.
    slots: Box<[PriceLevel]>,
    far: BTreeMap<u32, PriceLevel>,
    few: InlineLevels,
    words: [u64; WORDS],
}

/// Returns the position of a key in the bitmap.
#[inline]
const fn place_of(key: u32) -> usize {
    (key % WIDEST) as usize
}

impl Ladder {
    pub fn new() -> Self {
        Ladder {
            best: NO_KEY,
            summary: 0,
            base: 0,
            strays: 0,
            slots: Box::default(),
            far: BTreeMap::new(),
            few: InlineLevels::NONE,
            words: [0; WORDS],
        }
    }

    /// Creates the widest window, for a book that will be busy.
    pub fn widen_fully(&mut self) {
        if self.width() < WIDEST {
            self.widen(WIDEST);
        }
    }

    /// Returns the number of keys in the window.
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    fn width(&self) -> u32 {
        self.slots.len() as u32
    }

    /// HOT. Returns whether the side has no window.
    #[inline]
    fn is_quiet(&self) -> bool {
        self.slots.is_empty()
    }

    /// HOT. Returns the best key; `None` if no order rests.
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    pub fn best(&self) -> Option<u32> {
        (self.best != NO_KEY).then_some(self.best as u32)
    }

    /// HOT. Returns whether an order rests at a key of at most `last`.
    #[inline]
    pub fn reaches(&self, last: u32) -> bool {
        self.best <= u64::from(last)
    }

    /// Returns the lowest key in the bitmap.
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    fn first(&self) -> u64 {
        if self.summary == 0 {
            return NO_KEY;
        }
        let first_word = (self.base / 64) % WORDS as u32;
        let steps = self.summary.rotate_right(first_word).trailing_zeros();
        let word = (first_word + steps) as usize % WORDS;
        u64::from(self.base + steps * 64 + self.words[word].trailing_zeros())
    }

    #[inline]
    fn in_window(&self, key: u32) -> bool {
        (key.wrapping_sub(self.base) as usize) < self.slots.len()
    }

    /// Returns the slot of a key in the window.
    #[inline]
    fn slot_of(&self, key: u32) -> usize {
        key as usize & (self.slots.len() - 1)
    }

    #[inline]
    fn mark(&mut self, key: u32) {
        let place = place_of(key);
        self.words[place / 64] |= 1 << (place % 64);
        self.summary |= 1 << (place / 64);
    }

    /// HOT. Returns the level at a key; `None` if no order rests there.
    #[inline]
    pub fn level(&self, key: u32) -> Option<&PriceLevel> {
        if self.in_window(key) {
            return Some(&self.slots[self.slot_of(key)]).filter(|level| !level.is_empty());
        }
        if self.is_quiet() {
            return self.few.place_of(self.summary, key).map(|at| &self.few.levels[at]);
        }
        self.far.get(&key)
    }

    /// HOT. Returns the level at `key` if orders rest there and it is in the window.
    #[inline(always)]
    pub fn occupied_in_window_mut(&mut self, key: u32) -> Option<&mut PriceLevel> {
        if !self.in_window(key) {
            return None;
        }
        let slot = self.slot_of(key);
        Some(&mut self.slots[slot]).filter(|level| !level.is_empty())
    }

    /// HOT. Returns the level at `key`. Creates it if it does not exist.
    #[inline]
    pub fn level_mut(&mut self, key: u32) -> &mut PriceLevel {
        if !self.in_window(key) {
            return self.level_outside(key);
        }
        self.best = self.best.min(u64::from(key));
        self.mark(key);
        let slot = self.slot_of(key);
        &mut self.slots[slot]
    }

    /// HOT. Does the same without a window, or for a key outside it.
    #[inline(never)]
    fn level_outside(&mut self, key: u32) -> &mut PriceLevel {
        if self.is_quiet()
            && let Some(at) = self.place_among_few(key)
        {
            return &mut self.few.levels[at];
        }
        self.make_room_for(key);
        self.best = self.best.min(u64::from(key));
        if self.in_window(key) {
            self.mark(key);
            let slot = self.slot_of(key);
            return &mut self.slots[slot];
        }
        self.far.entry(key).or_insert(PriceLevel::EMPTY)
    }

    /// HOT. Returns the level at a key at which orders rest.
    #[inline]
    pub fn existing_mut(&mut self, key: u32) -> &mut PriceLevel {
        if !self.in_window(key) {
            return self.existing_outside(key);
        }
        let slot = self.slot_of(key);
        &mut self.slots[slot]
    }

    /// HOT. Does the same without a window, or for a key outside it.
    #[inline(never)]
    fn existing_outside(&mut self, key: u32) -> &mut PriceLevel {
        if self.is_quiet()
            && let Some(at) = self.few.place_of(self.summary, key)
        {
            return &mut self.few.levels[at];
        }
        self.far.entry(key).or_insert(PriceLevel::EMPTY)
    }

    /// HOT. Returns the inline level of a key, and takes a free one if needed; `None` if all are
    /// taken by other keys.
    #[inline]
    fn place_among_few(&mut self, key: u32) -> Option<usize> {
        let known = self.few.place_of(self.summary, key);
        if known.is_some() {
            return known;
        }
        let at = self.summary.trailing_ones() as usize;
        *self.few.keys.get_mut(at)? = key;
        self.summary |= 1 << at;
        self.best = self.best.min(u64::from(key));
        Some(at)
    }

    /// HOT. Removes an empty level and updates the best key.
    #[inline]
    pub fn remove_level(&mut self, key: u32) {
        if !self.in_window(key) {
            return self.remove_level_outside(key);
        }
        self.vacate(key);
        if self.summary == 0 && !self.far.is_empty() {
            self.move_to_far();
        }
        if self.best == u64::from(key) {
            self.best = self.first();
        }
    }

    /// HOT. Does the same without a window, or for a key outside it.
    #[inline(never)]
    fn remove_level_outside(&mut self, key: u32) {
        if !self.is_quiet() {
            self.far.remove(&key);
        } else if let Some(at) = self.few.place_of(self.summary, key) {
            self.few.levels[at] = PriceLevel::EMPTY;
            self.summary &= !(1 << at);
            self.best = self.few.lowest(self.summary, 0);
        }
    }

    #[inline]
    fn vacate(&mut self, key: u32) {
        let slot = self.slot_of(key);
        self.slots[slot] = PriceLevel::EMPTY;
        let place = place_of(key);
        self.words[place / 64] &= !(1 << (place % 64));
        self.summary &= !(u64::from(self.words[place / 64] == 0) << (place / 64));
    }

    /// Prefetches what every order reads of this side.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self);
    }

    /// Prefetches a level, assuming that it is in the window or inline.
    #[inline]
    pub fn prefetch_level(&self, key: u32) {
        // Does not test whether the key is in the window: that branch could not be predicted.
        let at = key as usize & self.slots.len().wrapping_sub(1);
        let level = self.slots.as_ptr().wrapping_add(at).cast();
        let word = self.words.as_ptr().wrapping_add(place_of(key) / 64).cast();
        let few = (&raw const self.few).cast::<u8>();
        prefetch(select_unpredictable(self.is_quiet(), few, level));
        prefetch(select_unpredictable(self.is_quiet(), few.wrapping_add(64), word));
    }

    /// Levels from best to worst.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &PriceLevel)> {
        let near = (0..self.width() / 64).flat_map(move |step| {
            let word = ((self.base / 64 + step) as usize) % WORDS;
            Bits(self.words[word]).map(move |bit| {
                let key = self.base + step * 64 + bit;
                (key, &self.slots[self.slot_of(key)])
            })
        });
        self.iter_few().chain(near).chain(self.far.iter().map(|(key, level)| (*key, level)))
    }

    /// Inline levels from best to worst.
    fn iter_few(&self) -> impl Iterator<Item = (u32, &PriceLevel)> {
        let taken = if self.is_quiet() { self.summary } else { 0 };
        let mut least = 0;
        std::iter::from_fn(move || {
            let key = u32::try_from(self.few.lowest(taken, least)).ok()?;
            least = u64::from(key) + 1;
            self.few.place_of(taken, key).map(|at| (key, &self.few.levels[at]))
        })
    }

    /// Makes room for a key outside the window: widens the window if it has been missed often, and
    /// moves it if that key or the best key is too far from its middle.
    #[cold]
    #[inline(never)]
    fn make_room_for(&mut self, key: u32) {
        if self.is_quiet() {
            self.widen(NARROWEST);
        } else if self.width() < WIDEST {
            self.strays += 1;
            // Widening costs about as much as this many insertions into the map.
            if self.strays >= self.width() / 2 {
                self.widen(self.width() * WIDEN_BY);
            }
        }
        match self.best() {
            None => self.base = base_below(key, self.width()),
            Some(_) if key < self.base => self.move_base(base_below(key, self.width())),
            // The best key has moved toward the far end of the window. Without a move, levels near
            // it would go to the map.
            Some(best) if best - self.base > self.width() / 2 => self.move_base(base_below(best, self.width())),
            Some(_) => {}
        }
    }

    /// Widens the window around the same keys. The first window takes over the inline levels.
    #[cold]
    fn widen(&mut self, width: u32) {
        let width = width.min(WIDEST);
        if self.is_quiet() {
            self.far = self.iter_few().map(|(key, level)| (key, *level)).collect();
            (self.few, self.summary) = (InlineLevels::NONE, 0);
            self.base = self.best().map_or(0, |best| base_below(best, width));
        }
        let mut wider = vec![PriceLevel::EMPTY; width as usize].into_boxed_slice();
        for (key, level) in self.iter().take_while(|(key, _)| self.in_window(*key)) {
            wider[(key % width) as usize] = *level;
        }
        // No order rests below the old base.
        self.base = self.base.min(last_base(width));
        (self.slots, self.strays) = (wider, 0);
        self.take_from_far();
    }

    /// Moves the empty window to the best key of the map.
    #[cold]
    fn move_to_far(&mut self) {
        if let Some((&best, _)) = self.far.first_key_value() {
            self.move_base(base_below(best, self.width()));
        }
    }

    fn move_base(&mut self, base: u32) {
        let leaving: Vec<(u32, PriceLevel)> = self
            .iter()
            .take_while(|(key, _)| self.in_window(*key))
            .filter(|(key, _)| key.wrapping_sub(base) >= self.width())
            .map(|(key, level)| (key, *level))
            .collect();
        for (key, level) in leaving {
            self.far.insert(key, level);
            self.vacate(key);
        }
        self.base = base;
        self.take_from_far();
    }

    /// Moves levels from the map that belong into the window.
    fn take_from_far(&mut self) {
        while let Some((&key, &level)) = self.far.first_key_value() {
            if !self.in_window(key) {
                break;
            }
            self.far.remove(&key);
            self.mark(key);
            let slot = self.slot_of(key);
            self.slots[slot] = level;
        }
    }
}

/// Returns the base of the window that ends at the last key.
fn last_base(width: u32) -> u32 {
    u32::MAX - (width - 1)
}

/// Returns the base of a window in which a quarter of the keys is better than `key`.
fn base_below(key: u32, width: u32) -> u32 {
    key.saturating_sub(width / 4).min(last_base(width)) & !63
}

/// Positions of the set bits of a word, lowest first.
struct Bits(u64);

impl Iterator for Bits {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

#[cfg(test)]
mod tests {
    use pitwire_random::SplitMix64;

    use super::*;

    fn put(ladder: &mut Ladder, model: &mut BTreeMap<u32, u64>, key: u32, lots: u64) {
        let level = ladder.level_mut(key);
        level.head = 1;
        level.lots = lots;
        model.insert(key, lots);
    }

    fn agree(ladder: &Ladder, model: &BTreeMap<u32, u64>) {
        assert_eq!(ladder.best(), model.keys().next().copied());
        let got: Vec<_> = ladder.iter().map(|(key, level)| (key, level.lots)).collect();
        let want: Vec<_> = model.iter().map(|(key, lots)| (*key, *lots)).collect();
        assert_eq!(got, want);
    }

    #[test]
    #[allow(clippy::cast_possible_truncation)]
    fn ladder_agrees_with_a_sorted_map_for_moving_prices() {
        let (mut ladder, mut model) = (Ladder::new(), BTreeMap::new());
        let mut source = SplitMix64::new(7);
        let mut random = move |below: u64| source.below(below);
        for step in 0..60_000_u64 {
            let centre = [500_000_u64, 0, u64::from(u32::MAX), 500_000 + step][(step / 5_000 % 4) as usize];
            let spread = [40, 3_000, 200_000][random(3) as usize];
            let key = (centre + random(spread)).saturating_sub(spread / 2).min(u64::from(u32::MAX));
            let key = u32::try_from(key).unwrap();
            if random(2) == 0 {
                put(&mut ladder, &mut model, key, step + 1);
            } else if let Some((&victim, _)) = model.range(key..).next().or(model.iter().next()) {
                ladder.remove_level(victim);
                model.remove(&victim);
            }
            assert_eq!(ladder.best(), model.keys().next().copied(), "step {step}");
            if step % 512 == 0 {
                agree(&ladder, &model);
            }
        }
    }

    #[test]
    fn window_widens_with_outside_orders_and_loses_no_level() {
        let (mut ladder, mut model) = (Ladder::new(), BTreeMap::new());
        assert_eq!(ladder.width(), 0);
        let mut widths = Vec::new();
        for step in 0..40_000_u32 {
            // Keys from the best one to beyond the widest window, at the upper end of the range.
            let key = u32::MAX - 6_000 + step.wrapping_mul(2_654_435_761) % 6_000;
            if step % 3 < 2 {
                put(&mut ladder, &mut model, key, u64::from(step) + 1);
            } else if let Some((&victim, _)) = model.range(key..).next() {
                ladder.remove_level(victim);
                model.remove(&victim);
            }
            if widths.last() != Some(&ladder.width()) {
                widths.push(ladder.width());
                agree(&ladder, &model);
            }
        }
        agree(&ladder, &model);
        assert_eq!(widths, [0, 128, 512, 2_048, 4_096]);
    }

    #[test]
    fn quiet_side_agrees_with_a_sorted_map_and_has_no_window() {
        let (mut ladder, mut model) = (Ladder::new(), BTreeMap::new());
        // Keys far apart, including both ends of the range.
        let keys = [7, 0, u32::MAX, 1_000_000, 999_999, 1_000_001, 64, u32::MAX - 1, 5_000, 123_456_789];
        let mut random = SplitMix64::new(5);
        for step in 0..20_000_u64 {
            let key = random.pick(&keys);
            let is_there = model.contains_key(&key);
            if is_there && random.coin() {
                ladder.remove_level(key);
                model.remove(&key);
            } else if is_there {
                ladder.existing_mut(key).lots = step;
                model.insert(key, step);
            } else if model.len() < FEW {
                put(&mut ladder, &mut model, key, step);
            }
            agree(&ladder, &model);
            assert_eq!(ladder.level(key).map(|level| level.lots), model.get(&key).copied());
        }
        assert_eq!((ladder.width(), ladder.far.len()), (0, 0));
    }

    #[test]
    fn ninth_level_creates_a_window_and_loses_no_level() {
        for far in [9_u32, 1_000, u32::MAX - 5_000] {
            let (mut ladder, mut model) = (Ladder::new(), BTreeMap::new());
            for at in [3, 8, 1, 0, 5, 2, 7, 4, 6] {
                put(&mut ladder, &mut model, 5_000 + at * (far / 9), u64::from(at) + 1);
                agree(&ladder, &model);
            }
            assert_eq!(ladder.width(), NARROWEST);
            while let Some(best) = ladder.best() {
                ladder.remove_level(best);
                model.remove(&best);
                agree(&ladder, &model);
            }
        }
    }

    #[test]
    fn fully_widened_ladder_keeps_its_levels() {
        let (mut ladder, mut model) = (Ladder::new(), BTreeMap::new());
        put(&mut ladder, &mut model, 1_000, 1);
        put(&mut ladder, &mut model, 3_000, 2);
        ladder.widen_fully();
        assert_eq!((ladder.width(), ladder.far.len()), (WIDEST, 0));
        agree(&ladder, &model);
        ladder.widen_fully();
        agree(&ladder, &model);
    }

    #[test]
    fn keys_at_both_ends_of_the_range_work() {
        let (mut ladder, mut model) = (Ladder::new(), BTreeMap::new());
        for key in [u32::MAX, 0, 4095, 4096, u32::MAX - 4096, 1] {
            put(&mut ladder, &mut model, key, u64::from(key) + 1);
            agree(&ladder, &model);
        }
        while let Some(best) = ladder.best() {
            ladder.remove_level(best);
            model.remove(&best);
            agree(&ladder, &model);
        }
    }
}
