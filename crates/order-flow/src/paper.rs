//! Prices and volumes of the published simulation (CoinTossX, arXiv 2102.10925).
//!
//! The original draws a thousand candidates from a normal distribution, filters them, and picks one
//! at random. The remaining candidates are independent and identically distributed, so the first of
//! them has the same distribution, and drawing stops there. Where the original keeps multiples of
//! 100 only, this module draws multiples of 100. If no candidate fits, it sends the mean, as the
//! original does, and counts it.
//!
//! Leaves out  the limit prices that the original stores on market orders: nothing reads them.
//! Start at    [`propose`].

use std::ops::RangeInclusive;

use pitwire_engine::Market;
use pitwire_model::{Lots, OrderType, Side, Ticks, TimeInForce, VenueNanos};

use crate::error::FlowError;
use crate::event_type::Act;
use crate::kernel::Kernel;
use crate::number::{price_below, quantity};
use crate::process::Process;
use crate::random::Random;
use crate::trader::Proposal;

const CANDIDATES: usize = 1000;
const PRICE_SPREAD: f64 = 200.0;
const VOLUME_SPREAD: f64 = 1000.0;
const ROUND_LOT: u64 = 100;
const LOWEST_BID: i64 = 25_000;
const HIGHEST_ASK: i64 = 25_100;

/// The two orders that the original starts with.
pub const SEEDS: [Proposal; 2] =
    [seed(Side::Buy, Ticks(25_034), Lots(1200)), seed(Side::Sell, Ticks(25_057), Lots(1000))];

const fn seed(side: Side, price: Ticks, lots: Lots) -> Proposal {
    Proposal { side, order_type: OrderType::Limit { price }, lots, tif: TimeInForce::GoodTillCancel }
}

/// The figures of a book that the published simulation reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopOfBook {
    /// Best bid with the lots there.
    pub bid: Option<(Ticks, Lots)>,
    /// Best offer with the lots there.
    pub ask: Option<(Ticks, Lots)>,
    /// Whether the book accepts no further resting order.
    pub is_full: bool,
}

impl TopOfBook {
    /// Reads the book of an engine.
    pub fn of(market: &Market) -> TopOfBook {
        let is_full = market.book().resting_orders() >= market.spec.max_resting_orders;
        TopOfBook { bid: market.best(Side::Buy), ask: market.best(Side::Sell), is_full }
    }

    fn best(&self, side: Side) -> Option<(Ticks, Lots)> {
        match side {
            Side::Buy => self.bid,
            Side::Sell => self.ask,
        }
    }
}

/// One client of the published simulation: a process, and the orders of its events.
#[derive(Clone, Debug)]
pub struct PaperClient {
    process: Process,
    random: Random,
}

impl PaperClient {
    /// Starts a client. Equal seeds and numbers give equal draws.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel is not stable.
    pub fn new(kernel: &Kernel, seed: u64, number: u64) -> Result<PaperClient, FlowError> {
        let process = Process::new(kernel, VenueNanos(0), Random::new(seed, 2 * number))?;
        Ok(PaperClient { process, random: Random::new(seed, 2 * number + 1) })
    }

    /// Returns the time of the next event.
    pub fn next_due(&self) -> VenueNanos {
        self.process.upcoming().0
    }

    /// Draws the order of the next event. Returns `None` if the book has nothing to trade with, or
    /// no room.
    pub fn propose(&mut self, book: &TopOfBook) -> Option<Proposal> {
        let (_, kind) = self.process.upcoming();
        self.process.advance();
        // The published types alternate: buys are even and sells are odd.
        const ACTS: [Act; 4] = [Act::EmptyTouch, Act::Inside, Act::LeaveTouch, Act::Behind];
        let side = if kind.is_multiple_of(2) { Side::Buy } else { Side::Sell };
        propose(ACTS[kind / 2 % 4], side, book, &mut self.random).map(|(proposal, _)| proposal)
    }
}

