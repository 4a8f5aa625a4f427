//! The order book of one instrument: two ladders of levels over one slab of orders.
//!
//! Does        keep orders by price, then by arrival; fill an incoming quantity from the best level on.
//! Holds       1. a level's `lots` is the sum of what its orders display;
//!             2. an order is on exactly one level; an emptied level is gone before anything is reported;
//!             3. a resting order displays at least one lot; what an iceberg hides comes to the tail of its level, at
//!                most `display` lots at a time, once the displayed part has traded out. It keeps its slot.
//! Leaves out  who may trade, funds, phases, ids: see `market` and `engine`.
//! Costs       rest, remove, fill: constant per order; an iceberg's fill: constant per displayed part. Orders without
//!             a reserve and books without origins pay one test of a word that is at hand anyway.
//! Start at    [`Book::sweep`].

mod ask;
mod cold;
mod expect;
mod ladder;
mod shared;
mod slab;
mod sweep;
#[cfg(test)]
mod tests;
mod uncross;

pub use ask::FillEstimate;
pub use cold::OrderOrigin;
use cold::{IcebergReserve, OrderDetails};
use ladder::{Ladder, PriceLevel};
use pitwire_model::{AccountId, OrderId, Side, Ticks};
use slab::{NIL, OrderNode, Slab};
pub use slab::{Owner, Slot};
pub use sweep::{Maker, MakerAction, SweepSink};
pub(crate) use uncross::QueuedOrder;

/// An order on the book, or to be put there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestingOrder {
    pub id: OrderId,
    pub price: Ticks,
    /// Lots displayed and open; at least one.
    pub open: u32,
    /// Total lots, what has traded and what is hidden included.
    pub ordered: u32,
    pub owner: Owner,
    /// Lots held back; zero but for icebergs.
    pub hidden: u32,
    /// The most an iceberg shows at a time; zero for every other order.
    pub display: u32,
}

impl RestingOrder {
    /// What may still trade: displayed and hidden.
    #[inline]
    pub fn total_open(&self) -> u32 {
        self.open + self.hidden
    }
}

/// `E` is what is kept of each order's origin: nothing for a bare book, [`Origin`] for a venue.
#[derive(Debug)]
#[repr(C)]
pub struct Book<E = ()> {
    /// Bids, then asks: found by index, since which side comes next is anybody's guess and a branch would be wrong as
    /// often as not.
    ladders: [Ladder; 2],
    slab: Slab,
    cold: OrderDetails<E>,
}

/// Whoever makes room for so many orders is going to need wide windows too.
const BUSY: usize = 1_024;

/// All ones for bids, whose keys are the complements of their prices; all zeros for asks.
#[inline]
const fn flip(side: Side) -> u32 {
    (side as u32 & 1).wrapping_sub(1)
}

/// Prices are checked at the door: `1..=Ticks::MAX_PRICE`.
#[inline]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn key_of(side: Side, price: Ticks) -> u32 {
    price.0 as u32 ^ flip(side)
}

#[inline]
pub(crate) fn price_of(side: Side, key: u32) -> Ticks {
    Ticks(i64::from(key ^ flip(side)))
}

impl<E: Copy + Default> Default for Book<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Copy + Default> Book<E> {
    pub fn new() -> Self {
        Book { ladders: [Ladder::new(), Ladder::new()], slab: Slab::new(), cold: OrderDetails::new() }
    }

    /// Makes room for so many resting orders ahead of time.
    pub fn reserve(&mut self, orders: usize) {
        self.slab.reserve(orders);
        self.cold.reserve(orders.saturating_add(1));
        if orders >= BUSY {
            self.ladders.iter_mut().for_each(Ladder::widen_whole);
        }
    }

    #[inline]
    fn ladder(&self, side: Side) -> &Ladder {
        &self.ladders[side as usize & 1]
    }

    #[inline]
    fn ladder_mut(&mut self, side: Side) -> &mut Ladder {
        &mut self.ladders[side as usize & 1]
    }

    pub fn resting_orders(&self) -> u32 {
        self.slab.len()
    }

    #[inline]
    pub fn best_price(&self, side: Side) -> Option<Ticks> {
        self.ladder(side).best().map(|key| price_of(side, key))
    }

    pub fn get(&self, slot: Slot) -> RestingOrder {
        self.resting(slot.0, self.slab.get(slot.0))
    }

    #[inline]
    fn resting(&self, at: u32, node: &OrderNode) -> RestingOrder {
        let price = price_of(node.owner.side(), node.key);
        let IcebergReserve { hidden, display } =
            if node.owner.is_iceberg() { self.cold.reserve_of(at) } else { IcebergReserve::default() };
        RestingOrder { id: node.id, price, open: node.open, ordered: node.ordered, owner: node.owner, hidden, display }
    }

