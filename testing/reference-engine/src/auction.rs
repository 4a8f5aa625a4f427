//! Finds one price for many orders by trying every candidate, and allocates the volume.

use pitwire_model::{Allocation, OrderId, Side, Ticks};

use crate::continuous::pro_rata_shares;
use crate::market::{IndicativeValues, ReferenceMarket};
use crate::order::ReferenceOrder;

/// Most passes over the sides, however many hidden orders there are.
const MOST_PASSES: usize = 64;

/// An order in an uncross.
#[derive(Clone, Copy, Debug)]
pub struct UncrossInterest {
    pub order: ReferenceOrder,
    /// Lots that can execute.
    pub e: u64,
}

/// Both sides in priority order.
#[derive(Clone, Debug)]
pub struct UncrossInterests {
    pub bids: Vec<UncrossInterest>,
    pub offers: Vec<UncrossInterest>,
}

/// The trades of an uncross and their price.
pub struct TradePlan {
    pub price: Ticks,
    pub pairs: Vec<(OrderId, OrderId, u64)>,
}

pub fn sum<'a>(interests: impl IntoIterator<Item = &'a UncrossInterest>) -> u64 {
    interests.into_iter().map(|interest| interest.e).sum()
}

impl UncrossInterests {
    pub fn of(market: &ReferenceMarket, takes_part: impl Fn(&ReferenceOrder) -> bool) -> UncrossInterests {
        let side = |side: Side| {
            let here = |order: &&ReferenceOrder| order.side == side && order.is_active() && takes_part(order);
            let mut orders: Vec<ReferenceOrder> = market.orders.iter().filter(here).copied().collect();
            orders.sort_by_key(|order| {
                let price = order.limit().map(|limit| if side == Side::Buy { -limit.0 } else { limit.0 });
                (price, order.is_hidden(), order.time) // Orders without a limit come first.
            });
            orders.into_iter().map(|order| UncrossInterest { order, e: order.open }).collect()
        };
        UncrossInterests { bids: side(Side::Buy), offers: side(Side::Sell) }
    }

    pub fn side(&self, side: Side) -> &[UncrossInterest] {
        if side == Side::Buy { &self.bids } else { &self.offers }
    }

    /// Applies minimum executions to each side in turn, until two passes in a row change nothing.
    pub fn settle_minimums(&mut self) {
        let hidden = self.bids.iter().chain(&self.offers).filter(|interest| interest.order.is_hidden()).count();
        let mut side = if sum(&self.bids) >= sum(&self.offers) { Side::Buy } else { Side::Sell };
        let mut quiet = 0;
        for _ in 0..(4 + 2 * hidden).min(MOST_PASSES) {
            quiet = if self.pass(side) { 0 } else { quiet + 1 };
            if quiet == 2 {
                return;
            }
            side = side.opposite();
        }
        for interest in self.bids.iter_mut().chain(&mut self.offers).filter(|i| i.order.is_hidden()) {
            interest.e = 0;
        }
    }

    /// Applies the minimum executions of one side. Returns whether a count changed.
    pub fn pass(&mut self, side: Side) -> bool {
        let contra = self.side(side.opposite()).to_vec();
        let walked = if side == Side::Buy { &mut self.bids } else { &mut self.offers };
        let (mut ahead, mut changed) = (0_i128, false);
        for interest in walked {
            if interest.order.is_hidden() {
                let meets =
                    |other: &&UncrossInterest| other.order.limit().is_none_or(|limit| interest.order.accepts(limit));
                let avail = i128::from(sum(contra.iter().filter(meets))) - ahead;
                let enough = avail >= i128::from(interest.order.minimum);
                let e = if enough { avail.min(i128::from(interest.order.open)) } else { 0 };
                let e = u64::try_from(e).expect("a minimum is at least one lot");
                changed |= e != interest.e;
                interest.e = e;
            }
            ahead += i128::from(interest.e);
        }
        changed
    }

    /// Returns the lots of a side that can execute at a price.
    pub fn at(&self, side: Side, price: Ticks) -> u64 {
        sum(self.side(side).iter().filter(|interest| interest.order.accepts(price)))
    }

    pub fn volume(&self, price: Ticks) -> u64 {
        self.at(Side::Buy, price).min(self.at(Side::Sell, price))
    }

    pub fn surplus(&self, price: Ticks) -> i128 {
        i128::from(self.at(Side::Buy, price)) - i128::from(self.at(Side::Sell, price))
    }

    /// Returns every limit price of an order that can execute, ascending.
    pub fn candidates(&self) -> Vec<Ticks> {
        let all = self.bids.iter().chain(&self.offers).filter(|interest| interest.e > 0);
        let mut prices: Vec<Ticks> = all.filter_map(|interest| interest.order.limit()).collect();
        prices.sort();
        prices.dedup();
        prices
    }

