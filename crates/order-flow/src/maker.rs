//! The market maker of one instrument: a few levels on each side of what it believes the price to be.
//!
//! Does        pull quotes that are too good or too far, fill gaps, and trade whatever stands beyond its own price.
//! Holds       1. after a look, no quote of its own is on the wrong side of its belief;
//!             2. it keeps at most so many quotes a side and a few more for one look, so it never fills the book.
//! Costs       a look: a lookup per quote and at most [`DEEPEST`] levels of the other side.
//! Start at    [`Maker::look`].

use pitwire_engine::{Engine, Market};
use pitwire_model::{AccountId, Command, Lots, OrderId, Side, Ticks};

use crate::number::{price_above, price_below, quantity};
use crate::random::Random;
use crate::trader::{Proposal, ahead};

/// Levels of mispriced orders it takes in one go.
const DEEPEST: usize = 64;
/// Its largest order, in typical ones.
const LARGEST: u64 = 25;

#[derive(Clone, Copy, Debug)]
pub struct Quote {
    pub order: OrderId,
    pub account: AccountId,
    pub side: Side,
    pub price: Ticks,
}

#[derive(Clone, Debug)]
pub struct Maker {
    pub levels: usize,
    pub half_spread: f64,
    pub step: i64,
    pub typical_lots: f64,
    /// In order of entry.
    quotes: Vec<Quote>,
}

/// What a look decided.
#[derive(Debug)]
pub enum Wish {
    Pull(Command),
    Quote(Proposal),
}

impl Maker {
    /// `move_ticks` is how far the price moves in a second.
    pub fn new(levels: usize, move_ticks: f64, typical_lots: f64) -> Maker {
        let step = price_below(move_ticks + 0.5).0;
        Maker { levels, half_spread: 1.0 + move_ticks / 2.0, step, typical_lots, quotes: Vec::new() }
    }

    /// A quote of its own rests.
    pub fn rested(&mut self, quote: Quote) {
        self.quotes.push(quote);
    }

    /// A quote of its own has filled. Whether its side is now bare.
    pub fn filled(&mut self, order: OrderId) -> bool {
        let Some(at) = self.quotes.iter().position(|quote| quote.order == order) else { return false };
        let side = self.quotes.remove(at).side;
        !self.quotes.iter().any(|quote| quote.side == side)
    }

    /// Brings the quotes in line with a belief (in ticks). Pulls come first, so that it never trades with itself.
    pub fn look(&mut self, engine: &Engine, market: &Market, belief: f64, random: &mut Random, wishes: &mut Vec<Wish>) {
        self.quotes.retain(|quote| engine.order(quote.order).is_some_and(|order| order.account == quote.account));
        for side in [Side::Buy, Side::Sell] {
            self.pull(side, belief, wishes);
        }
        for side in [Side::Buy, Side::Sell] {
            self.quote(side, market, belief, random, wishes);
        }
    }

    /// Its best price on a side when it wants to earn so much of the spread.
    fn price(side: Side, belief: f64, distance: f64) -> Ticks {
        match side {
            Side::Buy => price_below(belief - distance),
            Side::Sell => price_above(belief + distance),
        }
    }

    fn pull(&mut self, side: Side, belief: f64, wishes: &mut Vec<Wish>) {
        let best = Self::price(side, belief, self.half_spread).0;
        // Small moves of belief leave quotes alone: half of the half-spread is still a profit.
        let nearest = Self::price(side, belief, self.half_spread / 2.0).0;
        let reach = self.step * i64::try_from(self.levels + 1).unwrap_or(i64::MAX / self.step);
        let mut kept = 0;
        let wanted = |quote: &Quote| {
            let ahead = ahead(side);
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
                wishes.push(Wish::Pull(Command::Cancel { account: quote.account, order: quote.order }));
            }
            keep
        });
    }

    fn quote(&self, side: Side, market: &Market, belief: f64, random: &mut Random, wishes: &mut Vec<Wish>) {
        let best = Self::price(side, belief, self.half_spread);
        let behind = |price: i64| Ticks((price - ahead(side) * self.step).max(1));
        let own = || self.quotes.iter().filter(|quote| quote.side == side).map(|quote| ahead(side) * quote.price.0);
        let mispriced = self.mispriced(side, market, best);
        let mut add = |price: Ticks, level: f64, extra: u64| {
            let lots = self.typical_lots * (1.0 + level / 2.0) * random.heavy_tailed(0.4, 4.0);
            let lots = Lots((quantity(lots).0 + extra).min(Lots::MAX_ORDER.0));
            wishes.push(Wish::Quote(Proposal::resting(side, price, lots)));
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
        if mispriced > 0 || ahead(side) * best.0 - nearest > self.step {
            add(best, 0.0, mispriced);
            count += 1;
        }
        if count < self.levels {
            add(behind(ahead(side) * furthest), self.levels as f64, 0);
        }
    }

    /// How much stands on the other side at its own price or better: what it takes to bring the market to its belief.
    fn mispriced(&self, side: Side, market: &Market, limit: Ticks) -> u64 {
        let crossed = |price: Ticks| ahead(side) * (limit.0 - price.0) >= 0;
        let levels = market.book().levels(side.opposite()).take(DEEPEST).take_while(|(price, _)| crossed(*price));
        let lots: u64 = levels.map(|(_, lots)| lots.0).sum();
        lots.min(quantity(self.typical_lots).0.saturating_mul(LARGEST))
    }
}
