//! Expiry times of GTT orders.

use std::collections::{BTreeMap, BTreeSet};

use pitwire_model::{OrderId, VenueNanos};

/// Expiry times by order and in order of time.
///
/// A cancelled or filled order is not removed here at once. A caller looks up the order of each due
/// time and skips the time if the order has gone. The queue removes such times whenever it has
/// doubled, so it holds at most twice as many times as there are live GTT orders.
#[derive(Debug, Default)]
pub(crate) struct ExpiryTimes {
    by_order: BTreeMap<OrderId, VenueNanos>,
    queue: BTreeSet<(VenueNanos, OrderId)>,
    /// Size above which the next insertion removes the times of gone orders.
    clean_above: usize,
}

/// Below this size, times of gone orders are never removed.
const SMALL: usize = 64;

impl ExpiryTimes {
    /// Returns the expiry time of an order.
    pub fn of(&self, order: OrderId) -> Option<VenueNanos> {
        self.by_order.get(&order).copied()
    }

    /// Sets the expiry time of an order. Calls `is_live` for other orders only when the queue has
    /// doubled.
    pub fn set(&mut self, order: OrderId, at: VenueNanos, is_live: impl Fn(OrderId) -> bool) {
        if let Some(old) = self.by_order.insert(order, at) {
            self.queue.remove(&(old, order));
        }
        self.queue.insert((at, order));
        if self.by_order.len() > self.clean_above.max(SMALL) {
            self.by_order.retain(|id, _| *id == order || is_live(*id));
            let by_order = &self.by_order;
            self.queue.retain(|(at, id)| by_order.get(id) == Some(at));
            self.clean_above = self.by_order.len() * 2;
        }
    }

    /// Removes the expiry time of an order.
    pub fn remove(&mut self, order: OrderId) {
        if let Some(at) = self.by_order.remove(&order) {
            self.queue.remove(&(at, order));
        }
    }

    /// Orders whose time is `now` or earlier, by time, then by order id.
    pub fn due(&self, now: VenueNanos) -> impl Iterator<Item = OrderId> {
        self.queue.iter().take_while(move |(at, _)| *at <= now).map(|(_, id)| *id)
    }

    /// Returns the earliest time after `after` that belongs to a live order.
    pub fn next_after(&self, after: VenueNanos, is_live: impl Fn(OrderId) -> bool) -> Option<VenueNanos> {
        let later = self.queue.range((VenueNanos(after.0.saturating_add(1)), OrderId::ZERO)..);
        later.filter(|(_, order)| is_live(*order)).map(|(at, _)| *at).next()
    }

    /// Returns the earliest time, whether or not its order is still live.
    pub fn next(&self) -> Option<VenueNanos> {
        self.queue.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_gone_orders_are_removed() {
        let mut times = ExpiryTimes::default();
        // Forty orders stay live; a hundred thousand were cancelled or filled.
        let is_live = |order: OrderId| order.0 <= 40;
        for order in (1..=40).chain(100..100_100) {
            times.set(OrderId(order), VenueNanos(1_000_000 - order), is_live);
            assert!(times.by_order.len() <= 2 * 40 + SMALL && times.queue.len() == times.by_order.len(), "at {order}");
        }
        let due: Vec<u64> =
            times.due(VenueNanos(1_000_000)).map(|order| order.0).filter(|order| *order <= 40).collect();
        assert_eq!(due, (1..=40).rev().collect::<Vec<u64>>(), "by time");
        times.set(OrderId(7), VenueNanos(5), is_live);
        assert_eq!((times.next(), times.due(VenueNanos(4)).next()), (Some(VenueNanos(5)), None));
        times.remove(OrderId(7));
        assert_eq!(times.of(OrderId(7)), None);
    }
}
