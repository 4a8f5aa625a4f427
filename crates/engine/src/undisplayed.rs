//! Live orders that stand on no level of the displayed book.
//!
//! Does        hold parked orders, stops, hidden orders, and market orders that wait in a call or a
//!             batch.
//! Holds       1. an order is in the slab once, and in exactly the one sorted set of its state;
//!             2. every set is iterated in an order that the rules define, never in memory order;
//!             3. a slot of this slab has its highest bit set, so it cannot be confused with a slot
//!                of the book.
//! Leaves out  money, the order index and events: see `live_orders`.
//! Costs       insert, remove, update: logarithmic in the number of orders here. Orders of a plain
//!             market never reach this code.
//! Start at    [`UndisplayedOrder`], then [`UndisplayedOrders`].

use std::collections::BTreeSet;
use std::ops::Bound;

use pitwire_model::{AccountId, Lots, OrderId, OrderType, SelfMatch, Side, Ticks};

use crate::book::{OrderOrigin, Slot, key_of};

/// Why a live order stands on no level of the displayed book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum UndisplayedState {
    /// Waits for a session.
    Parked = 0,
    /// A stop that waits for its stop price.
    Unelected = 1,
    /// A stop that has been elected. It is executed later in the same command, or at the next
    /// change of session if the venue has missed the call that began.
    Elected = 2,
    /// A hidden order that can trade.
    Hidden = 3,
    /// A market order that waits in a call, a pause or a batch, or a CPX order in the closing price
    /// cross.
    Unpriced = 4,
}

impl UndisplayedState {
    pub const ALL: [UndisplayedState; 5] = [
        UndisplayedState::Parked,
        UndisplayedState::Unelected,
        UndisplayedState::Elected,
        UndisplayedState::Hidden,
        UndisplayedState::Unpriced,
    ];
}

/// A live order that stands on no level of the displayed book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UndisplayedOrder {
    pub id: OrderId,
    pub account: AccountId,
    pub side: Side,
    pub state: UndisplayedState,
    pub order_type: OrderType,
    /// Open lots.
    pub open: u32,
    /// Total lots of the order, including executed lots.
    pub ordered: u32,
    /// Peak of a parked iceberg, in lots; zero for every other order.
    pub display: u32,
    /// Worst price that a market order or a stop may reach; zero if it has no bound.
    pub bound: Ticks,
    /// Self-match prevention that the order itself asked for. Cleared when the order becomes
    /// active.
    pub self_match: Option<SelfMatch>,
    pub origin: OrderOrigin,
}

impl UndisplayedOrder {
    /// Returns the limit price; zero for market orders and stops.
    pub fn price(&self) -> Ticks {
        self.order_type.limit_price().unwrap_or(Ticks::ZERO)
    }

    /// Returns the limit price or the bound; zero if the order has neither. Money is reserved at
    /// this price.
    pub fn reserve_price(&self) -> Ticks {
        self.order_type.limit_price().unwrap_or(self.bound)
    }

    /// Returns the price by which the order ranks. `None` for an unbounded market order, which
    /// ranks before all prices.
    pub fn ranking_price(&self) -> Option<Ticks> {
        Some(self.reserve_price()).filter(|price| *price != Ticks::ZERO)
    }

    /// Returns the minimum execution size in lots; zero unless the order is hidden.
    pub fn minimum_execution(&self) -> u32 {
        match self.order_type {
            OrderType::Hidden { minimum_execution: Lots(lots), .. } => u32::try_from(lots).unwrap_or(u32::MAX),
            _ => 0,
        }
    }

    pub fn is_market(&self) -> bool {
        matches!(self.order_type, OrderType::Market)
    }
}

#[derive(Debug, Default)]
pub(crate) struct UndisplayedOrders {
    slab: Vec<Option<UndisplayedOrder>>,
    free: Vec<u32>,
    hidden: [BTreeSet<(u32, u64, u32)>; 2],
    unpriced: [BTreeSet<(u64, u32)>; 2],
    parked: BTreeSet<(OrderId, u32)>,
    /// Stops in order of election: buys by stop price, sells by the complement of it; then by order
    /// id.
    unelected: [BTreeSet<(u32, OrderId, u32)>; 2],
    elected: BTreeSet<(u64, u32)>,
    /// Hidden orders that the current command has entered or amended.
    pub(crate) arrivals: Vec<OrderId>,
}

