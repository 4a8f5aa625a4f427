//! Questions to a book: nothing here changes it, nothing here is on the path of an order.

use super::{Book, MakerAction, NIL, RestingOrder, Slot, key_of, price_of};
use pitwire_model::{Lots, OrderId, Side, Ticks};

/// What an incoming order would trade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FillEstimate {
    pub lots: u64,
    /// Σ price × lots.
    pub tick_lots: i128,
    /// The last price it would trade at.
    pub worst: Option<Ticks>,
}

impl FillEstimate {
    /// Counts `there` lots at `price`, as far as `wanted` lots in all go.
    pub(crate) fn take(&mut self, price: Ticks, there: u64, wanted: u64) {
        let taken = there.min(wanted - self.lots);
        if taken > 0 {
            self.lots += taken;
            self.tick_lots += i128::from(price.0) * i128::from(taken);
            self.worst = Some(price);
        }
    }
}

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
    pub fn orders(&self, side: Side) -> impl Iterator<Item = RestingOrder> {
        self.slots(side).map(|slot| self.get(slot))
    }

    /// Slots of one side in priority order.
    pub fn slots(&self, side: Side) -> impl Iterator<Item = Slot> {
        self.ladder(side).iter().flat_map(|(_, level)| self.queue(level.head))
    }

    /// A level's orders from `head` on, first in the queue first.
    pub(super) fn queue(&self, head: u32) -> impl Iterator<Item = Slot> {
        // The chain ends before NIL is looked up: `successors` asks one step ahead.
        std::iter::successors(Some(head), |at| Some(self.slab.get(*at).next).filter(|next| *next != NIL)).map(Slot)
    }

    /// All orders in no order at all: sort before letting anything out.
    pub fn unordered(&self) -> impl Iterator<Item = (Slot, RestingOrder)> {
        self.slab.iter().map(|(at, node)| (Slot(at), self.resting(at, node)))
    }

    /// Slots of the orders wanted, by order and origin, in the order in which they were entered. Costs the whole book.
    pub fn slots_of(&self, wanted: impl Fn(&RestingOrder, &E) -> bool) -> Vec<(OrderId, Slot)> {
        let mut found: Vec<_> = self
            .unordered()
            .filter(|(slot, order)| wanted(order, &self.origin(*slot)))
            .map(|(slot, order)| (order.id, slot))
            .collect();
        found.sort_unstable_by_key(|(id, _)| *id);
        found
    }

    /// Visible quantity that trades before this order does, on its own level. Costs the orders ahead of it there, but for
    /// the last one, as an order is that has just come to rest: that one costs no more however many there are.
    pub fn queue_ahead(&self, slot: Slot) -> u64 {
        let node = self.slab.get(slot.0);
        if node.next == NIL {
            let level = self.ladder(node.owner.side()).level(node.key);
            return level.map_or(0, |level| level.lots.saturating_sub(u64::from(node.open)));
        }
        let mut at = node.previous;
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
    pub fn reach(
        &self,
        side: Side,
        limit: Option<Ticks>,
        lots: u64,
        meet: impl Fn(&RestingOrder, &E) -> MakerAction,
    ) -> FillEstimate {
        let other = side.opposite();
        let last_key = limit.map_or(u32::MAX, |limit| key_of(other, limit));
        let mut reach = FillEstimate::default();
        for (key, level) in self.ladder(other).iter().take_while(|(key, _)| *key <= last_key) {
            // Hidden quantity comes out behind everyone who displays, so an order that stops the sweep bars the way.
            let (mut hidden, price) = (0, price_of(other, key));
            for slot in self.queue(level.head) {
                let order = self.get(slot);
                match meet(&order, &self.origin(slot)) {
                    MakerAction::Trade => {
                        hidden += u64::from(order.hidden);
                        reach.take(price, u64::from(order.open), lots);
                    }
                    MakerAction::CancelMaker => {}
                    MakerAction::CancelBoth | MakerAction::Stop => return reach,
                }
                if reach.lots == lots {
                    return reach;
                }
            }
            reach.take(price, hidden, lots);
            if reach.lots == lots {
                break;
            }
        }
        reach
    }

    /// The same by what the public sees, whoever owns it. Costs the levels that are counted.
    pub fn visible_reach(&self, side: Side, limit: Option<Ticks>, lots: u64) -> FillEstimate {
        let other = side.opposite();
        let last_key = limit.map_or(u32::MAX, |limit| key_of(other, limit));
        let mut reach = FillEstimate::default();
        for (key, level) in self.ladder(other).iter().take_while(|(key, _)| *key <= last_key) {
            reach.take(price_of(other, key), level.lots, lots);
            if reach.lots == lots {
                break;
            }
        }
        reach
    }
}
