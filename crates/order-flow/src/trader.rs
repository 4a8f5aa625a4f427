//! The orders of the demo flow: what an event does to the current book.
//!
//! Holds       1. prices stay between 82 % and 118 % of the start price, whatever members quote;
//!             2. sizes are at most forty times the typical size, whatever members show.
//! Start at    [`Trader::propose`].

use pitwire_engine::Market;
use pitwire_model::{Lots, OrderType, Side, Ticks, TimeInForce};

use crate::event_type::Act;
use crate::number::{distance, price_above, price_below, quantity};
use crate::random::Random;

/// An order without account and id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub side: Side,
    pub order_type: OrderType,
    pub lots: Lots,
    pub tif: TimeInForce,
}

impl Proposal {
    /// Returns a limit order that rests until it is cancelled.
    pub fn resting(side: Side, price: Ticks, lots: Lots) -> Proposal {
        Proposal { side, order_type: OrderType::Limit { price }, lots, tif: TimeInForce::GoodTillCancel }
    }
}

/// Parameters of the orders of one instrument.
#[derive(Clone, Copy, Debug)]
pub struct Trader {
    pub typical_lots: f64,
    /// Mean distance of an order behind the best price, in ticks.
    pub depth: f64,
    pub lowest: Ticks,
    pub highest: Ticks,
    /// Largest order that takes a whole level, in typical orders. A deeper level is not emptied.
    pub most_taken: f64,
    /// Many orders behind the best price are at multiples of this many ticks (Harris 1991).
    pub round: i64,
    /// Least distance in ticks of an order inside the spread from the fair value, because an order
    /// on the other side may know more (Glosten and Milgrom 1985). `None` for no such distance.
    pub edge: Option<f64>,
}

/// Returns the direction of better prices of a side: 1 for buys, -1 for sells.
pub fn better(side: Side) -> i64 {
    match side {
        Side::Buy => 1,
        Side::Sell => -1,
    }
}

impl Trader {
    const MAX_SIZE: f64 = 40.0;
    const SHARE_OF_START: f64 = 0.18;

    pub fn new(typical_lots: f64, depth: f64, start_price: Ticks) -> Trader {
        let start = start_price.0 as f64;
        Trader {
            typical_lots,
            depth,
            lowest: price_below(start * (1.0 - Self::SHARE_OF_START)),
            highest: price_below(start * (1.0 + Self::SHARE_OF_START)),
            most_taken: Self::MAX_SIZE,
            round: 1,
            edge: None,
        }
    }

    /// Returns the same trader with orders `times` as large.
    pub fn sized(self, times: f64) -> Trader {
        Trader { typical_lots: self.typical_lots * times, ..self }
    }

    /// Returns the order for an act, or `None` if the book is too thin or full, or the act is a
    /// cancel. `fair_value` replaces the best price of an empty side.
    pub fn propose(
        &self,
        act: Act,
        side: Side,
        market: &Market,
        fair_value: f64,
        random: &mut Random,
    ) -> Option<Proposal> {
        match act {
            Act::EmptyTouch => self.empty_the_touch(side, market, random),
            Act::TakeLevel => self.take_the_level(side, market),
            Act::LeaveTouch => self.leave_the_touch(side, market, random),
            Act::Inside => self.inside(side, market, fair_value, random),
            Act::Improve => self.rest_at(side, market, fair_value, 1, random),
            Act::Join => self.rest_at(side, market, fair_value, 0, random),
            Act::Behind => self.behind(side, market, fair_value, random),
            Act::MoveMid if self.room(side, market, fair_value) > 0 => {
                self.rest_at(side, market, fair_value, 1, random)
            }
            Act::MoveMid => self.take_the_level(side, market),
            Act::CancelBest | Act::CancelBehind => None,
        }
    }

    /// Returns an order for a call. Acts that trade at once in continuous trading bid above the
    /// fair value, the others below it.
    pub fn gather(&self, act: Act, side: Side, fair_value: f64, random: &mut Random) -> Proposal {
        let eager = if act.is_eager() { 1 } else { -1 };
        let step = distance(random.exponential(self.depth));
        let price = self.in_bounds(distance(fair_value) + better(side) * eager * step);
        Proposal::resting(side, price, self.size(random))
    }

    fn size(&self, random: &mut Random) -> Lots {
        const SPREAD: f64 = 0.8;
        quantity(self.typical_lots * 0.7 * random.heavy_tailed(SPREAD, Self::MAX_SIZE))
    }

    fn in_bounds(&self, price: i64) -> Ticks {
        Ticks(price.clamp(self.lowest.0, self.highest.0))
    }

    /// Returns the best price and quantity opposite to `side`, if the price is within bounds.
    fn opposite_touch(&self, side: Side, market: &Market) -> Option<(Ticks, Lots)> {
        market.best(side.opposite()).filter(|(price, _)| (self.lowest..=self.highest).contains(price))
    }

