//! The balances, positions and status of an account.
//!
//! Holds       1. sums over all accounts change only by deposits: a fill debits exactly what it
//!                credits;
//!             2. `reserved` of a currency is the most that the account's open spot orders could
//!                cost.

use std::collections::BTreeMap;

use pitwire_model::{AccountSpec, Credit, CurrencyId, InstrumentId, Side, VenueNanos};

/// The balance of an account in one currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Units owned, including reserved units.
    pub total: i128,
    /// Units reserved for open spot orders.
    pub reserved: i128,
}

/// A position in an inverse perpetual.
///
/// A fill of n lots at price p has the value `v = ⌊k·n / p⌋` in units of the settlement currency.
/// The value is the same for both sides, so rounding loses nothing between them. Closing part of a
/// position takes the same part of its entry value, rounded down; the remaining entry value stays
/// with the remaining lots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Lots of the position: positive for long, negative for short.
    pub lots: i64,
    /// Entry value of the open lots, in units of the settlement currency; never negative.
    pub entry_value: i128,
    /// Profit that has been paid into the balance.
    pub realized: i128,
    pub open_buy_lots: u64,
    pub open_sell_lots: u64,
}

impl Position {
    /// Books a fill with this value. Returns the profit that it realizes.
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
        let open = i128::from(self.lots.unsigned_abs());
        let closed = open.min(i128::from(lots));
        let entry = self.entry_value * closed / open;
        let exit = value * closed / i128::from(lots);
        // A long inverse contract gains when its dollar value buys fewer units of the settlement
        // currency.
        let profit = if self.lots > 0 { entry - exit } else { exit - entry };
        self.lots += signed;
        self.entry_value -= entry;
        if i128::from(lots) > closed {
            self.entry_value += value - exit;
        }
        self.realized += profit;
        profit
    }

    /// Returns the largest position, in lots, that the open orders could lead to.
    pub fn worst_case_lots(&self, extra_buy: u64, extra_sell: u64) -> u128 {
        let long = i128::from(self.lots) + i128::from(self.open_buy_lots) + i128::from(extra_buy);
        let short = i128::from(self.lots) - i128::from(self.open_sell_lots) - i128::from(extra_sell);
        long.unsigned_abs().max(short.unsigned_abs())
    }
}

/// Restrictions by operators and by the throttle on an account. Part of every image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountStatus {
    pub closed: bool,
    pub killed: bool,
    pub throttled: bool,
    /// Number of the last throttle window with a fill.
    pub window: u64,
    /// Fills in that window.
    pub executions: u32,
    /// Credit lines above zero.
    pub credit_lines: BTreeMap<CurrencyId, i128>,
}

/// An account with its balances, positions and status.
#[derive(Clone, Debug)]
pub struct Account {
    pub spec: AccountSpec,
    /// Balances by currency id; currency ids have no gaps.
    pub(crate) balances: Vec<Balance>,
    /// Positions in perpetuals that the account has traded or entered orders for.
    pub(crate) positions: BTreeMap<InstrumentId, Position>,
    /// Number of live orders.
    pub(crate) open_orders: u32,
    pub(crate) most_open_orders: u32,
    /// Whether the account is closed, killed or throttled, so that an order checks one flag.
    pub(crate) blocked: bool,
    /// Whether the account has a throttle.
    pub(crate) has_throttle: bool,
    pub(crate) status: AccountStatus,
}

impl Account {
    pub(crate) fn new(spec: AccountSpec, currencies: usize) -> Self {
        let mut account = Account {
            spec,
            balances: vec![Balance::default(); currencies],
            positions: BTreeMap::new(),
            open_orders: 0,
            most_open_orders: u32::MAX,
            blocked: false,
            has_throttle: false,
            status: AccountStatus::default(),
        };
        account.update_flags();
        account
    }

    /// Recomputes the flags that the path of an order reads. Called after every change of settings
    /// or status.
    pub(crate) fn update_flags(&mut self) {
        let AccountStatus { closed, killed, throttled, .. } = self.status;
        self.blocked = closed || killed || throttled;
        self.most_open_orders = self.spec.settings.max_open_orders.unwrap_or(u32::MAX);
        self.has_throttle = self.spec.settings.throttle.is_some();
    }

    /// Counts one fill at `at`. Returns whether it trips the throttle.
    pub(crate) fn count_execution(&mut self, at: VenueNanos) -> bool {
        let Some(throttle) = self.spec.settings.throttle else { return false };
        let Some(window) = at.0.checked_div(throttle.window_ns) else { return false };
        if window != self.status.window {
            (self.status.window, self.status.executions) = (window, 0);
        }
        self.status.executions = self.status.executions.saturating_add(1);
        let trips = self.status.executions > throttle.executions && !self.status.throttled;
        if trips {
            self.status.throttled = true;
            self.update_flags();
        }
        trips
    }

    /// Resets the count of fills. A tripped throttle stays tripped.
    pub(crate) fn reset_executions(&mut self) {
        (self.status.window, self.status.executions) = (0, 0);
    }

    /// Returns whether an operator has closed the account. A closed account stays closed.
    pub fn is_closed(&self) -> bool {
        self.status.closed
    }

    pub fn is_killed(&self) -> bool {
        self.status.killed
    }

    /// Returns whether the repeated-execution throttle has tripped and has not been lifted.
    pub fn is_throttled(&self) -> bool {
        self.status.throttled
    }

    pub fn open_orders(&self) -> u32 {
        self.open_orders
    }

    /// Returns how far below zero the available amount of a currency may fall, in units.
    pub fn credit_line(&self, currency: CurrencyId) -> i128 {
        self.status.credit_lines.get(&currency).copied().unwrap_or(0)
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
    fn position_opens_shrinks_and_reverses_without_losing_a_unit() {
        // Values for k = 2e9: 10 lots at 120000 ticks are 166666 units.
        let mut long = Position::default();
        assert_eq!(long.fill(Side::Buy, 10, 166_666), 0);
        assert_eq!(long.fill(Side::Sell, 4, 60_000), 66_666 - 60_000);
        assert_eq!((long.lots, long.entry_value), (6, 100_000));
        // Sells through zero: 6 lots close, 4 lots open short.
        assert_eq!(long.fill(Side::Sell, 10, 150_001), 100_000 - 90_000);
        assert_eq!((long.lots, long.entry_value), (-4, 60_001));
        assert_eq!(long.fill(Side::Buy, 4, 70_000), 70_000 - 60_001);
        assert_eq!((long.lots, long.entry_value), (0, 0));
    }
}
