//! One side of a book: price levels by key, best key lowest.
//!
//! A key is a price for asks and its complement for bids, so that both sides are the same code. Keys near the best
//! one lie in a window of slots with a two-step bitmap over them; worse keys lie in a sorted map.
//!
//! Holds       1. a level exists exactly when an order rests on it;
//!             2. no key is below `base`; keys in `base..base + WINDOW` are in the window, all others in `far`;
//!             3. `best` is the lowest key at which an order rests, and the window holds it;
//!             4. `base` is a multiple of 64, so that a bitmap word never wraps.
//! Costs       best, find, insert, remove within the window: constant. Moving the window: the occupied levels
//!             that change sides, at most `WINDOW`.
//! Start at    `Ladder::level_mut`, then `Ladder::make_room_for`.

use std::collections::BTreeMap;

use super::slab::NIL;

const WINDOW: u32 = 4096;
const WORDS: usize = (WINDOW / 64) as usize;
/// Free keys kept on the better side of the best one when the window moves.
const HEADROOM: u32 = WINDOW / 4;

/// A queue of orders at one price, oldest first: 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    pub head: u32,
    pub tail: u32,
    pub lots: u64,
}

impl Level {
    pub const EMPTY: Level = Level { head: NIL, tail: NIL, lots: 0 };

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }
}

/// No key: nobody rests on this side.
const NOBODY: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Ladder {
    /// The best key, or [`NOBODY`].
    best: u64,
    base: u32,
    /// Keys from `base` on that lie in the window: `WINDOW`, or none before the first order.
    width: u32,
    /// One bit for each non-zero word of `words`.
    summary: u64,
    words: [u64; WORDS],
    /// Allocated with the first order: an idle instrument costs nothing.
    slots: Option<Box<[Level; WINDOW as usize]>>,
    far: BTreeMap<u32, Level>,
}

#[inline]
const fn slot_of(key: u32) -> usize {
    (key % WINDOW) as usize
}

impl Ladder {
    pub fn new() -> Self {
        Ladder { best: NOBODY, base: 0, width: 0, summary: 0, words: [0; WORDS], slots: None, far: BTreeMap::new() }
    }

    /// HOT. The best key, if any order rests. The window always holds it.
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    pub fn best(&self) -> Option<u32> {
        (self.best != NOBODY).then_some(self.best as u32)
    }

    /// The best key as the bitmap has it.
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    fn first(&self) -> u64 {
        if self.summary == 0 {
            return NOBODY;
        }
        let first_word = (self.base / 64) % WORDS as u32;
        let steps = self.summary.rotate_right(first_word).trailing_zeros();
        let word = (first_word + steps) as usize % WORDS;
        u64::from(self.base + steps * 64 + self.words[word].trailing_zeros())
    }

    #[inline]
    fn in_window(&self, key: u32) -> bool {
        key.wrapping_sub(self.base) < self.width
    }

    /// HOT. The level at a key that is known to exist.
    #[inline]
    pub fn level(&self, key: u32) -> Option<&Level> {
        match &self.slots {
            Some(slots) if self.in_window(key) => Some(&slots[slot_of(key)]).filter(|level| !level.is_empty()),
            _ => self.far.get(&key),
        }
    }

    /// HOT. The level at `key`, made if it is not there.
    #[inline]
    pub fn level_mut(&mut self, key: u32) -> &mut Level {
        if !self.in_window(key) {
            self.make_room_for(key);
        }
        self.best = self.best.min(u64::from(key));
        match &mut self.slots {
            Some(slots) if key.wrapping_sub(self.base) < self.width => {
                let slot = slot_of(key);
                self.words[slot / 64] |= 1 << (slot % 64);
                self.summary |= 1 << (slot / 64);
                &mut slots[slot]
            }
            _ => self.far.entry(key).or_insert(Level::EMPTY),
        }
    }

    /// HOT. The level at a key that holds orders, for change in place.
    #[inline]
    pub fn existing_mut(&mut self, key: u32) -> &mut Level {
        match &mut self.slots {
            Some(slots) if key.wrapping_sub(self.base) < self.width => &mut slots[slot_of(key)],
            _ => self.far.entry(key).or_insert(Level::EMPTY),
        }
    }

    /// HOT. Takes an emptied level away, before anybody can see it as best.
    #[inline]
    pub fn retire(&mut self, key: u32) {
        if !self.in_window(key) {
            self.far.remove(&key);
            return;
        }
        self.vacate(slot_of(key));
        if self.summary == 0 && !self.far.is_empty() {
            self.follow_far();
        }
        if self.best == u64::from(key) {
            self.best = self.first();
        }
    }