    /// HOT. Puts an order last in the queue of its price; returns its slot and the level's new quantity.
    #[inline(always)]
    pub fn rest(&mut self, order: RestingOrder, origin: E) -> (Slot, u64) {
        let side = order.owner.side();
        let key = key_of(side, order.price);
        // Most orders come to rest behind others, near the touch.
        let Some(level) = self.ladders[side as usize & 1].standing_mut(key) else {
            let at = lay(&mut self.slab, &mut self.cold, order, origin);
            return self.rest_apart(side, key, at, order.open);
        };
        level.lots += u64::from(order.open);
        let at = lay_behind(&mut self.slab, &mut self.cold, order, origin, level.tail);
        level.tail = at;
        (Slot(at), level.lots)
    }

    /// The same for the first order of a level, or far off, or in a quiet book.
    #[inline(never)]
    fn rest_apart(&mut self, side: Side, key: u32, at: u32, open: u32) -> (Slot, u64) {
        let level = self.ladders[side as usize & 1].level_mut(key);
        level.lots += u64::from(open);
        self.slab.append(level, at);
        (Slot(at), level.lots)
    }

    /// HOT. Takes an order off the book, what it hides included; returns it and what remains on its level.
    #[inline(always)]
    pub fn remove(&mut self, slot: Slot) -> (RestingOrder, u64) {
        let node = *self.slab.get(slot.0);
        let ladder = &mut self.ladders[node.owner.side() as usize & 1];
        let level: &mut PriceLevel = ladder.existing_mut(node.key);
        level.lots -= u64::from(node.open);
        self.slab.remove(level, slot.0, &node);
        let lots = level.lots;
        if level.is_empty() {
            ladder.retire(node.key);
        }
        (self.resting(slot.0, &node), lots)
    }

    /// Shrinks an order in its place to `open` lots in all; returns what is now displayed on its level. What is hidden
    /// goes first, then what is displayed. `open` is above zero and not above what it had.
    pub fn reduce(&mut self, slot: Slot, open: u32, ordered: u32) -> u64 {
        let node = self.slab.get_mut(slot.0);
        let mut displayed = open;
        if node.owner.is_iceberg() {
            let reserve = self.cold.reserve_mut(slot.0);
            displayed = open.min(node.open);
            reserve.hidden = open - displayed;
        }
        let (less, side, key) = (node.open - displayed, node.owner.side(), node.key);
        node.open = displayed;
        node.ordered = ordered;
        let level = self.ladder_mut(side).existing_mut(key);
        level.lots -= u64::from(less);
        level.lots
    }

    /// The account of a resting order.
    #[inline]
    pub fn account_of(&self, slot: Slot) -> AccountId {
        self.slab.get(slot.0).owner.account()
    }

    /// Where a resting order came from.
    #[inline]
    pub fn origin(&self, slot: Slot) -> E {
        self.cold.origin(slot.0)
    }

    pub fn set_origin(&mut self, slot: Slot, origin: E) {
        self.cold.set_origin(slot.0, origin);
    }
}

/// HOT. A node for an order, on no queue yet.
#[inline(always)]
fn lay<E: Copy + Default>(slab: &mut Slab, cold: &mut OrderDetails<E>, order: RestingOrder, origin: E) -> u32 {
    lay_behind(slab, cold, order, origin, NIL)
}

/// HOT. A node for an order that comes to rest behind another, and so last in a queue, or behind nobody.
#[inline(always)]
fn lay_behind<E: Copy + Default>(
    slab: &mut Slab,
    cold: &mut OrderDetails<E>,
    order: RestingOrder,
    origin: E,
    previous: u32,
) -> u32 {
    debug_assert!(order.open > 0, "a resting order shows at least one lot");
    debug_assert!(order.hidden == 0 || order.display > 0, "what hides must come out some lots at a time");
    let iceberg = order.display > 0;
    let at = slab.insert(OrderNode {
        id: order.id,
        open: order.open,
        key: key_of(order.owner.side(), order.price),
        previous,
        next: NIL,
        owner: order.owner.with_iceberg(iceberg),
        ordered: order.ordered,
    });
    cold.set_origin(at, origin);
    if iceberg {
        *cold.reserve_mut(at) = IcebergReserve { hidden: order.hidden, display: order.display };
    }
    at
}

impl Book<OrderOrigin> {
    /// Puts an order into the queue of its price by its time: before all that are later. Costs those.
    pub fn rest_by_time(&mut self, order: RestingOrder, origin: OrderOrigin) -> (Slot, u64) {
        let at = lay(&mut self.slab, &mut self.cold, order, origin);
        let side = order.owner.side();
        let level = self.ladders[side as usize & 1].level_mut(key_of(side, order.price));
        level.lots += u64::from(order.open);
        let (mut later, mut before) = (NIL, level.tail);
        while before != NIL && self.cold.origin(before).time > origin.time {
            (later, before) = (before, self.slab.get(before).previous);
        }
        if later == NIL {
            self.slab.append(level, at);
        } else {
            self.slab.insert_before(level, at, later);
        }
        (Slot(at), level.lots)
    }
}
