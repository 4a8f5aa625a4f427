//! Checks what follows after an order acted in continuous trading: filters and elections
//! (rulebook 7.5, 8, 14).
//!
//! Holds       every stop is elected at most once, so that settling ends.
//! Start at    [`check_settling`].

use pitwire_model::{InstrumentId, OrderId, Phase, Side, TradeKind};

use crate::auction_prices::{
    AuctionCurves, AuctionInterest, allocate_in_priority, apply_minimum_executions, filter_price, pair_orders,
};
use crate::book::BestLevels;
use crate::conclusion::check_conclusion;
use crate::continuous::{check_matching, incoming_order};
use crate::limits::ToleranceBreach;
use crate::model::VenueModel;
use crate::order_updates::remove_order;
use crate::orders::LiveOrder;
use crate::reader::EventReader;
use crate::reduce_only::{check_followed_positions, check_reduced_elected};
use crate::session_events::{check_breach, check_volatility_call};
use crate::stops::{check_elected_join, check_election, check_elections};
use crate::uncross::{UncrossPlan, check_plan, interest};
use crate::violation::CheckResult;

/// Checks a stop whose price was reached before it was entered or amended: it is elected and acts
/// at once.
///
/// # Errors
/// M5 if the stop is not elected or its remainder is treated wrongly, and the errors of its trades.
pub fn check_immediate_election(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    order: &LiveOrder,
    before: crate::book::BestLevels,
) -> CheckResult {
    let instrument = order.instrument;
    check_election(model, reader, order.id)?;
    if model.market(instrument).is_batched() {
        check_elected_join(model, reader, &[order.id])?;
    } else if check_elected_order(model, reader, order.id)?.is_some() {
        check_volatility_call(model, reader, instrument, &[])?;
    } else {
        check_settling(model, reader, instrument, Some(before), None)?;
    }
    check_conclusion(model, reader, instrument)
}

/// Checks what follows a change of positions outside the book.
///
/// # Errors
/// M5 if a reduce-only order does not follow its position, and the errors of what follows in the
/// book.
pub fn check_outside_change(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
) -> CheckResult {
    if model.market(instrument).book.reduce_only.is_empty() {
        return Ok(());
    }
    let before = model.market(instrument).book.touch();
    check_followed_positions(model, reader, instrument)?;
    check_settling(model, reader, instrument, Some(before), None)?;
    check_conclusion(model, reader, instrument)
}

/// Checks what follows after a command acted on an instrument in continuous trading. `before` are
/// the best levels before the command. `arrived` is a hidden order that joined the book or was
/// amended in it.
///
/// # Errors
/// M5 if a stop is not elected in time or a reduce-only order does not follow its position, M3 if a
/// filter that should trade does not, M8 if a breach or its call is wrong.
pub fn check_settling(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
    before: Option<BestLevels>,
    arrived: Option<OrderId>,
) -> CheckResult {
    let market = model.market(instrument);
    if market.session.phase != Phase::Continuous {
        return Ok(());
    }
    check_followed_positions(model, reader, instrument)?;
    let market = model.market(instrument);
    if market.is_batched() {
        let elected = check_elections(model, reader, instrument)?;
        return check_elected_join(model, reader, &elected);
    }
    let is_there = |model: &VenueModel, id: &OrderId| model.orders.get(id).is_some_and(LiveOrder::is_active);
    while let Some(order) = arrived.filter(|order| is_there(model, order)) {
        let Some(plan) = filter_plan(model, instrument).filter(|plan| plan.holds(order)) else { break };
        if check_filter(model, reader, instrument, &plan)? {
            return check_volatility_call(model, reader, instrument, &[]);
        }
        check_followed_positions(model, reader, instrument)?;
    }
    let mut remembered = before;
    loop {
        if remembered != Some(model.market(instrument).book.touch()) {
            while let Some(plan) = filter_plan(model, instrument) {
                if check_filter(model, reader, instrument, &plan)? {
                    return check_volatility_call(model, reader, instrument, &[]);
                }
                check_followed_positions(model, reader, instrument)?;
            }
        }
        remembered = Some(model.market(instrument).book.touch());
        let elected = check_elections(model, reader, instrument)?;
        if elected.is_empty() {
            return Ok(());
        }
        for (at, order) in elected.iter().enumerate() {
            if check_elected_order(model, reader, *order)?.is_some() {
                return check_volatility_call(model, reader, instrument, &elected[at + 1..]);
            }
        }
        check_followed_positions(model, reader, instrument)?;
    }
}

/// Checks an elected stop that acts in continuous trading.
///
/// # Errors
/// M5 if a reduce-only stop does not follow its position, and the errors of [`check_matching`].
pub fn check_elected_order(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    order: OrderId,
) -> CheckResult<Option<ToleranceBreach>> {
    let Some(live) = check_reduced_elected(model, reader, order)? else { return Ok(None) };
    remove_order(model, reader, &live);
    model.ledger.reserve(live.account, model.order_cost(&live, live.open));
    let taker = incoming_order(model, live, live.mode, true);
    check_matching(model, reader, taker)
}

/// Returns the trades of a filter now (rulebook 8.2).
fn filter_plan(model: &VenueModel, instrument: InstrumentId) -> Option<UncrossPlan> {
    let market = model.market(instrument);
    if market.book.hidden == 0 {
        return None;
    }
    // Market orders take no part, with or without a protection price.
    let priced = |side| {
        let orders = market.book.orders(side).filter_map(|id| model.orders.get(&id));
        orders.filter(|order| !order.is_market())
    };
    // Reduce-only orders take no part either, but they count as best prices.
    let takes_part = |order: &&LiveOrder| !order.reduce_only;
    let (bid, offer) = (priced(Side::Buy).next()?.price, priced(Side::Sell).next()?.price);
    if bid < offer {
        return None;
    }
    let mut bids: Vec<AuctionInterest> =
        priced(Side::Buy).take_while(|order| order.price >= offer).filter(takes_part).map(interest).collect();
    let mut offers: Vec<AuctionInterest> =
        priced(Side::Sell).take_while(|order| order.price <= bid).filter(takes_part).map(interest).collect();
    apply_minimum_executions(&mut bids, &mut offers);
    let touch = market.book.touch().map(|side| side.map(|(price, _)| price));
    let found = filter_price(&AuctionCurves::of(&bids, &offers), touch, market.reference())?;
    let [bought, sold] = [(Side::Buy, &bids), (Side::Sell, &offers)]
        .map(|(side, orders)| allocate_in_priority(side, orders, found.price, found.volume));
    Some(UncrossPlan { found, pairs: pair_orders(&bought, &sold) })
}

/// Checks one filter. Returns whether a breach prevented it.
fn check_filter(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
    plan: &UncrossPlan,
) -> CheckResult<bool> {
    let market = model.market(instrument);
    let tolerance = market.rules.tolerance(Phase::Continuous);
    if let Some(breach) = market.breach(tolerance, plan.found.price, market.prices.dynamic) {
        check_breach(model, reader, instrument, &breach)?;
        return Ok(true);
    }
    check_plan(model, reader, instrument, plan, TradeKind::Filter)?;
    Ok(false)
}
