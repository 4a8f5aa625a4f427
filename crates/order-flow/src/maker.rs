//! The market maker of one instrument: a few levels on each side of the fair value.
//!
//! Does        cancel quotes that are too generous or too far, fill gaps, and trade with mispriced
//!             orders of others.
//! Holds       1. after a requote, none of its quotes is on the wrong side of the fair value;
//!             2. its number of quotes per side is bounded, so it never fills the book.
//! Costs       a lookup per quote and at most [`MAX_LEVELS`] levels of the other side per requote.
//! Start at    [`Maker::requote`].

use pitwire_engine::{Engine, Market};
use pitwire_model::{AccountId, Command, Lots, OrderId, Side, Ticks};

use crate::number::{price_above, price_below, quantity};
use crate::random::Random;
use crate::trader::{Proposal, better};

/// Most levels of mispriced orders that it takes in one requote.
const MAX_LEVELS: usize = 64;
/// Its largest order, in typical orders.
const MAX_SIZE: u64 = 25;

/// A resting order of the market maker.
#[derive(Clone, Copy, Debug)]
pub struct Quote {
    pub order: OrderId,
    pub account: AccountId,
    pub side: Side,
    pub price: Ticks,
}

/// The market maker.
#[derive(Clone, Debug)]
pub struct Maker {
    pub levels: usize,
    pub half_spread: f64,
    pub step: i64,
    pub typical_lots: f64,
    /// Quotes in order of entry.
    quotes: Vec<Quote>,
}

/// A decision of a requote.
#[derive(Debug)]
pub enum MakerAction {
    Cancel(Command),
    Enter(Proposal),
}

impl Maker {
    /// Creates a market maker. `move_ticks` is the move of the price in one second.
    pub fn new(levels: usize, move_ticks: f64, typical_lots: f64) -> Maker {
        let step = price_below(move_ticks + 0.5).0;
        Maker { levels, half_spread: 1.0 + move_ticks / 2.0, step, typical_lots, quotes: Vec::new() }
    }

    /// Adds a quote that rests on the book.
    pub fn rested(&mut self, quote: Quote) {
        self.quotes.push(quote);
    }

    /// Removes a filled quote. Returns whether its side has no quote left.
    pub fn filled(&mut self, order: OrderId) -> bool {
        let Some(at) = self.quotes.iter().position(|quote| quote.order == order) else { return false };
        let side = self.quotes.remove(at).side;
        !self.quotes.iter().any(|quote| quote.side == side)
    }

    /// Moves the quotes to a fair value in ticks. Cancels come first, so that it never trades with
    /// itself.
    pub fn requote(
        &mut self,
        engine: &Engine,
        market: &Market,
        fair_value: f64,
        random: &mut Random,
        actions: &mut Vec<MakerAction>,
    ) {
        self.quotes.retain(|quote| engine.order(quote.order).is_some_and(|order| order.account == quote.account));
        for side in [Side::Buy, Side::Sell] {
            self.pull(side, fair_value, actions);
        }
        for side in [Side::Buy, Side::Sell] {
            self.quote(side, market, fair_value, random, actions);
        }
    }

    /// Returns its best price on a side for a given margin.
    fn price(side: Side, fair_value: f64, distance: f64) -> Ticks {
        match side {
            Side::Buy => price_below(fair_value - distance),
            Side::Sell => price_above(fair_value + distance),
        }
    }

    fn pull(&mut self, side: Side, fair_value: f64, actions: &mut Vec<MakerAction>) {
        let best = Self::price(side, fair_value, self.half_spread).0;
        // Small moves of the fair value leave quotes alone: half of the half-spread is still a
        // profit.
        let nearest = Self::price(side, fair_value, self.half_spread / 2.0).0;
        let reach = self.step * i64::try_from(self.levels + 1).unwrap_or(i64::MAX / self.step);
        let mut kept = 0;
        let wanted = |quote: &Quote| {
            let ahead = better(side);
            ahead * (nearest - quote.price.0) >= 0 && ahead * (best - quote.price.0) <= reach
        };
        let most = self.levels + 2;
        self.quotes.retain(|quote| {
            if quote.side != side {
                return true;
            }
            let keep = wanted(quote) && kept < most;
            kept += usize::from(keep);
            if !keep {
                actions.push(MakerAction::Cancel(Command::Cancel { account: quote.account, order: quote.order }));
            }
            keep
        });
    }

    fn quote(&self, side: Side, market: &Market, fair_value: f64, random: &mut Random, actions: &mut Vec<MakerAction>) {
        let best = Self::price(side, fair_value, self.half_spread);
        let behind = |price: i64| Ticks((price - better(side) * self.step).max(1));
        let own = || self.quotes.iter().filter(|quote| quote.side == side).map(|quote| better(side) * quote.price.0);
        let mispriced = self.mispriced(side, market, best);
        let mut add = |price: Ticks, level: f64, extra: u64| {
            let lots = self.typical_lots * (1.0 + level / 2.0) * random.heavy_tailed(0.4, 4.0);
            let lots = Lots((quantity(lots).0 + extra).min(Lots::MAX_ORDER.0));
            actions.push(MakerAction::Enter(Proposal::resting(side, price, lots)));
        };
        let (Some(nearest), Some(furthest)) = (own().max(), own().min()) else {
            let mut price = best;
            for level in 0..self.levels {
                add(price, level as f64, if level == 0 { mispriced } else { 0 });
                price = behind(price.0);
            }
            return;
        };
        let mut count = own().count();
        if mispriced > 0 || better(side) * best.0 - nearest > self.step {
            add(best, 0.0, mispriced);
            count += 1;
        }
        if count < self.levels {
            add(behind(better(side) * furthest), self.levels as f64, 0);
        }
    }

    /// Returns the quantity on the other side at its own price or better, which moves the market to
    /// the fair value.
    fn mispriced(&self, side: Side, market: &Market, limit: Ticks) -> u64 {
        let crossed = |price: Ticks| better(side) * (limit.0 - price.0) >= 0;
        let levels = market.book().levels(side.opposite()).take(MAX_LEVELS).take_while(|(price, _)| crossed(*price));
        let lots: u64 = levels.map(|(_, lots)| lots.0).sum();
        lots.min(quantity(self.typical_lots).0.saturating_mul(MAX_SIZE))
    }
}
