//! Who trades how much at one price (rulebook 8.2 step 8, 11.4).
//!
//! Does        walk one side in priority order, until what trades is given away.
//! Holds       the parts of a side add up to what trades, and stand in the order in which they do.
//! Costs       the orders that trade; at a price that is shared, all orders there.
//! Start at    [`Planner::side`].

use pitwire_model::{Side, Ticks};

use super::filter::AuctionInterest;
use super::share::{AllocationClaim, AllocationRule, TimeAllocation};
use crate::book::{Book, OrderOrigin, QueuedOrder, key_of};

/// What one order trades.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedFill {
    pub order: QueuedOrder,
    /// Its limit or bound; zero where there is none.
    pub limit: Ticks,
    pub lots: u32,
}

/// An order that trades but is not in the book: a market order, or a hidden one with what counts of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExtraParticipant {
    pub order: QueuedOrder,
    /// None: at any price.
    pub price: Option<Ticks>,
    /// Of a hidden order what it wants at least; zero: visible.
    pub minimum: u32,
    pub lots: u32,
}

impl ExtraParticipant {
    /// Its place among prices as the book orders them; before all prices: none.
    pub fn rank(&self, side: Side) -> Option<u32> {
        self.price.map(|price| key_of(side, price))
    }

    /// A hidden order as a filter sees it.
    pub fn interest(&self) -> AuctionInterest {
        AuctionInterest::hidden(self.price.unwrap_or_default(), self.lots, self.minimum)
    }

    fn is_hidden(&self) -> bool {
        self.minimum > 0
    }
}

/// The price at which a side has more than trades, and how it is divided there.
pub(crate) struct SharedPrice<'a> {
    pub price: Ticks,
    pub way: &'a dyn AllocationRule,
}

pub(crate) struct SidePlanner<'a> {
    pub book: &'a Book<OrderOrigin>,
    pub side: Side,
    /// Of this side, market orders by time first, then by price, visible before hidden, time.
    pub outsiders: &'a [ExtraParticipant],
    pub shared: Option<SharedPrice<'a>>,
}

impl SidePlanner<'_> {
    /// Sorts outsiders as a planner wants them.
    pub fn sort(side: Side, outsiders: &mut [ExtraParticipant]) {
        outsiders.sort_unstable_by_key(|order| (order.rank(side), order.is_hidden(), order.order.time));
    }

    /// Divides `volume` among the orders of the side.
    pub fn side(&self, volume: u64) -> Vec<PlannedFill> {
        let mut parts = FillList { left: volume, list: Vec::new() };
        let mut outsiders = self.outsiders;
        while let Some((ExtraParticipant { price: None, order, lots, .. }, rest)) = outsiders.split_first() {
            parts.give(order, Ticks::ZERO, *lots);
            outsiders = rest;
        }
        self.book.go_through(self.side, |price, queue| {
            outsiders = self.before(Some(key_of(self.side, price)), outsiders, &mut parts);
            let (here, rest) = split(price, outsiders);
            if here.is_empty() && !self.is_shared(price) {
                queue.iter().for_each(|order| parts.give(order, price, order.whole));
            } else if parts.left > 0 {
                self.mixed(price, queue, here, &mut parts);
            }
            outsiders = rest;
            parts.left > 0
        });
        self.before(None, outsiders, &mut parts);
        parts.list
    }

    fn is_shared(&self, price: Ticks) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.price == price)
    }

    /// Those whose price comes before `key`, price by price: nobody in the book stands there.
    fn before<'b>(
        &self,
        key: Option<u32>,
        mut outsiders: &'b [ExtraParticipant],
        parts: &mut FillList,
    ) -> &'b [ExtraParticipant] {
        while let Some(first) = outsiders.first()
            && let Some(price) = first.price
            && key.is_none_or(|key| key_of(self.side, price) < key)
        {
            let (here, rest) = split(price, outsiders);
            self.mixed(price, &[], here, parts);
            outsiders = rest;
        }
        outsiders
    }

    /// One price at which outsiders stand, or which is shared: the visible ones by time, then the hidden ones.
    fn mixed(&self, price: Ticks, queue: &[QueuedOrder], here: &[ExtraParticipant], parts: &mut FillList) {
        let (visible, hidden) = here.split_at(here.partition_point(|order| !order.is_hidden()));
        let mut shown = queue.to_vec();
        shown.extend(visible.iter().map(|order| order.order));
        shown.sort_unstable_by_key(|order| order.time);
        let way: &dyn AllocationRule = match &self.shared {
            Some(shared) if shared.price == price => shared.way,
            _ => &TimeAllocation,
        };
        let claims: Vec<AllocationClaim> =
            shown.iter().map(|order| AllocationClaim { time: order.time, open: order.whole }).collect();
        let mut given = Vec::with_capacity(claims.len());
        way.share(parts.left, &claims, &mut given);
        shown.iter().zip(given).for_each(|(order, lots)| parts.give(order, price, lots));
        hidden.iter().for_each(|order| parts.give(&order.order, price, order.lots));
    }
}

/// The outsiders at `price`, which is the first one's or better, and those behind.
fn split(price: Ticks, outsiders: &[ExtraParticipant]) -> (&[ExtraParticipant], &[ExtraParticipant]) {
    outsiders.split_at(outsiders.partition_point(|order| order.price == Some(price)))
}

struct FillList {
    left: u64,
    list: Vec<PlannedFill>,
}

impl FillList {
    /// As much as there is left to give.
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    fn give(&mut self, order: &QueuedOrder, limit: Ticks, lots: u32) {
        let lots = self.left.min(u64::from(lots)) as u32;
        if lots > 0 {
            self.left -= u64::from(lots);
            self.list.push(PlannedFill { order: *order, limit, lots });
        }
    }
}
