//! Limits on one order: price collar, price band, protection price, notional, post-only prices and
//! tolerances.

use pitwire_model::{InstrumentLimits, Lots, PostOnly, Reference, Reject, Side, Ticks, Tolerance};

use crate::market::MarketState;
use crate::orders::LiveOrder;
use crate::validity::legal_price;

/// An execution price outside a tolerance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToleranceBreach {
    pub price: Ticks,
    pub tolerance: Tolerance,
    pub dynamic: Option<Ticks>,
}

impl MarketState {
    /// Returns the price collar of a side: the worst price that an order may name.
    pub fn collar(&self, side: Side) -> Option<Ticks> {
        let width = i128::from(self.spec.limits.collar_bps?);
        let reference = i128::from(self.prices.last.unwrap_or(self.spec.start_price).0);
        let edge = match side {
            Side::Buy => (reference * (10_000 + width)).div_euclid(10_000),
            Side::Sell => -(-reference * (10_000 - width)).div_euclid(10_000),
        };
        i64::try_from(edge.max(1)).ok().map(Ticks)
    }

    /// Returns the reference price of calls and filters.
    pub fn reference(&self) -> Option<Ticks> {
        self.prices.last.or(self.prices.static_reference)
    }

    /// Checks a limit price against the band around the static reference.
    ///
    /// # Errors
    /// `PriceOutsideBand` if the price is further from the static reference than the band allows.
    pub fn check_band(&self, price: Ticks) -> Result<(), Reject> {
        let (Some(percent), Some(reference)) = (self.rules.band_pct, self.prices.static_reference) else {
            return Ok(());
        };
        let (price, reference) = (i128::from(price.0), i128::from(reference.0));
        let inside = (price - reference).abs() * 100 <= i128::from(percent) * reference;
        if inside { Ok(()) } else { Err(Reject::PriceOutsideBand) }
    }

    /// Returns the protection price of a waiting order without a limit: the collar. A buy order of
    /// a limited account without a collar takes the edge of the band, or else twice the reference.
    ///
    /// # Errors
    /// `NotEnoughFunds` if a buy order of a limited account has neither collar nor reference price.
    pub fn bound(&self, side: Side, is_limited: bool) -> Result<Option<Ticks>, Reject> {
        if let Some(edge) = self.collar(side) {
            return Ok(Some(edge.min(Ticks::MAX_PRICE)));
        }
        if !is_limited || side == Side::Sell {
            return Ok(None);
        }
        let band = self.rules.band_pct.zip(self.prices.static_reference).and_then(|(percent, reference)| {
            let edge = i128::from(reference.0) + i128::from(reference.0) * i128::from(percent) / 100;
            i64::try_from(edge).ok().map(Ticks)
        });
        let twice = || self.reference().map(|reference| Ticks(reference.0.saturating_mul(2)));
        let edge = band.or_else(twice).ok_or(Reject::NotEnoughFunds)?;
        Ok(Some(edge.min(Ticks::MAX_PRICE)))
    }