    /// Returns the price of a call.
    pub fn call_price(&self, reference: Option<Ticks>) -> Option<Ticks> {
        let all = self.candidates();
        if all.is_empty() {
            return reference.filter(|_| sum(&self.bids) > 0 && sum(&self.offers) > 0);
        }
        let most = all.iter().map(|price| self.volume(*price)).max().filter(|most| *most > 0)?;
        let kept: Vec<Ticks> = all.into_iter().filter(|price| self.volume(*price) == most).collect();
        let least = kept.iter().map(|price| self.surplus(*price).abs()).min()?;
        let kept: Vec<Ticks> = kept.into_iter().filter(|price| self.surplus(*price).abs() == least).collect();
        let (lowest, highest) = (*kept.first()?, *kept.last()?);
        if kept.iter().all(|price| self.surplus(*price) > 0) {
            return Some(highest);
        }
        if kept.iter().all(|price| self.surplus(*price) < 0) {
            return Some(lowest);
        }
        Some(reference.map_or(Ticks((lowest.0 + highest.0) / 2), |reference| reference.clamp(lowest, highest)))
    }

    /// Allocates `volume` to the orders of a side, in priority order.
    pub fn allocate(
        &self,
        market: &ReferenceMarket,
        side: Side,
        price: Ticks,
        volume: u64,
        shares: bool,
    ) -> Vec<(OrderId, u64)> {
        let takers: Vec<UncrossInterest> =
            self.side(side).iter().filter(|i| i.e > 0 && i.order.accepts(price)).copied().collect();
        let mut left = volume;
        let mut allocated = Vec::new();
        let mut give = |interest: &UncrossInterest, lots: u64| {
            allocated.push((interest.order.id, lots));
            lots
        };
        let at_price = |i: &UncrossInterest| shares && i.order.limit() == Some(price) && !i.order.is_hidden();
        let rounds: Vec<Vec<UncrossInterest>> =
            takers.iter().filter(|i| at_price(i)).fold(Vec::new(), |mut rounds, i| {
                let batch = |i: &UncrossInterest| market.batch_of(&i.order);
                match rounds.last_mut() {
                    Some(round) if market.allocation() == Allocation::ProRata || batch(&round[0]) == batch(i) => {
                        round.push(*i);
                    }
                    _ => rounds.push(vec![*i]),
                }
                rounds
            });
        for interest in takers.iter().filter(|i| !(at_price(i) || shares && is_hidden_at(i, price))) {
            left -= give(interest, interest.e.min(left));
        }
        for round in rounds {
            let of: Vec<u64> = round.iter().map(|interest| interest.e).collect();
            for (interest, lots) in round.iter().zip(pro_rata_shares(left, &of)) {
                left -= give(interest, lots);
            }
        }
        for interest in takers.iter().filter(|i| shares && is_hidden_at(i, price)) {
            left -= give(interest, interest.e.min(left));
        }
        allocated.into_iter().filter(|(_, lots)| *lots > 0).collect()
    }

    /// Pairs buyers and sellers. With `shares`, the larger side is allocated in proportion at the
    /// price instead of by time.
    pub fn plan(&self, market: &ReferenceMarket, price: Ticks, shares: bool) -> TradePlan {
        let volume = self.volume(price);
        let side = |side: Side| {
            let shares = shares && self.at(side, price) > volume;
            self.allocate(market, side, price, volume, shares)
        };
        let (mut buys, mut sells) = (side(Side::Buy), side(Side::Sell));
        let mut pairs = Vec::new();
        while let (Some(buy), Some(sell)) = (buys.first_mut(), sells.first_mut()) {
            let lots = buy.1.min(sell.1);
            pairs.push((buy.0, sell.0, lots));
            (buy.1, sell.1) = (buy.1 - lots, sell.1 - lots);
            buys.retain(|(_, left)| *left > 0);
            sells.retain(|(_, left)| *left > 0);
        }
        TradePlan { price, pairs }
    }
}

fn is_hidden_at(interest: &UncrossInterest, price: Ticks) -> bool {
    interest.order.is_hidden() && interest.order.price == price
}

impl ReferenceMarket {
    /// Returns the number of batches that ended before the order got its priority.
    pub fn batch_of(&self, order: &ReferenceOrder) -> usize {
        self.call.batch_ends.iter().filter(|end| **end < order.time).count()
    }

    /// Returns the values that a call would have now, from visible orders only.
    pub fn indicative_values(&self) -> IndicativeValues {
        let interests = UncrossInterests::of(self, |order| !order.is_hidden());
        let Some(price) = interests.call_price(self.reference()) else { return IndicativeValues::default() };
        let imbalance = i64::try_from(interests.surplus(price)).expect("orders of 32 bits");
        IndicativeValues { price: Some(price), volume: interests.volume(price), imbalance }
    }
}
