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
        Act::EmptyTouch => market_order(side, book, random, |lots, there| lots >= there),
        Act::LeaveTouch => market_order(side, book, random, |lots, there| lots < there),
        Act::Inside => limit_order(side, true, book, random),
        Act::Behind => limit_order(side, false, book, random),
        _ => None,
    }
}

fn market_order(
    side: Side,
    book: &TopOfBook,
    random: &mut Random,
    fits: impl Fn(u64, u64) -> bool,
) -> Option<(Proposal, bool)> {
    let (_, there) = book.best(side.opposite())?;
    let (lots, substituted) = volume(there.0, ROUND_LOT, random, |lots| fits(lots, there.0));
    Some((Proposal { side, order_type: OrderType::Market, lots, tif: TimeInForce::ImmediateOrCancel }, substituted))
}

fn limit_order(side: Side, inside: bool, book: &TopOfBook, random: &mut Random) -> Option<(Proposal, bool)> {
    if book.is_full {
        return None;
    }
    let own = touch(side, book);
    let other = touch(side.opposite(), book);
    let fits = |price: i64| match (side, inside) {
        (Side::Buy, true) => own.0 < price && price <= other.0 && price >= LOWEST_BID,
        (Side::Sell, true) => other.0 <= price && price < own.0 && price <= HIGHEST_ASK,
        (Side::Buy, false) => price < own.0 && price >= LOWEST_BID,
        (Side::Sell, false) => price > own.0 && price <= HIGHEST_ASK,
    };
    let drawn = first(random, |random| price_below(own.0 as f64 + PRICE_SPREAD * random.normal()), |p| fits(p.0));
    let there = book.best(side).map_or(ROUND_LOT, |(_, lots)| lots.0);
    let (lots, odd_lots) = volume(there, 1, random, |_| true);
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
fn volume(mean: u64, unit: u64, random: &mut Random, fits: impl Fn(u64) -> bool) -> (Lots, bool) {
    let whole = |random: &mut Random| {
        let lots = mean as f64 + VOLUME_SPREAD * random.normal();
        // A negative number becomes zero, which never fits.
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
