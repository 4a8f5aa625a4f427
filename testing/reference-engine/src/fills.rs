//! Records fills and resting orders: events, money, iceberg refills and execution throttles.

use pitwire_model::{AccountId, Event, Lots, Ticks, TradeKind, TradeSeq};

use crate::order::{ReferenceOrder, ReferenceOrderState, refreshed};
use crate::state::VenueState;

/// Adds an order to the book without trading.
pub fn add_to_book(venue: &mut VenueState, at: usize, mut order: ReferenceOrder, out: &mut Vec<Event>) {
    order.place = ReferenceOrderState::Active;
    order.shown = order.displayed_lots();
    store_order(venue, at, order);
    venue.markets[at].publish_level_of(&order, out);
}

/// Stores a live order, in the book or not. Its account gets a position entry for a perpetual.
pub fn store_order(venue: &mut VenueState, at: usize, order: ReferenceOrder) {
    let market = &mut venue.markets[at];
    market.orders.push(order);
    if !market.spec.is_spot() {
        let instrument = market.spec.id;
        venue.accounts[order.account.0 as usize].holdings.entry(instrument).or_default();
    }
}

/// Displays the next part of an iceberg, which loses priority.
pub fn refill_iceberg(venue: &mut VenueState, at: usize, order: &mut ReferenceOrder, out: &mut Vec<Event>) {
    order.time = venue.next_priority();
    order.shown = order.displayed_lots();
    out.push(refreshed(venue.markets[at].spec.id, order));
}

#[allow(clippy::too_many_arguments, reason = "a trade has that many sides")]
pub fn publish_trade(
    venue: &mut VenueState,
    at: usize,
    maker: &ReferenceOrder,
    taker: &ReferenceOrder,
    price: Ticks,
    lots: u64,
    kind: TradeKind,
    out: &mut Vec<Event>,
) {
    let now = venue.now;
    let market = &mut venue.markets[at];
    market.trade_count += 1;
    market.closing.add_trade(market.trade_count, now, price, lots, kind);
    out.push(Event::Trade {
        instrument: market.spec.id,
        trade_seq: TradeSeq(market.trade_count),
        price,
        lots: Lots(lots),
        taker_side: taker.side,
        maker: maker.id,
        maker_account: maker.account,
        maker_open: Lots(maker.open),
        taker: taker.id,
        taker_account: taker.account,
        taker_open: Lots(taker.open),
        kind,
    });
}

/// Settles the money of a fill and counts it for both accounts.
pub fn settle_fill(
    venue: &mut VenueState,
    at: usize,
    maker: &ReferenceOrder,
    taker: &ReferenceOrder,
    price: Ticks,
    lots: u64,
    out: &mut Vec<Event>,
) {
    let instrument = venue.markets[at].spec.id;
    venue.settle_money(instrument, [(taker.account, taker.side), (maker.account, maker.side)], price, lots);
    count_execution(venue, maker.account, out);
    count_execution(venue, taker.account, out);
}

fn count_execution(venue: &mut VenueState, account: AccountId, out: &mut Vec<Event>) {
    let now = venue.now.0;
    let holder = &mut venue.accounts[account.0 as usize];
    let Some(throttle) = holder.spec.settings.throttle else { return };
    let window = now / throttle.window_ns;
    if window != holder.window {
        (holder.window, holder.executions) = (window, 0);
    }
    holder.executions += 1;
    if holder.executions > throttle.executions && !holder.throttled {
        holder.throttled = true;
        out.push(Event::ThrottleTripped { account });
    }
}
