//! What follows when an order acts: its trades, filters of hidden orders, elected stops, and the
//! volatility call after a breach. These steps call each other, so they share one module.

use pitwire_model::{CancelReason, Event, InstrumentId, Lots, OrderId, Phase, SelfMatch, SessionReason, TimeInForce};

use crate::continuous::{WalkEnd, match_order};
use crate::cross::arrive_in_cross;
use crate::fills::add_to_book;
use crate::market::IndicativeValues;
use crate::order::{ReferenceOrder, ReferenceOrderKind, ReferenceOrderState, cancelled};
use crate::phases::{begin_session, inject_parked, volatility_call_end};
use crate::reducing::{follow_positions, reduce_elected};
use crate::state::VenueState;
use crate::uncross::{FilterResult, filter_once};

/// Matches an order in continuous trading and rests or cancels its remainder. Returns whether a
/// breach started a volatility call.
fn trade_or_rest(
    venue: &mut VenueState,
    at: usize,
    order: ReferenceOrder,
    mode: SelfMatch,
    out: &mut Vec<Event>,
) -> bool {
    let instrument = venue.markets[at].spec.id;
    if order.tif == TimeInForce::FillOrKill && venue.markets[at].reachable_lots(venue, &order, mode) < order.open {
        out.push(cancelled(instrument, &order, CancelReason::FillOrKill));
        return false;
    }
    let (left, end) = match_order(venue, at, order, mode, out);
    if let WalkEnd::Breached(breach) = end {
        out.push(breach.event(instrument));
        cancel_or_rest(venue, at, left, CancelReason::Breaker, out);
        begin_volatility_call(venue, at, out);
        return true;
    }
    match end {
        _ if left.open == 0 => {}
        WalkEnd::SelfMatchPrevented => out.push(cancelled(instrument, &left, CancelReason::SelfMatch)),
        WalkEnd::BelowMinimum => out.push(cancelled(instrument, &left, CancelReason::BelowMinimumExecution)),
        _ => cancel_or_rest(venue, at, left, CancelReason::ImmediateRemainder, out),
    }
    false
}

fn cancel_or_rest(venue: &mut VenueState, at: usize, left: ReferenceOrder, reason: CancelReason, out: &mut Vec<Event>) {
    if left.open == 0 {
    } else if left.kind == ReferenceOrderKind::Market || left.acts_at_once() {
        out.push(cancelled(venue.markets[at].spec.id, &left, reason));
    } else {
        add_to_book(venue, at, left, out);
    }
}

/// Lets an order act as the current session requires.
pub fn act_in_session(venue: &mut VenueState, at: usize, order: ReferenceOrder, mode: SelfMatch, out: &mut Vec<Event>) {
    let market = &venue.markets[at];
    if market.trades_on_entry() {
        trade_or_rest(venue, at, order, mode, out);
    } else if market.session.phase == Phase::ClosingPriceCross {
        arrive_in_cross(venue, at, order, mode, out);
    } else {
        add_to_book(venue, at, order, out);
    }
}

/// Runs filters and elected stops after a command acted in continuous trading. `fresh` is a new or
/// amended hidden order.
pub fn settle_market(venue: &mut VenueState, at: usize, fresh: Option<OrderId>, out: &mut Vec<Event>) {
    follow_positions(venue, at, out);
    if venue.markets[at].is_batching() {
        elect_stops(venue, at, out);
        run_elected(venue, at, out);
    }
    if !venue.markets[at].trades_on_entry() {
        return;
    }
    if let Some(fresh) = fresh {
        while venue.markets[at].get(fresh).is_some_and(|order| order.is_active() && order.is_hidden()) {
            match filter_or_call(venue, at, Some(fresh), out) {
                FilterResult::Traded => follow_positions(venue, at, out),
                FilterResult::Nothing => break,
                FilterResult::Breached => return,
            }
        }
    }
    loop {
        if venue.markets[at].filtered_touch != Some(venue.markets[at].touch()) {
            loop {
                match filter_or_call(venue, at, None, out) {
                    FilterResult::Traded => follow_positions(venue, at, out),
                    FilterResult::Nothing => break,
                    FilterResult::Breached => return,
                }
            }
        }
        venue.markets[at].filtered_touch = Some(venue.markets[at].touch());
        if !elect_stops(venue, at, out) || run_elected(venue, at, out) {
            return;
        }
        follow_positions(venue, at, out);
    }
}

/// Reduces reduce-only orders after positions have changed outside the book, with what follows.
pub fn settle_positions(venue: &mut VenueState, instrument: InstrumentId, out: &mut Vec<Event>) {
    let (at, since) = (instrument.0 as usize, out.len());
    settle_market(venue, at, None, out);
    publish_conclusion(venue, at, since, out);
}

