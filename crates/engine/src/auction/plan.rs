//! How much each order of a side trades at one price (rulebook 8.2 step 8, 11.4).
//!
//! Does        go through one side in priority order until the volume is allocated.
//! Holds       the fills of a side add up to the volume and are listed in the order in which they
//!             trade.
//! Costs       the orders that trade; at a shared price, all orders there.
//! Start at    [`SidePlanner::plan`].

use pitwire_model::{Side, Ticks};

use super::filter::AuctionInterest;
use crate::allocation::{AllocationClaim, AllocationRule, TimeAllocation};
use crate::book::{Book, OrderOrigin, QueuedOrder, key_of};

/// The trades of one order in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedFill {
    pub order: QueuedOrder,
    /// Limit price or bound; zero without either.
    pub limit: Ticks,
    pub lots: u32,
}

/// An undisplayed order that takes part: a market order, or a hidden order with the lots that
/// count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExtraParticipant {
    pub order: QueuedOrder,
    /// Limit price or bound; `None` for an unbounded market order.
    pub price: Option<Ticks>,
    /// Minimum execution size of a hidden order; zero for a market order.
    pub minimum: u32,
    pub lots: u32,
}

impl ExtraParticipant {
    /// Returns the ladder key of its price; `None`, which ranks before all prices, for an unbounded
    /// market order.
    pub fn rank(&self, side: Side) -> Option<u32> {
        self.price.map(|price| key_of(side, price))
    }

    /// Returns the interest of a hidden order.
    pub fn interest(&self) -> AuctionInterest {
        AuctionInterest::hidden(self.price.unwrap_or_default(), self.lots, self.minimum)
    }

    fn is_hidden(&self) -> bool {
        self.minimum > 0
    }
}

/// The price at which a side has more lots than trade, and the rule that allocates them.
pub(crate) struct SharedPrice<'a> {
    pub price: Ticks,
    pub rule: &'a dyn AllocationRule,
}

pub(crate) struct SidePlanner<'a> {
    pub book: &'a Book<OrderOrigin>,
    pub side: Side,
    /// Undisplayed orders of this side, as [`SidePlanner::sort`] sorts them.
    pub participants: &'a [ExtraParticipant],
    pub shared: Option<SharedPrice<'a>>,
    /// Whether reduce-only orders get nothing. They take no part in filters (24.8).
    pub skips_reduce_only: bool,
}

impl SidePlanner<'_> {
    /// Sorts by price, unbounded market orders first, then market before hidden orders, then by
    /// time.
    pub fn sort(side: Side, participants: &mut [ExtraParticipant]) {
        participants.sort_unstable_by_key(|order| (order.rank(side), order.is_hidden(), order.order.time));
    }

    /// Allocates `volume` to the orders of the side.
    pub fn plan(&self, volume: u64) -> Vec<PlannedFill> {
        let mut parts = FillList { left: volume, list: Vec::new() };
        let mut participants = self.participants;
        while let Some((ExtraParticipant { price: None, order, lots, .. }, rest)) = participants.split_first() {
            parts.give(order, Ticks::ZERO, *lots);
            participants = rest;
        }
        self.book.visit_levels(self.side, |price, queue| {
            let others: Vec<QueuedOrder>;
            let queue = if self.skips_reduce_only {
                others = queue.iter().filter(|order| !self.book.is_reduce_only(order.slot)).copied().collect();
                &others
            } else {
                queue
            };
            participants = self.before(Some(key_of(self.side, price)), participants, &mut parts);
            let (here, rest) = split(price, participants);
            if here.is_empty() && !self.is_shared(price) {
                queue.iter().for_each(|order| parts.give(order, price, order.open));
            } else if parts.left > 0 {
                self.mixed(price, queue, here, &mut parts);
            }
            participants = rest;
            parts.left > 0
        });
        self.before(None, participants, &mut parts);
        parts.list
    }

    fn is_shared(&self, price: Ticks) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.price == price)
    }

    /// Allocates to undisplayed orders whose price comes before `key`, where no displayed order
    /// rests. Returns the others.
    fn before<'b>(
        &self,
        key: Option<u32>,
        mut participants: &'b [ExtraParticipant],
        parts: &mut FillList,
    ) -> &'b [ExtraParticipant] {
        while let Some(first) = participants.first()
            && let Some(price) = first.price
            && key.is_none_or(|key| key_of(self.side, price) < key)
        {
            let (here, rest) = split(price, participants);
            self.mixed(price, &[], here, parts);
            participants = rest;
        }
        participants
    }

    /// Allocates at one price that is shared or has undisplayed orders: displayed and market orders
    /// by time, then hidden orders.
    fn mixed(&self, price: Ticks, queue: &[QueuedOrder], here: &[ExtraParticipant], parts: &mut FillList) {
        let (visible, hidden) = here.split_at(here.partition_point(|order| !order.is_hidden()));
        let mut shown = queue.to_vec();
        shown.extend(visible.iter().map(|order| order.order));
        shown.sort_unstable_by_key(|order| order.time);
        let rule: &dyn AllocationRule = match &self.shared {
            Some(shared) if shared.price == price => shared.rule,
            _ => &TimeAllocation,
        };
        let claims: Vec<AllocationClaim> =
            shown.iter().map(|order| AllocationClaim { time: order.time, open: order.open }).collect();
        let mut given = Vec::with_capacity(claims.len());
        rule.allocate(parts.left, &claims, &mut given);
        shown.iter().zip(given).for_each(|(order, lots)| parts.give(order, price, lots));
        hidden.iter().for_each(|order| parts.give(&order.order, price, order.lots));
    }
}

/// Splits off the undisplayed orders at `price`, which must be at least as good as the price of the
/// first one.
fn split(price: Ticks, participants: &[ExtraParticipant]) -> (&[ExtraParticipant], &[ExtraParticipant]) {
    participants.split_at(participants.partition_point(|order| order.price == Some(price)))
}

struct FillList {
    left: u64,
    list: Vec<PlannedFill>,
}

impl FillList {
    /// Allocates up to `lots`, as far as volume is left.
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
