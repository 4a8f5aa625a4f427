//! The book itself: resting, removing and reducing orders.

use pitwire_model::{AccountId, OrderId, Side, Ticks};

use super::details::{IcebergReserve, OrderDetails, OrderOrigin};
use super::ladder::Ladder;
use super::level::{NIL, PriceLevel};
use super::slab::{OrderNode, Owner, Slab, Slot};

/// An order that rests on the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestingOrder {
    pub id: OrderId,
    pub price: Ticks,
    /// Displayed open lots; at least one.
    pub open: u32,
    /// Total lots, including executed and undisplayed lots.
    pub ordered: u32,
    pub owner: Owner,
    /// Open lots that are not displayed; zero unless the order is an iceberg.
    pub hidden: u32,
    /// Lots that an iceberg displays at a time; zero for every other order.
    pub display: u32,
}

impl RestingOrder {
    /// Returns all open lots, displayed or not.
    #[inline]
    pub fn total_open(&self) -> u32 {
        self.open + self.hidden
    }
}

/// An order book. `E` is stored for each order: nothing in a bare book, [`OrderOrigin`] in a venue.
#[derive(Debug)]
#[repr(C)]
pub struct Book<E = ()> {
    /// Bids, then asks. Indexed by side, because a branch on the side could not be predicted.
    pub(super) ladders: [Ladder; 2],
    pub(super) slab: Slab,
    pub(super) details: OrderDetails<E>,
}

/// From this reserved capacity on, the ladders get their widest windows at once.
const BUSY_ORDERS: usize = 1_024;

/// Returns the mask between prices and keys: all ones for bids, whose keys are complements of
/// prices.
#[inline]
const fn flip(side: Side) -> u32 {
    (side as u32 & 1).wrapping_sub(1)
}

/// Returns the ladder key of a price. The price must lie in `1..=Ticks::MAX_PRICE`; commands with
/// other prices are refused.
#[inline]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn key_of(side: Side, price: Ticks) -> u32 {
    price.0 as u32 ^ flip(side)
}

