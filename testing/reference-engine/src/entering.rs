//! Enters an order: the checks in the order of the rulebook, then the actions of an accepted order.

use pitwire_model::{Allocation, Event, Lots, NewOrder, OrderType, Phase, PostOnly, Reject, Side, Ticks};

use crate::fills::store_order;
use crate::market::ReferenceMarket;
use crate::order::{ReferenceOrder, ReferenceOrderKind, ReferenceOrderState};
use crate::order_checks::{check_expiry, check_limits, check_not_blocked, count_open_orders, may_rest};
use crate::rule_tables::{EntryAnswer, column, permits, type_takes};
use crate::state::VenueState;
use crate::trading::{act_in_session, elect_stop, publish_conclusion, run_elected, settle_market};
use crate::validity::{is_valid_price, is_valid_quantity};

fn kind_of(order_type: OrderType) -> ReferenceOrderKind {
    match order_type {
        OrderType::Limit { .. } => ReferenceOrderKind::Limit,
        OrderType::Market => ReferenceOrderKind::Market,
        OrderType::Hidden { .. } => ReferenceOrderKind::Hidden,
        OrderType::Stop { .. } => ReferenceOrderKind::Stop,
        OrderType::StopLimit { .. } => ReferenceOrderKind::StopLimit,
    }
}

/// Returns the order type with another limit price.
fn with_price(order_type: OrderType, price: Ticks) -> OrderType {
    match order_type {
        OrderType::Limit { .. } => OrderType::Limit { price },
        OrderType::Hidden { minimum_execution, .. } => OrderType::Hidden { price, minimum_execution },
        OrderType::StopLimit { stop, .. } => OrderType::StopLimit { stop, price },
        unpriced => unpriced,
    }
}

/// An order that passed every check, and how the session treats it.
pub struct AdmittedEntry {
    pub order: ReferenceOrder,
    pub order_type: OrderType,
    pub answer: EntryAnswer,
}

pub fn enter_order(venue: &mut VenueState, new: &NewOrder, out: &mut Vec<Event>) {
    let AdmittedEntry { mut order, order_type, answer } = match check_entry(venue, new) {
        Ok(admitted) => admitted,
        Err(reason) => {
            out.push(Event::Rejected { order: new.id, account: new.account, reason });
            return;
        }
    };
    venue.last_session = venue.last_session.max(new.session);
    out.push(Event::Accepted {
        order: new.id,
        account: new.account,
        instrument: new.instrument,
        side: new.side,
        order_type,
        lots: Lots(order.ordered),
        tif: new.tif,
        display: new.display,
    });
    let at = new.instrument.0 as usize;
    let since = out.len();
    order.time = venue.next_priority();
    if answer == EntryAnswer::Park {
        park_or_await_stop(venue, at, order, out);
    } else {
        let mode = order.mode.take().unwrap_or_else(|| venue.self_match_mode(order.account));
        act_in_session(venue, at, order, mode, out);
    }
    let fresh = (order.kind == ReferenceOrderKind::Hidden).then_some(order.id);
    settle_market(venue, at, fresh, out);
    publish_conclusion(venue, at, since, out);
}

fn park_or_await_stop(venue: &mut VenueState, at: usize, mut order: ReferenceOrder, out: &mut Vec<Event>) {
    let is_stop = matches!(order.kind, ReferenceOrderKind::Stop | ReferenceOrderKind::StopLimit);
    order.place = if is_stop { ReferenceOrderState::Unelected } else { ReferenceOrderState::Parked };
    store_order(venue, at, order);
    let market = &venue.markets[at];
    if !is_stop {
        let ReferenceOrder { id, account, open, .. } = order;
        out.push(Event::Parked { order: id, account, instrument: market.spec.id, open: Lots(open) });
    } else if market.session.phase == Phase::Continuous && market.has_reached_stop(&order) {
        elect_stop(venue, at, order.id, out);
        run_elected(venue, at, out);
    }
}

