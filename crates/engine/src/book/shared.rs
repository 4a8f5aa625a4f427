//! An incoming quantity is shared among the orders of a price instead of filling them in turn (rulebook 15.2).
//!
//! Does        go round by round: everybody who shows something at the best price is asked, then all get their share.
//! Holds       1. nobody trades before everybody in the round has been asked;
//!             2. an iceberg that has shown its next part is in the next round with it.
//! Costs       the orders of each price reached, once for each round; a round trades, or takes somebody off, or is the last.
//! Start at    [`Book::sweep_shared`].

use pitwire_model::{Side, Ticks};

use super::{Book, Maker, MakerAction, OrderOrigin, Slot, SweepSink, key_of};
use crate::auction::{AllocationClaim, AllocationRule};

/// What happened at one price.
#[derive(Default)]
struct RoundState {
    changed: bool,
    /// The sink has ended the sweep.
    ended: bool,
}

impl Book<OrderOrigin> {
    /// As [`Book::sweep`], but each price is shared in `way`. The sink is asked about each order of a round before any
    /// trades, then about the round.
    pub(crate) fn sweep_shared(
        &mut self,
        side: Side,
        limit: Ticks,
        mut open: u32,
        way: &impl AllocationRule,
        sink: &mut impl SweepSink<OrderOrigin>,
    ) -> u32 {
        let other = side.opposite();
        let last_key = key_of(other, limit);
        while open > 0
            && let Some(price) = self.best_price(other).filter(|price| key_of(other, *price) <= last_key)
        {
            let mut rounds = RoundState::default();
            while open > 0 && !rounds.ended && self.best_price(other) == Some(price) {
                open = self.round(other, price, open, way, sink, &mut rounds);
            }
            if rounds.changed {
                sink.level(price, self.lots_at(other, price).0);
            }
            if rounds.ended {
                break;
            }
        }
        open
    }

    fn round(
        &mut self,
        side: Side,
        price: Ticks,
        open: u32,
        way: &impl AllocationRule,
        sink: &mut impl SweepSink<OrderOrigin>,
        rounds: &mut RoundState,
    ) -> u32 {
        let Some(slots) = self.ask_round(side, price, sink, rounds) else {
            rounds.ended = true;
            return open;
        };
        let claim = |slot: &Slot| AllocationClaim { time: self.origin(*slot).time, open: self.slab.get(slot.0).open };
        let claims: Vec<AllocationClaim> = slots.iter().map(claim).collect();
        let all = claims.iter().map(|claim| u64::from(claim.open)).sum();
        if !slots.is_empty() && !sink.round(all) {
            rounds.ended = true;
            return open;
        }
        let mut given = Vec::with_capacity(claims.len());
        way.share(u64::from(open), &claims, &mut given);
        let mut left = open;
        for (slot, lots) in slots.into_iter().zip(given).filter(|(_, lots)| *lots > 0) {
            let node = *self.slab.get(slot.0);
            let after = self.deduct(slot, lots);
            if after.refreshed > 0
                && let Some(origin) = self.cold.origin_mut(slot.0)
            {
                sink.refreshed(origin);
            }
            left -= lots;
            rounds.changed = true;
            sink.fill(node.id, node.owner, price, lots, after.left, after.refreshed);
        }
        left
    }

    /// Asks about everybody at a price, by time; takes off whom the sink wants gone. Who is in the round, or nobody when
    /// the sweep ends.
    fn ask_round(
        &mut self,
        side: Side,
        price: Ticks,
        sink: &mut impl SweepSink<OrderOrigin>,
        rounds: &mut RoundState,
    ) -> Option<Vec<Slot>> {
        let mut slots: Vec<Slot> = self.slots_at(side, price).collect();
        let (mut objects, mut gone) = (false, Vec::new());
        slots.retain(|slot| {
            let node = self.slab.get(slot.0);
            // How much it shows is asked of the round.
            let (id, owner, open) = (node.id, node.owner, u32::MAX);
            let meeting = match objects {
                false => sink.meet(&Maker { id, owner, price, open, cold: &self.cold, at: slot.0 }),
                true => MakerAction::Stop,
            };
            objects |= matches!(meeting, MakerAction::Stop | MakerAction::CancelBoth);
            if matches!(meeting, MakerAction::CancelMaker | MakerAction::CancelBoth) {
                gone.push(*slot);
            }
            meeting == MakerAction::Trade
        });
        for slot in gone {
            let origin = self.origin(slot);
            let (order, _) = self.remove(slot);
            rounds.changed = true;
            sink.cancelled(&order, origin);
        }
        (!objects).then_some(slots)
    }
}
