//! Questions to a book: nothing here changes it, nothing here is on the path of an order.

use super::{Book, Meeting, NIL, Resting, Slot, key_of, price_of};
use pitwire_model::{Lots, OrderId, Side, Ticks};

impl<E: Copy + Default> Book<E> {
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
        self.slots(side).map(|slot| self.get(slot))
    }

    /// Slots of one side in priority order.
    pub fn slots(&self, side: Side) -> impl Iterator<Item = Slot> {
        self.ladder(side).iter().flat_map(|(_, level)| self.queue(level.head))
    }

    /// A level's orders from `head` on, first in the queue first.
    fn queue(&self, head: u32) -> impl Iterator<Item = Slot> {
        // The chain ends before NIL is looked up: `successors` asks one step ahead.
        std::iter::successors(Some(head), |at| Some(self.slab.get(*at).next).filter(|next| *next != NIL)).map(Slot)
    }

    /// All orders in no order at all: sort before letting anything out.
    pub fn unordered(&self) -> impl Iterator<Item = (Slot, Resting)> {
        self.slab.iter().map(|(at, node)| (Slot(at), self.resting(at, node)))
    }

    /// Slots of the orders wanted, by order and origin, in the order in which they were entered. Costs the whole book.
    pub fn slots_of(&self, wanted: impl Fn(&Resting, &E) -> bool) -> Vec<(OrderId, Slot)> {
        let mut found: Vec<_> = self
            .unordered()
            .filter(|(slot, order)| wanted(order, &self.origin(*slot)))
            .map(|(slot, order)| (order.id, slot))
            .collect();
        found.sort_unstable_by_key(|(id, _)| *id);
        found
    }

    /// Visible quantity that trades before this order does, on its own level. Costs the orders ahead of it there.
    pub fn queue_ahead(&self, slot: Slot) -> u64 {
        let mut at = self.slab.get(slot.0).previous;
        let mut ahead = 0;
        while at != NIL {
            let node = self.slab.get(at);
            ahead += u64::from(node.open);
            at = node.previous;
        }
        ahead
    }

    /// What an incoming order on `side` could take down to `limit`, hidden quantity included, counted no further than
    /// `lots`. `meet` answers for each resting order as the sink of a sweep would: [`Meeting::CancelMaker`] is passed
    /// over, [`Meeting::Stop`] and [`Meeting::CancelBoth`] end the count. Costs the orders that are counted.
    pub fn reachable(
        &self,
        side: Side,
        limit: Option<Ticks>,
        lots: u64,
        meet: impl Fn(&Resting, &E) -> Meeting,
    ) -> u64 {
        let other = side.opposite();
        let last_key = limit.map_or(u32::MAX, |limit| key_of(other, limit));
        let mut reached = 0;
        for (_, level) in self.ladder(other).iter().take_while(|(key, _)| *key <= last_key) {
            // Hidden quantity comes out behind everyone who displays, so an order that stops the sweep bars the way.
            let mut hidden = 0;
            for slot in self.queue(level.head) {
                let order = self.get(slot);
                match meet(&order, &self.origin(slot)) {
                    Meeting::Trade => {
                        reached += u64::from(order.open);
                        hidden += u64::from(order.hidden);
                    }
                    Meeting::CancelMaker => {}
                    Meeting::CancelBoth | Meeting::Stop => return reached.min(lots),
                }
                if reached >= lots {
                    return lots;
                }
            }
            reached += hidden;
            if reached >= lots {
                return lots;
            }
        }
        reached
    }

    /// Σ price × lots that `lots` incoming lots would meet down to `limit`, hidden quantity included, and how many lots
    /// that is.
    pub fn cost_of(&self, side: Side, limit: Option<Ticks>, lots: u64) -> (i128, u64) {
        let (mut cost, mut left) = (0_i128, lots);
        let other = side.opposite();
        for (price, there) in self.totals(other) {
            if left == 0 || limit.is_some_and(|limit| key_of(other, price) > key_of(other, limit)) {
                break;
            }
            let taken = left.min(there);
            cost += i128::from(price.0) * i128::from(taken);
            left -= taken;
        }
        (cost, lots - left)
    }

    /// The last price that `lots` incoming lots would reach; `None` when nobody is there.
    pub fn worst_price(&self, side: Side, lots: u64) -> Option<Ticks> {
        let (mut left, mut worst) = (lots, None);
        for (price, there) in self.totals(side.opposite()) {
            worst = Some(price);
            left = left.saturating_sub(there);
            if left == 0 {
                break;
            }
        }
        worst
    }

    /// What could trade at each level of one side, best first. Costs the orders of a level only where an iceberg has
    /// ever rested in this book.
    fn totals(&self, side: Side) -> impl Iterator<Item = (Ticks, u64)> {
        self.ladder(side).iter().map(move |(key, level)| {
            let hidden: u64 = if self.cold.has_reserves() {
                self.queue(level.head).map(|slot| u64::from(self.get(slot).hidden)).sum()
            } else {
                0
            };
            (price_of(side, key), level.lots + hidden)
        })
    }
}