/// Returns the order for an act, and whether a mean replaces a draw that did not fit.
///
/// Returns `None` if the other side is empty, the book is full, or the published simulation
/// does not know the act.
pub fn propose(act: Act, side: Side, book: &TopOfBook, random: &mut Random) -> Option<(Proposal, bool)> {
    match act {
        Act::EmptyTouch => market_order(side, book, random, |there| there..=u64::MAX),
        Act::LeaveTouch => market_order(side, book, random, |there| 0..=there.saturating_sub(1)),
        Act::Inside => limit_order(side, true, book, random),
        Act::Behind => limit_order(side, false, book, random),
        _ => None,
    }
}

fn market_order(
    side: Side,
    book: &TopOfBook,
    random: &mut Random,
    fitting: impl Fn(u64) -> RangeInclusive<u64>,
) -> Option<(Proposal, bool)> {
    let (_, there) = book.best(side.opposite())?;
    let (lots, substituted) = volume(there.0, ROUND_LOT, random, fitting(there.0));
    Some((Proposal { side, order_type: OrderType::Market, lots, tif: TimeInForce::ImmediateOrCancel }, substituted))
}

fn limit_order(side: Side, inside: bool, book: &TopOfBook, random: &mut Random) -> Option<(Proposal, bool)> {
    if book.is_full {
        return None;
    }
    let own = touch(side, book);
    let other = touch(side.opposite(), book);
    let fitting = match (side, inside) {
        (Side::Buy, true) => LOWEST_BID.max(own.0 + 1)..=other.0,
        (Side::Sell, true) => other.0..=HIGHEST_ASK.min(own.0 - 1),
        (Side::Buy, false) => LOWEST_BID..=own.0 - 1,
        (Side::Sell, false) => own.0 + 1..=HIGHEST_ASK,
    };
    let (lowest, highest) = (*fitting.start() as f64, *fitting.end() as f64);
    let bounds = (
        if *fitting.start() > 1 { lowest } else { f64::NEG_INFINITY },
        if *fitting.end() < Ticks::MAX_PRICE.0 { highest + 1.0 } else { f64::INFINITY },
    );
    let drawn = first(random, (own.0 as f64, PRICE_SPREAD), bounds, |price| {
        Some(price_below(price)).filter(|price| fitting.contains(&price.0))
    });
    let there = book.best(side).map_or(ROUND_LOT, |(_, lots)| lots.0);
    let (lots, odd_lots) = volume(there, 1, random, 1..=Lots::MAX_ORDER.0);
    let proposal = Proposal::resting(side, drawn.unwrap_or(own), lots);
    Some((proposal, drawn.is_none() || odd_lots))
}

/// Returns the best price of a side. An empty side takes the other side's, an empty book the start
/// price.
fn touch(side: Side, book: &TopOfBook) -> Ticks {
    let start = match SEEDS[side as usize].order_type {
        OrderType::Limit { price } => price,
        _ => Ticks(LOWEST_BID),
    };
    book.best(side).or_else(|| book.best(side.opposite())).map_or(start, |(price, _)| price)
}

/// Returns a normal draw around `mean` that is a positive multiple of `unit` and fits, else the
/// mean.
fn volume(mean: u64, unit: u64, random: &mut Random, fitting: RangeInclusive<u64>) -> (Lots, bool) {
    let (fewest, most) = (*fitting.start() as f64, *fitting.end() as f64);
    let bounds = (fewest - unit as f64, if *fitting.end() < Lots::MAX_ORDER.0 { most } else { f64::INFINITY });
    let drawn = first(random, (mean as f64, VOLUME_SPREAD), bounds, |lots| {
        // No negative number fits.
        let whole = if lots > 0.0 { quantity(lots / unit as f64).0.saturating_mul(unit) } else { 0 };
        Some(whole).filter(|lots| *lots > 0 && *lots <= Lots::MAX_ORDER.0 && fitting.contains(lots))
    });
    match drawn {
        Some(lots) => (Lots(lots), false),
        None => (Lots(mean.clamp(1, Lots::MAX_ORDER.0)), true),
    }
}

