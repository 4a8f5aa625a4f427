//! What an order may be and how far it may reach: collar, notional, post-only, what would trade.

use pitwire_model::{InstrumentLimits, PostOnly, Reject, SelfMatch, Side, Ticks};

use crate::turn::Taker;
use crate::{Auditor, Market, legal_price};

impl Market {
    /// The worst price at which an order of this side may ask to trade.
    pub fn collar(&self, side: Side) -> Option<Ticks> {
        let width = i128::from(self.spec.limits.collar_bps?);
        let reference = i128::from(self.last.unwrap_or(self.spec.start_price).0);
        let edge = match side {
            Side::Buy => (reference * (10_000 + width)).div_euclid(10_000),
            Side::Sell => -(-reference * (10_000 - width)).div_euclid(10_000),
        };
        i64::try_from(edge.max(1)).ok().map(Ticks)
    }

    /// Where a post-only order is to rest.
    pub fn posted(&self, side: Side, price: Ticks, post_only: PostOnly) -> Result<Ticks, Reject> {
        let Some(best) = self.book.best(side.opposite()).filter(|best| !worse(side, *best, price)) else {
            return Ok(price);
        };
        match post_only {
            PostOnly::No => Ok(price),
            PostOnly::Reject => Err(Reject::PostOnlyWouldTrade),
            PostOnly::Reprice => {
                let step = if side == Side::Buy { -1 } else { 1 };
                let price = Ticks(best.0 + step);
                legal_price(price).map(|()| price).map_err(|_| Reject::PostOnlyNoPlace)
            }
        }
    }

    /// The operator's limits on one order; no price is a market order.
    pub fn within_limits(&self, side: Side, price: Option<Ticks>, lots: u64) -> Result<(), Reject> {
        let InstrumentLimits { max_lots, max_notional_units, .. } = self.spec.limits;
        if max_lots.is_some_and(|most| lots > most.0) {
            return Err(Reject::QuantityAboveLimit);
        }
        if max_notional_units.is_some_and(|most| self.notional(side, price, lots) > most) {
            return Err(Reject::NotionalAboveLimit);
        }
        match price.zip(self.collar(side)) {
            Some((price, edge)) if worse(side, price, edge) => {
                Err(if side == Side::Buy { Reject::PriceAboveCollar } else { Reject::PriceBelowCollar })
            }
            _ => Ok(()),
        }
    }

    fn notional(&self, side: Side, price: Option<Ticks>, lots: u64) -> i128 {
        if let Some(price) = price {
            return self.terms.notional(price, lots);
        }
        let edge = self.collar(side);
        let (mut left, mut sum, mut last) = (lots, 0, 0);
        for (price, there) in self.book.levels(side.opposite()) {
            if left == 0 || edge.is_some_and(|edge| worse(side, price, edge)) {
                break;
            }
            let taken = left.min(there);
            left -= taken;
            sum += self.terms.notional(price, taken);
            last = self.terms.notional(price, lots);
        }
        if self.spec.is_spot() { sum } else { last }
    }
}

impl Auditor {
    /// What an order that has not met anything yet would trade, price by price.
    pub(crate) fn reach(&self, taker: &Taker) -> Vec<(Ticks, u64)> {
        let (book, order) = (&self.markets[taker.order.instrument.0 as usize].book, &taker.order);
        let mut left = order.open;
        let mut fills = Vec::new();
        for (price, _) in book.levels(order.side.opposite()) {
            if left == 0 || !taker.reaches(price) {
                break;
            }
            let (there, is_end) = self.reach_at(taker, price);
            let taken = left.min(there);
            fills.extend((taken > 0).then_some((price, taken)));
            left -= taken;
            if is_end {
                break;
            }
        }
        fills
    }

    /// What would trade at one price, and whether an order of its own group ends it there.
    fn reach_at(&self, taker: &Taker, price: Ticks) -> (u64, bool) {
        let (book, side) = (&self.markets[taker.order.instrument.0 as usize].book, taker.order.side.opposite());
        let (mut shown, mut whole) = (0, 0);
        for resting in book.orders_at(side, price).filter_map(|id| self.orders.get(&id)) {
            if !taker.must_not_meet(resting) {
                shown += resting.shown;
                whole += resting.open;
            } else if taker.mode != SelfMatch::CancelResting {
                // Hidden parts come into the queue behind this one.
                return (shown, true);
            }
        }
        (whole, false)
    }
}

/// Whether a price lies beyond a limit.
pub fn worse(taker: Side, price: Ticks, limit: Ticks) -> bool {
    match taker {
        Side::Buy => price > limit,
        Side::Sell => price < limit,
    }
}
