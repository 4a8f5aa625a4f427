//! Post-only prices and the limits of an instrument. The checks change nothing.
//!
//! Start at    [`Market::post_only_price`], then [`Market::check_limits`].

use pitwire_model::{InstrumentLimits, Phase, PostOnly, Reject, Side, Ticks};

use crate::definition_checks::check_limits;
use crate::incoming::IncomingOrder;
use crate::market::Market;

/// Basis points of a whole.
const WHOLE_BPS: i64 = 10_000;

impl Market {
    /// Sets the limits of the instrument. Resting orders stay as they are.
    ///
    /// # Errors
    /// `BadDefinition`.
    pub(crate) fn set_limits(&mut self, limits: InstrumentLimits) -> Result<(), Reject> {
        check_limits(limits)?;
        self.spec.limits = limits;
        self.limited = limits != InstrumentLimits::default();
        Ok(())
    }

    /// Returns the price of a post-only order: as asked, or repriced to one tick short of the best
    /// opposite price.
    ///
    /// # Errors
    /// `PostOnlyWouldTrade` if the order would trade and must not be repriced; `PostOnlyNoPlace` if
    /// there is no price to reprice it to.
    #[cold]
    pub(crate) fn post_only_price(&self, side: Side, price: Ticks, post_only: PostOnly) -> Result<Ticks, Reject> {
        let Some(best) = self.book.best_price(side.opposite()) else { return Ok(price) };
        let (would_trade, repriced) = match side {
            Side::Buy => (price >= best, Ticks(best.0 - 1)),
            Side::Sell => (price <= best, Ticks(best.0 + 1)),
        };
        match post_only {
            _ if !would_trade => Ok(price),
            PostOnly::No => Ok(price),
            PostOnly::Reject => Err(Reject::PostOnlyWouldTrade),
            PostOnly::Reprice if (1..=Ticks::MAX_PRICE.0).contains(&repriced.0) => Ok(repriced),
            PostOnly::Reprice => Err(Reject::PostOnlyNoPlace),
        }
    }

    /// Checks an order against the limits of the instrument. Returns the worst price that it may
    /// reach, which is the edge of the collar for a market order. Costs, for a market order, the
    /// levels that it reaches.
    ///
    /// # Errors
    /// The limit that the order exceeds.
    #[cold]
    pub(crate) fn check_limits(&self, order: &IncomingOrder) -> Result<Ticks, Reject> {
        let limits = self.spec.limits;
        if limits.max_lots.is_some_and(|most| u64::from(order.open) > most.0) {
            return Err(Reject::QuantityAboveLimit);
        }
        let edge = limits.collar_bps.map_or(order.limit, |bps| self.collar_edge(order.side, bps));
        if limits.max_notional_units.is_some_and(|most| self.notional(order, edge) > most) {
            return Err(Reject::NotionalAboveLimit);
        }
        match order.side {
            _ if order.is_market() => Ok(edge),
            Side::Buy if order.price > edge => Err(Reject::PriceAboveCollar),
            Side::Sell if order.price < edge => Err(Reject::PriceBelowCollar),
            _ => Ok(order.price),
        }
    }

    /// Checks an order that may have to wait, or that enters a session other than continuous
    /// trading. Sets the worst price that an immediate market order may reach.
    ///
    /// # Errors
    /// The limit that the order exceeds.
    pub(crate) fn check_special_limits(&self, order: &mut IncomingOrder, waits: bool) -> Result<(), Reject> {
        if !self.limited {
            return Ok(());
        }
        if !order.is_market() || (!waits && self.phase == Phase::Continuous) {
            order.limit = self.check_limits(order)?;
            return Ok(());
        }
        let limits = self.spec.limits;
        if limits.max_lots.is_some_and(|most| u64::from(order.open) > most.0) {
            return Err(Reject::QuantityAboveLimit);
        }
        let bound = Some(order.bound).filter(|bound| *bound != Ticks::ZERO);
        let price = if waits { bound.or(self.reference()) } else { self.cross_price() };
        let notional = price.map_or(0, |price| self.settlement.value(price, i128::from(order.open)));
        if limits.max_notional_units.is_some_and(|most| notional > most) {
            return Err(Reject::NotionalAboveLimit);
        }
        if let Some(bps) = limits.collar_bps.filter(|_| !waits) {
            order.limit = self.collar_edge(order.side, bps);
        }
        Ok(())
    }

    /// Returns the worst price inside the collar for an order on `side`, rounded toward the
    /// reference.
    pub(crate) fn collar_edge(&self, side: Side, bps: u32) -> Ticks {
        let reference = self.last.unwrap_or(self.spec.start_price).0;
        let edge = match side {
            Side::Buy => reference * (WHOLE_BPS + i64::from(bps)) / WHOLE_BPS,
            Side::Sell => (reference * (WHOLE_BPS - i64::from(bps)) + WHOLE_BPS - 1) / WHOLE_BPS,
        };
        Ticks(edge.clamp(1, Ticks::MAX_PRICE.0))
    }

    /// Returns the lowest price of a sell and the highest price of a buy that the price band and
    /// the collar accept. `None`: buys have no highest price.
    pub fn price_limits(&self) -> (Ticks, Option<Ticks>) {
        let (mut lowest, mut highest) = (Ticks(1), None);
        if let (Some(percent), Some(reference)) = (self.rules.band_pct, self.prices.static_reference) {
            let (reference, percent) = (i128::from(reference.0), i128::from(percent));
            let edge = |edge: i128| Ticks(i64::try_from(edge).unwrap_or(i64::MAX).clamp(1, Ticks::MAX_PRICE.0));
            // Rounded toward the reference, because the next tick is outside the band.
            lowest = edge((reference * (100 - percent) + 99).div_euclid(100));
            highest = Some(edge(reference * (100 + percent) / 100));
        }
        if let Some(bps) = self.spec.limits.collar_bps {
            lowest = lowest.max(self.collar_edge(Side::Sell, bps));
            let edge = self.collar_edge(Side::Buy, bps);
            highest = Some(highest.map_or(edge, |highest| highest.min(edge)));
        }
        (lowest, highest)
    }

    /// Returns the value of an order. A market order counts at the displayed prices that it
    /// reaches, up to `edge`.
    fn notional(&self, order: &IncomingOrder, edge: Ticks) -> i128 {
        let lots = i128::from(order.open);
        if !order.is_market() {
            return self.settlement.value(order.price, lots);
        }
        let fill = self.book.estimate_displayed_fill(order.side, Some(edge), u64::from(order.open));
        if self.spec.is_spot() {
            // Σ price × lots is the value of that many lots at a price of one tick.
            return self.settlement.value(Ticks(1), fill.tick_lots);
        }
        fill.worst.map_or(0, |worst| self.settlement.value(worst, lots))
    }
}