fn check_entry(venue: &VenueState, asked: &NewOrder) -> Result<AdmittedEntry, Reject> {
    let mut reduced = asked.clone();
    let new = &mut reduced;
    let market = venue.market(new.instrument).ok_or(Reject::UnknownInstrument)?;
    let account = venue.account(new.account).ok_or(Reject::UnknownAccount)?;
    if market.session.phase == Phase::Deleted {
        return Err(Reject::InstrumentDeleted);
    }
    if account.closed {
        return Err(Reject::AccountClosed);
    }
    check_not_blocked(venue, new.account, new.session)?;
    if !permits(market.session.phase).enter {
        return Err(Reject::NotOpen);
    }
    if !is_valid_quantity(new.lots.0) {
        return Err(Reject::QuantityOutOfRange);
    }
    let prices = [new.order_type.limit_price(), new.order_type.stop_price()];
    if prices.into_iter().flatten().any(|price| !is_valid_price(price)) {
        return Err(Reject::PriceOutOfRange);
    }
    if venue.find_order(new.id).is_some() {
        return Err(Reject::DuplicateOrderId);
    }
    let kind = kind_of(new.order_type);
    let is_iceberg = kind == ReferenceOrderKind::Limit && new.display.is_some();
    if !type_takes(new.tif, column(kind, is_iceberg)) {
        return Err(if is_iceberg { Reject::DisplayOutOfRange } else { Reject::TifNotAllowedForType });
    }
    let answer = market.table_answer(kind, new.tif, is_iceberg)?;
    if !market.is_session_ahead(new.tif) {
        return Err(Reject::NoAuctionScheduled);
    }
    if new.post_only != PostOnly::No && !market.allows_post_only(kind, new.tif) {
        return Err(Reject::PostOnlyNotAllowed);
    }
    let fits = |display: &Lots| may_rest(kind, new.tif) && market.fits_display(*display, new.lots);
    if new.display.is_some_and(|display| !fits(&display)) {
        return Err(Reject::DisplayOutOfRange);
    }
    if new.reduce_only {
        let may_act = market.follows_positions() && answer != EntryAnswer::Park;
        let is_stop = new.order_type.stop_price().is_some();
        let is_fit = !market.spec.is_spot() && market.allocation() == Allocation::PriceTime;
        if !is_fit || kind == ReferenceOrderKind::Hidden || new.display.is_some() || !(is_stop || may_act) {
            return Err(Reject::ReduceOnlyNotAllowed);
        }
        if !is_stop {
            new.lots = Lots(new.lots.0.min(venue.room(new.account, new.instrument, new.side)));
        }
        if new.lots.0 == 0 {
            return Err(Reject::NothingToReduce);
        }
    }
    if let OrderType::Hidden { minimum_execution, .. } = new.order_type {
        market.check_hidden_sizes(new.lots.0, new.lots.0, minimum_execution.0)?;
    }
    check_expiry(venue, new.tif)?;
    let mut order_type = new.order_type;
    if let Some(price) = new.order_type.limit_price() {
        if !market.is_in_band(price) {
            return Err(Reject::PriceOutsideBand);
        }
        order_type = with_price(order_type, market.post_only_price(new.side, price, new.post_only)?);
    }
    let order = new_order(venue, new, kind, order_type, answer);
    check_capacity(venue, market, &order, answer)?;
    Ok(AdmittedEntry { order, order_type, answer })
}

/// Checks limits, the number of orders, and funds.
fn check_capacity(
    venue: &VenueState,
    market: &ReferenceMarket,
    order: &ReferenceOrder,
    answer: EntryAnswer,
) -> Result<(), Reject> {
    let at_once = answer == EntryAnswer::Immediate && !market.is_batching();
    let instrument = market.spec.id;
    check_limits(venue, instrument, order, at_once)?;
    if !at_once && market.orders.len() >= market.spec.max_resting_orders as usize {
        return Err(Reject::BookFull);
    }
    let most = venue.accounts[order.account.0 as usize].spec.settings.max_open_orders;
    if !at_once && most.is_some_and(|most| count_open_orders(venue, order.account) >= most as usize) {
        return Err(Reject::TooManyOpenOrders);
    }
    if venue.affords_entry(instrument, order, at_once) { Ok(()) } else { Err(Reject::NotEnoughFunds) }
}

fn new_order(
    venue: &VenueState,
    new: &NewOrder,
    kind: ReferenceOrderKind,
    order_type: OrderType,
    answer: EntryAnswer,
) -> ReferenceOrder {
    let market = &venue.markets[new.instrument.0 as usize];
    let at_once = answer == EntryAnswer::Immediate && !market.is_batching();
    let mut order = ReferenceOrder {
        id: new.id,
        account: new.account,
        side: new.side,
        kind,
        place: ReferenceOrderState::Active,
        tif: new.tif,
        price: order_type.limit_price().unwrap_or(Ticks(0)),
        stop: order_type.stop_price().unwrap_or(Ticks(0)),
        minimum: match order_type {
            OrderType::Hidden { minimum_execution, .. } => minimum_execution.0,
            _ => 0,
        },
        bound: None,
        open: new.lots.0,
        shown: 0,
        peak: new.display,
        ordered: new.lots.0,
        time: 0,
        entered: venue.day,
        group: new.match_group,
        mode: new.self_match,
        session: new.session,
        cancel_on_disconnect: new.cancel_on_disconnect,
        reduce_only: new.reduce_only,
    };
    if !order.has_price() {
        let waits_for_funds = !at_once && order.side == Side::Buy && venue.is_limited(order.account);
        let bound = market.collar(order.side).or_else(|| market.buy_protection_price().filter(|_| waits_for_funds));
        order.bound = bound.map(|bound| bound.min(Ticks::MAX_PRICE));
    }
    order
}
