//! Resting orders in one array, linked into queues by index instead of by pointer.
//!
//! Holds       1. a slot is either on one queue or on the free list;
//!             2. slot numbers never become visible: events carry order ids.
//! Costs       insert, remove: constant; growth doubles the array.

use std::hint::select_unpredictable as select;

use pitwire_model::{AccountId, OrderId, Side};

use super::level::{NIL, PriceLevel};
use crate::prefetch::prefetch;

/// The position of a live order. Valid as long as the order is live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(pub(crate) u32);

/// Flag of the slots of undisplayed orders.
const UNDISPLAYED: u32 = 1 << 31;

impl Slot {
    pub(crate) fn undisplayed(at: u32) -> Slot {
        Slot(at | UNDISPLAYED)
    }

    /// HOT. Returns whether this is the slot of an undisplayed order.
    #[inline]
    pub(crate) fn is_undisplayed(self) -> bool {
        self.0 & UNDISPLAYED != 0
    }

    /// Returns the index of an undisplayed order; `None` for an order of the book.
    pub(crate) fn undisplayed_index(self) -> Option<usize> {
        self.is_undisplayed().then_some((self.0 & !UNDISPLAYED) as usize)
    }
}

/// Account, side, whether the order is a DAY order, and whether it is an iceberg, in one word, so
/// that an order and its links fit into half a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(u32);

const SIDE: u32 = 1;
const DAY: u32 = 1 << 1;
const ICEBERG: u32 = 1 << 2;
const ACCOUNT_SHIFT: u32 = 3;

impl Owner {
    pub const MAX_ACCOUNT: u32 = (1 << (32 - ACCOUNT_SHIFT)) - 1;

    #[inline]
    pub fn new(account: AccountId, side: Side, day: bool) -> Self {
        debug_assert!(account.0 <= Self::MAX_ACCOUNT, "accounts with higher ids are refused when they are added");
        Owner((account.0 << ACCOUNT_SHIFT) | (u32::from(day) * DAY) | side as u32)
    }

    #[inline]
    pub fn account(self) -> AccountId {
        AccountId(self.0 >> ACCOUNT_SHIFT)
    }

    #[inline]
    pub fn side(self) -> Side {
        if self.0 & SIDE == 0 { Side::Buy } else { Side::Sell }
    }

    #[inline]
    pub fn is_day(self) -> bool {
        self.0 & DAY != 0
    }

    /// Returns whether the book stores a reserve for this order. The book sets this when the order
    /// rests.
    #[inline]
    pub fn is_iceberg(self) -> bool {
        self.0 & ICEBERG != 0
    }

    #[inline]
    pub(crate) fn with_iceberg(self, iceberg: bool) -> Self {
        Owner((self.0 & !ICEBERG) | (u32::from(iceberg) * ICEBERG))
    }
}

/// A resting order. 32 bytes, aligned so that it never spans two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct OrderNode {
    pub id: OrderId,
    /// Displayed lots still open; never zero while resting.
    pub open: u32,
    /// Ladder key of its price.
    pub key: u32,
    pub previous: u32,
    pub next: u32,
    pub owner: Owner,
    /// Total lots, including executed lots.
    pub ordered: u32,
}

const _: () = assert!(size_of::<OrderNode>() == 32);

impl OrderNode {
    const VACANT: OrderNode =
        OrderNode { id: OrderId(0), open: 0, key: 0, previous: NIL, next: NIL, owner: Owner(0), ordered: 0 };
}

#[derive(Debug)]
pub(crate) struct Slab {
    nodes: Vec<OrderNode>,
    free: u32,
    len: u32,
}

impl Slab {
    pub fn new() -> Self {
        Slab { nodes: Vec::new(), free: NIL, len: 0 }
    }

    pub fn reserve(&mut self, orders: usize) {
        self.nodes.reserve(orders.saturating_add(1).saturating_sub(self.nodes.len()));
    }

    pub fn len(&self) -> u32 {
        self.len
    }

