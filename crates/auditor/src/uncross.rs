//! Checks the trades of a call, a batch or a filter at one price (rulebook 8.2, 11, 15.3).
//!
//! Holds       trades pair the first buyer with the first seller. Iceberg refills, remainders below
//!             their minimum and the uncross event come after the last trade.
//! Start at    [`check_uncross`], [`check_plan`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pitwire_model::{Allocation, CancelReason, Event, InstrumentId, Lots, OrderId, Phase, Side, TradeKind};

use crate::auction_prices::{
    AuctionCurves, AuctionInterest, PricePoint, allocate_in_priority, allocate_in_proportion, apply_minimum_executions,
    call_price, pair_orders,
};
use crate::departures::check_departure;
use crate::model::VenueModel;
use crate::order_updates::remove_order;
use crate::orders::LiveOrder;
use crate::reader::EventReader;
use crate::session_events::check_breach;
use crate::trades::{ExpectedTrade, check_refresh, check_throttle_trips, check_trade, reduce_order, set_references};
use crate::violation::{CheckResult, fail};

/// The trades to be made at one price.
#[derive(Clone, Debug)]
pub struct UncrossPlan {
    pub found: PricePoint,
    /// Buyer, seller, lots.
    pub pairs: Vec<(OrderId, OrderId, u64)>,
}

impl UncrossPlan {
    pub fn holds(&self, order: OrderId) -> bool {
        self.pairs.iter().any(|(buyer, seller, _)| *buyer == order || *seller == order)
    }

    fn fills(&self) -> BTreeMap<OrderId, u64> {
        let mut fills = BTreeMap::new();
        for (buyer, seller, lots) in &self.pairs {
            *fills.entry(*buyer).or_default() += lots;
            *fills.entry(*seller).or_default() += lots;
        }
        fills
    }
}

/// Returns the trades of a call that ends now. `is_batch` selects a frequent batch of continuous
/// trading.
fn call_plan(model: &VenueModel, instrument: InstrumentId, is_batch: bool) -> Option<UncrossPlan> {
    let market = model.market(instrument);
    let [mut bids, mut offers] = [Side::Buy, Side::Sell].map(|side| auction_interests(model, instrument, side));
    apply_minimum_executions(&mut bids, &mut offers);
    let found = call_price(&AuctionCurves::of(&bids, &offers), market.reference())?;
    let nothing: &[u64] = &[];
    let batches = match market.rules.allocation {
        Allocation::ProRata => Some(nothing),
        Allocation::FrequentBatch if is_batch => Some(market.call.batch_ends.as_slice()),
        _ => None,
    };
    let [bought, sold] = [(Side::Buy, &bids, found.surplus > 0), (Side::Sell, &offers, found.surplus < 0)].map(
        |(side, orders, is_too_large)| match batches.filter(|_| is_too_large) {
            Some(ends) => allocate_in_proportion(side, orders, found.price, found.volume, ends),
            None => allocate_in_priority(side, orders, found.price, found.volume),
        },
    );
    Some(UncrossPlan { found, pairs: pair_orders(&bought, &sold) })
}

/// Checks the trades of a plan in order, and the events that they require.
///
/// # Errors
/// M6 if a trade or the event of the uncross is missing or wrong, M5 if a hidden order gets less
/// than its minimum execution, M4 if an order of the plan is not live.
pub fn check_plan(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
    plan: &UncrossPlan,
    kind: TradeKind,
) -> CheckResult {
    reader.peek(model)?;
    let mut fills = plan.fills();
    check_minimums(model, &fills)?;
    let hidden: Vec<OrderId> =
        [Side::Buy, Side::Sell].into_iter().flat_map(|side| hidden_in_priority(model, instrument, side)).collect();
    let mut used_up = BTreeSet::new();
    for (buyer, seller, lots) in &plan.pairs {
        check_refreshes(model, reader, &mut used_up, &fills)?;
        let (Some(bid), Some(offer)) = (model.orders.get(buyer).copied(), model.orders.get(seller).copied()) else {
            fail!(M4, "orders {buyer} and {seller} must trade, but one has left");
        };
        let (maker, taker) = if bid.arrival < offer.arrival { (bid, offer) } else { (offer, bid) };
        let deal = ExpectedTrade { maker, taker, price: plan.found.price, lots: *lots, kind, taker_reserves: true };
        check_trade(model, reader, &deal)?;
        for order in [maker, taker] {
            if let Some(expected) = fills.get_mut(&order.id) {
                *expected -= lots;
            }
            apply_fill(model, reader, &order, *lots, &mut used_up);
        }
        if !reader.trips.is_empty() {
            check_refreshes(model, reader, &mut used_up, &fills)?;
        }
        check_throttle_trips(reader)?;
    }
    let announcement = match kind {
        TradeKind::Call(call) => {
            let (price, volume) = (plan.found.price, Lots(plan.found.volume));
            set_references(model, instrument, call, price);
            Some(Event::Uncrossed { instrument, call, price, volume })
        }
        _ => None,
    };
    let is_short = |order: &LiveOrder| order.open < order.minimum;
    let short = hidden.into_iter().filter(|id| model.orders.get(id).is_some_and(is_short)).collect();
    check_plan_aftermath(model, reader, used_up, announcement, short)
}