impl UndisplayedOrders {
    /// Returns the number of orders.
    pub fn len(&self) -> usize {
        self.slab.len() - self.free.len()
    }

    pub fn has_hidden(&self) -> bool {
        self.hidden.iter().any(|side| !side.is_empty())
    }

    /// Returns whether any stop waits for its price or for its execution.
    pub fn has_stops(&self) -> bool {
        self.unelected.iter().any(|side| !side.is_empty()) || !self.elected.is_empty()
    }

    /// Returns the order at `slot`; `None` for a slot of the book or a vacant one.
    pub fn get(&self, slot: Slot) -> Option<&UndisplayedOrder> {
        self.slab.get(slot.undisplayed_index()?)?.as_ref()
    }

    #[allow(clippy::cast_possible_truncation)]
    pub fn insert(&mut self, order: UndisplayedOrder) -> Slot {
        let at = match self.free.pop() {
            Some(at) => {
                self.slab[at as usize] = Some(order);
                at
            }
            None => {
                self.slab.push(Some(order));
                (self.slab.len() - 1) as u32
            }
        };
        self.add_to_set(&order, at);
        Slot::undisplayed(at)
    }

    pub fn remove(&mut self, slot: Slot) -> Option<UndisplayedOrder> {
        let (index, at) = index_of(slot)?;
        let order = self.slab.get_mut(index)?.take()?;
        self.remove_from_set(&order, at);
        self.free.push(at);
        Some(order)
    }

    /// Changes an order in its slot and moves it to the set of its new state. Returns the changed
    /// order.
    pub fn update(&mut self, slot: Slot, change: impl FnOnce(&mut UndisplayedOrder)) -> Option<UndisplayedOrder> {
        let (index, at) = index_of(slot)?;
        let old = self.slab.get(index).copied()??;
        let mut new = old;
        change(&mut new);
        self.slab[index] = Some(new);
        self.remove_from_set(&old, at);
        self.add_to_set(&new, at);
        Some(new)
    }

    /// Deducts executed lots from a hidden or market order. Returns the lots that are still open.
    /// If none are, the caller removes the order.
    pub fn fill(&mut self, slot: Slot, lots: u32) -> u32 {
        let order = slot.undisplayed_index().and_then(|at| self.slab.get_mut(at)).and_then(Option::as_mut);
        order.map_or(0, |order| {
            order.open = order.open.saturating_sub(lots);
            order.open
        })
    }

    fn add_to_set(&mut self, order: &UndisplayedOrder, at: u32) {
        let (side, time) = (order.side as usize & 1, order.origin.time);
        match order.state {
            UndisplayedState::Parked => _ = self.parked.insert((order.id, at)),
            UndisplayedState::Unelected => _ = self.unelected[side].insert((stop_key(order), order.id, at)),
            UndisplayedState::Elected => _ = self.elected.insert((time, at)),
            UndisplayedState::Hidden => _ = self.hidden[side].insert((key_of(order.side, order.price()), time, at)),
            UndisplayedState::Unpriced => _ = self.unpriced[side].insert((time, at)),
        }
    }

    fn remove_from_set(&mut self, order: &UndisplayedOrder, at: u32) {
        let (side, time) = (order.side as usize & 1, order.origin.time);
        match order.state {
            UndisplayedState::Parked => _ = self.parked.remove(&(order.id, at)),
            UndisplayedState::Unelected => _ = self.unelected[side].remove(&(stop_key(order), order.id, at)),
            UndisplayedState::Elected => _ = self.elected.remove(&(time, at)),
            UndisplayedState::Hidden => _ = self.hidden[side].remove(&(key_of(order.side, order.price()), time, at)),
            UndisplayedState::Unpriced => _ = self.unpriced[side].remove(&(time, at)),
        }
    }

    /// Hidden orders of one side, best price first, then by time.
    pub fn hidden(&self, side: Side) -> impl DoubleEndedIterator<Item = Slot> {
        self.hidden[side as usize & 1].iter().map(|(_, _, at)| Slot::undisplayed(*at))
    }