    /// Takes the whole best level and a little more, within a price limit.
    fn empty_the_touch(&self, side: Side, market: &Market, random: &mut Random) -> Option<Proposal> {
        let (touch, there) = self.opposite_touch(side, market)?;
        let most_more = self.size(random).0 / 2;
        let more = random.below(most_more + 1);
        let lots = Lots((there.0 + more).min(quantity(self.typical_lots * self.most_taken).0));
        let price = self.in_bounds(touch.0 + better(side) * (1 + distance(2.0 * self.depth)));
        let order_type = OrderType::Limit { price };
        Some(Proposal { side, order_type, lots, tif: TimeInForce::ImmediateOrCancel })
    }

    /// Takes at most three quarters of the best level, so that it never leaves single lots.
    fn leave_the_touch(&self, side: Side, market: &Market, random: &mut Random) -> Option<Proposal> {
        let (_, there) = self.opposite_touch(side, market)?;
        let lots = self.size(random).min(Lots(there.0 - there.0.div_ceil(4)));
        let proposal = Proposal { side, order_type: OrderType::Market, lots, tif: TimeInForce::ImmediateOrCancel };
        (!lots.is_zero()).then_some(proposal)
    }

    /// Takes the best level exactly, at its price.
    fn take_the_level(&self, side: Side, market: &Market) -> Option<Proposal> {
        let (price, there) = self.opposite_touch(side, market)?;
        let lots = there.min(quantity(self.typical_lots * self.most_taken));
        let order_type = OrderType::Limit { price };
        Some(Proposal { side, order_type, lots, tif: TimeInForce::ImmediateOrCancel })
    }

    /// Returns the free prices between the best price of `side` and the touch.
    fn room(&self, side: Side, market: &Market, fair_value: f64) -> i64 {
        let own = self.touch(side, market, fair_value);
        market.best(side.opposite()).map_or(0, |(other, _)| better(side) * (other.0 - own) - 1)
    }

    /// Rests `step` ticks better than the best price, or at it if the spread is too narrow.
    fn rest_at(
        &self,
        side: Side,
        market: &Market,
        fair_value: f64,
        step: i64,
        random: &mut Random,
    ) -> Option<Proposal> {
        let step = if self.room(side, market, fair_value) >= step { step } else { 0 };
        let price = self.in_bounds(self.touch(side, market, fair_value) + better(side) * step);
        self.with_room(market, Proposal::resting(side, price, self.size(random)))
    }

    /// Improves the best price of its side without trading, or joins it if the spread is one tick.
    fn inside(&self, side: Side, market: &Market, fair_value: f64, random: &mut Random) -> Option<Proposal> {
        let step = match u64::try_from(self.room(side, market, fair_value)).unwrap_or(0) {
            0 => 0,
            free => 1 + i64::try_from(random.below(free)).unwrap_or(0),
        };
        let price = self.touch(side, market, fair_value) + better(side) * step;
        let price = self.in_bounds(match (self.edge, side) {
            (None, _) => price,
            (Some(edge), Side::Buy) => price.min(price_below(fair_value - edge).0),
            (Some(edge), Side::Sell) => price.max(price_above(fair_value + edge).0),
        });
        self.with_room(market, Proposal::resting(side, price, self.size(random)))
    }

    /// Rests behind the best price, most often close to it.
    pub fn behind(&self, side: Side, market: &Market, fair_value: f64, random: &mut Random) -> Option<Proposal> {
        let back = 1 + distance(random.exponential(self.depth));
        let price = self.touch(side, market, fair_value) - better(side) * back;
        let price = self.in_bounds(self.rounded(side, price, random));
        self.with_room(market, Proposal::resting(side, price, self.size(random)))
    }

    /// Moves most prices away from the market to the next round one.
    fn rounded(&self, side: Side, price: i64, random: &mut Random) -> i64 {
        const SHARE: f64 = 0.7;
        if self.round <= 1 || !random.chance(SHARE) {
            return price;
        }
        let below = price.div_euclid(self.round) * self.round;
        match side {
            Side::Buy => below,
            Side::Sell if below == price => price,
            Side::Sell => below + self.round,
        }
    }

    /// Returns the best price of a side, or a price near the fair value that does not trade if the
    /// side is empty.
    fn touch(&self, side: Side, market: &Market, fair_value: f64) -> i64 {
        if let Some((price, _)) = market.best(side) {
            return price.0;
        }
        let believed = price_below(fair_value).0 - better(side);
        match (side, market.best(side.opposite())) {
            (_, None) => believed,
            (Side::Buy, Some((other, _))) => believed.min(other.0 - 1),
            (Side::Sell, Some((other, _))) => believed.max(other.0 + 1),
        }
    }

    fn with_room(&self, market: &Market, proposal: Proposal) -> Option<Proposal> {
        (market.book().resting_orders() < market.spec.max_resting_orders).then_some(proposal)
    }
}