/// Returns the price of a ladder key.
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
        Book { ladders: [Ladder::new(), Ladder::new()], slab: Slab::new(), details: OrderDetails::new() }
    }

    /// Allocates memory for this many resting orders.
    pub fn reserve(&mut self, orders: usize) {
        self.slab.reserve(orders);
        self.details.reserve(orders.saturating_add(1));
        if orders >= BUSY_ORDERS {
            self.ladders.iter_mut().for_each(Ladder::widen_fully);
        }
    }

    #[inline]
    pub(super) fn ladder(&self, side: Side) -> &Ladder {
        &self.ladders[side as usize & 1]
    }

    #[inline]
    pub(super) fn ladder_mut(&mut self, side: Side) -> &mut Ladder {
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
    pub(super) fn resting(&self, at: u32, node: &OrderNode) -> RestingOrder {
        let price = price_of(node.owner.side(), node.key);
        let IcebergReserve { hidden, display } =
            if node.owner.is_iceberg() { self.details.reserve_of(at) } else { IcebergReserve::default() };
        RestingOrder { id: node.id, price, open: node.open, ordered: node.ordered, owner: node.owner, hidden, display }
    }

    /// HOT. Puts an order last in the queue of its price. Returns its slot and the displayed lots
    /// of the level.
    #[inline(always)]
    pub fn rest(&mut self, order: RestingOrder, origin: E) -> (Slot, u64) {
        let side = order.owner.side();
        let key = key_of(side, order.price);
        // Most orders join a queue near the touch.
        let Some(level) = self.ladders[side as usize & 1].occupied_in_window_mut(key) else {
            let at = insert_node(&mut self.slab, &mut self.details, order, origin);
            return self.rest_on_new_level(side, key, at, order.open);
        };
        level.lots += u64::from(order.open);
        let at = insert_node_after(&mut self.slab, &mut self.details, order, origin, level.tail);
        level.tail = at;
        (Slot(at), level.lots)
    }

    /// Puts an order on a level that is empty, outside the window, or in a quiet book.
    #[inline(never)]
    fn rest_on_new_level(&mut self, side: Side, key: u32, at: u32, open: u32) -> (Slot, u64) {
        let level = self.ladders[side as usize & 1].level_mut(key);
        level.lots += u64::from(open);
        self.slab.append(level, at);
        (Slot(at), level.lots)
    }

    /// HOT. Removes an order with all its lots. Returns the order and the displayed lots that
    /// remain on its level.
    #[inline(always)]
    pub fn remove(&mut self, slot: Slot) -> (RestingOrder, u64) {
        let node = *self.slab.get(slot.0);
        let ladder = &mut self.ladders[node.owner.side() as usize & 1];
        let level: &mut PriceLevel = ladder.existing_mut(node.key);
        level.lots -= u64::from(node.open);
        self.slab.remove(level, slot.0, &node);
        let lots = level.lots;
        if level.is_empty() {
            ladder.remove_level(node.key);
        }
        (self.resting(slot.0, &node), lots)
    }

    /// Reduces an order to `open` lots in its place. Undisplayed lots are removed first. Returns
    /// the displayed lots of the level. `open` must be above zero and at most the open lots of the
    /// order.
    pub fn reduce(&mut self, slot: Slot, open: u32, ordered: u32) -> u64 {
        let node = self.slab.get_mut(slot.0);
        let mut displayed = open;
        if node.owner.is_iceberg() {
            let reserve = self.details.reserve_mut(slot.0);
            displayed = open.min(node.open);
            reserve.hidden = open - displayed;
        }
        let (removed, side, key) = (node.open - displayed, node.owner.side(), node.key);
        node.open = displayed;
        node.ordered = ordered;
        let level = self.ladder_mut(side).existing_mut(key);
        level.lots -= u64::from(removed);
        level.lots
    }

    /// Returns the account of a resting order.
    #[inline]
    pub fn account_of(&self, slot: Slot) -> AccountId {
        self.slab.get(slot.0).owner.account()
    }

    /// Returns the origin of a resting order.
    #[inline]
    pub fn origin(&self, slot: Slot) -> E {
        self.details.origin(slot.0)
    }

    pub fn set_origin(&mut self, slot: Slot, origin: E) {
        self.details.set_origin(slot.0, origin);
    }
}

/// HOT. Inserts a node for an order that is on no queue yet.
#[inline(always)]
fn insert_node<E: Copy + Default>(
    slab: &mut Slab,
    details: &mut OrderDetails<E>,
    order: RestingOrder,
    origin: E,
) -> u32 {
    insert_node_after(slab, details, order, origin, NIL)
}

/// HOT. Inserts a node for an order behind the last order of a queue; [`NIL`] means an empty queue.
#[inline(always)]
fn insert_node_after<E: Copy + Default>(
    slab: &mut Slab,
    details: &mut OrderDetails<E>,
    order: RestingOrder,
    origin: E,
    previous: u32,
) -> u32 {
    debug_assert!(order.open > 0, "a resting order displays at least one lot");
    debug_assert!(order.hidden == 0 || order.display > 0, "undisplayed lots need a display size");
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
    details.set_origin(at, origin);
    if iceberg {
        *details.reserve_mut(at) = IcebergReserve { hidden: order.hidden, display: order.display };
    }
    at
}

impl Book<OrderOrigin> {
    /// Puts an order into the queue of its price by its time. Costs the orders with a later time.
    pub fn rest_by_time(&mut self, order: RestingOrder, origin: OrderOrigin) -> (Slot, u64) {
        let at = insert_node(&mut self.slab, &mut self.details, order, origin);
        let side = order.owner.side();
        let level = self.ladders[side as usize & 1].level_mut(key_of(side, order.price));
        level.lots += u64::from(order.open);
        let (mut later, mut before) = (NIL, level.tail);
        while before != NIL && self.details.origin(before).time > origin.time {
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
