//! The orders of a call by price, and the price that results from them (rulebook 11.2).
//!
//! Does        sum lots by price and side; follow the price at which both sides balance while
//!             orders come and go.
//! Holds       1. a price has a step exactly when an order names it;
//!             2. `at.buy` is the sum of lots that would buy at `at.price`, `at.sell` of those that
//!                would sell there.
//! Leaves out  single orders and what each gets: see `plan` and `allocation`.
//! Costs       a change: the logarithm of the number of prices; a clearing: the steps between the
//!             last result and this one.
//! Start at    [`AuctionCurve::clearing`].

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use pitwire_model::{Side, Ticks};

/// Lots of the orders that name one price.
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

/// Lots that would buy and sell at one price, market orders included.
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

    /// Returns whether both points have the same lots.
    fn equals(self, other: CurvePoint) -> bool {
        (self.buy, self.sell) == (other.buy, other.sell)
    }

    fn clearing(self) -> Option<ClearingResult> {
        let CurvePoint { price, .. } = self;
        (self.volume() > 0).then(|| ClearingResult {
            price: Ticks(price),
            volume: self.volume(),
            imbalance: self.surplus(),
        })
    }
}

/// The result of an auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClearingResult {
    pub price: Ticks,
    /// Lots that trade there; above zero.
    pub volume: u64,
    /// Lots that would buy at `price`, less lots that would sell there.
    pub imbalance: i64,
}

/// The orders of a call or batch by price.
#[derive(Clone, Debug, Default)]
pub struct AuctionCurve {
    steps: BTreeMap<i64, PriceStep>,
    /// Market orders without a bound.
    market: PriceStep,
    at: CurvePoint,
}

impl AuctionCurve {
    /// Adds `lots` of one side at `price`, or at any price if it is `None`. Negative lots are
    /// removed.
    pub fn change(&mut self, side: Side, price: Option<Ticks>, lots: i64) {
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

    /// Returns the lots of unbounded market orders of one side.
    pub fn market_lots(&self, side: Side) -> u64 {
        self.market.of(side)
    }

    /// Prices of one side with their lots, best first.
    pub fn levels(&self, side: Side) -> impl Iterator<Item = (Ticks, u64)> {
        let (ascending, descending) = match side {
            Side::Buy => (None, Some(self.steps.iter().rev())),
            Side::Sell => (Some(self.steps.iter()), None),
        };
        let both = ascending.into_iter().flatten().chain(descending.into_iter().flatten());
        both.map(move |(price, step)| (Ticks(*price), step.of(side))).filter(|(_, lots)| *lots > 0)
    }

    /// Returns the price and volume of rulebook 11.2; `None` if nothing would trade.
    pub fn clearing(&mut self, reference: Option<Ticks>) -> Option<ClearingResult> {
        let Some(at) = self.named_near_here() else {
            let price = reference?.0;
            return CurvePoint { price, buy: self.market.buy, sell: self.market.sell }.clearing();
        };
        let at = self.balanced(at);
        self.at = at;
        if at.surplus() > 0 {
            // There is a surplus of buyers at every price, and this is the highest one.
            return at.clearing();
        }
        if at.surplus() == 0 {
            let last = self.above(at).filter(|above| above.surplus() == 0);
            return between(&[Some(at), last], reference);
        }
        // From here up there is a surplus of sellers, below one of buyers. One of the two prices at
        // the turn is better, or both are equally good and the range between them counts.
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

    /// Returns the nearest price that an order names; `None` if no order names a price.
    fn named_near_here(&self) -> Option<CurvePoint> {
        if self.steps.contains_key(&self.at.price) {
            return Some(self.at);
        }
        self.above(self.at).or_else(|| self.below(self.at))
    }

    /// Returns the lowest price without a surplus of buyers, or the highest price if there is none.
    /// Searches from `at`.
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

    /// Returns the next higher price that an order names.
    fn above(&self, at: CurvePoint) -> Option<CurvePoint> {
        let (price, step) = self.steps.range((Excluded(at.price), Unbounded)).next()?;
        Some(CurvePoint { price: *price, buy: at.buy - self.step(at.price).buy, sell: at.sell + step.sell })
    }

    /// Returns the next lower price that an order names.
    fn below(&self, at: CurvePoint) -> Option<CurvePoint> {
        let (price, step) = self.steps.range(..at.price).next_back()?;
        Some(CurvePoint { price: *price, buy: at.buy + step.buy, sell: at.sell - self.step(at.price).sell })
    }
}

/// Returns the reference clamped to the range of some prices, which are ascending. Without a
/// reference, returns the middle of the range.
fn between(prices: &[Option<CurvePoint>], reference: Option<Ticks>) -> Option<ClearingResult> {
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
