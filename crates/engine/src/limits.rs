//! What an order's terms and its instrument's limits allow it to be. Orders without terms, on instruments without
//! limits, never come here.
//!
//! Holds       nothing here changes anything.
//! Start at    `Market::placed`, then `Market::check_limits`.

use pitwire_model::{Lots, Phase, PostOnly, Reject, Side, Ticks};

use crate::market::Market;
use crate::matching::IncomingOrder;

/// Basis points of a whole.
const WHOLE_BPS: i64 = 10_000;

/// The peak of an iceberg, from 1 to its lots; zero for none.
pub(crate) fn peak_of(display: Option<Lots>, lots: u32) -> Result<u32, Reject> {
    let Some(display) = display else { return Ok(0) };
    let peak = u32::try_from(display.0).ok().filter(|peak| (1..=lots).contains(peak));
    peak.ok_or(Reject::DisplayOutOfRange)
}

impl Market {
    /// The price of a post-only order: as asked, or short of the other side's best, or refused.
    #[cold]
    pub(crate) fn placed(&self, side: Side, price: Ticks, post_only: PostOnly) -> Result<Ticks, Reject> {
        let Some(best) = self.book.best_price(side.opposite()) else { return Ok(price) };
        let (trades, short) = match side {
            Side::Buy => (price >= best, Ticks(best.0 - 1)),
            Side::Sell => (price <= best, Ticks(best.0 + 1)),
        };
        match post_only {
            _ if !trades => Ok(price),
            PostOnly::No => Ok(price),
            PostOnly::Reject => Err(Reject::PostOnlyWouldTrade),
            PostOnly::Reprice if (1..=Ticks::MAX_PRICE.0).contains(&short.0) => Ok(short),
            PostOnly::Reprice => Err(Reject::PostOnlyNoPlace),
        }
    }

    /// Measures an order by the instrument's limits; returns how far it may trade, which for a market order is the
    /// collar's edge. Costs, for a market order, the levels it reaches.
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

    /// The same of an order that may have to wait, or comes to a session of its own: sets how far an immediate market
    /// order may trade.
    pub(crate) fn check_limits_special(&self, order: &mut IncomingOrder, waits: bool) -> Result<(), Reject> {
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
        let notional = price.map_or(0, |price| self.money.value(price, i128::from(order.open)));
        if limits.max_notional_units.is_some_and(|most| notional > most) {
            return Err(Reject::NotionalAboveLimit);
        }
        if let Some(bps) = limits.collar_bps.filter(|_| !waits) {
            order.limit = self.collar_edge(order.side, bps);
        }
        Ok(())
    }

    /// The last price in the direction in which an order on `side` trades badly: rounded inward, within the book.
    pub(crate) fn collar_edge(&self, side: Side, bps: u32) -> Ticks {
        let reference = self.last.unwrap_or(self.spec.start_price).0;
        let edge = match side {
            Side::Buy => reference * (WHOLE_BPS + i64::from(bps)) / WHOLE_BPS,
            Side::Sell => (reference * (WHOLE_BPS - i64::from(bps)) + WHOLE_BPS - 1) / WHOLE_BPS,
        };
        Ticks(edge.clamp(1, Ticks::MAX_PRICE.0))
    }

    /// A market order counts at what the visible book asks up to `edge`.
    fn notional(&self, order: &IncomingOrder, edge: Ticks) -> i128 {
        let lots = i128::from(order.open);
        if !order.is_market() {
            return self.money.value(order.price, lots);
        }
        let reach = self.book.visible_reach(order.side, Some(edge), u64::from(order.open));
        if self.spec.is_spot() {
            // A price of one tick makes lots of the sum of prices times lots.
            return self.money.value(Ticks(1), reach.tick_lots);
        }
        reach.worst.map_or(0, |worst| self.money.value(worst, lots))
    }
}