    /// Returns the first hidden order of one side that comes after a ladder key and a time.
    pub fn next_hidden(&self, side: Side, (key, time): (u32, u64)) -> Option<Slot> {
        let after = (Bound::Excluded((key, time, u32::MAX)), Bound::Unbounded);
        self.hidden[side as usize & 1].range(after).next().map(|(.., at)| Slot::undisplayed(*at))
    }

    /// Waiting market orders of one side, by time.
    pub fn unpriced(&self, side: Side) -> impl DoubleEndedIterator<Item = Slot> {
        self.unpriced[side as usize & 1].iter().map(|(_, at)| Slot::undisplayed(*at))
    }

    /// Parked orders, by order id.
    pub fn parked(&self) -> impl Iterator<Item = Slot> {
        self.parked.iter().map(|(_, at)| Slot::undisplayed(*at))
    }

    /// Elected stops, in order of election.
    pub fn elected(&self) -> impl Iterator<Item = Slot> {
        self.elected.iter().map(|(_, at)| Slot::undisplayed(*at))
    }

    /// Unelected stops whose condition holds at the last price `last`, in order of election: buys
    /// before sells, the stop price farthest from `last` first, then by order id.
    pub fn triggered_stops(&self, last: Ticks) -> impl Iterator<Item = Slot> {
        let triggered = |side: Side| {
            let last_key = key_of(side.opposite(), last);
            let stops = self.unelected[side as usize & 1].iter();
            stops.take_while(move |(key, ..)| *key <= last_key).map(|(.., at)| *at)
        };
        triggered(Side::Buy).chain(triggered(Side::Sell)).map(Slot::undisplayed)
    }

    /// Every order, in no defined order: sort the result before it becomes visible.
    pub fn unordered(&self) -> impl Iterator<Item = (Slot, &UndisplayedOrder)> {
        (0_u32..).zip(&self.slab).filter_map(|(at, order)| Some((Slot::undisplayed(at), order.as_ref()?)))
    }
}

/// Returns the slab index of `slot` in both integer types that the slab and the sets use.
fn index_of(slot: Slot) -> Option<(usize, u32)> {
    let index = slot.undisplayed_index()?;
    Some((index, u32::try_from(index).ok()?))
}

/// Returns a key that sorts the stops of one side in the order in which a moving price reaches
/// them. A buy stop sorts like an offer.
fn stop_key(order: &UndisplayedOrder) -> u32 {
    key_of(order.side.opposite(), order.order_type.stop_price().unwrap_or(Ticks::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(id: u64, side: Side, stop: i64) -> UndisplayedOrder {
        UndisplayedOrder {
            id: OrderId(id),
            account: AccountId(0),
            side,
            state: UndisplayedState::Unelected,
            order_type: OrderType::Stop { stop: Ticks(stop) },
            open: 1,
            ordered: 1,
            display: 0,
            bound: Ticks::ZERO,
            self_match: None,
            origin: OrderOrigin::default(),
        }
    }

    #[test]
    fn stops_are_elected_buys_first_farthest_first_then_by_number() {
        let mut orders = UndisplayedOrders::default();
        let (buy, sell) = (Side::Buy, Side::Sell);
        for stop in [stop(1, sell, 100), stop(2, buy, 100), stop(3, buy, 98), stop(4, sell, 103), stop(5, buy, 98)] {
            orders.insert(stop);
        }
        orders.insert(stop(6, buy, 101));
        orders.insert(stop(7, sell, 99));
        let triggered = |orders: &UndisplayedOrders, last: i64| -> Vec<u64> {
            let order = |slot: Slot| orders.get(slot).map(|order| order.id.0);
            orders.triggered_stops(Ticks(last)).filter_map(order).collect()
        };
        assert_eq!(triggered(&orders, 100), [3, 5, 2, 4, 1]);
        assert_eq!(triggered(&orders, 98), [3, 5, 4, 1, 7]);
        // A new stop price moves the order to another place.
        let third = orders.triggered_stops(Ticks(98)).next().expect("the third order");
        orders.update(third, |order| order.order_type = OrderType::Stop { stop: Ticks(101) });
        assert_eq!(triggered(&orders, 100), [5, 2, 4, 1]);
        assert_eq!(orders.remove(third).map(|order| order.id), Some(OrderId(3)));
        assert_eq!((orders.len(), orders.get(third)), (6, None));
    }
}
