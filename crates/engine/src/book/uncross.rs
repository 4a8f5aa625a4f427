//! Fills of orders anywhere in their queue, with their undisplayed lots: for uncrosses, crosses and
//! shared levels.
//!
//! Holds       an iceberg that has traded at least its displayed part displays the next part.
//! Costs       constant per order. No order of a plain market reaches this code.

use pitwire_model::{AccountId, OrderId, Side, Ticks};

use super::details::{IcebergReserve, OrderOrigin};
use super::level::NIL;
use super::resting::{Book, key_of, price_of};
use super::slab::Slot;

/// An order after a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FillResult {
    /// All open lots; zero if the order was removed.
    pub left: u32,
    /// Newly displayed lots; zero if the displayed part was not used up.
    pub refreshed: u32,
    /// Displayed lots of its level.
    pub level: u64,
}

/// A resting order with what an uncross needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuedOrder {
    pub id: OrderId,
    pub time: u64,
    pub slot: Slot,
    pub account: AccountId,
    /// All open lots, displayed or not.
    pub open: u32,
}

/// Number of queues that are read at the same time. Each order must be loaded before the next one
/// of its queue is known, but the queues of other prices do not wait for it.
const LANES: usize = 8;

impl Book<OrderOrigin> {
    pub(crate) fn is_reduce_only(&self, slot: Slot) -> bool {
        self.origin(slot).flags.reduce_only()
    }

    /// Calls `visit` for each price of one side, best first, with its orders by time. Stops when
    /// `visit` returns false.
    pub(crate) fn visit_levels(&self, side: Side, mut visit: impl FnMut(Ticks, &[QueuedOrder]) -> bool) {
        let mut queues: [Vec<QueuedOrder>; LANES] = Default::default();
        let mut levels = self.ladder(side).iter().map(|(key, level)| (price_of(side, key), level.head));
        // Most calls stop at the first price.
        let mut count = 1;
        loop {
            let lanes: Vec<(Ticks, u32)> = levels.by_ref().take(count).collect();
            if lanes.is_empty() {
                return;
            }
            self.read_queues(lanes.iter().map(|(_, head)| *head), &mut queues);
            for ((price, _), queue) in lanes.iter().zip(&queues) {
                if !visit(*price, queue) {
                    return;
                }
            }
            count = (count * 2).min(LANES);
        }
    }

    /// Reads the queues that begin at `heads`, one order of each in turn.
    fn read_queues(&self, heads: impl Iterator<Item = u32>, queues: &mut [Vec<QueuedOrder>; LANES]) {
        let mut next = [NIL; LANES];
        for (lane, (head, queue)) in next.iter_mut().zip(heads.zip(queues.iter_mut())) {
            *lane = head;
            queue.clear();
        }
        while next != [NIL; LANES] {
            for (at, queue) in next.iter_mut().zip(queues.iter_mut()).filter(|(at, _)| **at != NIL) {
                let (slot, node) = (Slot(*at), self.slab.get(*at));
                let (time, open) = (self.details.origin(*at).time, self.total_open(slot));
                queue.push(QueuedOrder { id: node.id, time, slot, account: node.owner.account(), open });
                *at = node.next;
            }
        }
    }
}

impl<E: Copy + Default> Book<E> {
    /// The prices of one side, best first, each with its slots by time.
    pub(crate) fn queues(&self, side: Side) -> impl Iterator<Item = (Ticks, impl Iterator<Item = Slot>)> {
        self.ladder(side).iter().map(move |(key, level)| (price_of(side, key), self.queue(level.head)))
    }

    /// Slots of one price, by time.
    pub(crate) fn slots_at(&self, side: Side, price: Ticks) -> impl Iterator<Item = Slot> {
        let level = self.ladder(side).level(key_of(side, price));
        level.into_iter().flat_map(|level| self.queue(level.head))
    }

    /// Returns all open lots of an order, displayed or not.
    #[inline]
    pub(crate) fn total_open(&self, slot: Slot) -> u32 {
        let node = self.slab.get(slot.0);
        if node.owner.is_iceberg() { node.open + self.details.reserve_of(slot.0).hidden } else { node.open }
    }

    /// Prices of one side with all open lots there, best first. Costs the orders there.
    pub(crate) fn total_levels(&self, side: Side) -> impl Iterator<Item = (Ticks, u64)> {
        self.total_levels_of(side, |_| true)
    }

    /// Returns the open quantity by price of the orders that `counts` selects, displayed or not.
    pub(crate) fn total_levels_of(
        &self,
        side: Side,
        counts: impl Fn(Slot) -> bool,
    ) -> impl Iterator<Item = (Ticks, u64)> {
        self.queues(side).map(move |(price, queue)| {
            let counted = queue.filter(|slot| counts(*slot));
            (price, counted.map(|slot| u64::from(self.total_open(slot))).sum())
        })
    }

    /// Deducts executed lots, at most all open lots. An iceberg whose displayed part is used up
    /// moves to the tail.
    pub(crate) fn deduct(&mut self, slot: Slot, lots: u32) -> FillResult {
        let node = *self.slab.get(slot.0);
        let IcebergReserve { hidden, display } = self.reserve_at(slot);
        let left = (node.open + hidden).saturating_sub(lots);
        if left == 0 {
            return FillResult { left, refreshed: 0, level: self.remove(slot).1 };
        }
        if lots < node.open {
            let level = self.set_displayed(slot, node.open - lots, hidden);
            return FillResult { left, refreshed: 0, level };
        }
        let shown = display.min(left);
        let level = self.set_displayed(slot, shown, left - shown);
        let at = &mut self.ladders[node.owner.side() as usize & 1];
        let queue = at.existing_mut(node.key);
        self.slab.unlink(queue, &node);
        self.slab.append(queue, slot.0);
        FillResult { left, refreshed: shown, level }
    }

    /// Deducts executed lots from an order that keeps its place and then displays as many lots as
    /// it may.
    pub(crate) fn deduct_in_place(&mut self, slot: Slot, lots: u32) -> FillResult {
        let before = self.slab.get(slot.0).open;
        let IcebergReserve { hidden, display } = self.reserve_at(slot);
        let left = (before + hidden).saturating_sub(lots);
        if left == 0 {
            return FillResult { left, refreshed: 0, level: self.remove(slot).1 };
        }
        let shown = if display > 0 { display.min(left) } else { left };
        let level = self.set_displayed(slot, shown, left - shown);
        let refreshed = if shown > before.saturating_sub(lots) { shown } else { 0 };
        FillResult { left, refreshed, level }
    }

    fn reserve_at(&self, slot: Slot) -> IcebergReserve {
        if self.slab.get(slot.0).owner.is_iceberg() {
            self.details.reserve_of(slot.0)
        } else {
            IcebergReserve::default()
        }
    }

    /// Sets the displayed and undisplayed lots of an order. Returns the displayed lots of its
    /// level.
    fn set_displayed(&mut self, slot: Slot, shown: u32, hidden: u32) -> u64 {
        let node = self.slab.get_mut(slot.0);
        let (before, side, key) = (node.open, node.owner.side(), node.key);
        node.open = shown;
        if node.owner.is_iceberg() {
            self.details.reserve_mut(slot.0).hidden = hidden;
        }
        let level = self.ladder_mut(side).existing_mut(key);
        level.lots = level.lots - u64::from(before) + u64::from(shown);
        level.lots
    }
}
