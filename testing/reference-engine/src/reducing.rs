//! Reduce-only orders (rulebook 24): their room, and what happens when it shrinks.

use pitwire_model::{AccountId, Allocation, CancelReason, Event, InstrumentId, Lots, Phase, Side};

use crate::market::ReferenceMarket;
use crate::order::{ReferenceOrder, cancelled, expiry_of};
use crate::state::VenueState;

impl ReferenceMarket {
    /// Whether reduce-only orders are matched now.
    pub fn follows_positions(&self) -> bool {
        self.session.phase == Phase::Continuous && self.allocation() == Allocation::PriceTime
    }

    /// Cancels the active reduce-only orders before a session that does not keep them.
    pub fn cancel_reduce_only(&mut self, to: Phase, out: &mut Vec<Event>) {
        let keeps = match to {
            Phase::Continuous => self.allocation() == Allocation::PriceTime,
            Phase::Halted | Phase::HaltAndClose => true,
            _ => false,
        };
        if keeps {
            return;
        }
        for id in self.order_ids(|order| order.reduce_only && order.is_active()) {
            self.cancel(id, CancelReason::ReduceOnly, out);
        }
    }
}

fn amended(instrument: InstrumentId, order: &ReferenceOrder) -> Event {
    Event::Amended {
        order: order.id,
        account: order.account,
        instrument,
        side: order.side,
        price: order.price,
        lots: Lots(order.ordered),
        open: Lots(order.open),
        kept_priority: true,
        display: None,
        stop: None,
        minimum_execution: None,
        expiry: expiry_of(order.tif),
    }
}

impl VenueState {
    /// Returns the signed position of an account.
    pub fn position(&self, account: AccountId, instrument: InstrumentId) -> i64 {
        self.accounts[account.0 as usize].holdings.get(&instrument).map_or(0, |holding| holding.lots)
    }

    /// Returns how many lots of a side bring the position of an account nearer to zero.
    pub fn room(&self, account: AccountId, instrument: InstrumentId, side: Side) -> u64 {
        let position = self.position(account, instrument);
        let toward_zero = if side == Side::Sell { position } else { -position };
        u64::try_from(toward_zero).unwrap_or(0)
    }
}

/// Reduces every active reduce-only order of an instrument to its room, or cancels it.
pub fn follow_positions(venue: &mut VenueState, at: usize, out: &mut Vec<Event>) {
    let instrument = venue.markets[at].spec.id;
    for id in venue.markets[at].order_ids(|order| order.reduce_only && order.is_active()) {
        let order = *venue.markets[at].get_mut(id);
        let room = venue.room(order.account, instrument, order.side);
        if room == 0 {
            venue.markets[at].cancel(id, CancelReason::ReduceOnly, out);
        } else if order.open > room {
            let after = reduced(&order, room);
            *venue.markets[at].get_mut(id) = after;
            out.push(amended(instrument, &after));
            venue.markets[at].publish_level_of(&after, out);
        }
    }
}

fn reduced(order: &ReferenceOrder, room: u64) -> ReferenceOrder {
    ReferenceOrder { open: room, shown: room, ordered: order.ordered - (order.open - room), ..*order }
}

/// Reduces an elected stop before it acts. Returns `None` if it is cancelled instead.
pub fn reduce_elected(
    venue: &VenueState,
    at: usize,
    order: ReferenceOrder,
    out: &mut Vec<Event>,
) -> Option<ReferenceOrder> {
    let market = &venue.markets[at];
    let instrument = market.spec.id;
    let room = venue.room(order.account, instrument, order.side);
    if !order.reduce_only || (order.open <= room && market.follows_positions()) {
        return Some(order);
    }
    if room == 0 || !market.follows_positions() {
        out.push(cancelled(instrument, &order, CancelReason::ReduceOnly));
        return None;
    }
    let after = ReferenceOrder { shown: order.shown, ..reduced(&order, room) };
    out.push(amended(instrument, &after));
    Some(after)
}

/// Changes of positions by an incoming order, fill by fill.
pub struct PositionChanges<'a> {
    venue: &'a VenueState,
    instrument: InstrumentId,
    changes: Vec<(AccountId, i64)>,
}

impl<'a> PositionChanges<'a> {
    pub fn new(venue: &'a VenueState, instrument: InstrumentId) -> PositionChanges<'a> {
        PositionChanges { venue, instrument, changes: Vec::new() }
    }

    /// Returns the most lots that a resting order may trade now.
    pub fn most_lots(&self, resting: &ReferenceOrder) -> u64 {
        if !resting.reduce_only {
            return u64::MAX;
        }
        let changed = self.changes.iter().filter(|(account, _)| *account == resting.account).map(|(_, lots)| lots);
        let position = self.venue.position(resting.account, self.instrument) + changed.sum::<i64>();
        u64::try_from(if resting.side == Side::Sell { position } else { -position }).unwrap_or(0)
    }

    /// Adds a fill between the incoming order and a resting one.
    pub fn trade(&mut self, taker: &ReferenceOrder, maker: &ReferenceOrder, lots: u64) {
        let lots = i64::try_from(lots).expect("orders of 32 bits");
        for order in [taker, maker] {
            self.changes.push((order.account, if order.side == Side::Buy { lots } else { -lots }));
        }
    }
}
