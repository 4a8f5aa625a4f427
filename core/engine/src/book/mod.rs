//! The order book of one instrument: two ladders of levels over one slab of orders.
//!
//! Does        keep orders by price, then by arrival; fill an incoming quantity from the best level on.
//! Holds       1. a level's `lots` is the sum of what its orders have open;
//!             2. an order is on exactly one level; an emptied level is gone before anything is reported.
//! Leaves out  who may trade, funds, phases, ids: see `market` and `engine`.
//! Costs       rest, remove, fill: constant per order.
//! Start at    [`Book::sweep`].

mod ladder;
mod slab;

use ladder::{Ladder, Level};
use pitwire_model::{AccountId, Lots, OrderId, Side, Ticks};
use slab::{NIL, Node, Slab};
pub use slab::{Owner, Slot};

/// What a sweep reports, in the order in which it happens.
pub trait SweepSink {
    /// `lots` of a resting order traded at its own price; `maker_open` is what it still has.
    fn fill(&mut self, maker: OrderId, owner: Owner, price: Ticks, lots: u32, maker_open: u32);
    /// The level at `price` is down to `lots`; told once per level, after its fills.
    fn level(&mut self, price: Ticks, lots: u64);
}

/// An order to put on the book.
#[derive(Clone, Copy, Debug)]
pub struct Resting {
    pub id: OrderId,
    pub price: Ticks,
    pub open: u32,
    pub ordered: u32,
    pub owner: Owner,
}

#[derive(Debug)]
pub struct Book {
    bids: Ladder,
    asks: Ladder,
    slab: Slab,
}

/// Prices are checked at the door: `1..=Ticks::MAX_PRICE`.
#[inline]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn key_of(side: Side, price: Ticks) -> u32 {
    match side {
        Side::Buy => !(price.0 as u32),
        Side::Sell => price.0 as u32,
    }
}

#[inline]
fn price_of(side: Side, key: u32) -> Ticks {
    match side {
        Side::Buy => Ticks(i64::from(!key)),
        Side::Sell => Ticks(i64::from(key)),
    }
}

impl Default for Book {
    fn default() -> Self {
        Self::new()
    }
}

impl Book {
    pub fn new() -> Self {
        Book { bids: Ladder::new(), asks: Ladder::new(), slab: Slab::new() }
    }

    /// Makes room for so many resting orders ahead of time.
    pub fn reserve(&mut self, orders: usize) {
        self.slab.reserve(orders);
    }

    #[inline]
    fn ladder(&self, side: Side) -> &Ladder {
        match side {
            Side::Buy => &self.bids,
            Side::Sell => &self.asks,
        }
    }

    #[inline]
    fn ladder_mut(&mut self, side: Side) -> &mut Ladder {
        match side {
            Side::Buy => &mut self.bids,
            Side::Sell => &mut self.asks,
        }
    }

    pub fn resting_orders(&self) -> u32 {
        self.slab.len()
    }

    #[inline]
    pub fn best_price(&self, side: Side) -> Option<Ticks> {
        self.ladder(side).best().map(|key| price_of(side, key))
    }

    /// Visible quantity at one price.
    pub fn lots_at(&self, side: Side, price: Ticks) -> Lots {
        Lots(self.ladder(side).level(key_of(side, price)).map_or(0, |level| level.lots))
    }

    /// Levels of one side, best first.
    pub fn levels(&self, side: Side) -> impl Iterator<Item = (Ticks, Lots)> {
        self.ladder(side).iter().map(move |(key, level)| (price_of(side, key), Lots(level.lots)))
    }

    /// Orders of one side in priority order.
    pub fn orders(&self, side: Side) -> impl Iterator<Item = Resting> {
        self.ladder(side).iter().flat_map(move |(_, level)| {
            // The chain ends before NIL is looked up: `successors` asks one step ahead.
            std::iter::successors(Some(level.head), |at| Some(self.slab.get(*at).next).filter(|next| *next != NIL))
                .map(|at| self.resting(self.slab.get(at)))
        })
    }

    /// All orders in no order at all: sort before letting anything out.
    pub fn unordered(&self) -> impl Iterator<Item = (Slot, Resting)> {
        self.slab.iter().map(|(at, node)| (Slot(at), self.resting(node)))
    }

    pub fn get(&self, slot: Slot) -> Resting {
        self.resting(self.slab.get(slot.0))
    }

    fn resting(&self, node: &Node) -> Resting {
        let price = price_of(node.owner.side(), node.key);
        Resting { id: node.id, price, open: node.open, ordered: node.ordered, owner: node.owner }
    }

    /// HOT. Puts an order last in the queue of its price; returns its slot and the level's new quantity.
    #[inline]
    pub fn rest(&mut self, order: Resting) -> (Slot, u64) {
        let side = order.owner.side();
        let key = key_of(side, order.price);
        let at = self.slab.insert(Node {
            id: order.id,
            open: order.open,
            key,
            previous: NIL,
            next: NIL,
            owner: order.owner,
            ordered: order.ordered,
        });
        let level = match side {
            Side::Buy => self.bids.level_mut(key),
            Side::Sell => self.asks.level_mut(key),
        };
        level.lots += u64::from(order.open);
        let (lots, tail) = (level.lots, level.tail);
        level.tail = at;
        if tail == NIL {
            level.head = at;
        } else {
            self.slab.get_mut(at).previous = tail;
            self.slab.get_mut(tail).next = at;
        }
        (Slot(at), lots)
    }

