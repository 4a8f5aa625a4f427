//! What an account owns, owes and has set aside.
//!
//! Holds       1. sums over all accounts change only by deposits: each fill moves exactly what it takes;
//!             2. `reserved` of a currency is what the account's open spot orders could cost at most.

use std::collections::BTreeMap;

use pitwire_model::{AccountSpec, Credit, CurrencyId, InstrumentId, Side};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Units owned, whether set aside or not.
    pub total: i128,
    /// Units set aside for open spot orders.
    pub reserved: i128,
}

/// A holding in an inverse perpetual.
///
/// A fill of n lots at price p is worth `v = ⌊k·n / p⌋` units of the settlement currency, the same v for both sides,
/// so what is rounded off is nobody's and nothing is lost between them. Closing part of a position takes the same
/// part of its entry value, rounded down; the rest stays with the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Positive long, negative short.
    pub lots: i64,
    /// Entry value of what is open, in units of the settlement currency; never negative.
    pub entry_value: i128,
    /// Profit already paid into the balance.
    pub realized: i128,
    pub open_buy_lots: u64,
    pub open_sell_lots: u64,
}

impl Position {
    /// Books a fill worth `value`; returns the profit it realizes.
    pub fn fill(&mut self, side: Side, lots: u32, value: i128) -> i128 {
        let signed = match side {
            Side::Buy => i64::from(lots),
            Side::Sell => -i64::from(lots),
        };
        if self.lots == 0 || (self.lots > 0) == (signed > 0) {
            self.lots += signed;
            self.entry_value += value;
            return 0;
        }
        let held = i128::from(self.lots.unsigned_abs());
        let closed = held.min(i128::from(lots));
        let entry = self.entry_value * closed / held;
        let exit = value * closed / i128::from(lots);
        // An inverse contract gains in the settlement currency when the same dollars are worth less of it.
        let profit = if self.lots > 0 { entry - exit } else { exit - entry };
        self.lots += signed;
        self.entry_value -= entry;
        if i128::from(lots) > closed {
            self.entry_value += value - exit;
        }
        self.realized += profit;
        profit
    }

    /// The largest position that the open orders could lead to, in lots.
    pub fn worst_case_lots(&self, extra_buy: u64, extra_sell: u64) -> u128 {
        let long = i128::from(self.lots) + i128::from(self.open_buy_lots) + i128::from(extra_buy);
        let short = i128::from(self.lots) - i128::from(self.open_sell_lots) - i128::from(extra_sell);
        long.unsigned_abs().max(short.unsigned_abs())
    }
}

#[derive(Clone, Debug)]
pub struct Account {
    pub spec: AccountSpec,
    /// By currency; currencies are dense.
    pub(crate) balances: Vec<Balance>,
    /// Only instruments ever traded or quoted by this account.
    pub(crate) positions: BTreeMap<InstrumentId, Position>,
}

impl Account {
    pub(crate) fn new(spec: AccountSpec, currencies: usize) -> Self {
        Account { spec, balances: vec![Balance::default(); currencies], positions: BTreeMap::new() }
    }

    pub fn is_limited(&self) -> bool {
        self.spec.credit == Credit::Limited
    }

    #[inline]
    pub fn balance(&self, currency: CurrencyId) -> Balance {
        self.balances.get(currency.0 as usize).copied().unwrap_or_default()
    }

    #[inline]
    pub(crate) fn balance_mut(&mut self, currency: CurrencyId) -> &mut Balance {
        &mut self.balances[currency.0 as usize]
    }

    pub fn position(&self, instrument: InstrumentId) -> Position {
        self.positions.get(&instrument).copied().unwrap_or_default()
    }

    pub fn positions(&self) -> impl Iterator<Item = (InstrumentId, &Position)> {
        self.positions.iter().map(|(id, position)| (*id, position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_opens_shrinks_turns_and_keeps_every_unit() {
        // Values as if k = 2e9: 10 lots at 120000 ticks are 166666 units.
        let mut long = Position::default();
        assert_eq!(long.fill(Side::Buy, 10, 166_666), 0);
        assert_eq!(long.fill(Side::Sell, 4, 60_000), 66_666 - 60_000);
        assert_eq!((long.lots, long.entry_value), (6, 100_000));
        // Sells through zero: 6 close, 4 open short.
        assert_eq!(long.fill(Side::Sell, 10, 150_001), 100_000 - 90_000);
        assert_eq!((long.lots, long.entry_value), (-4, 60_001));
        assert_eq!(long.fill(Side::Buy, 4, 70_000), 70_000 - 60_001);
        assert_eq!((long.lots, long.entry_value), (0, 0));
    }
}
