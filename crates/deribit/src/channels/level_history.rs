//! History of the levels that a merged book channel has published, to combine the changes that a
//! reader has missed.
//!
//! Does        returns the levels that differ between any two recent `change_id`s of the channel.
//! Holds       1. a level's amount at a `change_id` is exact, unless the `change_id` lies before
//!                [`LevelHistory::horizon`];
//!             2. memory is bounded by [`CHANGES`], regardless of the number of lagging readers.
//! Leaves out  readers: each reader keeps its own `change_id`.
//! Costs       a tree look-up per published level; a merge compares every level published within
//!             the horizon.
//! Start at    [`LevelHistory::record`], [`LevelHistory::between`].

use std::collections::{BTreeMap, VecDeque};

use pitwire_model::{Lots, Side, Ticks};

use crate::channels::levels::{Level, action};

/// Maximum remembered level changes: minutes of a busy book, hours of a quiet one. A level takes
/// about 25 bytes of a message, so the history covers several times the channel's ring.
pub(super) const CHANGES: usize = 1 << 16;

#[derive(Debug, Default)]
struct ReferenceHistory {
    now: Lots,
    /// Oldest first: the `change_id` of a message with this level, and the amount before it.
    changes: VecDeque<(u64, Lots)>,
}

impl ReferenceHistory {
    fn at(&self, change_id: u64) -> Lots {
        let later = self.changes.partition_point(|(id, _)| *id <= change_id);
        self.changes.get(later).map_or(self.now, |(_, before)| *before)
    }
}

/// The levels that one channel has published.
#[derive(Debug)]
pub(super) struct LevelHistory {
    levels: BTreeMap<(Side, Ticks), ReferenceHistory>,
    /// The level of each change, oldest first.
    order: VecDeque<(Side, Ticks)>,
    /// The oldest `change_id` whose book is known.
    horizon: u64,
    most: usize,
}

impl LevelHistory {
    pub fn new(change_id: u64, most: usize) -> Self {
        LevelHistory { levels: BTreeMap::new(), order: VecDeque::new(), horizon: change_id, most }
    }

    /// Restarts the history at `change_id`, because the channel had no subscribers before it.
    pub fn start_anew(&mut self, change_id: u64) {
        *self = LevelHistory::new(change_id, self.most);
    }

    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// Returns how many levels a merge compares.
    pub fn len(&self) -> usize {
        self.levels.len()
    }

    /// Records that the message `change_id` contains one level. The numbers never decrease.
    pub fn record(&mut self, change_id: u64, side: Side, price: Ticks, before: Lots, now: Lots) {
        if self.order.len() == self.most {
            self.forget_oldest();
        }
        let level = self.levels.entry((side, price)).or_default();
        level.now = now;
        level.changes.push_back((change_id, before));
        self.order.push_back((side, price));
    }

    fn forget_oldest(&mut self) {
        let Some(key) = self.order.pop_front() else { return };
        let Some(level) = self.levels.get_mut(&key) else { return };
        if let Some((change_id, _)) = level.changes.pop_front() {
            self.horizon = self.horizon.max(change_id);
        }
        // No change of this level is left within the horizon, so it cannot differ.
        if level.changes.is_empty() {
            self.levels.remove(&key);
        }
    }

    fn differing(&self, from: u64, to: u64) -> impl Iterator<Item = ((Side, Ticks), Lots, Lots)> {
        let states = self.levels.iter().map(move |(key, level)| (*key, level.at(from), level.at(to)));
        states.filter(|(_, before, now)| before != now)
    }

    pub fn differs(&self, from: u64, to: u64) -> bool {
        self.differing(from, to).next().is_some()
    }

    /// Returns the changes that lead from one book to the other, best level first. `from` must not
    /// lie before the horizon.
    pub fn between(&self, from: u64, to: u64) -> (Vec<Level>, Vec<Level>) {
        let mut sides = (Vec::new(), Vec::new());
        for ((side, price), before, now) in self.differing(from, to) {
            let Some(action) = action(before, now) else { continue };
            match side {
                Side::Buy => sides.0.push((action, price, now)),
                Side::Sell => sides.1.push((action, price, now)),
            }
        }
        sides.0.reverse();
        sides
    }
}

#[cfg(test)]
mod tests {
    use crate::codec::objects::LevelAction::{self, Change, Delete, New};

    use super::*;

    fn level(action: LevelAction, price: i64, lots: u64) -> Level {
        (action, Ticks(price), Lots(lots))
    }

    fn history_of(most: usize, changes: &[(u64, Side, i64, u64, u64)]) -> LevelHistory {
        let mut history = LevelHistory::new(1, most);
        for (id, side, price, before, now) in changes {
            history.record(*id, *side, Ticks(*price), Lots(*before), Lots(*now));
        }
        history
    }

    /// The book at 1: bids 10 with 5 and 9 with 7, offer 11 with 3.
    const CHANGES_SENT: [(u64, Side, i64, u64, u64); 9] = [
        (3, Side::Buy, 10, 5, 6),
        (3, Side::Buy, 8, 0, 1),
        (3, Side::Sell, 11, 3, 0),
        (4, Side::Buy, 10, 6, 0),
        (4, Side::Sell, 12, 0, 2),
        (7, Side::Buy, 10, 0, 5),
        (7, Side::Buy, 8, 1, 0),
        (9, Side::Sell, 12, 2, 4),
        (9, Side::Sell, 11, 0, 9),
    ];

    #[test]
    fn merge_contains_only_levels_that_differ() {
        let history = history_of(100, &CHANGES_SENT);
        // 10 has its old amount, 8 appeared and disappeared, 11 disappeared and returned with
        // another amount.
        assert_eq!(history.between(1, 9), (vec![], vec![level(Change, 11, 9), level(New, 12, 4)]));
        assert_eq!(
            history.between(3, 9),
            (vec![level(Change, 10, 5), level(Delete, 8, 0)], vec![level(New, 11, 9), level(New, 12, 4)])
        );
        assert_eq!(history.between(4, 7), (vec![level(New, 10, 5), level(Delete, 8, 0)], vec![]));
        // A range that ends before the newest number omits later changes.
        assert_eq!(
            history.between(1, 4),
            (vec![level(Delete, 10, 0), level(New, 8, 1)], vec![level(Delete, 11, 0), level(New, 12, 2)])
        );
        assert!(!history.differs(9, 9) && history.differs(7, 9) && !history.differs(4, 6));
        assert_eq!(history.horizon(), 1);
    }

    #[test]
    fn forgotten_changes_move_the_horizon() {
        let history = history_of(4, &CHANGES_SENT);
        // The last four changes remain: those of 7 and 9. One of the two changes of 4 is gone, so
        // the horizon is 4.
        assert_eq!((history.horizon(), history.len()), (4, 4));
        assert_eq!(
            history.between(4, 9),
            (vec![level(New, 10, 5), level(Delete, 8, 0)], vec![level(New, 11, 9), level(Change, 12, 4)])
        );
    }
}
