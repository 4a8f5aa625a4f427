//! Checks of funds: reserves for spot orders, margin for perpetuals.
//!
//! Does        compute the available funds and compare the worst case of an order, an amend or a
//!             trade with them.
//! Holds       no function here changes a balance.
//! Start at    [`Funds::check_order`], then [`Funds::available`].

use pitwire_model::{AccountId, CurrencyId, InstrumentId, Phase, Reject, Side, Ticks};

use crate::account::Account;
use crate::book::RestingOrder;
use crate::incoming::IncomingOrder;
use crate::market::Market;
use crate::settlement_terms::SettlementTerms;

/// The state that the checks of funds read.
#[derive(Clone, Copy)]
pub(crate) struct Funds<'a> {
    pub accounts: &'a [Account],
    pub markets: &'a [Market],
}

/// Lots of a perpetual order that a check counts.
#[derive(Clone, Copy)]
struct CountedLots {
    /// Lots that add to the open orders, for the margin.
    added: u32,
    /// Lots that may trade, for the loss.
    traded: u32,
}

fn enough_funds(is_enough: bool) -> Result<(), Reject> {
    if is_enough { Ok(()) } else { Err(Reject::NotEnoughFunds) }
}

impl<'a> Funds<'a> {
    fn account(self, id: AccountId) -> Option<&'a Account> {
        self.accounts.get(id.0 as usize)
    }

    fn market(self, id: InstrumentId) -> Option<&'a Market> {
        self.markets.get(id.0 as usize)
    }

    /// Checks that the account can pay for an order in the worst case. A market order pays what it
    /// can reach now; if it can reach nothing, it costs nothing. Costs, for a market order, the
    /// orders that it reaches.
    ///
    /// # Errors
    ///
    /// Returns `NotEnoughFunds`.
    pub fn check_order(self, market: &Market, order: &IncomingOrder) -> Result<(), Reject> {
        let (account, side, open, is_market) = (order.account, order.side, order.open, order.is_market());
        if let SettlementTerms::Inverse { .. } = market.settlement {
            let worst = if is_market { market.estimate_fill(order, self.accounts).worst } else { Some(order.price) };
            let lots = CountedLots { added: open, traded: open };
            return self.check_perpetual(market, account, side, worst, lots);
        }
        let (currency, mut needed) = market.settlement.spot_reserve(side, order.price, i128::from(open));
        if is_market && side == Side::Buy {
            needed = market.settlement.value(Ticks(1), market.estimate_fill(order, self.accounts).tick_lots);
        }
        enough_funds(needed <= self.available(account, currency))
    }

    /// Checks an order that may have to wait: it reserves at its limit or bound. A market order
    /// that trades at once in the closing price cross pays for the `cross_lots` that it can reach
    /// there.
    ///
    /// # Errors
    ///
    /// Returns `NotEnoughFunds`.
    pub fn check_special_order(
        self,
        market: &Market,
        order: &IncomingOrder,
        waits: bool,
        cross_lots: u32,
    ) -> Result<(), Reject> {
        if !order.is_market() || (!waits && market.phase == Phase::Continuous) {
            return self.check_order(market, order);
        }
        let (account, side, open) = (order.account, order.side, order.open);
        let (price, traded) = if waits {
            (Some(order.bound).filter(|bound| *bound != Ticks::ZERO), open)
        } else {
            (market.cross_price().filter(|_| cross_lots > 0), cross_lots)
        };
        if let SettlementTerms::Inverse { .. } = market.settlement {
            return self.check_perpetual(market, account, side, price, CountedLots { added: open, traded: open });
        }
        let lots = if side == Side::Buy { traded } else { open };
        // A waiting buy without a bound could cost any amount.
        let is_unbounded = waits && side == Side::Buy && price.is_none();
        let (currency, needed) = market.settlement.spot_reserve(side, price.unwrap_or_default(), i128::from(lots));
        enough_funds(!is_unbounded && needed <= self.available(account, currency))
    }

    /// Checks that one party can pay for a reported trade.
    ///
    /// In a perpetual its price has no bound. The loss against the mark price plus the growth of
    /// the margin must not exceed the available funds, because margin that is still needed must not
    /// pay a loss. A trade without loss and growth is always allowed, so that an account can leave
    /// its position.
    ///
    /// # Errors
    ///
    /// Returns `NotEnoughFunds`.
    pub fn check_trade(
        self,
        market: &Market,
        account: AccountId,
        side: Side,
        price: Ticks,
        lots: u32,
    ) -> Result<(), Reject> {
        let SettlementTerms::Inverse { settle, value_numerator, max_leverage } = market.settlement else {
            let (currency, needed) = market.settlement.spot_reserve(side, price, i128::from(lots));
            return enough_funds(needed <= self.available(account, currency));
        };
        let loss = loss_against_mark(market, side, price, lots);
        let mut after = self.account(account).map(|holder| holder.position(market.spec.id)).unwrap_or_default();
        after.lots += if side == Side::Buy { i64::from(lots) } else { -i64::from(lots) };
        let lots_after = i128::try_from(after.worst_case_lots(0, 0)).unwrap_or(i128::MAX >> 64);
        let margin_after = initial_margin(lots_after, market.mark, value_numerator, max_leverage);
        let growth = margin_after - self.margin(account, market, 0, 0);
        let is_way_out = loss <= 0 && growth <= 0;
        enough_funds(is_way_out || loss.max(0) + growth <= self.available(account, settle))
    }

    /// Checks a perpetual order. It may cost the growth of the initial margin, plus the loss
    /// against the mark price if all of it traded at `worst`. Without this check two accounts could
    /// trade at an absurd price, and one could spend money that the other owes. An order that does
    /// not increase the margin may also use the margin of the lots that it closes, so that an
    /// account can leave its position.
    fn check_perpetual(
        self,
        market: &Market,
        account: AccountId,
        side: Side,
        worst: Option<Ticks>,
        lots: CountedLots,
    ) -> Result<(), Reject> {
        let SettlementTerms::Inverse { settle, value_numerator, max_leverage } = market.settlement else {
            return Ok(());
        };
        let extra = |wanted: Side| if side == wanted { u64::from(lots.added) } else { 0 };
        let growth =
            self.margin(account, market, extra(Side::Buy), extra(Side::Sell)) - self.margin(account, market, 0, 0);
        let loss = worst.map_or(0, |worst| loss_against_mark(market, side, worst, lots.traded));
        let available = self.available(account, settle);
        let (cost, bound) = if growth > 0 {
            (growth + loss.max(0), available)
        } else {
            let position = self.account(account).map_or(0, |holder| holder.position(market.spec.id).lots);
            let opposite = if side == Side::Sell { position.max(0) } else { position.min(0) };
            let closed = i128::from(u64::from(lots.traded).min(opposite.unsigned_abs()));
            (loss, available.max(0) + initial_margin(closed, market.mark, value_numerator, max_leverage))
        };
        enough_funds(cost <= bound)
    }

    /// Returns the initial margin of a perpetual for the largest position that the open orders and
    /// some extra lots could lead to.
    fn margin(self, account: AccountId, market: &Market, extra_buy: u64, extra_sell: u64) -> i128 {
        let SettlementTerms::Inverse { value_numerator, max_leverage, .. } = market.settlement else { return 0 };
        let Some(account) = self.account(account) else { return 0 };
        let lots = account.position(market.spec.id).worst_case_lots(extra_buy, extra_sell);
        let lots = i128::try_from(lots).unwrap_or(i128::MAX >> 64);
        initial_margin(lots, market.mark, value_numerator, max_leverage)
    }

    /// Returns the initial margin that an account's position and orders in one perpetual need, in
    /// settlement units.
    pub fn margin_of(self, account: AccountId, instrument: InstrumentId) -> i128 {
        self.market(instrument).map_or(0, |market| self.margin(account, market, 0, 0))
    }

    /// Returns the profit of an open perpetual position at the mark price, in settlement units.
    pub fn unrealized(self, account: AccountId, instrument: InstrumentId) -> i128 {
        let (Some(market), Some(account)) = (self.market(instrument), self.account(account)) else { return 0 };
        let SettlementTerms::Inverse { value_numerator, .. } = market.settlement else { return 0 };
        let position = account.position(instrument);
        let value = i128::from(position.lots.unsigned_abs()) * value_numerator / i128::from(market.mark.0);
        if position.lots >= 0 { position.entry_value - value } else { value - position.entry_value }
    }

    /// Returns what an account may still spend or reserve: its balance and credit line, less
    /// reserves, margin and unrealized losses.
    pub fn available(self, account: AccountId, currency: CurrencyId) -> i128 {
        let Some(holder) = self.account(account) else { return 0 };
        let balance = holder.balance(currency);
        let mut available = balance.total + holder.credit_line(currency) - balance.reserved;
        for (instrument, _) in holder.positions() {
            if self.market(instrument).is_some_and(|market| market.spec.base() == currency) {
                available -= self.margin_of(account, instrument) - self.unrealized(account, instrument).min(0);
            }
        }
        available
    }

    /// Checks an amended order. The reserve of the old order counts as available.
    ///
    /// # Errors
    ///
    /// Returns `NotEnoughFunds`.
    pub fn check_amend(self, market: &Market, old: &RestingOrder, new: &IncomingOrder) -> Result<(), Reject> {
        let (account, side, old_open) = (new.account, new.side, old.total_open());
        match market.settlement {
            // A reduction at the same price is always allowed.
            _ if new.price == old.price && new.open <= old_open => Ok(()),
            terms @ SettlementTerms::Spot { .. } => {
                let (_, released) = terms.spot_reserve(side, old.price, i128::from(old_open));
                let (currency, needed) = terms.spot_reserve(side, new.price, i128::from(new.open));
                enough_funds(needed <= self.available(account, currency) + released)
            }
            SettlementTerms::Inverse { .. } => {
                let lots = CountedLots { added: new.open.saturating_sub(old_open), traded: new.open };
                let worst = Some(new.price).filter(|price| *price > Ticks::ZERO);
                self.check_perpetual(market, account, side, worst, lots)
            }
        }
    }
}

/// Returns the loss of a trade at `price` when the position is valued at the mark price; negative
/// for a profit.
fn loss_against_mark(market: &Market, side: Side, price: Ticks, lots: u32) -> i128 {
    let value = |price: Ticks| market.settlement.value(price, i128::from(lots));
    match side {
        Side::Sell => value(price) - value(market.mark),
        Side::Buy => value(market.mark) - value(price),
    }
}

/// Returns the value at the mark price divided by the leverage, rounded up.
fn initial_margin(lots: i128, mark: Ticks, value_numerator: i128, max_leverage: i128) -> i128 {
    let divisor = i128::from(mark.0) * max_leverage;
    lots.saturating_mul(value_numerator).saturating_add(divisor - 1) / divisor
}
