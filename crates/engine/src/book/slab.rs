//! Resting orders in one array, linked into queues by index instead of pointer.
//!
//! Holds       1. a slot is either on one queue or on the free list;
//!             2. slot numbers are never observable: events carry order ids.
//! Costs       insert, remove: constant; growth doubles the array.

use std::hint::select_unpredictable as select;

use pitwire_model::{AccountId, OrderId, Side};

use super::ladder::PriceLevel;
use crate::look_ahead::ask;

/// The end of a queue, or of the free list. A node that belongs to nobody lies there, so that links to and from an end
/// are written without asking whether it is one.
pub(crate) const NIL: u32 = 0;

/// Where a resting order lies. Meaningless once the order is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(pub(crate) u32);

/// Marks the slots of orders that stand beside the book.
const KEPT: u32 = 1 << 31;

impl Slot {
    pub(crate) fn kept(at: u32) -> Slot {
        Slot(at | KEPT)
    }

    /// HOT. Whether the order is in no book, but kept beside it.
    #[inline]
    pub(crate) fn is_kept(self) -> bool {
        self.0 & KEPT != 0
    }

    /// Where it is kept.
    pub(crate) fn kept_at(self) -> Option<usize> {
        self.is_kept().then_some((self.0 & !KEPT) as usize)
    }
}

/// Who owns an order, on which side, whether the day's end takes it, and whether it shows only part of itself: five
/// facts in one word, so that an order and its links stay within half a cache line.
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
        debug_assert!(account.0 <= Self::MAX_ACCOUNT, "accounts are refused beyond this at creation");
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

    /// Whether the book keeps a reserve for this order. Set by the book itself as the order comes to rest.
    #[inline]
    pub fn is_iceberg(self) -> bool {
        self.0 & ICEBERG != 0
    }

    #[inline]
    pub(crate) fn with_iceberg(self, iceberg: bool) -> Self {
        Owner((self.0 & !ICEBERG) | (u32::from(iceberg) * ICEBERG))
    }
}

/// A resting order: 32 bytes, and never across two cache lines, whatever the allocator hands out.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct OrderNode {
    pub id: OrderId,
    /// Displayed lots still open; never zero while resting.
    pub open: u32,
    /// The ladder key of its price.
    pub key: u32,
    pub previous: u32,
    pub next: u32,
    pub owner: Owner,
    /// Total lots, what has traded included.
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

    /// HOT. A node of this content; the one that it names as previous leads to it. The caller keeps `len` below
    /// 2^32 - 1 by the instrument's cap on resting orders.
    #[inline]
    pub fn insert(&mut self, node: OrderNode) -> u32 {
        self.len += 1;
        let at = if self.free == NIL { self.extend() } else { self.free };
        let nodes = self.nodes.as_mut_slice();
        let vacant = &mut nodes[at as usize];
        self.free = vacant.next;
        // Field by field: a node put together elsewhere and copied in one piece waits for its parts to be stored.
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

    /// A vacant node at the end of the array.
    #[inline(never)]
    #[allow(clippy::cast_possible_truncation)]
    fn extend(&mut self) -> u32 {
        if self.nodes.is_empty() {
            self.nodes.push(OrderNode::VACANT);
        }
        self.nodes.push(OrderNode::VACANT);
        (self.nodes.len() - 1) as u32
    }

    /// HOT.
    #[inline]
    pub fn release(&mut self, at: u32) {
        let node = &mut self.nodes[at as usize];
        node.next = self.free;
        node.open = 0;
        self.free = at;
        self.len -= 1;
    }

    /// HOT. Puts a node that is on no queue last on `level`'s; its quantity is the caller's business.
    #[inline]
    pub fn append(&mut self, level: &mut PriceLevel, at: u32) {
        let tail = std::mem::replace(&mut level.tail, at);
        let node = self.get_mut(at);
        node.previous = tail;
        node.next = NIL;
        self.get_mut(tail).next = at;
        level.head = select(tail == NIL, at, level.head);
    }

    /// Puts a node that is on no queue in before another that is on `level`'s.
    pub fn insert_before(&mut self, level: &mut PriceLevel, at: u32, next: u32) {
        let previous = self.get(next).previous;
        let node = self.get_mut(at);
        node.previous = previous;
        node.next = next;
        self.get_mut(previous).next = at;
        self.get_mut(next).previous = at;
        level.head = select(previous == NIL, at, level.head);
    }

    /// HOT. Closes the queue over `node`, of which the caller has a copy.
    #[inline]
    pub fn unlink(&mut self, level: &mut PriceLevel, node: &OrderNode) {
        let (previous, next) = (node.previous, node.next);
        self.get_mut(previous).next = next;
        self.get_mut(next).previous = previous;
        level.head = select(previous == NIL, next, level.head);
        level.tail = select(next == NIL, previous, level.tail);
    }

    /// HOT. Takes a node, of which the caller has a copy, off its queue and vacates it.
    #[inline(always)]
    pub fn remove(&mut self, level: &mut PriceLevel, at: u32, node: &OrderNode) {
        let (previous, next) = (node.previous, node.next);
        // The slice once: after each write to `level` the array would be looked up again.
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

    /// An order that is going to be touched.
    #[inline]
    pub fn expect(&self, at: u32) {
        ask(self.nodes.as_ptr().wrapping_add(at as usize));
    }

    /// An order is going to come: the node that it will have, if it is the next.
    #[inline]
    pub fn expect_vacant(&self) {
        self.expect(self.free);
    }

    /// The node at `at`, if there has ever been one: for guesses.
    #[inline]
    pub fn peek(&self, at: u32) -> Option<&OrderNode> {
        self.nodes.get(at as usize)
    }

    #[inline]
    pub fn get_mut(&mut self, at: u32) -> &mut OrderNode {
        &mut self.nodes[at as usize]
    }

    /// Every resting order with its slot, in slot order: sort before letting anything out.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &OrderNode)> {
        (0_u32..).zip(&self.nodes).skip(1).filter(|(_, node)| node.open > 0)
    }
}
