//! Checks the answer to each new order and the events that follow an accepted order.
//!
//! Holds       an order is accepted if and only if no rule forbids it. Only margin requirements are
//!             not checked.
//! Start at    [`check_entry`].

use pitwire_model::{Allocation, CurrencyId, Event, Lots, NewOrder, OrderType, Phase, Reject, Side, Ticks};

use crate::conclusion::check_conclusion;
use crate::continuous::{check_matching, incoming_order, reachable_fills};
use crate::cross::check_cross_arrival;
use crate::departures::check_parked;
use crate::limits::NotionalBasis;
use crate::market::MarketState;
use crate::model::VenueModel;
use crate::order_rules::{check_expiry, check_not_blocked, check_refusal};
use crate::order_updates::add_order;
use crate::orders::{LiveOrder, LiveOrderKind, LiveOrderState, kind_of};
use crate::reader::EventReader;
use crate::rule_tables::{TableAnswer, tables};
use crate::session_events::check_volatility_call;
use crate::settling::{check_immediate_election, check_settling};
use crate::stops::has_reached_stop;
use crate::validity::{legal_lots, legal_price};
use crate::violation::{CheckResult, fail};

/// An order that the rules accept, and how the venue must accept it.
#[derive(Clone, Copy, Debug)]
struct ExpectedEntry {
    order: LiveOrder,
    /// The order type that `Accepted` must state, with the post-only price applied.
    order_type: OrderType,
    answer: TableAnswer,
    /// The order trades at once at book prices and reserves nothing.
    at_once: bool,
}

/// Checks the answer to an order entry and everything that follows from it.
///
/// # Errors
/// S1 without exactly one answer, or if the accepted terms differ from those entered. M5 if the
/// first broken rule is another one. Also the errors of the matching that follows.
pub fn check_entry(model: &mut VenueModel, reader: &mut EventReader<'_>, new: &NewOrder) -> CheckResult {
    let expected = expected_entry(model, new);
    match reader.peek(model)? {
        Some(Event::Rejected { order, account, reason }) if (*order, *account) == (new.id, new.account) => {
            reader.advance();
            let cost = expected.ok().and_then(|admitted| entry_cost(model, &admitted));
            check_refusal(model, expected.err(), *reason, new.account, cost)?;
        }
        Some(actual @ Event::Accepted { order, account, order_type, .. })
            if (*order, *account) == (new.id, new.account) =>
        {
            let NewOrder { id: order, account, side, instrument, tif, display, .. } = *new;
            // A reduce-only order may be reduced to its room.
            let lots = expected.as_ref().map_or(new.lots, |admitted| Lots(admitted.order.ordered));
            let order_type = *order_type;
            let as_entered = Event::Accepted { order, account, instrument, side, order_type, lots, tif, display };
            if *actual != as_entered {
                fail!(S1, "order {order} was accepted with other terms than entered: {actual:?}");
            }
            let admitted = match expected {
                Err(reason) => {
                    fail!(M5, "order {order} was accepted, but must be refused: {}", reason.name())
                }
                Ok(admitted) => admitted,
            };
            let expected = admitted.order_type;
            if order_type != expected {
                fail!(
                    S1,
                    "order {order} was accepted with other terms than entered: {order_type:?} and not {expected:?}"
                );
            }
            reader.advance();
            check_accepted_entry(model, reader, admitted)?;
        }
        _ => fail!(S1, "order {} was neither accepted nor refused, or both", new.id),
    }
    if let Some(Event::Rejected { order, .. } | Event::Accepted { order, .. }) = reader.peek(model)? {
        fail!(S1, "order {order} was neither accepted nor refused, or both");
    }
    reader.expect_end(model)
}