    /// HOT. Takes an order off the book; returns it and what remains on its level.
    #[inline]
    pub fn remove(&mut self, slot: Slot) -> (Resting, u64) {
        let node = *self.slab.get(slot.0);
        let side = node.owner.side();
        if node.previous != NIL {
            self.slab.get_mut(node.previous).next = node.next;
        }
        if node.next != NIL {
            self.slab.get_mut(node.next).previous = node.previous;
        }
        let ladder = self.ladder_mut(side);
        let level: &mut Level = ladder.existing_mut(node.key);
        level.lots -= u64::from(node.open);
        if node.previous == NIL {
            level.head = node.next;
        }
        if node.next == NIL {
            level.tail = node.previous;
        }
        let lots = level.lots;
        if level.is_empty() {
            ladder.retire(node.key);
        }
        self.slab.release(slot.0);
        (self.resting(&node), lots)
    }

    /// Shrinks an order in its place; returns what is now on its level. `open` is above zero and not above what it had.
    pub fn reduce(&mut self, slot: Slot, open: u32, ordered: u32) -> u64 {
        let node = self.slab.get_mut(slot.0);
        let (less, side, key) = (node.open - open, node.owner.side(), node.key);
        node.open = open;
        node.ordered = ordered;
        let level = self.ladder_mut(side).existing_mut(key);
        level.lots -= u64::from(less);
        level.lots
    }

    /// HOT. Fills up to `open` lots of an incoming order on `side` from the other side's best level on, oldest order
    /// first, no further than `limit`. Returns what could not be filled. Bounded by the orders it fills.
    #[inline]
    pub fn sweep(&mut self, side: Side, limit: Option<Ticks>, mut open: u32, sink: &mut impl SweepSink) -> u32 {
        let other = side.opposite();
        let last_key = limit.map_or(u32::MAX, |limit| key_of(other, limit));
        let ladder = match other {
            Side::Buy => &mut self.bids,
            Side::Sell => &mut self.asks,
        };
        while open > 0 {
            let Some(key) = ladder.best().filter(|key| *key <= last_key) else { break };
            let price = price_of(other, key);
            open = fill_from_level(ladder.existing_mut(key), &mut self.slab, price, open, sink);
            let lots = ladder.existing_mut(key).lots;
            if lots == 0 {
                ladder.retire(key);
            }
            sink.level(price, lots);
        }
        open
    }

    /// Σ price × lots that `lots` incoming lots would meet down to `limit`, and how many lots that is.
    pub fn cost_of(&self, side: Side, limit: Option<Ticks>, lots: u64) -> (i128, u64) {
        let (mut cost, mut left) = (0_i128, lots);
        let other = side.opposite();
        for (price, there) in self.levels(other) {
            if left == 0 || limit.is_some_and(|limit| key_of(other, price) > key_of(other, limit)) {
                break;
            }
            let taken = left.min(there.0);
            cost += i128::from(price.0) * i128::from(taken);
            left -= taken;
        }
        (cost, lots - left)
    }

    /// The last price that `lots` incoming lots would reach; `None` when nobody is there.
    pub fn worst_price(&self, side: Side, lots: u64) -> Option<Ticks> {
        let (mut left, mut worst) = (lots, None);
        for (price, there) in self.levels(side.opposite()) {
            worst = Some(price);
            left = left.saturating_sub(there.0);
            if left == 0 {
                break;
            }
        }
        worst
    }

    /// Slots of an account's orders, in the order in which they were entered.
    pub fn slots_of(&self, wanted: impl Fn(&Resting) -> bool) -> Vec<(OrderId, Slot)> {
        let mut found: Vec<_> =
            self.unordered().filter(|(_, order)| wanted(order)).map(|(slot, order)| (order.id, slot)).collect();
        found.sort_unstable_by_key(|(id, _)| *id);
        found
    }

    /// The account of a resting order.
    pub fn account_of(&self, slot: Slot) -> AccountId {
        self.slab.get(slot.0).owner.account()
    }
}

/// HOT. Fills from the front of one level; leaves `level.lots` at zero when the queue is used up.
#[inline]
fn fill_from_level(level: &mut Level, slab: &mut Slab, price: Ticks, mut open: u32, sink: &mut impl SweepSink) -> u32 {
    while open > 0 && level.head != NIL {
        let at = level.head;
        let node = slab.get_mut(at);
        let lots = open.min(node.open);
        open -= lots;
        node.open -= lots;
        level.lots -= u64::from(lots);
        let (id, owner, maker_open, next) = (node.id, node.owner, node.open, node.next);
        if maker_open == 0 {
            slab.release(at);
            level.head = next;
            if next == NIL {
                level.tail = NIL;
            } else {
                slab.get_mut(next).previous = NIL;
            }
        }
        sink.fill(id, owner, price, lots, maker_open);
    }
    open
}
