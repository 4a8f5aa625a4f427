//! Who trades how much at one price (rulebook 8.2 step 8, 11.4).
//!
//! Does        walk one side in priority order, until what trades is given away.
//! Holds       the parts of a side add up to what trades, and stand in the order in which they do.
//! Costs       the orders that trade; at a price that is shared, all orders there.
//! Start at    [`Planner::side`].

use pitwire_model::{Side, Ticks};

use super::filter::Interest;
use super::share::{Claim, InTurn, Share};
use crate::book::{Book, Origin, Slot, key_of};

/// What one order trades.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub slot: Slot,
    pub lots: u32,
}

/// An order that trades but is not in the book: a market order, or a hidden one with what counts of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outsider {
    /// None: at any price.
    pub price: Option<Ticks>,
    /// Of a hidden order what it wants at least; zero: visible.
    pub minimum: u32,
    pub time: u64,
    pub slot: Slot,
    pub lots: u32,
}

impl Outsider {
    /// Its place among prices as the book orders them; before all prices: none.
    pub fn rank(&self, side: Side) -> Option<u32> {
        self.price.map(|price| key_of(side, price))
    }

    /// A hidden order as a filter sees it.
    pub fn interest(&self) -> Interest {
        Interest::hidden(self.price.unwrap_or_default(), self.lots, self.minimum)
    }

    fn is_hidden(&self) -> bool {
        self.minimum > 0
    }
}

/// The price at which a side has more than trades, and how it is divided there.
pub(crate) struct Shared<'a> {
    pub price: Ticks,
    pub way: &'a dyn Share,
}

pub(crate) struct Planner<'a> {
    pub book: &'a Book<Origin>,
    pub side: Side,
    /// Of this side, market orders by time first, then by price, visible before hidden, time.
    pub outsiders: &'a [Outsider],
    pub shared: Option<Shared<'a>>,
}

impl Planner<'_> {
    /// Sorts outsiders as a planner wants them.
    pub fn sort(side: Side, outsiders: &mut [Outsider]) {
        outsiders.sort_unstable_by_key(|order| (order.rank(side), order.is_hidden(), order.time));
    }

    /// Divides `volume` among the orders of the side.
    pub fn side(&self, volume: u64) -> Vec<Part> {
        let mut parts = Parts { left: volume, list: Vec::with_capacity(self.likely(volume)) };
        let mut outsiders = self.outsiders;
        while let Some((Outsider { price: None, slot, lots, .. }, rest)) = outsiders.split_first() {
            parts.give(*slot, *lots);
            outsiders = rest;
        }
        for (price, queue) in self.book.queues(self.side) {
            let key = key_of(self.side, price);
            outsiders = self.before(Some(key), outsiders, &mut parts);
            if parts.left == 0 {
                break;
            }
            let (here, rest) = self.split(price, outsiders);
            if here.is_empty() && !self.is_shared(price) {
                for slot in queue {
                    parts.give(slot, self.book.whole(slot));
                    if parts.left == 0 {
                        break;
                    }
                }
            } else {
                let time = |slot: Slot| self.book.origin(slot).time;
                let queue = queue.map(|slot| (time(slot), slot, self.book.whole(slot)));
                self.mixed(price, queue.collect(), here, &mut parts);
            }
            outsiders = rest;
        }
        self.before(None, outsiders, &mut parts);
        parts.list
    }

    /// Room for the parts: never more than there are orders or lots.
    fn likely(&self, volume: u64) -> usize {
        let orders = self.book.resting_orders() as usize + self.outsiders.len();
        usize::try_from(volume).unwrap_or(orders).min(orders)
    }

    fn is_shared(&self, price: Ticks) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.price == price)
    }

    /// The outsiders at `price`, which is the first one's or better, and those behind.
    fn split<'b>(&self, price: Ticks, outsiders: &'b [Outsider]) -> (&'b [Outsider], &'b [Outsider]) {
        outsiders.split_at(outsiders.partition_point(|order| order.price == Some(price)))
    }

    /// Those whose price comes before `key`, price by price: nobody in the book stands there.
    fn before<'b>(&self, key: Option<u32>, mut outsiders: &'b [Outsider], parts: &mut Parts) -> &'b [Outsider] {
        while let Some(first) = outsiders.first()
            && let Some(price) = first.price
            && key.is_none_or(|key| key_of(self.side, price) < key)
        {
            let (here, rest) = self.split(price, outsiders);
            self.mixed(price, Vec::new(), here, parts);
            outsiders = rest;
        }
        outsiders
    }

    /// One price at which outsiders stand, or which is shared: the visible ones by time, then the hidden ones.
    fn mixed(&self, price: Ticks, queue: Vec<(u64, Slot, u32)>, here: &[Outsider], parts: &mut Parts) {
        let (visible, hidden) = here.split_at(here.partition_point(|order| !order.is_hidden()));
        let mut shown = queue;
        shown.extend(visible.iter().map(|order| (order.time, order.slot, order.lots)));
        shown.sort_unstable_by_key(|(time, ..)| *time);
        let way: &dyn Share = match &self.shared {
            Some(shared) if shared.price == price => shared.way,
            _ => &InTurn,
        };
        let claims: Vec<Claim> = shown.iter().map(|(time, _, open)| Claim { time: *time, open: *open }).collect();
        let mut given = Vec::with_capacity(claims.len());
        way.share(parts.left, &claims, &mut given);
        shown.iter().zip(given).for_each(|((_, slot, _), lots)| parts.give(*slot, lots));
        hidden.iter().for_each(|order| parts.give(order.slot, order.lots));
    }
}

struct Parts {
    left: u64,
    list: Vec<Part>,
}

impl Parts {
    /// As much as there is left to give.
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    fn give(&mut self, slot: Slot, lots: u32) {
        let lots = self.left.min(u64::from(lots)) as u32;
        if lots > 0 {
            self.left -= u64::from(lots);
            self.list.push(Part { slot, lots });
        }
    }
}
