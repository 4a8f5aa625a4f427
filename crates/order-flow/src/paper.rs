//! The published simulation's prices and volumes (`market-rules.md` 16.1 and 16.5).
//!
//! The original draws a thousand candidates from a normal law, keeps those its predicate likes, and picks one of them
//! at random. The kept ones are independent and alike, so the first of them has the same law: drawing stops there.
//! Where the original keeps one whole number in a hundred for being a multiple of 100, hundreds are drawn at once.
//! Where no candidate fits, the mean itself is sent, as there, and counted.
//!
//! Left out    the limit prices it stores on market orders: nothing reads them.
//! Start at    [`propose`].

use pitwire_engine::Market;
use pitwire_model::{Lots, OrderType, Side, Ticks, TimeInForce};

use crate::number::{price_below, quantity};
use crate::random::Random;
use crate::trader::Proposal;

const CANDIDATES: usize = 1000;
const PRICE_SPREAD: f64 = 200.0;
const VOLUME_SPREAD: f64 = 1000.0;
const ROUND_LOT: u64 = 100;
const LOWEST_BID: i64 = 25_000;
const HIGHEST_ASK: i64 = 25_100;

/// The two orders with which the original starts.
pub const SEEDS: [Proposal; 2] =
    [seed(Side::Buy, Ticks(25_034), Lots(1200)), seed(Side::Sell, Ticks(25_057), Lots(1000))];

const fn seed(side: Side, price: Ticks, lots: Lots) -> Proposal {
    Proposal { side, order_type: OrderType::Limit { price }, lots, tif: TimeInForce::GoodTillCancel }
}

/// The order for an event of one of the eight types, and whether something stands in it for want of a fitting draw.
/// None when there is nothing to trade with, or no room to rest.
pub fn propose(kind: usize, market: &Market, random: &mut Random) -> Option<(Proposal, bool)> {
    let side = if kind.is_multiple_of(2) { Side::Buy } else { Side::Sell };
    match kind / 2 {
        0 => market_order(side, market, random, |lots, there| lots >= there),
        2 => market_order(side, market, random, |lots, there| lots < there),
        act => limit_order(side, act == 1, market, random),
    }
}

fn market_order(
    side: Side,
    market: &Market,
    random: &mut Random,
    fits: impl Fn(u64, u64) -> bool,
) -> Option<(Proposal, bool)> {
    let (_, there) = market.best(side.opposite())?;
    let (lots, substituted) = volume(there.0, ROUND_LOT, random, |lots| fits(lots, there.0));
    Some((Proposal { side, order_type: OrderType::Market, lots, tif: TimeInForce::ImmediateOrCancel }, substituted))
}

fn limit_order(side: Side, inside: bool, market: &Market, random: &mut Random) -> Option<(Proposal, bool)> {
    if market.book().resting_orders() >= market.spec.max_resting_orders {
        return None;
    }
    let own = touch(side, market);
    let other = touch(side.opposite(), market);
    let fits = |price: i64| match (side, inside) {
        (Side::Buy, true) => own.0 < price && price <= other.0 && price >= LOWEST_BID,
        (Side::Sell, true) => other.0 <= price && price < own.0 && price <= HIGHEST_ASK,
        (Side::Buy, false) => price < own.0 && price >= LOWEST_BID,
        (Side::Sell, false) => price > own.0 && price <= HIGHEST_ASK,
    };
    let drawn = first(random, |random| price_below(own.0 as f64 + PRICE_SPREAD * random.normal()), |p| fits(p.0));
    let there = market.best(side).map_or(ROUND_LOT, |(_, lots)| lots.0);
    let (lots, odd_lots) = volume(there, 1, random, |_| true);
    let proposal = Proposal::resting(side, drawn.unwrap_or(own), lots);
    Some((proposal, drawn.is_none() || odd_lots))
}

/// A side's best price; of an empty side, the other's; of an empty book, where the original starts.
fn touch(side: Side, market: &Market) -> Ticks {
    let start = match SEEDS[side as usize].order_type {
        OrderType::Limit { price } => price,
        _ => market.spec.start_price,
    };
    market.best(side).or_else(|| market.best(side.opposite())).map_or(start, |(price, _)| price)
}

/// A positive multiple of `unit`, normal about `mean`, that fits; else the mean.
fn volume(mean: u64, unit: u64, random: &mut Random, fits: impl Fn(u64) -> bool) -> (Lots, bool) {
    let whole = |random: &mut Random| {
        let lots = mean as f64 + VOLUME_SPREAD * random.normal();
        // Below zero there is no order; zero fits no predicate.
        if lots > 0.0 { quantity(lots / unit as f64).0.saturating_mul(unit) } else { 0 }
    };
    match first(random, whole, |lots| *lots > 0 && *lots <= Lots::MAX_ORDER.0 && fits(*lots)) {
        Some(lots) => (Lots(lots), false),
        None => (Lots(mean.clamp(1, Lots::MAX_ORDER.0)), true),
    }
}

fn first<T>(random: &mut Random, draw: impl Fn(&mut Random) -> T, fits: impl Fn(&T) -> bool) -> Option<T> {
    (0..CANDIDATES).map(|_| draw(random)).find(|candidate| fits(candidate))
}