/// Draws candidates around `mean` until one fits. A draw outside of `bounds` never does; one inside
/// may.
fn first<T>(
    random: &mut Random,
    (mean, spread): (f64, f64),
    bounds: (f64, f64),
    whole: impl Fn(f64) -> Option<T>,
) -> Option<T> {
    /// Margin for rounding, in ticks or lots.
    const MARGIN: f64 = 1.0;
    let (low, high) = ((bounds.0 - MARGIN - mean) / spread, (bounds.1 + MARGIN - mean) / spread);
    (0..CANDIDATES).find_map(|_| whole(mean + spread * random.normal_between(low, high)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first of the candidates that fits, with every candidate drawn in full.
    fn reference(act: Act, side: Side, book: &TopOfBook, random: &mut Random) -> Option<(Proposal, bool)> {
        let first = |random: &mut Random, draw: &dyn Fn(f64) -> i64, fits: &dyn Fn(i64) -> bool| {
            (0..CANDIDATES).map(|_| draw(random.normal())).find(|whole| fits(*whole))
        };
        let volume = |random: &mut Random, mean: u64, unit: u64, fits: &dyn Fn(i64) -> bool| {
            let draw = |normal: f64| {
                let lots = mean as f64 + VOLUME_SPREAD * normal;
                if lots > 0.0 { (quantity(lots / unit as f64).0 * unit).cast_signed() } else { 0 }
            };
            let fits = |lots: i64| lots > 0 && lots.cast_unsigned() <= Lots::MAX_ORDER.0 && fits(lots);
            let drawn = first(random, &draw, &fits);
            (Lots(drawn.map_or(mean.max(1), i64::cast_unsigned)), drawn.is_none())
        };
        if matches!(act, Act::EmptyTouch | Act::LeaveTouch) {
            let there = book.best(side.opposite())?.1.0;
            let fits = |lots: i64| (lots.cast_unsigned() < there) == (act == Act::LeaveTouch);
            let (lots, substituted) = volume(random, there, ROUND_LOT, &fits);
            let tif = TimeInForce::ImmediateOrCancel;
            return Some((Proposal { side, order_type: OrderType::Market, lots, tif }, substituted));
        }
        let (own, other) = (touch(side, book).0, touch(side.opposite(), book).0);
        let inside = act == Act::Inside;
        let fits = |price: i64| match side {
            Side::Buy if inside => own < price && price <= other && price >= LOWEST_BID,
            Side::Buy => price < own && price >= LOWEST_BID,
            Side::Sell if inside => other <= price && price < own && price <= HIGHEST_ASK,
            Side::Sell => price > own && price <= HIGHEST_ASK,
        };
        let price = first(random, &|normal| price_below(own as f64 + PRICE_SPREAD * normal).0, &fits);
        let there = book.best(side).map_or(ROUND_LOT, |(_, lots)| lots.0);
        let (lots, odd) = volume(random, there, 1, &|_| true);
        Some((Proposal::resting(side, Ticks(price.unwrap_or(own)), lots), price.is_none() || odd))
    }

    #[test]
    fn bounds_exclude_no_candidate_that_fits() {
        let (mut random, mut twin, mut books) = (Random::new(7, 0), Random::new(7, 0), Random::new(8, 0));
        for number in 0..1_000 {
            let mut level = |price: i64, width: u64| {
                let price = Ticks(price + books.below(width).cast_signed());
                books.chance(0.9).then(|| (price, Lots(1 + books.below(3_000))))
            };
            let book = match number % 4 {
                // The prices of the published program, then prices at the ends of the range.
                0 | 1 => TopOfBook { bid: level(24_990, 70), ask: level(25_030, 80), is_full: false },
                2 => TopOfBook { bid: level(1, 3), ask: level(1, 300), is_full: false },
                _ => TopOfBook {
                    bid: level(Ticks::MAX_PRICE.0 - 300, 300),
                    ask: level(Ticks::MAX_PRICE.0 - 2, 2),
                    is_full: false,
                },
            };
            for act in [Act::EmptyTouch, Act::Inside, Act::LeaveTouch, Act::Behind] {
                for side in [Side::Buy, Side::Sell] {
                    let expected = reference(act, side, &book, &mut twin);
                    assert_eq!(propose(act, side, &book, &mut random), expected, "{act:?} {side:?} {book:?}");
                }
            }
        }
        assert_eq!(random.normal().to_bits(), twin.normal().to_bits());
    }
}
