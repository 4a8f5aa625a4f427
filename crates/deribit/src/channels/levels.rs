//! The public book of one instrument as its channels publish it, and the pending changes of each
//! channel.

use std::collections::BTreeMap;

use crate::codec::objects::LevelAction;
use pitwire_model::{Lots, Side, Ticks};

/// One level in a book message.
pub(super) type Level = (LevelAction, Ticks, Lots);

/// Returns the action for a level; `None` if its amount is unchanged.
pub(super) fn action(before: Lots, now: Lots) -> Option<LevelAction> {
    Some(match (before.is_zero(), now.is_zero()) {
        _ if before == now => return None,
        (true, _) => LevelAction::New,
        (_, true) => LevelAction::Delete,
        _ => LevelAction::Change,
    })
}

/// Both sides by price.
#[derive(Debug, Default)]
pub(super) struct Levels {
    bids: BTreeMap<Ticks, Lots>,
    asks: BTreeMap<Ticks, Lots>,
}

impl Levels {
    pub fn side(&self, side: Side) -> &BTreeMap<Ticks, Lots> {
        match side {
            Side::Buy => &self.bids,
            Side::Sell => &self.asks,
        }
    }

    /// Returns the levels of one side, best first.
    pub fn best_first(&self, side: Side) -> impl Iterator<Item = (Ticks, Lots)> {
        let levels = self.side(side);
        let (bids, asks) = match side {
            Side::Buy => (Some(levels.iter().rev()), None),
            Side::Sell => (None, Some(levels.iter())),
        };
        bids.into_iter().flatten().chain(asks.into_iter().flatten()).map(|(price, lots)| (*price, *lots))
    }

    pub fn best(&self, side: Side) -> Option<(Ticks, Lots)> {
        self.best_first(side).next()
    }

    /// Sets a level and returns its previous amount.
    pub fn set(&mut self, side: Side, price: Ticks, lots: Lots) -> Lots {
        let levels = match side {
            Side::Buy => &mut self.bids,
            Side::Sell => &mut self.asks,
        };
        let before = if lots.is_zero() { levels.remove(&price) } else { levels.insert(price, lots) };
        before.unwrap_or_default()
    }

    fn lots(&self, side: Side, price: Ticks) -> Lots {
        self.side(side).get(&price).copied().unwrap_or_default()
    }
}

/// Levels touched since a channel's last message, each with its amount at that message.
///
/// A level that appeared and disappeared since then compares equal and is not published.
#[derive(Debug, Default)]
pub(super) struct TouchedLevels {
    before: BTreeMap<(Side, Ticks), Lots>,
}

impl TouchedLevels {
    pub fn touch(&mut self, side: Side, price: Ticks, before: Lots) {
        self.before.entry((side, price)).or_insert(before);
    }

    /// Returns the changes to publish, best level first, and forgets them. Calls `on_change` with
    /// the old and new amount of each level.
    pub fn take(
        &mut self,
        now: &Levels,
        mut on_change: impl FnMut(Side, Ticks, Lots, Lots),
    ) -> (Vec<Level>, Vec<Level>) {
        let mut sides = (Vec::new(), Vec::new());
        for ((side, price), before) in std::mem::take(&mut self.before) {
            let lots = now.lots(side, price);
            let Some(action) = action(before, lots) else { continue };
            on_change(side, price, before, lots);
            match side {
                Side::Buy => sides.0.push((action, price, lots)),
                Side::Sell => sides.1.push((action, price, lots)),
            }
        }
        sides.0.reverse();
        sides
    }

    /// Returns the book as of the channel's last message, best level first.
    pub fn snapshot(&self, now: &Levels) -> (Vec<Level>, Vec<Level>) {
        let at = |side: Side| {
            let mut levels = now.side(side).clone();
            for ((_, price), before) in self.before.iter().filter(|((of, _), _)| *of == side) {
                if before.is_zero() {
                    levels.remove(price);
                } else {
                    levels.insert(*price, *before);
                }
            }
            levels.into_iter().map(|(price, lots)| (LevelAction::New, price, lots)).collect::<Vec<_>>()
        };
        let (mut bids, asks) = (at(Side::Buy), at(Side::Sell));
        bids.reverse();
        (bids, asks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LevelAction::{Change, Delete, New};

    #[test]
    fn window_publishes_final_amounts_only() {
        let mut levels = Levels::default();
        let mut pending = TouchedLevels::default();
        let mut set = |pending: &mut TouchedLevels, side, price, lots| {
            let before = levels.set(side, Ticks(price), Lots(lots));
            pending.touch(side, Ticks(price), before);
        };
        for (side, price, lots) in [(Side::Buy, 10, 5), (Side::Buy, 9, 7), (Side::Sell, 11, 3)] {
            set(&mut pending, side, price, lots);
        }
        // Second window: one level changes twice, one disappears, one appears and disappears, one
        // disappears and returns unchanged.
        let mut later = TouchedLevels::default();
        for (side, price, lots) in [
            (Side::Buy, 10, 6),
            (Side::Buy, 10, 4),
            (Side::Buy, 9, 0),
            (Side::Sell, 12, 1),
            (Side::Sell, 12, 0),
            (Side::Sell, 11, 0),
            (Side::Sell, 11, 3),
            (Side::Sell, 10, 2),
        ] {
            set(&mut later, side, price, lots);
        }
        let level = |action, price, lots| (action, Ticks(price), Lots(lots));
        let then = later.snapshot(&levels);
        assert_eq!(then, (vec![level(New, 10, 5), level(New, 9, 7)], vec![level(New, 11, 3)]));
        let changes = later.take(&levels, |_, _, _, _| {});
        assert_eq!(changes, (vec![level(Change, 10, 4), level(Delete, 9, 0)], vec![level(New, 10, 2)]));
        assert_eq!(later.take(&levels, |_, _, _, _| {}), (vec![], vec![]));
    }
}
