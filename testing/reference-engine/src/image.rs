//! Returns the state in the form of the engine's image, for comparison.

use pitwire_engine::rule_tables::TifSet;
use pitwire_engine::{
    AccountImage, AccountStatus, Balance, ClosingPriceInputs, EngineImage, IndicativeUncross, MarketImage, OrderImage,
    Position, Reporting, SessionImage, TradeRun, UndisplayedState,
};
use pitwire_model::{InstrumentId, OrderType, Phase, Seq, Side, Ticks, TimeInForce, TradeReport, TradeSeq, VenueDay};

use crate::account::{ReferenceAccount, ReferencePosition};
use crate::closing::SecondOfTrades;
use crate::market::{IndicativeValues, ReferenceMarket};
use crate::order::{ReferenceOrder, ReferenceOrderKind, ReferenceOrderState};
use crate::rule_tables::permits;
use crate::state::VenueState;

pub fn image(venue: &VenueState) -> EngineImage {
    EngineImage {
        epoch: venue.epoch,
        flow: venue.flow,
        last_session: venue.last_session,
        venue_killed: venue.venue_killed,
        killed_sessions: venue.killed_sessions.iter().copied().collect(),
        day: venue.day,
        closes: venue.closes,
        currencies: venue.currencies.clone(),
        markets: venue.markets.iter().map(|market| full_market_image(venue, market)).collect(),
        accounts: venue.accounts.iter().map(|account| account_image(venue, account)).collect(),
    }
}

fn full_market_image(venue: &VenueState, market: &ReferenceMarket) -> MarketImage {
    let of = |(_, trade): &&(Seq, TradeReport)| trade.instrument == market.spec.id;
    let reporting = Reporting {
        open: market.reporting_hours.is_some(),
        ends: market.reporting_hours.and_then(|hours| hours.ends),
        trades: market.off_book_trades,
        waiting: venue.reports.iter().filter(of).cloned().collect(),
    };
    MarketImage { reporting, ..market_image(market) }
}

fn account_image(venue: &VenueState, account: &ReferenceAccount) -> AccountImage {
    let id = account.spec.id;
    let balance =
        |(at, total): (usize, &i128)| Balance { total: *total, reserved: venue.reserved(id, venue.currencies[at].id) };
    let position = |(&instrument, holding): (&InstrumentId, &ReferencePosition)| {
        let position = Position {
            lots: holding.lots,
            entry_value: holding.entry_value,
            realized: holding.realized,
            open_buy_lots: venue.open_lots(id, instrument, Side::Buy),
            open_sell_lots: venue.open_lots(id, instrument, Side::Sell),
        };
        (instrument, position)
    };
    AccountImage {
        spec: account.spec.clone(),
        balances: account.totals.iter().enumerate().map(balance).collect(),
        positions: account.holdings.iter().map(position).collect(),
        standing: AccountStatus {
            closed: account.closed,
            killed: account.killed,
            throttled: account.throttled,
            window: account.window,
            executions: account.executions,
            credit_lines: account
                .credit_lines
                .iter()
                .filter(|line| *line.1 > 0)
                .map(|(id, units)| (*id, *units))
                .collect(),
        },
    }
}

pub fn lots(lots: u64) -> u32 {
    u32::try_from(lots).expect("no order is larger")
}

/// Returns where an order waits outside the visible book.
fn place_of(order: &ReferenceOrder) -> Option<UndisplayedState> {
    match (order.place, order.kind) {
        (ReferenceOrderState::Active, ReferenceOrderKind::Hidden) => Some(UndisplayedState::Hidden),
        (ReferenceOrderState::Active, ReferenceOrderKind::Limit) => None,
        (ReferenceOrderState::Active, _) => Some(UndisplayedState::Unpriced),
        (ReferenceOrderState::Parked, _) => Some(UndisplayedState::Parked),
        (ReferenceOrderState::Unelected, _) => Some(UndisplayedState::Unelected),
        (ReferenceOrderState::Elected, _) => Some(UndisplayedState::Elected),
    }
}

