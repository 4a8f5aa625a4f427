//! Executes many orders at one price: the uncross of a call and the filter of hidden orders.

use pitwire_model::{Allocation, CancelReason, Event, Lots, OrderId, Phase, Side, Ticks, TradeKind};

use crate::auction::{TradePlan, UncrossInterests};
use crate::breach::ReferenceBreach;
use crate::fills::{publish_trade, refill_iceberg, settle_fill};
use crate::order::{ReferenceOrder, ReferenceOrderKind};
use crate::state::VenueState;

/// The result of one filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterResult {
    Traded,
    Nothing,
    Breached,
}

/// Uncrosses a call that ends. A breach leaves the book unchanged.
///
/// # Errors
/// The breach, if the price of the uncross is outside the tolerance of the call.
pub fn uncross(
    venue: &mut VenueState,
    at: usize,
    call: Phase,
    out: &mut Vec<Event>,
) -> Result<Option<Ticks>, ReferenceBreach> {
    let market = &venue.markets[at];
    let mut interests = UncrossInterests::of(market, |_| true);
    interests.settle_minimums();
    let Some(price) = interests.call_price(market.reference()) else { return Ok(None) };
    if interests.volume(price) == 0 {
        return Ok(None);
    }
    if call != Phase::VolatilityCall
        && let Some(breach) = market.breach(call, price, market.prices.dynamic)
    {
        return Err(breach);
    }
    let shares = match market.allocation() {
        Allocation::PriceTime => false,
        Allocation::ProRata => true,
        Allocation::FrequentBatch => call == Phase::Continuous,
    };
    let plan = interests.plan(market, price, shares);
    execute_plan(venue, at, &plan, TradeKind::Call(call), out);
    Ok(Some(price))
}

/// Filters hidden orders once. With `only`, it trades only if that order gets a fill.
pub fn filter_once(venue: &mut VenueState, at: usize, only: Option<OrderId>, out: &mut Vec<Event>) -> FilterResult {
    let market = &venue.markets[at];
    let (bids, offers) = (market.queue(Side::Buy), market.queue(Side::Sell));
    let (Some(bid), Some(offer)) = (bids.first(), offers.first()) else { return FilterResult::Nothing };
    if bid.price < offer.price {
        return FilterResult::Nothing;
    }
    let (bid, offer) = (bid.price, offer.price);
    let mut interests = UncrossInterests::of(market, |order| {
        let reaches = if order.side == Side::Buy { order.price >= offer } else { order.price <= bid };
        order.has_price() && reaches && !order.reduce_only
    });
    interests.settle_minimums();
    let candidates = interests.candidates();
    let most = candidates.iter().map(|price| interests.volume(*price)).max().unwrap_or(0);
    if most == 0 {
        return FilterResult::Nothing;
    }
    let kept: Vec<Ticks> = candidates.into_iter().filter(|price| interests.volume(*price) == most).collect();
    let (lo, hi) = (kept[0], kept[kept.len() - 1]);
    let wanted = match (market.best(Side::Buy), market.best(Side::Sell)) {
        (Some(bb), Some(bo)) => Some(Ticks((bb.0 + bo.0) / 2)),
        (one, other) => one.or(other).or_else(|| market.reference()),
    };
    let price = wanted.map_or(Ticks((lo.0 + hi.0) / 2), |wanted| wanted.clamp(lo, hi));
    let plan = interests.plan(market, price, false);
    if only.is_some_and(|only| plan.pairs.iter().all(|(buy, sell, _)| *buy != only && *sell != only)) {
        return FilterResult::Nothing;
    }
    if let Some(breach) = market.breach(Phase::Continuous, price, market.prices.dynamic) {
        out.push(breach.event(market.spec.id));
        return FilterResult::Breached;
    }
    execute_plan(venue, at, &plan, TradeKind::Filter, out);
    FilterResult::Traded
}

fn execute_plan(venue: &mut VenueState, at: usize, plan: &TradePlan, kind: TradeKind, out: &mut Vec<Event>) {
    let instrument = venue.markets[at].spec.id;
    let in_order = UncrossInterests::of(&venue.markets[at], |_| true);
    let before: Vec<ReferenceOrder> = in_order.bids.iter().chain(&in_order.offers).map(|i| i.order).collect();
    for (buy, sell, lots) in &plan.pairs {
        for id in [buy, sell] {
            venue.markets[at].get_mut(*id).open -= lots;
        }
        let (buyer, seller) = (*venue.markets[at].get_mut(*buy), *venue.markets[at].get_mut(*sell));
        let (maker, taker) = if buyer.time < seller.time { (buyer, seller) } else { (seller, buyer) };
        publish_trade(venue, at, &maker, &taker, plan.price, *lots, kind, out);
        settle_fill(venue, at, &maker, &taker, plan.price, *lots, out);
    }
    let market = &mut venue.markets[at];
    market.set_last_price(plan.price);
    if let TradeKind::Call(call) = kind {
        market.prices.static_reference = Some(plan.price);
        market.prices.uncross_price = Some(plan.price);
        let volume = Lots(plan.pairs.iter().map(|(_, _, lots)| lots).sum());
        out.push(Event::Uncrossed { instrument, call, price: plan.price, volume });
    }
    market.orders.retain(|order| order.open > 0);
    let traded: Vec<ReferenceOrder> = before
        .into_iter()
        .filter(|order| plan.pairs.iter().any(|(buy, sell, _)| *buy == order.id || *sell == order.id))
        .collect();
    update_remainders(venue, at, &traded, out);
    venue.markets[at].publish_levels(traded.iter(), out);
}

/// Cancels hidden remainders below their minimum, then refills icebergs. `traded` holds the orders
/// before the trades.
fn update_remainders(venue: &mut VenueState, at: usize, traded: &[ReferenceOrder], out: &mut Vec<Event>) {
    for order in traded.iter().filter(|order| order.is_hidden()) {
        if venue.markets[at].get(order.id).is_some_and(|left| left.open < left.minimum) {
            venue.markets[at].cancel(order.id, CancelReason::BelowMinimumExecution, out);
        }
    }
    for order in traded.iter().filter(|order| order.kind == ReferenceOrderKind::Limit) {
        let Some(mut left) = venue.markets[at].get(order.id).copied() else { continue };
        let lots = order.open - left.open;
        if lots < order.shown {
            left.shown -= lots;
        } else {
            refill_iceberg(venue, at, &mut left, out);
        }
        *venue.markets[at].get_mut(order.id) = left;
    }
    for order in
        traded.iter().filter(|order| matches!(order.kind, ReferenceOrderKind::Hidden | ReferenceOrderKind::Market))
    {
        if let Some(left) = venue.markets[at].orders.iter_mut().find(|left| left.id == order.id) {
            left.shown = left.open;
        }
    }
}