/// Returns the expected acceptance, or the first rule that forbids the order. Funds are not checked
/// here.
fn expected_entry(model: &VenueModel, new: &NewOrder) -> Result<ExpectedEntry, Reject> {
    let market = model.markets.get(new.instrument.0 as usize).ok_or(Reject::UnknownInstrument)?;
    let holder = model.ledger.accounts.get(new.account.0 as usize).ok_or(Reject::UnknownAccount)?;
    if market.session.phase == Phase::Deleted {
        return Err(Reject::InstrumentDeleted);
    }
    if holder.restrictions.closed {
        return Err(Reject::AccountClosed);
    }
    check_not_blocked(model, new.account, new.session)?;
    if !tables().permits(market.session.phase).enter {
        return Err(Reject::NotOpen);
    }
    legal_lots(new.lots)?;
    new.order_type.limit_price().map_or(Ok(()), legal_price)?;
    new.order_type.stop_price().map_or(Ok(()), legal_price)?;
    if model.orders.contains_key(&new.id) {
        return Err(Reject::DuplicateOrderId);
    }
    let answer = if model.uses_version_1 { market.version_1_answer(new)? } else { market.table_answer(new)? };
    market.check_session_scheduled(new.tif)?;
    market.check_order_terms(new)?;
    if !model.ignores_min_display {
        market.check_min_display(new.display, new.lots)?;
    }
    let lots = reduced_lots(model, new, answer)?;
    check_hidden_terms(market, new)?;
    check_expiry(model, new.tif)?;
    let mut order_type = new.order_type;
    if let Some(price) = order_type.limit_price() {
        market.check_band(price)?;
    }
    if let OrderType::Limit { price } = &mut order_type {
        *price = market.post_only_price(new.side, *price, new.post_only)?;
    }
    let (waits, kind) = (market.is_batched_now() || answer != TableAnswer::Immediate, kind_of(order_type));
    let is_priced = !matches!(kind, LiveOrderKind::Market | LiveOrderKind::Stop);
    let bound = if is_priced { Ok(None) } else { market.bound(new.side, holder.limited) };
    let at_once = kind == LiveOrderKind::Market && !waits;
    let worth = match order_type.limit_price() {
        Some(price) => NotionalBasis::Limit(price),
        None if !at_once => NotionalBasis::Waiting(bound.unwrap_or(None)),
        None if market.session.phase == Phase::ClosingPriceCross => model
            .market(new.instrument)
            .closing
            .cross_price()
            .map_or(NotionalBasis::Nothing, |price| NotionalBasis::Waiting(Some(price))),
        None => NotionalBasis::AtOnce,
    };
    market.check_limits(new.side, lots, worth)?;
    if waits && market.book.live_orders >= market.spec.max_resting_orders as usize {
        return Err(Reject::BookFull);
    }
    let most = model.definitions.accounts[new.account.0 as usize].settings.max_open_orders;
    if waits && most.is_some_and(|most| holder.live_orders.len() >= most as usize) {
        return Err(Reject::TooManyOpenOrders);
    }
    let bound = if at_once { market.collar(new.side) } else { bound? };
    let order = LiveOrder { open: lots, ordered: lots, ..entered_order(model, new, order_type, bound) };
    Ok(ExpectedEntry { order, order_type, answer, at_once })
}

/// Returns the quantity of the order. A reduce-only order that is not a stop has at most its room.
fn reduced_lots(model: &VenueModel, new: &NewOrder, answer: TableAnswer) -> Result<u64, Reject> {
    if !new.reduce_only || model.ignores_reduce_only {
        return Ok(new.lots.0);
    }
    let market = model.market(new.instrument);
    let kind = kind_of(new.order_type);
    let is_stop = matches!(kind, LiveOrderKind::Stop | LiveOrderKind::StopLimit);
    let is_followed = !market.spec.is_spot() && market.rules.allocation == Allocation::PriceTime;
    let acts = market.session.phase == Phase::Continuous && answer != TableAnswer::Park;
    if !is_followed || kind == LiveOrderKind::Hidden || new.display.is_some() || !(acts || is_stop) {
        return Err(Reject::ReduceOnlyNotAllowed);
    }
    if is_stop {
        return Ok(new.lots.0);
    }
    match model.room(new.account, new.instrument, new.side) {
        0 => Err(Reject::NothingToReduce),
        room => Ok(new.lots.0.min(room)),
    }
}

fn check_hidden_terms(market: &MarketState, new: &NewOrder) -> Result<(), Reject> {
    match new.order_type {
        OrderType::Hidden { minimum_execution, .. } => {
            market.check_hidden_sizes(new.lots.0, new.lots.0, minimum_execution.0)
        }
        _ => Ok(()),
    }
}