fn order_image(market: &ReferenceMarket, order: &ReferenceOrder) -> OrderImage {
    let place = place_of(order);
    let price = order.price;
    let waits =
        matches!(place, Some(UndisplayedState::Parked | UndisplayedState::Unelected | UndisplayedState::Elected));
    let ages = order.tif == TimeInForce::GoodTillCancel;
    let is_bounded = !order.has_price();
    OrderImage {
        id: order.id,
        account: order.account,
        side: order.side,
        place,
        order_type: match order.kind {
            ReferenceOrderKind::Market => OrderType::Market,
            ReferenceOrderKind::Limit => OrderType::Limit { price },
            ReferenceOrderKind::Hidden => {
                OrderType::Hidden { price, minimum_execution: pitwire_model::Lots(order.minimum) }
            }
            ReferenceOrderKind::Stop => OrderType::Stop { stop: order.stop },
            ReferenceOrderKind::StopLimit => OrderType::StopLimit { stop: order.stop, price },
        },
        tif: order.tif,
        entered: if ages { order.entered } else { VenueDay(0) },
        open: lots(order.open),
        ordered: lots(order.ordered),
        shown: if place.is_none() { lots(order.shown) } else { 0 },
        display: order.peak.map_or(0, |peak| lots(peak.0)),
        bound: order.bound.filter(|_| is_bounded).unwrap_or(Ticks(0)),
        rank: lots(market.orders.iter().filter(|other| other.time <= order.time).count() as u64),
        mode: order.mode.filter(|_| waits),
        session: order.session,
        group: order.group,
        cancel_on_disconnect: order.cancel_on_disconnect,
        reduce_only: order.reduce_only,
    }
}

fn market_image(market: &ReferenceMarket) -> MarketImage {
    let mut beside: Vec<&ReferenceOrder> = market.orders.iter().filter(|order| place_of(order).is_some()).collect();
    beside.sort_by_key(|order| (place_of(order).map(|place| place as u8), order.id));
    let shown: Vec<ReferenceOrder> =
        [Side::Buy, Side::Sell].into_iter().flat_map(|side| market.visible_queue(side)).collect();
    let orders = shown.iter().chain(beside).map(|order| order_image(market, order)).collect();
    MarketImage {
        spec: market.spec.clone(),
        phase: market.session.phase,
        change_id: market.change_id,
        trades: TradeSeq(market.trade_count),
        last: market.prices.last,
        index: market.prices.index,
        mark: market.prices.mark,
        busted: market.busted.iter().copied().collect(),
        session: session_image(market),
        reporting: Reporting::default(),
        orders,
    }
}

/// Packs the expiries that interrupted calls left. Market orders use bit 15, times in force their
/// codes.
pub fn unfinished(market: &ReferenceMarket) -> Option<TifSet> {
    let words = |call: &u8| permits(Phase::ALL[usize::from(*call)]).expire.iter();
    let bit = |word: &String| match word.as_str() {
        "market" => 1 << 15,
        "gtt" => 1 << 5,
        "opg" => 1 << 6,
        "gfx" => 1 << 8,
        "atc" => 1 << 9,
        "cpx" => 1 << 10,
        other => panic!("{other} expires with no session"),
    };
    let bits = market.session.unfinished.iter().flat_map(words).map(bit).fold(0, |bits, bit| bits | bit);
    (!market.session.unfinished.is_empty()).then_some(TifSet(bits))
}

/// Returns, for each batch end that separates orders, the number of older live orders.
fn older_than_batches(market: &ReferenceMarket) -> Vec<u32> {
    let older = |end: &u64| market.orders.iter().filter(|order| order.time <= *end).count();
    let mut counts: Vec<u32> =
        market.call.batch_ends.iter().map(older).filter(|count| *count > 0).map(|count| lots(count as u64)).collect();
    counts.dedup();
    counts
}

fn day_image(market: &ReferenceMarket) -> ClosingPriceInputs {
    let run = |run: SecondOfTrades| TradeRun {
        second: run.second,
        first: TradeSeq(run.first),
        last: TradeSeq(run.last),
        lots: run.lots,
        tick_lots: run.tick_lots,
    };
    ClosingPriceInputs {
        last: market.closing.last_trade,
        closing_call: market.closing.closing_call,
        ended: market.closing.continuous_ended,
        runs: market.closing.seconds().into_iter().map(run).collect(),
    }
}

fn session_image(market: &ReferenceMarket) -> SessionImage {
    let IndicativeValues { price, volume, imbalance } = market.call.published;
    SessionImage {
        ends: market.session.ends,
        remaining: market.session.remaining,
        missed: market.session.missed,
        continues: market.session.continues,
        unfinished: unfinished(market),
        static_reference: market.prices.static_reference,
        dynamic_reference: market.prices.dynamic.filter(|_| market.prices.dynamic != market.prices.last),
        closing: market.closing.price,
        previous_close: market.closing.previous,
        uncross_price: market.prices.uncross_price,
        indicated: IndicativeUncross { price, volume, imbalance },
        older_than_batches: older_than_batches(market),
        day: day_image(market),
    }
}
