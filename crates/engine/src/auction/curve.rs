//! What stands on both sides of a call, price by price, and the price that it gives (rulebook 11.2).
//!
//! Does        sum lots by price and side; keep the price at which the two sides balance while orders come and go.
//! Holds       1. a price is a step exactly when somebody names it;
//!             2. `at.buy` is what would buy at `at.price`, `at.sell` what would sell there.
//! Leaves out  who stands there, in which order, and what each gets: see `plan` and `share`.
//! Costs       a change: the logarithm of the prices; a clearing: the steps between where it was and where it is.
//! Start at    [`Curve::clearing`].

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use pitwire_model::{Side, Ticks};

/// What names one price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PriceStep {
    buy: u64,
    sell: u64,
}

impl PriceStep {
    fn of_mut(&mut self, side: Side) -> &mut u64 {
        match side {
            Side::Buy => &mut self.buy,
            Side::Sell => &mut self.sell,
        }
    }

    fn of(self, side: Side) -> u64 {
        match side {
            Side::Buy => self.buy,
            Side::Sell => self.sell,
        }
    }
}

/// What would buy and sell at one price: at it or better, market orders included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CurvePoint {
    price: i64,
    buy: u64,
    sell: u64,
}

impl CurvePoint {
    fn volume(self) -> u64 {
        self.buy.min(self.sell)
    }

    fn surplus(self) -> i64 {
        let surplus = i128::from(self.buy) - i128::from(self.sell);
        i64::try_from(surplus).unwrap_or(if surplus > 0 { i64::MAX } else { i64::MIN })
    }

    /// The same lots on both sides.
    fn equals(self, other: CurvePoint) -> bool {
        (self.buy, self.sell) == (other.buy, other.sell)
    }

    fn clearing(self) -> Option<Clearing> {
        let CurvePoint { price, .. } = self;
        (self.volume() > 0).then(|| Clearing { price: Ticks(price), volume: self.volume(), imbalance: self.surplus() })
    }
}

/// One price for everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clearing {
    pub price: Ticks,
    /// Lots that trade there; above zero.
    pub volume: u64,
    /// What would buy there, less what would sell.
    pub imbalance: i64,
}

/// Empty, it is a call to which nobody came.
#[derive(Clone, Debug, Default)]
pub struct AuctionCurve {
    steps: BTreeMap<i64, PriceStep>,
    /// Market orders without a bound.
    market: PriceStep,
    at: CurvePoint,
}

impl AuctionCurve {
    /// So many lots of one side more, or less, at `price`, or at any price.
    pub fn note(&mut self, side: Side, price: Option<Ticks>, lots: i64) {
        let counts_here = price.is_none_or(|price| match side {
            Side::Buy => price.0 >= self.at.price,
            Side::Sell => price.0 <= self.at.price,
        });
        if counts_here {
            let here = match side {
                Side::Buy => &mut self.at.buy,
                Side::Sell => &mut self.at.sell,
            };
            *here = here.saturating_add_signed(lots);
        }
        let Some(Ticks(price)) = price else {
            let all = self.market.of_mut(side);
            *all = all.saturating_add_signed(lots);
            return;
        };
        let step = self.steps.entry(price).or_default();
        *step.of_mut(side) = step.of(side).saturating_add_signed(lots);
        if *step == PriceStep::default() {
            self.steps.remove(&price);
        }
    }

    /// What market orders without a bound add up to.
    pub fn market_lots(&self, side: Side) -> u64 {
        self.market.of(side)
    }

    /// Prices of one side that somebody names, best first.
    pub fn levels(&self, side: Side) -> impl Iterator<Item = (Ticks, u64)> {
        let (ascending, descending) = match side {
            Side::Buy => (None, Some(self.steps.iter().rev())),
            Side::Sell => (Some(self.steps.iter()), None),
        };
        let both = ascending.into_iter().flatten().chain(descending.into_iter().flatten());
        both.map(move |(price, step)| (Ticks(*price), step.of(side))).filter(|(_, lots)| *lots > 0)
    }

    /// The price of rulebook 11.2, if there is one.
    pub fn clearing(&mut self, reference: Option<Ticks>) -> Option<Clearing> {
        let Some(at) = self.named_near_here() else {
            let price = reference?.0;
            return CurvePoint { price, buy: self.market.buy, sell: self.market.sell }.clearing();
        };
        let at = self.balanced(at);
        self.at = at;
        if at.surplus() > 0 {
            // Buyers everywhere, and this is the highest price.
            return at.clearing();
        }
        if at.surplus() == 0 {
            let last = self.above(at).filter(|above| above.surplus() == 0);
            return between(&[Some(at), last], reference);
        }
        // Sellers from here on up, buyers below: one of the two prices at the turn, or, if they are alike, the range.
        let Some(below) = self.below(at) else { return at.clearing() };
        let better = below.volume().cmp(&at.volume());
        match better.then(at.surplus().unsigned_abs().cmp(&below.surplus().unsigned_abs())) {
            Ordering::Greater => below.clearing(),
            Ordering::Less => at.clearing(),
            Ordering::Equal => {
                let lowest = self.below(below).filter(|lower| lower.equals(below));
                let highest = self.above(at).filter(|higher| higher.equals(at));
                between(&[lowest, Some(below), Some(at), highest], reference)
            }
        }
    }

    /// A price that somebody names, as near as can be: none when nobody names any.
    fn named_near_here(&self) -> Option<CurvePoint> {
        if self.steps.contains_key(&self.at.price) {
            return Some(self.at);
        }
        self.above(self.at).or_else(|| self.below(self.at))
    }

    /// The lowest price with no surplus of buyers; the highest of all when there is none. Walks from `at`.
    fn balanced(&self, mut at: CurvePoint) -> CurvePoint {
        while at.surplus() > 0
            && let Some(above) = self.above(at)
        {
            at = above;
        }
        if at.surplus() > 0 {
            return at;
        }
        while let Some(below) = self.below(at).filter(|below| below.surplus() <= 0) {
            at = below;
        }
        at
    }

    fn step(&self, price: i64) -> PriceStep {
        self.steps.get(&price).copied().unwrap_or_default()
    }

    /// The next higher price that somebody names.
    fn above(&self, at: CurvePoint) -> Option<CurvePoint> {
        let (price, step) = self.steps.range((Excluded(at.price), Unbounded)).next()?;
        Some(CurvePoint { price: *price, buy: at.buy - self.step(at.price).buy, sell: at.sell + step.sell })
    }

    /// The next lower one.
    fn below(&self, at: CurvePoint) -> Option<CurvePoint> {
        let (price, step) = self.steps.range(..at.price).next_back()?;
        Some(CurvePoint { price: *price, buy: at.buy + step.buy, sell: at.sell - self.step(at.price).sell })
    }
}

/// The reference held between the first and the last of some prices, ascending; without one their middle.
fn between(prices: &[Option<CurvePoint>], reference: Option<Ticks>) -> Option<Clearing> {
    let known = || prices.iter().flatten();
    let (lowest, highest) = (known().next()?.price, known().next_back()?.price);
    let price = match reference {
        Some(Ticks(reference)) => reference.clamp(lowest, highest),
        None => (lowest + highest).div_euclid(2),
    };
    let buy = known().find(|balance| balance.price >= price)?.buy;
    let sell = known().rfind(|balance| balance.price <= price)?.sell;
    CurvePoint { price, buy, sell }.clearing()
}
