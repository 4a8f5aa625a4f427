//! What an account can afford: reserves for spot, margin for perpetuals.
//!
//! Holds       an order is refused when its worst case exceeds what is free; nothing here changes anything.
//! Start at    `Engine::check_funds`, then [`Engine::available`].

use pitwire_model::{AccountId, CurrencyId, InstrumentId, Phase, Reject, Side, Ticks};

use crate::book::RestingOrder;
use crate::engine::Engine;
use crate::market::{Market, SettlementTerms};
use crate::matching::IncomingOrder;
use crate::settle::spot_reserve;

impl Engine {
    /// Whether an order could be paid for in the worst case. A market order pays what it can reach; what finds nobody to
    /// trade with costs nothing. Costs, for a market order, the orders it reaches.
    pub(crate) fn check_funds(&self, market: &Market, order: &IncomingOrder) -> Result<(), Reject> {
        let (account, side, lots) = (order.account, order.side, i128::from(order.open));
        let is_market = order.is_market();
        if let SettlementTerms::Inverse { .. } = market.money {
            let worst = if is_market { order.reach(market).worst } else { Some(order.price) };
            return self.check_perpetual(market, account, side, worst, (order.open, order.open));
        }
        let (currency, mut needed) = spot_reserve(market.money, side, order.price, lots);
        if is_market && side == Side::Buy {
            needed = market.money.value(Ticks(1), order.reach(market).tick_lots);
        }
        if needed > self.available(account, currency) { Err(Reject::NotEnoughFunds) } else { Ok(()) }
    }

    /// The same of an order that may have to wait: it reserves at its limit or bound. A market order that trades at once
    /// in the closing price cross pays for what it can reach there.
    pub(crate) fn check_funds_special(
        &self,
        market: &Market,
        order: &IncomingOrder,
        waits: bool,
    ) -> Result<(), Reject> {
        if !order.is_market() || (!waits && market.phase == Phase::Continuous) {
            return self.check_funds(market, order);
        }
        let (account, side, whole) = (order.account, order.side, order.open);
        let (price, traded) = if waits {
            (Some(order.bound).filter(|bound| *bound != Ticks::ZERO), whole)
        } else {
            let reach = self.cross_reach(order);
            (market.cross_price().filter(|_| reach > 0), reach)
        };
        if let SettlementTerms::Inverse { .. } = market.money {
            return self.check_perpetual(market, account, side, price, (whole, whole));
        }
        let lots = if side == Side::Buy { traded } else { whole };
        // A buy that waits and that nothing bounds could cost anything.
        let unbounded = waits && side == Side::Buy && price.is_none();
        let (currency, needed) = spot_reserve(market.money, side, price.unwrap_or_default(), i128::from(lots));
        if unbounded || needed > self.available(account, currency) { Err(Reject::NotEnoughFunds) } else { Ok(()) }
    }

    /// Whether one party could pay for a trade at this price, whatever its orders in the book.
    pub(crate) fn check_trade_funds(
        &self,
        market: &Market,
        account: AccountId,
        side: Side,
        price: Ticks,
        lots: u32,
    ) -> Result<(), Reject> {
        if let SettlementTerms::Inverse { .. } = market.money {
            return self.check_perpetual_trade(market, account, side, price, lots);
        }
        let (currency, needed) = spot_reserve(market.money, side, price, i128::from(lots));
        if needed > self.available(account, currency) { Err(Reject::NotEnoughFunds) } else { Ok(()) }
    }

    /// A trade in a perpetual whose price nothing binds: what it loses at once against the mark and the margin that is
    /// tied up after it must fit into what is free and the margin of before, so that no loss is paid with margin that
    /// stays needed. What neither loses nor needs more margin is the way out, however little is left.
    fn check_perpetual_trade(
        &self,
        market: &Market,
        account: AccountId,
        side: Side,
        price: Ticks,
        lots: u32,
    ) -> Result<(), Reject> {
        let SettlementTerms::Inverse { settle, value_numerator, max_leverage } = market.money else { return Ok(()) };
        let value = |price: Ticks| i128::from(lots) * value_numerator / i128::from(price.0);
        let loss = match side {
            Side::Sell => value(price) - value(market.mark),
            Side::Buy => value(market.mark) - value(price),
        };
        let mut after = self.account(account).map(|holder| holder.position(market.spec.id)).unwrap_or_default();
        after.lots += if side == Side::Buy { i64::from(lots) } else { -i64::from(lots) };
        let needed = i128::try_from(after.worst_case_lots(0, 0)).unwrap_or(i128::MAX >> 64);
        let grown =
            initial_margin(needed, market.mark, value_numerator, max_leverage) - self.margin(account, market, 0, 0);
        let is_way_out = loss <= 0 && grown <= 0;
        if is_way_out || loss.max(0) + grown <= self.available(account, settle) {
            return Ok(());
        }
        Err(Reject::NotEnoughFunds)
    }

