//! What an account owns, owes and has set aside.
//!
//! Holds       1. sums over all accounts change only by deposits: each fill moves exactly what it takes;
//!             2. `reserved` of a currency is what the account's open spot orders could cost at most.

use std::collections::BTreeMap;

use pitwire_model::{AccountSpec, Credit, CurrencyId, InstrumentId, Side, VenueNanos};

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

/// What operators, and the throttle, have made of an account: part of every image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountStatus {
    pub closed: bool,
    pub killed: bool,
    pub throttled: bool,
    /// The last throttle window in which a fill counted, and how many did.
    pub window: u64,
    pub executions: u32,
    /// Lines above zero.
    pub credit_lines: BTreeMap<CurrencyId, i128>,
}

#[derive(Clone, Debug)]
pub struct Account {
    pub spec: AccountSpec,
    /// By currency; currencies are dense.
    pub(crate) balances: Vec<Balance>,
    /// Only instruments ever traded or quoted by this account.
    pub(crate) positions: BTreeMap<InstrumentId, Position>,
    /// Orders on any book.
    pub(crate) open_orders: u32,
    pub(crate) most_open_orders: u32,
    /// Closed, killed or throttled: says that an order has to ask for the reason.
    pub(crate) blocked: bool,
    /// Has a throttle.
    pub(crate) counted: bool,
    pub(crate) standing: AccountStatus,
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
            counted: false,
            standing: AccountStatus::default(),
        };
        account.judge();
        account
    }

    /// Works out what the path of an order looks at; after every change of settings or standing.
    pub(crate) fn judge(&mut self) {
        let AccountStatus { closed, killed, throttled, .. } = self.standing;
        self.blocked = closed || killed || throttled;
        self.most_open_orders = self.spec.settings.max_open_orders.unwrap_or(u32::MAX);
        self.counted = self.spec.settings.throttle.is_some();
    }

    /// One fill at `at`. Says whether it was the one too many.
    pub(crate) fn count_execution(&mut self, at: VenueNanos) -> bool {
        let Some(throttle) = self.spec.settings.throttle else { return false };
        let Some(window) = at.0.checked_div(throttle.window_ns) else { return false };
        if window != self.standing.window {
            (self.standing.window, self.standing.executions) = (window, 0);
        }
        self.standing.executions = self.standing.executions.saturating_add(1);
        let trips = self.standing.executions > throttle.executions && !self.standing.throttled;
        if trips {
            self.standing.throttled = true;
            self.judge();
        }
        trips
    }

    /// Counts from zero again; what has tripped stays so.
    pub(crate) fn forget_executions(&mut self) {
        (self.standing.window, self.standing.executions) = (0, 0);
    }

    /// An operator closed it, for good.
    pub fn is_closed(&self) -> bool {
        self.standing.closed
    }

    pub fn is_killed(&self) -> bool {
        self.standing.killed
    }

    /// Its repeated-execution throttle has tripped and nobody has lifted it.
    pub fn is_throttled(&self) -> bool {
        self.standing.throttled
    }

    pub fn open_orders(&self) -> u32 {
        self.open_orders
    }

    /// How far below zero what it has free of a currency may fall.
    pub fn credit_line(&self, currency: CurrencyId) -> i128 {
        self.standing.credit_lines.get(&currency).copied().unwrap_or(0)
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