    #[inline]
    fn vacate(&mut self, slot: usize) {
        if let Some(slots) = &mut self.slots {
            slots[slot] = Level::EMPTY;
        }
        self.words[slot / 64] &= !(1 << (slot % 64));
        self.summary &= !(u64::from(self.words[slot / 64] == 0) << (slot / 64));
    }

    /// Levels from best to worst.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Level)> {
        let near = self.slots.iter().flat_map(move |slots| {
            (0..WINDOW / 64).flat_map(move |step| {
                let word = ((self.base / 64 + step) % (WINDOW / 64)) as usize;
                Bits(self.words[word]).map(move |bit| {
                    let key = self.base + step * 64 + bit;
                    (key, &slots[slot_of(key)])
                })
            })
        });
        near.chain(self.far.iter().map(|(key, level)| (*key, level)))
    }

    /// Called for a key outside the window: moves the window when that key, or the best one, has left its middle.
    #[cold]
    #[inline(never)]
    fn make_room_for(&mut self, key: u32) {
        if self.slots.is_none() {
            let slots: Box<[Level]> = vec![Level::EMPTY; WINDOW as usize].into_boxed_slice();
            self.slots = slots.try_into().ok();
            self.width = WINDOW;
        }
        match self.best() {
            None => self.base = base_below(key),
            Some(_) if key < self.base => self.move_base(base_below(key)),
            // The touch has drifted toward the far end: follow it, or the near levels would end up in the map.
            Some(best) if best - self.base > WINDOW / 2 => self.move_base(base_below(best)),
            Some(_) => {}
        }
    }

    /// The window ran empty while far levels remain: their best becomes the touch.
    #[cold]
    fn follow_far(&mut self) {
        if let Some((&best, _)) = self.far.first_key_value() {
            self.move_base(base_below(best));
        }
    }

    fn move_base(&mut self, base: u32) {
        let leaving: Vec<(u32, Level)> = self
            .iter()
            .take_while(|(key, _)| self.in_window(*key))
            .filter(|(key, _)| key.wrapping_sub(base) >= WINDOW)
            .map(|(key, level)| (key, *level))
            .collect();
        self.base = base;
        for (key, level) in leaving {
            self.far.insert(key, level);
            self.vacate(slot_of(key));
        }
        let Some(slots) = &mut self.slots else { return };
        while let Some(entry) = self.far.first_entry() {
            let key = *entry.key();
            if key.wrapping_sub(base) >= WINDOW {
                break;
            }
            let slot = slot_of(key);
            slots[slot] = entry.remove();
            self.words[slot / 64] |= 1 << (slot % 64);
            self.summary |= 1 << (slot / 64);
        }
    }
}

/// Where the window starts so that `key` has room on its better side.
fn base_below(key: u32) -> u32 {
    // The last window ends exactly at the last key.
    key.saturating_sub(HEADROOM).min(u32::MAX - (WINDOW - 1)) & !63
}

/// The positions of the set bits of a word, lowest first.
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
    fn agrees_with_a_sorted_map_wherever_prices_go() {
        let (mut ladder, mut model) = (Ladder::new(), BTreeMap::new());
        let mut state = 7_u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for step in 0..60_000_u64 {
            let centre = [500_000_u64, 0, u64::from(u32::MAX), 500_000 + step][(step / 5_000 % 4) as usize];
            let spread = [40, 3_000, 200_000][random(3) as usize];
            let key = (centre + random(spread)).saturating_sub(spread / 2).min(u64::from(u32::MAX));
            let key = u32::try_from(key).unwrap();
            if random(2) == 0 {
                put(&mut ladder, &mut model, key, step + 1);
            } else if let Some((&victim, _)) = model.range(key..).next().or(model.iter().next()) {
                ladder.retire(victim);
                model.remove(&victim);
            }
            assert_eq!(ladder.best(), model.keys().next().copied(), "step {step}");
            if step % 512 == 0 {
                agree(&ladder, &model);
            }
        }
    }

    #[test]
    fn the_ends_of_the_price_range_are_ordinary_places() {
        let (mut ladder, mut model) = (Ladder::new(), BTreeMap::new());
        for key in [u32::MAX, 0, 4095, 4096, u32::MAX - 4096, 1] {
            put(&mut ladder, &mut model, key, u64::from(key) + 1);
            agree(&ladder, &model);
        }
        while let Some(best) = ladder.best() {
            ladder.retire(best);
            model.remove(&best);
            agree(&ladder, &model);
        }
    }
}