    /// HOT. Inserts a node and links its previous node to it. The instrument's limit of resting
    /// orders keeps `len` below 2^32 - 1.
    #[inline]
    pub fn insert(&mut self, node: OrderNode) -> u32 {
        self.len += 1;
        let at = if self.free == NIL { self.extend() } else { self.free };
        let nodes = self.nodes.as_mut_slice();
        let vacant = &mut nodes[at as usize];
        self.free = vacant.next;
        // Written field by field: copying a whole node would wait until all its parts have been
        // stored.
        vacant.id = node.id;
        vacant.open = node.open;
        vacant.key = node.key;
        vacant.previous = node.previous;
        vacant.next = node.next;
        vacant.owner = node.owner;
        vacant.ordered = node.ordered;
        nodes[node.previous as usize].next = at;
        at
    }

    /// Appends a vacant node to the array.
    #[inline(never)]
    #[allow(clippy::cast_possible_truncation)]
    fn extend(&mut self) -> u32 {
        if self.nodes.is_empty() {
            self.nodes.push(OrderNode::VACANT);
        }
        self.nodes.push(OrderNode::VACANT);
        (self.nodes.len() - 1) as u32
    }

    /// HOT. Puts a node on the free list.
    #[inline]
    pub fn release(&mut self, at: u32) {
        let node = &mut self.nodes[at as usize];
        node.next = self.free;
        node.open = 0;
        self.free = at;
        self.len -= 1;
    }

    /// HOT. Puts a node that is on no queue last on the queue of `level`. The caller updates the
    /// lots of the level.
    #[inline]
    pub fn append(&mut self, level: &mut PriceLevel, at: u32) {
        let tail = std::mem::replace(&mut level.tail, at);
        let node = self.get_mut(at);
        node.previous = tail;
        node.next = NIL;
        self.get_mut(tail).next = at;
        level.head = select(tail == NIL, at, level.head);
    }

    /// Puts a node that is on no queue before another node of the queue of `level`.
    pub fn insert_before(&mut self, level: &mut PriceLevel, at: u32, next: u32) {
        let previous = self.get(next).previous;
        let node = self.get_mut(at);
        node.previous = previous;
        node.next = next;
        self.get_mut(previous).next = at;
        self.get_mut(next).previous = at;
        level.head = select(previous == NIL, at, level.head);
    }

    /// HOT. Removes `node`, of which the caller has a copy, from its queue.
    #[inline]
    pub fn unlink(&mut self, level: &mut PriceLevel, node: &OrderNode) {
        let (previous, next) = (node.previous, node.next);
        self.get_mut(previous).next = next;
        self.get_mut(next).previous = previous;
        level.head = select(previous == NIL, next, level.head);
        level.tail = select(next == NIL, previous, level.tail);
    }

    /// HOT. Removes a node, of which the caller has a copy, from its queue and puts it on the free
    /// list.
    #[inline(always)]
    pub fn remove(&mut self, level: &mut PriceLevel, at: u32, node: &OrderNode) {
        let (previous, next) = (node.previous, node.next);
        // Takes the slice once: after each write to `level` the compiler would load the array
        // again.
        let nodes = self.nodes.as_mut_slice();
        nodes[previous as usize].next = next;
        nodes[next as usize].previous = previous;
        let vacated = &mut nodes[at as usize];
        vacated.next = std::mem::replace(&mut self.free, at);
        vacated.open = 0;
        self.len -= 1;
        level.head = select(previous == NIL, next, level.head);
        level.tail = select(next == NIL, previous, level.tail);
    }

    #[inline]
    pub fn get(&self, at: u32) -> &OrderNode {
        &self.nodes[at as usize]
    }

    /// Prefetches the node at `at`.
    #[inline]
    pub fn prefetch(&self, at: u32) {
        prefetch(self.nodes.as_ptr().wrapping_add(at as usize));
    }

    /// Prefetches the node that the next order will use.
    #[inline]
    pub fn prefetch_vacant(&self) {
        self.prefetch(self.free);
    }

    /// Returns the node at `at`, vacant or not; `None` beyond the end of the array.
    #[inline]
    pub fn peek(&self, at: u32) -> Option<&OrderNode> {
        self.nodes.get(at as usize)
    }

    #[inline]
    pub fn get_mut(&mut self, at: u32) -> &mut OrderNode {
        &mut self.nodes[at as usize]
    }

    /// Every resting order with its slot, in slot order: sort the result before it becomes visible.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &OrderNode)> {
        (0_u32..).zip(&self.nodes).skip(1).filter(|(_, node)| node.open > 0)
    }
}
