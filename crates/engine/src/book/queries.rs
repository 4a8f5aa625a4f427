//! Questions to a book. Nothing here changes it.

use pitwire_model::{Lots, OrderId, Side, Ticks};

use super::level::NIL;
use super::resting::{Book, RestingOrder, key_of, price_of};
use super::slab::Slot;
use super::sweep::MakerAction;

/// Most orders that a question about a queue position visits on either side of the order.
pub(crate) const MAX_QUEUE_STEPS: usize = 1_000;

/// Estimate of the trades of an incoming order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FillEstimate {
    pub lots: u64,
    /// Σ price × lots.
    pub tick_lots: i128,
    /// The worst price at which it would trade.
    pub worst: Option<Ticks>,
}

impl FillEstimate {
    /// Adds `available` lots at `price`, but no more than `wanted` lots in all.
    pub(crate) fn add(&mut self, price: Ticks, available: u64, wanted: u64) {
        let taken = available.min(wanted - self.lots);
        if taken > 0 {
            self.lots += taken;
            self.tick_lots += i128::from(price.0) * i128::from(taken);
            self.worst = Some(price);
        }
    }
}

impl<E: Copy + Default> Book<E> {
    /// Returns the displayed lots at one price.
    pub fn lots_at(&self, side: Side, price: Ticks) -> Lots {
        Lots(self.ladder(side).level(key_of(side, price)).map_or(0, |level| level.lots))
    }

    /// Levels of one side, best first.
    pub fn levels(&self, side: Side) -> impl Iterator<Item = (Ticks, Lots)> {
        self.ladder(side).iter().map(move |(key, level)| (price_of(side, key), Lots(level.lots)))
    }

    /// Orders of one side in priority order.
    pub fn orders(&self, side: Side) -> impl Iterator<Item = RestingOrder> {
        self.slots(side).map(|slot| self.get(slot))
    }

    /// Orders of one price in priority order.
    pub fn orders_at(&self, side: Side, price: Ticks) -> impl Iterator<Item = RestingOrder> {
        self.slots_at(side, price).map(|slot| self.get(slot))
    }

    /// Slots of one side in priority order.
    pub fn slots(&self, side: Side) -> impl Iterator<Item = Slot> {
        self.ladder(side).iter().flat_map(|(_, level)| self.queue(level.head))
    }

    /// Orders of a level from `head` on, in queue order.
    pub(super) fn queue(&self, head: u32) -> impl Iterator<Item = Slot> {
        // `successors` looks one step ahead, so the chain ends before NIL is looked up.
        std::iter::successors(Some(head), |at| Some(self.slab.get(*at).next).filter(|next| *next != NIL)).map(Slot)
    }

    /// Every order, in no defined order: sort the result before it becomes visible.
    pub fn unordered(&self) -> impl Iterator<Item = (Slot, RestingOrder)> {
        self.slab.iter().map(|(at, node)| (Slot(at), self.resting(at, node)))
    }

    /// Ids and slots of the orders that `wanted` selects, by order id. Costs the whole book.
    pub fn slots_of(&self, wanted: impl Fn(&RestingOrder, &E) -> bool) -> Vec<(OrderId, Slot)> {
        let mut found: Vec<_> = self
            .unordered()
            .filter(|(slot, order)| wanted(order, &self.origin(*slot)))
            .map(|(slot, order)| (order.id, slot))
            .collect();
        found.sort_unstable_by_key(|(id, _)| *id);
        found
    }

    /// Returns the displayed lots that trade before this order on its level. `None` if more than
    /// [`MAX_QUEUE_STEPS`] orders stand before it, and as many behind it. Costs the smaller number.
    pub fn queue_ahead(&self, slot: Slot) -> Option<u64> {
        let node = self.slab.get(slot.0);
        let (mut before, mut behind) = (node.previous, node.next);
        let (mut ahead, mut later) = (0, u64::from(node.open));
        for _ in 0..=MAX_QUEUE_STEPS {
            if before == NIL {
                return Some(ahead);
            }
            if behind == NIL {
                let level = self.ladder(node.owner.side()).level(node.key);
                return Some(level.map_or(0, |level| level.lots.saturating_sub(later)));
            }
            let (earlier, newer) = (self.slab.get(before), self.slab.get(behind));
            ahead += u64::from(earlier.open);
            later += u64::from(newer.open);
            (before, behind) = (earlier.previous, newer.next);
        }
        None
    }

    /// Estimates what an incoming order on `side` would trade up to `limit` and up to `lots`,
    /// undisplayed parts of icebergs included. `maker_action` answers for each resting order as the
    /// sink of a sweep would: [`MakerAction::CancelMaker`] skips the order, [`MakerAction::Stop`]
    /// and [`MakerAction::CancelBoth`] end the estimate. Costs the orders that are counted.
    pub fn estimate_fill(
        &self,
        side: Side,
        limit: Option<Ticks>,
        lots: u64,
        maker_action: impl Fn(&RestingOrder, &E) -> MakerAction,
    ) -> FillEstimate {
        let other = side.opposite();
        let last_key = limit.map_or(u32::MAX, |limit| key_of(other, limit));
        let mut estimate = FillEstimate::default();
        for (key, level) in self.ladder(other).iter().take_while(|(key, _)| *key <= last_key) {
            // Undisplayed lots trade after all displayed ones, so an order that stops the sweep
            // also protects them.
            let (mut undisplayed, price) = (0, price_of(other, key));
            for slot in self.queue(level.head) {
                let order = self.get(slot);
                match maker_action(&order, &self.origin(slot)) {
                    MakerAction::Trade => {
                        undisplayed += u64::from(order.hidden);
                        estimate.add(price, u64::from(order.open), lots);
                    }
                    MakerAction::CancelMaker => {}
                    MakerAction::CancelBoth | MakerAction::Stop => return estimate,
                }
                if estimate.lots == lots {
                    return estimate;
                }
            }
            estimate.add(price, undisplayed, lots);
            if estimate.lots == lots {
                break;
            }
        }
        estimate
    }

    /// Estimates the same from displayed lots alone, without self-match prevention. Costs the
    /// levels that are counted.
    pub fn estimate_displayed_fill(&self, side: Side, limit: Option<Ticks>, lots: u64) -> FillEstimate {
        let other = side.opposite();
        let last_key = limit.map_or(u32::MAX, |limit| key_of(other, limit));
        let mut estimate = FillEstimate::default();
        for (key, level) in self.ladder(other).iter().take_while(|(key, _)| *key <= last_key) {
            estimate.add(price_of(other, key), level.lots, lots);
            if estimate.lots == lots {
                break;
            }
        }
        estimate
    }
}
