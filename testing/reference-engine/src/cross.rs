//! The closing price cross: one price, in order of time alone.

use pitwire_model::{CancelReason, Event, SelfMatch, Side, TimeInForce, TradeKind};

use crate::fills::{add_to_book, publish_trade, settle_fill};
use crate::market::ReferenceMarket;
use crate::order::{ReferenceOrder, ReferenceOrderKind, cancelled, refreshed};
use crate::reach::{cancels_incoming, cancels_resting, is_self_match};
use crate::state::VenueState;

/// Starts the cross: resting orders arrive one after another, in order of time.
pub fn begin_cross(venue: &mut VenueState, at: usize, out: &mut Vec<Event>) {
    let market = &mut venue.markets[at];
    let price = market.closing.cross_price();
    let mut participants = market.cross_participants(Side::Buy, price);
    participants.extend(market.cross_participants(Side::Sell, price));
    participants.sort_by_key(|order| order.time);
    market.orders.retain(|order| participants.iter().all(|arriving| arriving.id != order.id));
    let mut touched: Vec<ReferenceOrder> = Vec::new();
    for order in participants {
        let mode = venue.self_match_mode(order.account);
        let (left, is_prevented) = trade_in_cross(venue, at, order, mode, true, &mut touched, out);
        if left.open > 0 && is_prevented {
            out.push(cancelled(venue.markets[at].spec.id, &left, CancelReason::SelfMatch));
            touched.push(left);
        } else if left.open > 0 {
            venue.markets[at].orders.push(left);
        }
        if left.open < order.open {
            touched.push(left);
        }
    }
    venue.markets[at].publish_levels(touched.iter(), out);
}

/// Trades an order that arrives while the cross runs, and cancels or rests its remainder.
pub fn arrive_in_cross(
    venue: &mut VenueState,
    at: usize,
    order: ReferenceOrder,
    mode: SelfMatch,
    out: &mut Vec<Event>,
) {
    let instrument = venue.markets[at].spec.id;
    if order.tif == TimeInForce::FillOrKill && venue.markets[at].cross_lots(&order, mode) < order.open {
        out.push(cancelled(instrument, &order, CancelReason::FillOrKill));
        return;
    }
    let mut touched = Vec::new();
    let (left, is_prevented) = trade_in_cross(venue, at, order, mode, false, &mut touched, out);
    venue.markets[at].publish_levels(touched.iter(), out);
    let waits_for_price = left.kind == ReferenceOrderKind::Market && left.tif == TimeInForce::ClosingCross;
    if left.open == 0 {
    } else if is_prevented {
        out.push(cancelled(instrument, &left, CancelReason::SelfMatch));
    } else if left.acts_at_once() || (left.kind == ReferenceOrderKind::Market && !waits_for_price) {
        out.push(cancelled(instrument, &left, CancelReason::ImmediateRemainder));
    } else {
        add_to_book(venue, at, left, out);
    }
}

/// Trades an order with the orders that arrived earlier. Returns the remainder and whether
/// self-match prevention cancels it.
fn trade_in_cross(
    venue: &mut VenueState,
    at: usize,
    mut taker: ReferenceOrder,
    mode: SelfMatch,
    was_resting: bool,
    touched: &mut Vec<ReferenceOrder>,
    out: &mut Vec<Event>,
) -> (ReferenceOrder, bool) {
    let instrument = venue.markets[at].spec.id;
    let Some(price) =
        venue.markets[at].closing.cross_price().filter(|price| ReferenceMarket::takes_part(&taker, Some(*price)))
    else {
        return (taker, false);
    };
    for resting in venue.markets[at].cross_participants(taker.side.opposite(), Some(price)) {
        if taker.open == 0 {
            break;
        }
        if is_self_match(&taker, mode, &resting) {
            if cancels_resting(mode) {
                venue.markets[at].remove(resting.id);
                out.push(cancelled(instrument, &resting, CancelReason::SelfMatch));
                touched.push(resting);
            }
            if cancels_incoming(mode) {
                return (taker, true);
            }
            continue;
        }
        let lots = taker.open.min(resting.open);
        let mut maker = venue.markets[at].remove(resting.id);
        maker.open -= lots;
        taker.open -= lots;
        publish_trade(venue, at, &maker, &taker, price, lots, TradeKind::Cross, out);
        shows_again(instrument, &mut maker, lots, out);
        if was_resting {
            shows_again(instrument, &mut taker, lots, out);
        }
        if maker.open > 0 {
            venue.markets[at].orders.push(maker);
        }
        touched.push(maker);
        settle_fill(venue, at, &maker, &taker, price, lots, out);
    }
    (taker, false)
}

/// Displays the peak of an iceberg again without loss of priority.
fn shows_again(instrument: pitwire_model::InstrumentId, order: &mut ReferenceOrder, traded: u64, out: &mut Vec<Event>) {
    let less = order.shown.saturating_sub(traded);
    order.shown = order.displayed_lots();
    if order.open > 0 && order.shown > less && order.peak.is_some() {
        out.push(refreshed(instrument, order));
    }
}