/// Elects every stop whose price was reached. Returns whether there was one.
pub fn elect_stops(venue: &mut VenueState, at: usize, out: &mut Vec<Event>) -> bool {
    let market = &venue.markets[at];
    let Some(last) = market.prices.last else { return false };
    let mut due: Vec<ReferenceOrder> = market
        .orders
        .iter()
        .filter(|order| order.place == ReferenceOrderState::Unelected && market.has_reached_stop(order))
        .copied()
        .collect();
    due.sort_by_key(|order| (order.side, -(order.stop.0 - last.0).abs(), order.id));
    for order in &due {
        elect_stop(venue, at, order.id, out);
    }
    !due.is_empty()
}

/// Elects one stop, which becomes a market or a limit order.
pub fn elect_stop(venue: &mut VenueState, at: usize, id: OrderId, out: &mut Vec<Event>) {
    let time = venue.next_priority();
    let market = &mut venue.markets[at];
    let (instrument, last) = (market.spec.id, market.prices.last.expect("a stop is elected by a last price"));
    let order = market.get_mut(id);
    order.time = time;
    order.place = ReferenceOrderState::Elected;
    order.kind =
        if order.kind == ReferenceOrderKind::Stop { ReferenceOrderKind::Market } else { ReferenceOrderKind::Limit };
    out.push(Event::Triggered { order: id, account: order.account, instrument, last });
}

/// Lets elected stops act in order of election. Returns whether a breach started a volatility call.
pub fn run_elected(venue: &mut VenueState, at: usize, out: &mut Vec<Event>) -> bool {
    for order in venue.markets[at].elected() {
        let order = venue.markets[at].remove(order.id);
        let mode = order.mode.unwrap_or_else(|| venue.self_match_mode(order.account));
        let order = ReferenceOrder { place: ReferenceOrderState::Active, mode: None, ..order };
        let Some(order) = reduce_elected(venue, at, order, out) else { continue };
        if run_elected_order(venue, at, order, mode, out) {
            return true;
        }
    }
    false
}

fn run_elected_order(
    venue: &mut VenueState,
    at: usize,
    order: ReferenceOrder,
    mode: SelfMatch,
    out: &mut Vec<Event>,
) -> bool {
    let market = &venue.markets[at];
    let phase = market.session.phase;
    if market.trades_on_entry() {
        return trade_or_rest(venue, at, order, mode, out);
    }
    if phase == Phase::ClosingPriceCross {
        arrive_in_cross(venue, at, order, mode, out);
        return false;
    }
    let expires = match phase {
        Phase::Continuous => order.tif == TimeInForce::FillOrKill,
        _ if phase.is_call() => order.acts_at_once(),
        _ => order.kind == ReferenceOrderKind::Market || order.acts_at_once(),
    };
    if expires {
        out.push(cancelled(market.spec.id, &order, CancelReason::NothingExecutes));
    } else {
        add_to_book(venue, at, order, out);
    }
    false
}

/// Starts the volatility call after a breach in continuous trading. The remainder of the incoming
/// order must already rest or be cancelled.
pub fn begin_volatility_call(venue: &mut VenueState, at: usize, out: &mut Vec<Event>) {
    venue.markets[at].cancel_reduce_only(Phase::VolatilityCall, out);
    let ends = volatility_call_end(venue, at);
    begin_session(venue, at, Phase::VolatilityCall, Some(SessionReason::Breaker), Some(ends), out);
    inject_parked(venue, at, out);
    elect_stops(venue, at, out);
    run_elected(venue, at, out);
}

/// Publishes the last events of a command for an instrument: changed indicative values and the
/// change number.
pub fn publish_conclusion(venue: &mut VenueState, at: usize, since: usize, out: &mut Vec<Event>) {
    let market = &mut venue.markets[at];
    let instrument = market.spec.id;
    if market.publishes_indicative() {
        let now = market.indicative_values();
        if now != market.call.published || market.call.must_publish {
            let IndicativeValues { price, volume, imbalance } = now;
            out.push(Event::Indicative { instrument, price, volume: Lots(volume), imbalance });
            market.call.published = now;
        }
    }
    market.call.must_publish = false;
    let changes = |event: &Event| event.is_public() && !matches!(event, Event::PhaseChanged { .. });
    if out[since..].iter().any(changes) {
        market.change_id += 1;
        out.push(Event::BookChanged { instrument, change_id: market.change_id });
    }
}

/// Filters once. A breach starts a volatility call.
fn filter_or_call(venue: &mut VenueState, at: usize, only: Option<OrderId>, out: &mut Vec<Event>) -> FilterResult {
    let result = filter_once(venue, at, only, out);
    if result == FilterResult::Breached {
        begin_volatility_call(venue, at, out);
    }
    result
}
