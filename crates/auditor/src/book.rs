//! A shadow copy of one order book: per side, one tree of orders and one of price levels.
//!
//! Holds       1. the orders of a side are in the order in which they trade: first orders without
//!                a price, then by price, visible before hidden, then by time;
//!             2. a level counts the displayed quantity and, separately, the open quantity of its
//!                visible limit orders.

use std::collections::{BTreeMap, BTreeSet};

use pitwire_model::{OrderId, Side, Ticks};

use crate::orders::{LiveOrder, LiveOrderKind, LiveOrderState};

#[derive(Debug, Default)]
pub struct ShadowBook {
    sides: [BookSide; 2],
    /// Number of live orders of the instrument, in the book or not.
    pub live_orders: usize,
    /// Number of hidden orders in the book.
    pub hidden: usize,
    /// Reduce-only orders in the book.
    pub reduce_only: BTreeSet<OrderId>,
    /// Waiting stops of each side, by stop price.
    stops: [BTreeSet<(Ticks, OrderId)>; 2],
}

#[derive(Debug, Default)]
struct BookSide {
    /// Orders by price, best first, then visible before hidden, then by time.
    places: BTreeMap<(i64, bool, u64), OrderId>,
    levels: BTreeMap<i64, BookLevel>,
    /// Open quantity of market orders without a protection price.
    unpriced: u64,
    /// Open quantity of market orders by protection price.
    bounded: BTreeMap<i64, u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct BookLevel {
    shown: u64,
    whole: u64,
}

/// Returns a sort key by which better prices come first. Orders without a price come before all
/// others.
pub const fn rank(side: Side, price: Option<Ticks>) -> i64 {
    match (side, price) {
        (_, None) => i64::MIN,
        (Side::Buy, Some(price)) => -price.0,
        (Side::Sell, Some(price)) => price.0,
    }
}

pub const fn place(order: &LiveOrder) -> (i64, bool, u64) {
    let price = match order.kind {
        LiveOrderKind::Market => order.bound,
        _ => Some(order.price),
    };
    (rank(order.side, price), matches!(order.kind, LiveOrderKind::Hidden), order.arrival)
}

impl ShadowBook {
    /// Adds an active order.
    pub fn insert(&mut self, order: &LiveOrder) {
        let key = place(order);
        self.sides[order.side as usize].places.insert(key, order.id);
        self.hidden += usize::from(order.is_hidden());
        if order.reduce_only {
            self.reduce_only.insert(order.id);
        }
        let ladder = &mut self.sides[order.side as usize];
        match order.kind {
            LiveOrderKind::Market if order.bound.is_none() => ladder.unpriced += order.open,
            LiveOrderKind::Market => *ladder.bounded.entry(key.0).or_default() += order.open,
            LiveOrderKind::Limit => {
                let level = ladder.levels.entry(key.0).or_default();
                level.shown += order.shown;
                level.whole += order.open;
            }
            _ => {}
        }
    }

    /// Adds a stop that waits for its price. Ignores other orders.
    pub fn add_stop(&mut self, order: &LiveOrder) {
        if order.place == LiveOrderState::Unelected {
            self.stops[order.side as usize].insert((order.stop, order.id));
        }
    }

    /// Removes a stop that waited for its price. Ignores other orders.
    pub fn remove_stop(&mut self, order: &LiveOrder) {
        if order.place == LiveOrderState::Unelected {
            self.stops[order.side as usize].remove(&(order.stop, order.id));
        }
    }

    /// Returns the waiting stops whose price `last` has reached, in no particular order.
    pub fn reached_stops(&self, last: Ticks) -> impl Iterator<Item = OrderId> {
        let [buys, sells] = &self.stops;
        let buys = buys.range(..=(last, OrderId(u64::MAX)));
        buys.chain(sells.range((last, OrderId::ZERO)..)).map(|(_, id)| *id)
    }