    /// Returns the price at which a post-only order rests.
    ///
    /// # Errors
    /// `PostOnlyWouldTrade` if the order would trade and must not be repriced, `PostOnlyNoPlace` if
    /// the next price is not a legal one.
    pub fn post_only_price(&self, side: Side, price: Ticks, post_only: PostOnly) -> Result<Ticks, Reject> {
        let Some(best) = self.book.best(side.opposite()).filter(|best| !is_worse(side, *best, price)) else {
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

    /// Checks the operator's limits for one order.
    ///
    /// # Errors
    /// `QuantityAboveLimit`, `NotionalAboveLimit`, `PriceAboveCollar` or `PriceBelowCollar`: the
    /// first limit that the order exceeds.
    pub fn check_limits(&self, side: Side, lots: u64, worth: NotionalBasis) -> Result<(), Reject> {
        let InstrumentLimits { max_lots, max_notional_units, .. } = self.spec.limits;
        if max_lots.is_some_and(|most| Lots(lots) > most) {
            return Err(Reject::QuantityAboveLimit);
        }
        if max_notional_units.is_some_and(|most| self.notional(side, lots, worth) > most) {
            return Err(Reject::NotionalAboveLimit);
        }
        match (worth, self.collar(side)) {
            (NotionalBasis::Limit(price), Some(edge)) if is_worse(side, price, edge) => {
                Err(if side == Side::Buy { Reject::PriceAboveCollar } else { Reject::PriceBelowCollar })
            }
            _ => Ok(()),
        }
    }

    fn notional(&self, side: Side, lots: u64, worth: NotionalBasis) -> i128 {
        let price = match worth {
            NotionalBasis::Limit(price) | NotionalBasis::Waiting(Some(price)) => price,
            NotionalBasis::Waiting(None) => match self.reference() {
                Some(reference) => reference,
                None => return 0,
            },
            NotionalBasis::AtOnce => return self.visible_notional(side, lots),
            NotionalBasis::Nothing => return 0,
        };
        self.terms.notional(price, lots)
    }

    /// Returns the notional of `lots` at the prices of the visible book, up to the collar.
    fn visible_notional(&self, side: Side, lots: u64) -> i128 {
        let edge = self.collar(side);
        let (mut left, mut sum, mut last) = (lots, 0, 0);
        for (price, there) in self.book.levels(side.opposite()) {
            if left == 0 || edge.is_some_and(|edge| is_worse(side, price, edge)) {
                break;
            }
            let taken = left.min(there);
            left -= taken;
            sum += self.terms.notional(price, taken);
            last = self.terms.notional(price, lots);
        }
        if self.spec.is_spot() { sum } else { last }
    }

    /// Returns the price at which a resting order trades with an incoming one, given the best
    /// visible prices before the first fill.
    pub fn trade_price_against(&self, resting: &LiveOrder, bid: Option<Ticks>, offer: Option<Ticks>) -> Ticks {
        let (price, step) = (resting.price.0, self.rules.improvement.0);
        if !resting.is_hidden() {
            return resting.price;
        }
        Ticks(match (resting.side, bid, offer) {
            (Side::Buy, _, Some(offer)) if price > offer.0 => (offer.0 - step).max(bid.map_or(1, |bid| bid.0)).max(1),
            (Side::Sell, Some(bid), _) if price < bid.0 => {
                (bid.0 + step).min(offer.map_or(i64::MAX, |offer| offer.0)).min(Ticks::MAX_PRICE.0)
            }
            _ => price,
        })
    }

    /// Returns the breach if an execution at this price violates a tolerance.
    pub fn breach(&self, tolerance: Tolerance, price: Ticks, dynamic: Option<Ticks>) -> Option<ToleranceBreach> {
        let static_breach = is_beyond(price, self.prices.static_reference, tolerance.static_bps);
        let dynamic_breach = is_beyond(price, dynamic, tolerance.dynamic_bps);
        (static_breach || dynamic_breach).then_some(ToleranceBreach { price, tolerance, dynamic })
    }

    /// Whether the published reference and tolerance of a breach are correct.
    pub fn has_correct_numbers(&self, breach: &ToleranceBreach, actual: (Ticks, Reference, u32)) -> bool {
        let (reference, against, bps) = actual;
        let (real, tolerance) = match against {
            Reference::Static => (self.prices.static_reference, breach.tolerance.static_bps),
            Reference::Dynamic => (breach.dynamic, breach.tolerance.dynamic_bps),
        };
        (Some(reference), Some(bps)) == (real, tolerance) && is_beyond(breach.price, real, tolerance)
    }
}

/// The price basis for the notional of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotionalBasis {
    Limit(Ticks),
    /// A waiting order without a limit, with its protection price if it has one.
    Waiting(Option<Ticks>),
    /// An order that trades at once at book prices.
    AtOnce,
    /// No price exists, so the notional is zero.
    Nothing,
}

/// Whether a price violates a tolerance. A distance equal to the tolerance violates it.
fn is_beyond(price: Ticks, reference: Option<Ticks>, bps: Option<u32>) -> bool {
    let (Some(reference), Some(bps)) = (reference, bps) else { return false };
    let (price, reference) = (i128::from(price.0), i128::from(reference.0));
    (price - reference).abs() * 10_000 >= i128::from(bps) * reference
}

/// Whether a price is worse than a limit for the taker's side.
pub fn is_worse(taker: Side, price: Ticks, limit: Ticks) -> bool {
    match taker {
        Side::Buy => price > limit,
        Side::Sell => price < limit,
    }
}
