//! The auditor's book: for each side, one tree of places and one of level totals.
//!
//! Holds       the first place of a side is the oldest order at the best price: who is to trade next is never searched.

use std::collections::BTreeMap;

use pitwire_model::{AccountId, InstrumentId, Lots, MatchGroup, OrderId, SessionId, Side, Ticks};

/// A resting order as the events have told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    pub id: OrderId,
    pub account: AccountId,
    pub instrument: InstrumentId,
    pub side: Side,
    pub day: bool,
    /// Zero for a market order.
    pub price: Ticks,
    /// Shown and hidden together.
    pub open: u64,
    /// What the level counts; less than `open` for icebergs alone.
    pub shown: u64,
    pub peak: Option<Lots>,
    /// All that was ever asked for, what has traded included.
    pub ordered: u64,
    pub arrival: u64,
    pub group: MatchGroup,
    pub session: SessionId,
    pub cancel_on_disconnect: bool,
}

impl Live {
    /// What it shows when it joins the end of its queue.
    pub fn fresh_part(&self) -> u64 {
        self.peak.map_or(self.open, |peak| peak.0.min(self.open))
    }

    /// Whether self-match prevention takes the two for one member's.
    pub fn is_of_group(&self, other: &Live) -> bool {
        match self.group {
            MatchGroup::Order => false,
            MatchGroup::Account => other.group == MatchGroup::Account && self.account == other.account,
            MatchGroup::Key(_) => self.group == other.group,
        }
    }
}

#[derive(Debug, Default)]
pub struct Book {
    sides: [Ladder; 2],
    pub resting: usize,
}

#[derive(Debug, Default)]
struct Ladder {
    /// By price, better first, then by arrival.
    places: BTreeMap<(i64, u64), OrderId>,
    /// Σ of what is shown.
    levels: BTreeMap<i64, u64>,
}

/// Orders prices so that the better comes first.
const fn rank(side: Side, price: Ticks) -> i64 {
    match side {
        Side::Buy => -price.0,
        Side::Sell => price.0,
    }
}

impl Book {
    pub fn insert(&mut self, order: &Live) {
        let ladder = &mut self.sides[order.side as usize];
        let rank = rank(order.side, order.price);
        ladder.places.insert((rank, order.arrival), order.id);
        *ladder.levels.entry(rank).or_default() += order.shown;
        self.resting += 1;
    }

    pub fn remove(&mut self, order: &Live) {
        let ladder = &mut self.sides[order.side as usize];
        ladder.places.remove(&(rank(order.side, order.price), order.arrival));
        self.resting -= 1;
        self.shrink(order, order.shown);
    }

    /// Takes shown lots off an order's level; the order keeps its place.
    pub fn shrink(&mut self, order: &Live, lots: u64) {
        let levels = &mut self.sides[order.side as usize].levels;
        let rank = rank(order.side, order.price);
        if let Some(level) = levels.get_mut(&rank) {
            *level = level.saturating_sub(lots);
            if *level == 0 {
                levels.remove(&rank);
            }
        }
    }

    /// The order that must trade before any other of its side.
    pub fn first(&self, side: Side) -> Option<OrderId> {
        self.sides[side as usize].places.first_key_value().map(|(_, id)| *id)
    }

    pub fn best(&self, side: Side) -> Option<Ticks> {
        let (rank, _) = self.sides[side as usize].levels.first_key_value()?;
        Some(Ticks(rank.abs()))
    }

    pub fn level(&self, side: Side, price: Ticks) -> Lots {
        Lots(self.sides[side as usize].levels.get(&rank(side, price)).copied().unwrap_or(0))
    }

    /// Best first.
    pub fn levels(&self, side: Side) -> impl Iterator<Item = (Ticks, u64)> {
        self.sides[side as usize].levels.iter().map(|(rank, lots)| (Ticks(rank.abs()), *lots))
    }

    /// Oldest first.
    pub fn orders_at(&self, side: Side, price: Ticks) -> impl Iterator<Item = OrderId> {
        let rank = rank(side, price);
        self.sides[side as usize].places.range((rank, 0)..=(rank, u64::MAX)).map(|(_, id)| *id)
    }

    /// In priority order.
    pub fn orders(&self, side: Side) -> impl Iterator<Item = OrderId> {
        self.sides[side as usize].places.values().copied()
    }
}