fn entered_order(model: &VenueModel, new: &NewOrder, order_type: OrderType, bound: Option<Ticks>) -> LiveOrder {
    LiveOrder {
        id: new.id,
        account: new.account,
        instrument: new.instrument,
        side: new.side,
        kind: kind_of(order_type),
        place: LiveOrderState::Active,
        tif: new.tif,
        price: order_type.limit_price().unwrap_or_default(),
        stop: order_type.stop_price().unwrap_or_default(),
        minimum: match order_type {
            OrderType::Hidden { minimum_execution, .. } => minimum_execution.0,
            _ => 0,
        },
        bound,
        open: new.lots.0,
        shown: 0,
        peak: new.display,
        ordered: new.lots.0,
        arrival: 0,
        entered: model.venue_day.map(|(day, _)| day),
        mode: new.self_match,
        group: new.match_group,
        session: new.session,
        cancel_on_disconnect: new.cancel_on_disconnect,
        reduce_only: new.reduce_only && !model.ignores_reduce_only,
    }
}

/// Returns the cost of a spot order, which the account must have. The cost of a market order is
/// the sum over the offers that it can reach within its limit.
fn entry_cost(model: &VenueModel, admitted: &ExpectedEntry) -> Option<(CurrencyId, i128)> {
    let order = &admitted.order;
    let (currency, units) = model.order_cost(order, order.open)?;
    if !admitted.at_once || order.side == Side::Sell {
        return Some((currency, units));
    }
    let terms = &model.market(order.instrument).terms;
    if model.market(order.instrument).session.phase == Phase::ClosingPriceCross {
        return None;
    }
    let reach = reachable_fills(model, &incoming_order(model, *order, order.mode, false));
    let asked = reach.into_iter().filter_map(|(price, lots)| Some(terms.cost(order.side, price, lots)?.1));
    Some((currency, asked.sum()))
}

fn check_accepted_entry(model: &mut VenueModel, reader: &mut EventReader<'_>, admitted: ExpectedEntry) -> CheckResult {
    let ExpectedEntry { mut order, at_once, .. } = admitted;
    let instrument = order.instrument;
    order.arrival = model.orders.next_priority();
    let cost = model.order_cost(&order, order.open);
    match (at_once, order.side) {
        (false, _) => model.ledger.reserve_checked(order.account, cost)?,
        (true, Side::Sell) => model.ledger.check_can_spend(order.account, cost)?,
        (true, Side::Buy) => {} // checked trade by trade
    }
    let before = model.market(instrument).book.touch();
    if matches!(order.kind, LiveOrderKind::Stop | LiveOrderKind::StopLimit) {
        add_order(model, reader, LiveOrder { place: LiveOrderState::Unelected, ..order });
        if model.market(instrument).session.phase == Phase::Continuous && has_reached_stop(model, &order) {
            return check_immediate_election(model, reader, &order, before);
        }
        return check_conclusion(model, reader, instrument);
    }
    if admitted.answer == TableAnswer::Park {
        check_parked(model, reader, &order)?;
        add_order(model, reader, LiveOrder { place: LiveOrderState::Parked, ..order });
        return check_conclusion(model, reader, instrument);
    }
    let arrived = order.is_hidden().then_some(order.id);
    let market = model.market(instrument);
    if market.session.phase == Phase::ClosingPriceCross {
        let taker = incoming_order(model, order, order.mode, !at_once);
        check_cross_arrival(model, reader, taker)?;
    } else if market.session.phase == Phase::Continuous && !market.is_batched() {
        let taker = incoming_order(model, order, order.mode, !at_once);
        if check_matching(model, reader, taker)?.is_some() {
            check_volatility_call(model, reader, instrument, &[])?;
            return check_conclusion(model, reader, instrument);
        }
        check_settling(model, reader, instrument, Some(before), arrived)?;
    } else {
        add_order(model, reader, LiveOrder { shown: order.displayed_lots(), mode: None, ..order });
    }
    check_conclusion(model, reader, instrument)
}
