//! Money moves: what a fill pays, what a resting order sets aside.
//!
//! Holds       what one account gains another loses, rounding included.

use std::hint::select_unpredictable;

use pitwire_model::{AccountId, CurrencyId, InstrumentId, Side, Ticks};

use crate::account::Account;
use crate::market::{Market, SettlementTerms};

/// The currency a spot order sets aside, and how many units of it.
#[inline]
pub(crate) fn spot_reserve(money: SettlementTerms, side: Side, price: Ticks, lots: i128) -> (CurrencyId, i128) {
    match money {
        SettlementTerms::Spot { base, quote, base_units_per_lot, quote_units_per_tick_lot } => {
            // Buyers and sellers come in no order that could be guessed: both are worked out, no branch is taken.
            let per_lot = i128::from(price.0) * quote_units_per_tick_lot;
            let (currency, per_lot) =
                select_unpredictable(side == Side::Buy, (quote, per_lot), (base, base_units_per_lot));
            (currency, lots * per_lot)
        }
        SettlementTerms::Inverse { settle, .. } => (settle, 0),
    }
}

/// Sets aside (or, negative, releases) what `lots` of a resting order at `price` could cost.
#[inline]
pub(crate) fn set_aside(
    accounts: &mut [Account],
    market: &Market,
    account: AccountId,
    side: Side,
    price: Ticks,
    lots: i128,
) {
    let holder = &mut accounts[account.0 as usize];
    reserve(holder, market.money, market.spec.id, side, price, lots);
}

#[inline]
pub(crate) fn reserve(
    holder: &mut Account,
    money: SettlementTerms,
    instrument: InstrumentId,
    side: Side,
    price: Ticks,
    lots: i128,
) {
    match money {
        SettlementTerms::Spot { .. } => {
            let (currency, units) = spot_reserve(money, side, price, lots);
            holder.balance_mut(currency).reserved += units;
        }
        SettlementTerms::Inverse { .. } => {
            let position = holder.positions.entry(instrument).or_default();
            let open = match side {
                Side::Buy => &mut position.open_buy_lots,
                Side::Sell => &mut position.open_sell_lots,
            };
            let changed = i128::from(*open) + lots;
            *open = u64::try_from(changed).unwrap_or(0);
        }
    }
}

/// A fill between two accounts on opposite sides, booked for the first before the second.
#[inline]
pub(crate) fn exchange(
    accounts: &mut [Account],
    instrument: InstrumentId,
    money: SettlementTerms,
    parties: [(usize, Side); 2],
    price: Ticks,
    lots: u32,
) {
    match money {
        SettlementTerms::Spot { base, quote, base_units_per_lot, quote_units_per_tick_lot } => {
            let goods = i128::from(lots) * base_units_per_lot;
            let cash = i128::from(price.0) * i128::from(lots) * quote_units_per_tick_lot;
            let [(first, side), (second, _)] = parties;
            // What the first party gets; the other one gives as much.
            let (goods, cash) = select_unpredictable(side == Side::Buy, (goods, -cash), (-goods, cash));
            accounts[first].balance_mut(base).total += goods;
            accounts[first].balance_mut(quote).total += cash;
            accounts[second].balance_mut(base).total -= goods;
            accounts[second].balance_mut(quote).total -= cash;
        }
        SettlementTerms::Inverse { settle, .. } => {
            let value = money.value(price, i128::from(lots));
            for (account, side) in parties {
                let holder = &mut accounts[account];
                let profit = holder.positions.entry(instrument).or_default().fill(side, lots, value);
                holder.balance_mut(settle).total += profit;
            }
        }
    }
}
