//! Orders anywhere in their queue trade with their whole quantity: what uncrosses, crosses and shared levels need.
//!
//! Holds       1. an iceberg that has traded what it showed, or more, shows its next part;
//!             2. nothing here is on the path of an order in a plain market.
//! Costs       constant per order.

use pitwire_model::{AccountId, OrderId, Side, Ticks};

use super::{Book, IcebergReserve, NIL, OrderOrigin, Slot, key_of, price_of};

/// What an order has after it has traded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FillResult {
    /// Shown and hidden together; zero: it is gone.
    pub left: u32,
    /// What it shows anew; zero: what it showed was not used up.
    pub refreshed: u32,
    /// What its level displays now.
    pub level: u64,
}

/// A resting order as an uncross sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuedOrder {
    pub id: OrderId,
    pub time: u64,
    pub slot: Slot,
    pub account: AccountId,
    /// What it has open, shown and hidden together.
    pub whole: u32,
}

/// So many queues are walked at once: an order says where the next one lies, but those of other prices need not be waited
/// for.
const LANES: usize = 8;

impl Book<OrderOrigin> {
    /// Shows the prices of one side, best first, each with its orders by time, until it is told to stop.
    pub(crate) fn go_through(&self, side: Side, mut goes_on: impl FnMut(Ticks, &[QueuedOrder]) -> bool) {
        let mut queues: [Vec<QueuedOrder>; LANES] = Default::default();
        let mut levels = self.ladder(side).iter().map(|(key, level)| (price_of(side, key), level.head));
        // Most go no further than the first price.
        let mut abreast = 1;
        loop {
            let lanes: Vec<(Ticks, u32)> = levels.by_ref().take(abreast).collect();
            if lanes.is_empty() {
                return;
            }
            self.walk_abreast(lanes.iter().map(|(_, head)| *head), &mut queues);
            for ((price, _), queue) in lanes.iter().zip(&queues) {
                if !goes_on(*price, queue) {
                    return;
                }
            }
            abreast = (abreast * 2).min(LANES);
        }
    }

    /// The queues that begin at `heads`, an order of each in turn.
    fn walk_abreast(&self, heads: impl Iterator<Item = u32>, queues: &mut [Vec<QueuedOrder>; LANES]) {
        let mut next = [NIL; LANES];
        for (lane, (head, queue)) in next.iter_mut().zip(heads.zip(queues.iter_mut())) {
            *lane = head;
            queue.clear();
        }
        while next != [NIL; LANES] {
            for (at, queue) in next.iter_mut().zip(queues.iter_mut()).filter(|(at, _)| **at != NIL) {
                let (slot, node) = (Slot(*at), self.slab.get(*at));
                let (time, whole) = (self.cold.origin(*at).time, self.whole(slot));
                queue.push(QueuedOrder { id: node.id, time, slot, account: node.owner.account(), whole });
                *at = node.next;
            }
        }
    }
}

impl<E: Copy + Default> Book<E> {
    /// The prices of one side, best first, each with its orders by time.
    pub(crate) fn queues(&self, side: Side) -> impl Iterator<Item = (Ticks, impl Iterator<Item = Slot>)> {
        self.ladder(side).iter().map(move |(key, level)| (price_of(side, key), self.queue(level.head)))
    }

    /// The orders of one price, by time.
    pub(crate) fn slots_at(&self, side: Side, price: Ticks) -> impl Iterator<Item = Slot> {
        let level = self.ladder(side).level(key_of(side, price));
        level.into_iter().flat_map(|level| self.queue(level.head))
    }

    /// What an order may still trade, shown and hidden together.
    #[inline]
    pub(crate) fn whole(&self, slot: Slot) -> u32 {
        let node = self.slab.get(slot.0);
        if node.owner.is_iceberg() { node.open + self.cold.reserve_of(slot.0).hidden } else { node.open }
    }

    /// The same of whole prices, best first. Costs the orders there.
    pub(crate) fn whole_levels(&self, side: Side) -> impl Iterator<Item = (Ticks, u64)> {
        self.queues(side).map(|(price, queue)| (price, queue.map(|slot| u64::from(self.whole(slot))).sum()))
    }

    /// An order has traded `lots`, at most all it has. An iceberg whose shown part is used up goes to the tail.
    pub(crate) fn deduct(&mut self, slot: Slot, lots: u32) -> FillResult {
        let node = *self.slab.get(slot.0);
        let IcebergReserve { hidden, display } = self.reserve_at(slot);
        let left = (node.open + hidden).saturating_sub(lots);
        if left == 0 {
            return FillResult { left, refreshed: 0, level: self.remove(slot).1 };
        }
        if lots < node.open {
            let level = self.show(slot, node.open - lots, hidden);
            return FillResult { left, refreshed: 0, level };
        }
        let shown = display.min(left);
        let level = self.show(slot, shown, left - shown);
        let at = &mut self.ladders[node.owner.side() as usize & 1];
        let queue = at.existing_mut(node.key);
        self.slab.unlink(queue, &node);
        self.slab.append(queue, slot.0);
        FillResult { left, refreshed: shown, level }
    }

    /// The same without losing its place, and with as much on show afterwards as there may be.
    pub(crate) fn deduct_in_place(&mut self, slot: Slot, lots: u32) -> FillResult {
        let before = self.slab.get(slot.0).open;
        let IcebergReserve { hidden, display } = self.reserve_at(slot);
        let left = (before + hidden).saturating_sub(lots);
        if left == 0 {
            return FillResult { left, refreshed: 0, level: self.remove(slot).1 };
        }
        let shown = if display > 0 { display.min(left) } else { left };
        let level = self.show(slot, shown, left - shown);
        let refreshed = if shown > before.saturating_sub(lots) { shown } else { 0 };
        FillResult { left, refreshed, level }
    }

    fn reserve_at(&self, slot: Slot) -> IcebergReserve {
        if self.slab.get(slot.0).owner.is_iceberg() { self.cold.reserve_of(slot.0) } else { IcebergReserve::default() }
    }

    /// Sets what an order shows and hides; returns what its level displays.
    fn show(&mut self, slot: Slot, shown: u32, hidden: u32) -> u64 {
        let node = self.slab.get_mut(slot.0);
        let (before, side, key) = (node.open, node.owner.side(), node.key);
        node.open = shown;
        if node.owner.is_iceberg() {
            self.cold.reserve_mut(slot.0).hidden = hidden;
        }
        let level = self.ladder_mut(side).existing_mut(key);
        level.lots = level.lots - u64::from(before) + u64::from(shown);
        level.lots
    }
}
