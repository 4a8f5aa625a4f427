//! What an event of the demo flow does to the book it finds.
//!
//! Holds       1. prices stay between 82 % and 118 % of the start price, whatever others quote;
//!             2. sizes are at most forty times the typical one, whatever others show.
//! Start at    [`Trader::propose`].

use pitwire_engine::Market;
use pitwire_model::{Lots, OrderType, Side, Ticks, TimeInForce};

use crate::number::{distance, price_below, quantity};
use crate::random::Random;

/// An order without owner or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub side: Side,
    pub order_type: OrderType,
    pub lots: Lots,
    pub tif: TimeInForce,
}

impl Proposal {
    pub fn resting(side: Side, price: Ticks, lots: Lots) -> Proposal {
        Proposal { side, order_type: OrderType::Limit { price }, lots, tif: TimeInForce::GoodTillCancel }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Trader {
    pub typical_lots: f64,
    /// Mean distance behind the touch of an order placed there, in ticks.
    pub depth: f64,
    pub lowest: Ticks,
    pub highest: Ticks,
}

/// Towards better prices for its side: up for buyers, down for sellers.
pub fn ahead(side: Side) -> i64 {
    match side {
        Side::Buy => 1,
        Side::Sell => -1,
    }
}

impl Trader {
    const LARGEST: f64 = 40.0;
    const SHARE_OF_START: f64 = 0.18;

    pub fn new(typical_lots: f64, depth: f64, start_price: Ticks) -> Trader {
        let start = start_price.0 as f64;
        Trader {
            typical_lots,
            depth,
            lowest: price_below(start * (1.0 - Self::SHARE_OF_START)),
            highest: price_below(start * (1.0 + Self::SHARE_OF_START)),
        }
    }

    /// The order for an event of one of the eight types, or none where the book leaves no room for it.
    /// `belief` stands in for the touch of an empty side.
    pub fn propose(&self, kind: usize, market: &Market, belief: f64, random: &mut Random) -> Option<Proposal> {
        let side = if kind.is_multiple_of(2) { Side::Buy } else { Side::Sell };
        match kind / 2 {
            0 => self.empty_the_touch(side, market, random),
            1 => self.inside(side, market, belief, random),
            2 => self.leave_the_touch(side, market, random),
            _ => self.behind(side, market, belief, random),
        }
    }

    /// An order for a call: the first kinds of event, which trade at once, ask more than the belief is worth, the others
    /// less.
    pub fn gather(&self, kind: usize, belief: f64, random: &mut Random) -> Proposal {
        let side = if kind.is_multiple_of(2) { Side::Buy } else { Side::Sell };
        let eager = if matches!(kind / 2, 0 | 2) { 1 } else { -1 };
        let step = distance(random.exponential(self.depth));
        let price = self.in_bounds(distance(belief) + ahead(side) * eager * step);
        Proposal::resting(side, price, self.size(random))
    }

    fn size(&self, random: &mut Random) -> Lots {
        const SPREAD: f64 = 0.8;
        quantity(self.typical_lots * 0.7 * random.heavy_tailed(SPREAD, Self::LARGEST))
    }

    fn in_bounds(&self, price: i64) -> Ticks {
        Ticks(price.clamp(self.lowest.0, self.highest.0))
    }

    /// What an incoming order on `side` would meet, unless someone quotes nonsense.
    fn opposite_touch(&self, side: Side, market: &Market) -> Option<(Ticks, Lots)> {
        market.best(side.opposite()).filter(|(price, _)| (self.lowest..=self.highest).contains(price))
    }

    /// Takes all there is at the touch and a little more, but does not chase the price through a thin book.
    fn empty_the_touch(&self, side: Side, market: &Market, random: &mut Random) -> Option<Proposal> {
        let (touch, there) = self.opposite_touch(side, market)?;
        let most_more = self.size(random).0 / 2;
        let more = random.below(most_more + 1);
        let lots = Lots((there.0 + more).min(quantity(self.typical_lots * Self::LARGEST).0));
        let price = self.in_bounds(touch.0 + ahead(side) * (1 + distance(2.0 * self.depth)));
        let order_type = OrderType::Limit { price };
        Some(Proposal { side, order_type, lots, tif: TimeInForce::ImmediateOrCancel })
    }

    /// Takes less than there is at the touch: three quarters at most, so as not to leave it littered with single lots.
    fn leave_the_touch(&self, side: Side, market: &Market, random: &mut Random) -> Option<Proposal> {
        let (_, there) = self.opposite_touch(side, market)?;
        let lots = self.size(random).min(Lots(there.0 - there.0.div_ceil(4)));
        let proposal = Proposal { side, order_type: OrderType::Market, lots, tif: TimeInForce::ImmediateOrCancel };
        (!lots.is_zero()).then_some(proposal)
    }

    /// Betters its side's price without trading; joins it when there is no room between.
    fn inside(&self, side: Side, market: &Market, belief: f64, random: &mut Random) -> Option<Proposal> {
        let own = self.touch(side, market, belief);
        let room = market.best(side.opposite()).map_or(1, |(other, _)| ahead(side) * (other.0 - own));
        let between = u64::try_from(room - 1).unwrap_or(0);
        let step = match between {
            0 => 0,
            free => 1 + i64::try_from(random.below(free)).unwrap_or(0),
        };
        let price = self.in_bounds(own + ahead(side) * step);
        self.with_room(market, Proposal::resting(side, price, self.size(random)))
    }

    /// Queues behind the touch, most often close to it.
    pub fn behind(&self, side: Side, market: &Market, belief: f64, random: &mut Random) -> Option<Proposal> {
        let back = 1 + distance(random.exponential(self.depth));
        let price = self.in_bounds(self.touch(side, market, belief) - ahead(side) * back);
        self.with_room(market, Proposal::resting(side, price, self.size(random)))
    }

    /// The best price of a side; of an empty one, a price near the belief that does not trade.
    fn touch(&self, side: Side, market: &Market, belief: f64) -> i64 {
        if let Some((price, _)) = market.best(side) {
            return price.0;
        }
        let believed = price_below(belief).0 - ahead(side);
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
