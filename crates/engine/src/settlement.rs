//! Money that moves with trades, and money that open orders reserve.
//!
//! Holds       what one account gains, the other loses, rounding included.

use std::hint::select_unpredictable;

use pitwire_model::{InstrumentId, Side, Ticks};

use crate::account::Account;
use crate::settlement_terms::SettlementTerms;

/// Reserves what `lots` of an open order at `price` could cost. Negative lots release a reserve.
#[inline]
pub(crate) fn reserve(
    holder: &mut Account,
    terms: SettlementTerms,
    instrument: InstrumentId,
    side: Side,
    price: Ticks,
    lots: i128,
) {
    match terms {
        SettlementTerms::Spot { .. } => {
            let (currency, units) = terms.spot_reserve(side, price, lots);
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

/// Settles a trade between two accounts on opposite sides. The first account is booked before the
/// second.
#[inline]
pub(crate) fn settle_trade(
    accounts: &mut [Account],
    instrument: InstrumentId,
    terms: SettlementTerms,
    parties: [(usize, Side); 2],
    price: Ticks,
    lots: u32,
) {
    match terms {
        SettlementTerms::Spot { base, quote, base_units_per_lot, quote_units_per_tick_lot } => {
            let goods = i128::from(lots) * base_units_per_lot;
            let cash = i128::from(price.0) * i128::from(lots) * quote_units_per_tick_lot;
            let [(first, side), (second, _)] = parties;
            // The amounts that the first party receives. The second party pays them.
            let (goods, cash) = select_unpredictable(side == Side::Buy, (goods, -cash), (-goods, cash));
            accounts[first].balance_mut(base).total += goods;
            accounts[first].balance_mut(quote).total += cash;
            accounts[second].balance_mut(base).total -= goods;
            accounts[second].balance_mut(quote).total -= cash;
        }
        SettlementTerms::Inverse { settle, .. } => {
            let value = terms.value(price, i128::from(lots));
            for (account, side) in parties {
                let holder = &mut accounts[account];
                let profit = holder.positions.entry(instrument).or_default().fill(side, lots, value);
                holder.balance_mut(settle).total += profit;
            }
        }
    }
}
