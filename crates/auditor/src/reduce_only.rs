//! Checks reduce-only orders: they never increase a position, and they shrink with it
//! (rulebook 24).
//!
//! Start at    [`check_followed_positions`].

use std::collections::BTreeMap;

use pitwire_model::{AccountId, Allocation, CancelReason, InstrumentId, OrderId, Phase, Side};

use crate::departures::check_departure;
use crate::market::MarketState;
use crate::model::VenueModel;
use crate::order_updates::replace_order;
use crate::orders::LiveOrder;
use crate::reader::EventReader;
use crate::violation::{CheckResult, fail};

/// Returns how many lots of `side` bring a position of `lots` nearer to zero.
fn room_in(lots: i64, side: Side) -> u64 {
    match side {
        Side::Buy => lots.min(0).unsigned_abs(),
        Side::Sell => lots.max(0).unsigned_abs(),
    }
}

impl MarketState {
    /// Whether reduce-only orders are matched now.
    pub fn matches_reduce_only(&self) -> bool {
        self.session.phase == Phase::Continuous && self.rules.allocation == Allocation::PriceTime
    }
}

impl VenueModel {
    /// Returns how many lots an order of this account and side may trade if it is reduce-only.
    pub fn room(&self, account: AccountId, instrument: InstrumentId, side: Side) -> u64 {
        self.pending_room(account, instrument, side, &BTreeMap::new())
    }

    /// Returns the room after `changes` of positions that have not happened yet.
    pub fn pending_room(
        &self,
        account: AccountId,
        instrument: InstrumentId,
        side: Side,
        changes: &BTreeMap<AccountId, i64>,
    ) -> u64 {
        let position = self.ledger.accounts[account.0 as usize].positions.get(&instrument);
        let changed = changes.get(&account).copied().unwrap_or(0);
        room_in(position.map_or(0, |position| position.lots) + changed, side)
    }

    /// Returns the most lots that a resting order may trade now.
    pub fn most_lots(&self, order: &LiveOrder) -> u64 {
        if order.reduce_only { self.room(order.account, order.instrument, order.side) } else { u64::MAX }
    }
}

fn check_reduced(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    before: &LiveOrder,
    room: u64,
) -> CheckResult<LiveOrder> {
    let cut = before.open - room;
    let after = LiveOrder { open: room, shown: before.shown.min(room), ordered: before.ordered - cut, ..*before };
    let expected = after.amended(true);
    match reader.peek(model)? {
        Some(actual) if *actual == expected => reader.advance(),
        actual => fail!(
            M4,
            "reduce-only order {} has {} open and a room of {room}, and was not reduced: {actual:?}",
            before.id,
            before.open
        ),
    }
    model.ledger.release(before.account, model.order_cost(before, cut));
    replace_order(model, reader, before, after);
    Ok(after)
}

/// Checks that every active reduce-only order with more lots than its room is reduced or cancelled,
/// by order id.
///
/// # Errors
/// M5 if such an order stays, or is reduced to another quantity.
pub fn check_followed_positions(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
) -> CheckResult {
    let orders: Vec<OrderId> = model.market(instrument).book.reduce_only.iter().copied().collect();
    for id in orders {
        let Some(order) = model.orders.get(&id).copied() else { continue };
        let room = model.room(order.account, instrument, order.side);
        if room == 0 {
            check_departure(model, reader, id, CancelReason::ReduceOnly)?;
        } else if order.open > room {
            check_reduced(model, reader, &order, room)?;
        }
    }
    Ok(())
}

/// Checks that all active reduce-only orders are cancelled before a session that does not keep
/// them.
///
/// # Errors
/// M5 if such an order stays.
pub fn check_reduce_only_end(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
    to: Phase,
) -> CheckResult {
    let market = model.market(instrument);
    let stays = match to {
        Phase::Halted | Phase::HaltAndClose => true,
        Phase::Continuous => market.rules.allocation == Allocation::PriceTime,
        _ => false,
    };
    let orders: Vec<OrderId> = market.book.reduce_only.iter().copied().filter(|_| !stays).collect();
    for id in orders {
        check_departure(model, reader, id, CancelReason::ReduceOnly)?;
    }
    Ok(())
}

/// Checks an elected stop before it acts. Returns `None` if it is cancelled instead.
///
/// # Errors
/// M5 if the stop is not reduced or cancelled as its position requires.
pub fn check_reduced_elected(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    id: OrderId,
) -> CheckResult<Option<LiveOrder>> {
    let Some(order) = model.orders.get(&id).copied() else { return Ok(None) };
    if !order.reduce_only {
        return Ok(Some(order));
    }
    let room = model.room(order.account, order.instrument, order.side);
    if room == 0 || !model.market(order.instrument).matches_reduce_only() {
        check_departure(model, reader, id, CancelReason::ReduceOnly)?;
        return Ok(None);
    }
    if order.open > room {
        return check_reduced(model, reader, &order, room).map(Some);
    }
    Ok(Some(order))
}
