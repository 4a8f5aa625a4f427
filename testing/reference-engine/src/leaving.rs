//! Cancels one order or many, expires orders, ends the day and begins an epoch.

use pitwire_model::{
    AccountId, CancelFilter, CancelReason, Epoch, Event, OrderId, Reject, RemainingSessions, SessionReason,
    TimeInForce, VenueNanos,
};

use crate::market::ReferenceMarket;
use crate::order::{ReferenceOrder, ReferenceOrderKind, ReferenceOrderState};
use crate::reporting::close_reporting;
use crate::state::VenueState;
use crate::trading::{publish_conclusion, settle_market};

pub fn cancel_order(venue: &mut VenueState, account: AccountId, order: OrderId, out: &mut Vec<Event>) {
    let refused = |reason| Event::CancelRefused { order, account, reason };
    match venue.find_order(order) {
        None => out.push(refused(Reject::UnknownOrder)),
        Some((_, found)) if found.account != account => out.push(refused(Reject::NotOwner)),
        Some(_) => _ = cancel_matching(venue, |_, candidate| candidate.id == order, CancelReason::Requested, out),
    }
}

pub fn cancel_orders(
    venue: &mut VenueState,
    account: AccountId,
    which: &CancelFilter,
    reason: CancelReason,
    out: &mut Vec<Event>,
) {
    let leaves = |market: &ReferenceMarket, order: &ReferenceOrder| {
        order.account == account
            && match which {
                CancelFilter::All => true,
                CancelFilter::Instrument(only) => *only == market.spec.id,
                CancelFilter::Session(session) => order.session == *session,
                CancelFilter::Listed(orders) => orders.contains(&order.id),
            }
    };
    cancel_matching(venue, leaves, reason, out);
}

pub fn end_day(venue: &mut VenueState, out: &mut Vec<Event>) {
    for at in 0..venue.markets.len() {
        close_reporting(venue, venue.markets[at].spec.id, SessionReason::Scheduled, out);
        let since = out.len();
        for id in venue.markets[at].order_ids(|_| true) {
            let Some(order) = venue.markets[at].get(id).copied() else { continue };
            if order.is_active() && order.tif == TimeInForce::AnyCall {
                venue.markets[at].park(id, out);
            } else if let Some(reason) = day_end_reason(venue, &order) {
                venue.markets[at].cancel(id, reason, out);
            }
        }
        settle_market(venue, at, None, out);
        publish_conclusion(venue, at, since, out);
        venue.markets[at].closing.end_day();
        venue.markets[at].session.remaining = RemainingSessions::default();
    }
    out.push(Event::DayEnded);
}

fn day_end_reason(venue: &VenueState, order: &ReferenceOrder) -> Option<CancelReason> {
    let is_active = matches!(order.place, ReferenceOrderState::Active | ReferenceOrderState::Elected);
    if is_active && order.kind == ReferenceOrderKind::Market {
        return Some(CancelReason::DayEnded);
    }
    match order.tif {
        TimeInForce::AnyCall => None,
        TimeInForce::GoodTillDate { day } => (day <= venue.day).then_some(CancelReason::DateReached),
        TimeInForce::GoodTillCancel => {
            let is_old = order.entered.0 > 0 && venue.day.0 >= order.entered.0.saturating_add(90);
            is_old.then_some(CancelReason::NinetyDays)
        }
        _ => Some(CancelReason::DayEnded),
    }
}

pub fn expire_orders(venue: &mut VenueState, out: &mut Vec<Event>) {
    for at in 0..venue.markets.len() {
        let market = &venue.markets[at];
        if market.session.phase.is_call() {
            continue;
        }
        let mut over: Vec<(VenueNanos, OrderId)> = Vec::new();
        for order in &market.orders {
            if let TimeInForce::GoodTillTime { at } = order.tif
                && at <= venue.now
            {
                over.push((at, order.id));
            }
        }
        over.sort();
        if over.is_empty() {
            continue;
        }
        let since = out.len();
        for (_, id) in over {
            venue.markets[at].cancel(id, CancelReason::TimeReached, out);
        }
        settle_market(venue, at, None, out);
        publish_conclusion(venue, at, since, out);
    }
}

pub fn start_epoch(venue: &mut VenueState, epoch: Epoch, out: &mut Vec<Event>) {
    cancel_matching(venue, |_, order| order.cancel_on_disconnect, CancelReason::Disconnected, out);
    venue.epoch = epoch;
    venue.killed_sessions.clear();
    out.push(Event::EpochStarted { epoch });
}

/// Cancels matching orders, by instrument and then by order id. Returns their number.
pub fn cancel_matching(
    venue: &mut VenueState,
    leaves: impl Fn(&ReferenceMarket, &ReferenceOrder) -> bool,
    reason: CancelReason,
    out: &mut Vec<Event>,
) -> u32 {
    let mut gone = 0;
    for at in 0..venue.markets.len() {
        let market = &mut venue.markets[at];
        let ids = market.order_ids(|order| leaves(market, order));
        if ids.is_empty() {
            continue;
        }
        let since = out.len();
        for id in ids {
            market.cancel(id, reason, out);
            gone += 1;
        }
        settle_market(venue, at, None, out);
        publish_conclusion(venue, at, since, out);
    }
    gone
}