    /// A perpetual order may cost what initial margin grows by, plus what it would lose at once against the mark if all
    /// of it traded at its worst price: else two accounts could trade at an absurd price and one of them owe what the
    /// other may spend. An order that leaves the margin as it is may lose what is free plus the margin of the lots it
    /// closes: it is the way out. `more` lots count for margin, `lots` for the loss.
    fn check_perpetual(
        &self,
        market: &Market,
        account: AccountId,
        side: Side,
        worst: Option<Ticks>,
        (more, lots): (u32, u32),
    ) -> Result<(), Reject> {
        let SettlementTerms::Inverse { settle, value_numerator, max_leverage } = market.money else { return Ok(()) };
        let extra = |wanted: Side| if side == wanted { u64::from(more) } else { 0 };
        let grown =
            self.margin(account, market, extra(Side::Buy), extra(Side::Sell)) - self.margin(account, market, 0, 0);
        let value = |price: Ticks| i128::from(lots) * value_numerator / i128::from(price.0);
        let loss = worst.map_or(0, |worst| match side {
            Side::Sell => value(worst) - value(market.mark),
            Side::Buy => value(market.mark) - value(worst),
        });
        let free = self.available(account, settle);
        let (cost, bound) = if grown > 0 {
            (grown + loss.max(0), free)
        } else {
            let held = self.account(account).map_or(0, |holder| holder.position(market.spec.id).lots);
            let against = if side == Side::Sell { held.max(0) } else { held.min(0) };
            let closed = i128::from(u64::from(lots).min(against.unsigned_abs()));
            (loss, free.max(0) + initial_margin(closed, market.mark, value_numerator, max_leverage))
        };
        if cost > bound { Err(Reject::NotEnoughFunds) } else { Ok(()) }
    }

    /// Initial margin of a perpetual for the largest position that open orders and so many more lots could lead to:
    /// its value at the mark price divided by the leverage, rounded up.
    fn margin(&self, account: AccountId, market: &Market, extra_buy: u64, extra_sell: u64) -> i128 {
        let SettlementTerms::Inverse { value_numerator, max_leverage, .. } = market.money else { return 0 };
        let Some(account) = self.account(account) else { return 0 };
        let lots = account.position(market.spec.id).worst_case_lots(extra_buy, extra_sell);
        let lots = i128::try_from(lots).unwrap_or(i128::MAX >> 64);
        initial_margin(lots, market.mark, value_numerator, max_leverage)
    }

    /// The initial margin an account's position and orders in one perpetual tie up, in settlement units.
    pub fn margin_of(&self, account: AccountId, instrument: InstrumentId) -> i128 {
        self.market(instrument).map_or(0, |market| self.margin(account, market, 0, 0))
    }

    /// Profit of an open perpetual position at the mark price, in settlement units.
    pub fn unrealized(&self, account: AccountId, instrument: InstrumentId) -> i128 {
        let (Some(market), Some(account)) = (self.market(instrument), self.account(account)) else { return 0 };
        let SettlementTerms::Inverse { value_numerator, .. } = market.money else { return 0 };
        let position = account.position(instrument);
        let now = i128::from(position.lots.unsigned_abs()) * value_numerator / i128::from(market.mark.0);
        if position.lots >= 0 { position.entry_value - now } else { now - position.entry_value }
    }

    /// What an account may still spend or set aside: its total and credit line, less reserves, less margin, less
    /// unrealized losses.
    pub fn available(&self, account: AccountId, currency: CurrencyId) -> i128 {
        let Some(holder) = self.account(account) else { return 0 };
        let balance = holder.balance(currency);
        let mut free = balance.total + holder.credit_line(currency) - balance.reserved;
        for (instrument, _) in holder.positions() {
            if self.market(instrument).is_some_and(|market| market.spec.base() == currency) {
                free -= self.margin_of(account, instrument) - self.unrealized(account, instrument).min(0);
            }
        }
        free
    }

    /// The old order's reserve is there to be spent.
    pub(crate) fn check_amend_funds(
        &self,
        market: &Market,
        old: &RestingOrder,
        new: &IncomingOrder,
    ) -> Result<(), Reject> {
        let (account, side, old_open) = (new.account, new.side, old.total_open());
        match market.money {
            // Less of the same is always allowed.
            _ if new.price == old.price && new.open <= old_open => Ok(()),
            SettlementTerms::Spot { .. } => {
                let released = spot_reserve(market.money, side, old.price, i128::from(old_open)).1;
                let (currency, needed) = spot_reserve(market.money, side, new.price, i128::from(new.open));
                let free = self.available(account, currency) + released;
                if needed > free { Err(Reject::NotEnoughFunds) } else { Ok(()) }
            }
            SettlementTerms::Inverse { .. } => {
                let more = new.open.saturating_sub(old_open);
                let worst = Some(new.price).filter(|price| *price > Ticks::ZERO);
                self.check_perpetual(market, account, side, worst, (more, new.open))
            }
        }
    }
}

/// Value at the mark divided by the leverage, rounded up.
fn initial_margin(lots: i128, mark: Ticks, value_numerator: i128, max_leverage: i128) -> i128 {
    let divisor = i128::from(mark.0) * max_leverage;
    lots.saturating_mul(value_numerator).saturating_add(divisor - 1) / divisor
}