/// Checks that no hidden order trades less than its minimum execution.
fn check_minimums(model: &VenueModel, fills: &BTreeMap<OrderId, u64>) -> CheckResult {
    for (id, lots) in fills {
        if let Some(order) = model.orders.get(id)
            && *lots < order.minimum
        {
            fail!(M5, "hidden order {id} gets {lots} and takes no less than {}", order.minimum);
        }
    }
    Ok(())
}

fn hidden_in_priority(model: &VenueModel, instrument: InstrumentId, side: Side) -> Vec<OrderId> {
    let orders = model.market(instrument).book.orders(side);
    orders.filter(|id| model.orders.get(id).is_some_and(LiveOrder::is_hidden)).collect()
}

fn apply_fill(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    order: &LiveOrder,
    lots: u64,
    used_up: &mut BTreeSet<OrderId>,
) {
    let left = reduce_order(model, reader, order, lots);
    if left.open == 0 {
        used_up.remove(&left.id);
        remove_order(model, reader, &left);
    } else if left.is_visible() && left.shown == 0 {
        used_up.insert(left.id);
    }
}

/// Consumes iceberg refills. An iceberg may refill once it has had its last fill.
fn check_refreshes(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    used_up: &mut BTreeSet<OrderId>,
    fills: &BTreeMap<OrderId, u64>,
) -> CheckResult {
    while let Some(Event::Refreshed { order, .. }) = reader.peek(model)? {
        if fills.get(order) != Some(&0) || !used_up.remove(order) {
            fail!(M6, "order {order} was refilled without need");
        }
        check_refresh(model, reader, *order)?;
    }
    Ok(())
}

/// Checks the events after the last trade: iceberg refills, the uncross event, and remainders below
/// their minimum.
fn check_plan_aftermath(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    mut used_up: BTreeSet<OrderId>,
    mut announcement: Option<Event>,
    mut short: VecDeque<OrderId>,
) -> CheckResult {
    while !used_up.is_empty() || announcement.is_some() || !short.is_empty() {
        match reader.peek(model)? {
            Some(Event::Refreshed { order, .. }) if used_up.remove(order) => check_refresh(model, reader, *order)?,
            Some(event @ Event::Uncrossed { .. }) if announcement.is_some() => {
                if announcement.as_ref() != Some(event) {
                    fail!(M6, "the uncross was published as {event:?}, expected {announcement:?}");
                }
                (announcement, _) = (None, reader.advance());
            }
            Some(Event::Cancelled { order, .. }) if short.front() == Some(order) => {
                short.pop_front();
                check_departure(model, reader, *order, CancelReason::BelowMinimumExecution)?;
            }
            Some(event @ Event::Trade { .. }) => {
                fail!(M6, "{event:?} exceeds the uncross: everything executable has traded")
            }
            actual => {
                if let Some(order) = used_up.first() {
                    fail!(M6, "order {order} has no displayed lots left and was not refilled: {actual:?}");
                }
                if let Some(order) = short.front() {
                    fail!(M5, "order {order} has less left than its minimum and did not expire: {actual:?}");
                }
                fail!(M6, "expected {announcement:?}, found {actual:?}");
            }
        }
    }
    Ok(())
}

/// Checks the uncross of a call. Returns whether a breach prevented it.
///
/// # Errors
/// M6 if the price, the volume or a share is wrong, M8 if the breach is.
pub fn check_uncross(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
    call: Phase,
) -> CheckResult<bool> {
    let is_batch = call == Phase::Continuous;
    let plan = call_plan(model, instrument, is_batch);
    let Some(plan) = plan else {
        if let Some(Event::Trade { trade_seq, .. }) = reader.peek(model)? {
            fail!(M6, "trade {trade_seq}, but {} has no price", call.name());
        }
        return Ok(false);
    };
    let market = model.market(instrument);
    if call != Phase::VolatilityCall
        && let Some(breach) = market.breach(market.rules.tolerance(call), plan.found.price, market.prices.dynamic)
    {
        check_breach(model, reader, instrument, &breach)?;
        return Ok(true);
    }
    check_plan(model, reader, instrument, &plan, TradeKind::Call(call))?;
    Ok(false)
}

/// Returns the active orders of a side as a call or filter sees them, in priority order.
fn auction_interests(model: &VenueModel, instrument: InstrumentId, side: Side) -> Vec<AuctionInterest> {
    let orders = model.market(instrument).book.orders(side).filter_map(|id| model.orders.get(&id));
    orders.map(interest).collect()
}

pub fn interest(order: &LiveOrder) -> AuctionInterest {
    AuctionInterest {
        id: order.id,
        price: order.reach(),
        is_hidden: order.is_hidden(),
        minimum: order.minimum,
        open: order.open,
        counts: order.open,
        arrival: order.arrival,
    }
}