    /// Removes an active order. `order` must be its present state.
    pub fn remove(&mut self, order: &LiveOrder) {
        let key = place(order);
        self.sides[order.side as usize].places.remove(&key);
        self.hidden -= usize::from(order.is_hidden());
        self.reduce_only.remove(&order.id);
        self.shrink(order, order.shown, order.open);
    }

    /// Takes lots off an active order that keeps its place: `shown` of the displayed lots, `whole`
    /// in total.
    pub fn shrink(&mut self, order: &LiveOrder, shown: u64, whole: u64) {
        let key = place(order);
        let ladder = &mut self.sides[order.side as usize];
        match order.kind {
            LiveOrderKind::Market if order.bound.is_none() => ladder.unpriced -= whole,
            LiveOrderKind::Market => take(&mut ladder.bounded, key.0, whole),
            LiveOrderKind::Limit => {
                if let Some(level) = ladder.levels.get_mut(&key.0) {
                    level.shown = level.shown.saturating_sub(shown);
                    level.whole = level.whole.saturating_sub(whole);
                    if level.whole == 0 {
                        ladder.levels.remove(&key.0);
                    }
                }
            }
            _ => {}
        }
    }

    pub fn best(&self, side: Side) -> Option<Ticks> {
        let (rank, _) = self.sides[side as usize].levels.first_key_value()?;
        Some(Ticks(rank.abs()))
    }

    /// Returns the best visible price of each side and the quantity displayed there.
    pub fn touch(&self) -> BestLevels {
        [Side::Buy, Side::Sell].map(|side| {
            let (rank, level) = self.sides[side as usize].levels.first_key_value()?;
            Some((Ticks(rank.abs()), level.shown))
        })
    }

    /// Returns the quantity displayed at a price.
    pub fn level(&self, side: Side, price: Ticks) -> u64 {
        self.sides[side as usize].levels.get(&rank(side, Some(price))).map_or(0, |level| level.shown)
    }

    /// Returns the displayed quantity by price, best first.
    pub fn levels(&self, side: Side) -> impl Iterator<Item = (Ticks, u64)> {
        self.sides[side as usize].levels.iter().map(|(rank, level)| (Ticks(rank.abs()), level.shown))
    }

    /// Returns the open quantity of visible orders by price, in no particular order. Market orders
    /// count at their protection price.
    pub fn open_by_price(&self, side: Side) -> impl Iterator<Item = (Ticks, u64)> {
        let ladder = &self.sides[side as usize];
        let priced = ladder.levels.iter().map(|(rank, level)| (Ticks(rank.abs()), level.whole));
        priced.chain(ladder.bounded.iter().map(|(rank, lots)| (Ticks(rank.abs()), *lots)))
    }

    /// Returns the open quantity of market orders without a protection price.
    pub fn unpriced(&self, side: Side) -> u64 {
        self.sides[side as usize].unpriced
    }

    /// Returns the orders of a side in priority order.
    pub fn orders(&self, side: Side) -> impl DoubleEndedIterator<Item = OrderId> {
        self.sides[side as usize].places.values().copied()
    }

    /// Returns the visible orders at one price, oldest first.
    pub fn shown_at(&self, side: Side, price: Ticks) -> impl Iterator<Item = OrderId> {
        let rank = rank(side, Some(price));
        self.sides[side as usize].places.range((rank, false, 0)..=(rank, false, u64::MAX)).map(|(_, id)| *id)
    }

    /// Returns the best visible bid and offer if they cross.
    pub fn is_crossed(&self) -> Option<(Ticks, Ticks)> {
        let (bid, offer) = (self.best(Side::Buy)?, self.best(Side::Sell)?);
        (bid >= offer).then_some((bid, offer))
    }
}

/// Best visible price and displayed quantity of bids, then of offers.
pub type BestLevels = [Option<(Ticks, u64)>; 2];

fn take(levels: &mut BTreeMap<i64, u64>, rank: i64, lots: u64) {
    if let Some(level) = levels.get_mut(&rank) {
        *level = level.saturating_sub(lots);
        if *level == 0 {
            levels.remove(&rank);
        }
    }
}
