//! An account and its perpetual positions.

use std::collections::BTreeMap;

use pitwire_model::{AccountSpec, CurrencyId, InstrumentId};

#[derive(Debug)]
pub struct ReferenceAccount {
    pub spec: AccountSpec,
    pub totals: Vec<i128>,
    pub credit_lines: BTreeMap<CurrencyId, i128>,
    /// Positions by perpetual. An entry exists from the first order that rested or traded.
    pub holdings: BTreeMap<InstrumentId, ReferencePosition>,
    pub closed: bool,
    pub killed: bool,
    pub throttled: bool,
    /// The throttle window of the last fill, and the number of fills in it.
    pub window: u64,
    pub executions: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct ReferencePosition {
    pub lots: i64,
    pub entry_value: i128,
    pub realized: i128,
}

impl ReferencePosition {
    /// Books a fill of signed lots (bought positive) worth `value`. Returns the realized profit.
    pub fn fill(&mut self, signed: i64, value: i128) -> i128 {
        let opposite = self.lots.signum() == -signed.signum();
        let closing = if opposite { signed.abs().min(self.lots.abs()) } else { 0 };
        let mut profit = 0;
        let mut value_left = value;
        if closing > 0 {
            // The closed part takes its share of the entry value and of the value of the fill.
            let entry = self.entry_value * i128::from(closing) / i128::from(self.lots.abs());
            let exit = value * i128::from(closing) / i128::from(signed.abs());
            profit = if self.lots > 0 { entry - exit } else { exit - entry };
            self.entry_value -= entry;
            value_left -= exit;
        }
        if signed.abs() > closing {
            self.entry_value += value_left;
        }
        self.lots += signed;
        self.realized += profit;
        profit
    }
}
