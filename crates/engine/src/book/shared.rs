//! Allocates an incoming quantity among all orders of a price instead of filling them in turn
//! (rulebook 15.2).
//!
//! Does        work in rounds: ask about every order that displays lots at the best price, then
//!             allocate and fill.
//! Holds       1. no order trades before all orders of the round have been asked about;
//!             2. an iceberg that has displayed its next part takes part in the next round with it.
//! Costs       the orders of each price, once per round. A round trades, cancels an order, or is
//!             the last.
//! Start at    [`Book::sweep_shared`].

use pitwire_model::{Side, Ticks};

use super::details::OrderOrigin;
use super::resting::{Book, key_of};
use super::slab::Slot;
use super::sweep::{Maker, MakerAction, SweepSink};
use crate::allocation::{AllocationClaim, AllocationRule};

/// The events at one price so far.
#[derive(Default)]
struct RoundState {
    changed: bool,
    /// Whether the sink has ended the sweep.
    ended: bool,
}

impl Book<OrderOrigin> {
    /// Sweeps as [`Book::sweep`] does, but allocates each price by `rule`. The sink decides about
    /// each order of a round before any of them trades, then about the round.
    pub(crate) fn sweep_shared(
        &mut self,
        side: Side,
        limit: Ticks,
        mut open: u32,
        rule: &impl AllocationRule,
        sink: &mut impl SweepSink<OrderOrigin>,
    ) -> u32 {
        let other = side.opposite();
        let last_key = key_of(other, limit);
        while open > 0
            && let Some(price) = self.best_price(other).filter(|price| key_of(other, *price) <= last_key)
        {
            let mut state = RoundState::default();
            while open > 0 && !state.ended && self.best_price(other) == Some(price) {
                open = self.run_round(other, price, open, rule, sink, &mut state);
            }
            if state.changed {
                sink.level(price, self.lots_at(other, price).0);
            }
            if state.ended {
                break;
            }
        }
        open
    }

    /// Runs one round. Returns the lots that were not filled.
    fn run_round(
        &mut self,
        side: Side,
        price: Ticks,
        open: u32,
        rule: &impl AllocationRule,
        sink: &mut impl SweepSink<OrderOrigin>,
        state: &mut RoundState,
    ) -> u32 {
        let Some(slots) = self.select_makers(side, price, sink, state) else {
            state.ended = true;
            return open;
        };
        let claim = |slot: &Slot| AllocationClaim { time: self.origin(*slot).time, open: self.slab.get(slot.0).open };
        let claims: Vec<AllocationClaim> = slots.iter().map(claim).collect();
        let all = claims.iter().map(|claim| u64::from(claim.open)).sum();
        if !slots.is_empty() && !sink.allows_round(all) {
            state.ended = true;
            return open;
        }
        let mut allocated = Vec::with_capacity(claims.len());
        rule.allocate(u64::from(open), &claims, &mut allocated);
        let mut left = open;
        for (slot, lots) in slots.into_iter().zip(allocated).filter(|(_, lots)| *lots > 0) {
            let node = *self.slab.get(slot.0);
            let after = self.deduct(slot, lots);
            if after.refreshed > 0
                && let Some(origin) = self.details.origin_mut(slot.0)
            {
                sink.refreshed(origin);
            }
            left -= lots;
            state.changed = true;
            sink.fill(node.id, node.owner, price, lots, after.left, after.refreshed);
        }
        left
    }

    /// Asks the sink about all orders of a price, by time, and removes those that it cancels.
    /// Returns the orders of the round, or `None` if the sweep ends.
    fn select_makers(
        &mut self,
        side: Side,
        price: Ticks,
        sink: &mut impl SweepSink<OrderOrigin>,
        state: &mut RoundState,
    ) -> Option<Vec<Slot>> {
        let (mut slots, mut cancelled, mut ends) = (Vec::new(), Vec::new(), false);
        for slot in self.slots_at(side, price) {
            let node = self.slab.get(slot.0);
            // The displayed lots are judged for the round as a whole, in `allows_round`.
            let (id, owner, open) = (node.id, node.owner, u32::MAX);
            match sink.maker_action(&Maker { id, owner, price, open, details: &self.details, at: slot.0 }) {
                MakerAction::Trade => slots.push(slot),
                MakerAction::CancelMaker => cancelled.push(slot),
                MakerAction::CancelBoth => {
                    cancelled.push(slot);
                    ends = true;
                }
                MakerAction::Stop => ends = true,
            }
            if ends {
                break;
            }
        }
        for slot in cancelled {
            let origin = self.origin(slot);
            let (order, _) = self.remove(slot);
            state.changed = true;
            sink.cancelled(&order, origin);
        }
        (!ends).then_some(slots)
    }
}
