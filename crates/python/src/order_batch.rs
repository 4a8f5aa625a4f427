//! Many commands in one call.

use numpy::IntoPyArray;
use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_model::{
    AccountId, Amend, Command, InstrumentId, Lots, NewOrder, OrderId, OrderType, Side, Ticks, TimeInForce,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::side_of_sign;
use crate::errors::invalid;
use crate::outcome::OrderEffect;
use crate::running_market::RunningMarket;

/// Numbers in the column `action`.
const ENTER: i64 = 0;
const CANCEL: i64 = 1;
const AMEND: i64 = 2;

/// The rows of a batch. A column of one row holds for every row.
pub struct BatchColumns {
    pub action: Vec<i64>,
    pub instrument: Vec<i64>,
    pub account: Vec<i64>,
    pub side: Vec<i64>,
    pub lots: Vec<i64>,
    /// 0 for a market order.
    pub price_ticks: Vec<i64>,
    pub order_id: Vec<i64>,
    /// Time in force of the orders with a price.
    pub tif: TimeInForce,
}

/// Effects of the executed rows.
pub struct BatchEffects {
    order_id: Vec<u64>,
    reason: Vec<u8>,
    filled_lots: Vec<u64>,
    open_lots: Vec<u64>,
}

fn at(column: &[i64], row: usize) -> i64 {
    if column.len() == 1 { column[0] } else { column[row] }
}

/// Converts a number that [`BatchColumns::check`] has accepted.
#[allow(clippy::cast_sign_loss)]
fn unsigned(number: i64) -> u64 {
    number as u64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn id(number: i64) -> u32 {
    number as u32
}

impl BatchColumns {
    pub fn rows(&self) -> usize {
        let lengths = self.columns().map(|(_, column)| column.len());
        if lengths.contains(&0) { 0 } else { lengths.into_iter().max().unwrap_or(0) }
    }

    fn columns(&self) -> [(&'static str, &[i64]); 7] {
        [
            ("action", &self.action),
            ("instrument", &self.instrument),
            ("account", &self.account),
            ("side", &self.side),
            ("lots", &self.lots),
            ("price_ticks", &self.price_ticks),
            ("order_id", &self.order_id),
        ]
    }

    /// Checks every row before the first is executed.
    ///
    /// # Errors
    ///
    /// Raises `InvalidValue` with the column, the row and the value.
    pub fn check(&self, py: Python<'_>, engine: &Engine) -> PyResult<()> {
        let rows = self.rows();
        let (instruments, accounts) = (engine.markets().len() as u64, engine.accounts().len() as u64);
        for (name, column) in self.columns() {
            if column.len() != rows && column.len() != 1 {
                let what = format!("{name} has {} rows and the batch has {rows}", column.len());
                return Err(invalid(py, what, "give every column the same length, or one value for all rows"));
            }
            let is_right = |value: &i64| match name {
                "action" => (ENTER..=AMEND).contains(value),
                "instrument" => u64::try_from(*value).is_ok_and(|value| value < instruments),
                "account" => u64::try_from(*value).is_ok_and(|value| value < accounts),
                "side" => (-1..=1).contains(value),
                _ => *value >= 0,
            };
            if let Some(row) = column.iter().position(|value| !is_right(value)) {
                let remedy = match name {
                    "action" => "use 0 to enter, 1 to cancel, 2 to amend",
                    "instrument" => "use the id of an Instrument",
                    "account" => "use an id of Venue.accounts",
                    "side" => "use 1 to buy and -1 to sell",
                    _ => "use whole numbers from 0",
                };
                return Err(invalid(py, format!("{name}[{row}] is {}", column[row]), remedy));
            }
        }
        let without_side = (0..rows).find(|&row| at(&self.action, row) == ENTER && at(&self.side, row) == 0);
        match without_side {
            Some(row) => Err(invalid(py, format!("side[{row}] is 0 for a new order"), "use 1 to buy and -1 to sell")),
            None => Ok(()),
        }
    }

    fn command(&self, row: usize, engine: &Engine) -> Command {
        let account = AccountId(id(at(&self.account, row)));
        let order = OrderId(unsigned(at(&self.order_id, row)));
        let lots = Lots(unsigned(at(&self.lots, row)));
        let price = Ticks(at(&self.price_ticks, row));
        match at(&self.action, row) {
            CANCEL => Command::Cancel { account, order },
            AMEND => {
                let known = engine.order(order);
                let price = if price == Ticks::ZERO { known.map_or(price, |known| known.price) } else { price };
                let lots = if lots.is_zero() { known.map_or(lots, |known| known.ordered) } else { lots };
                Command::Amend(Amend { account, order, price, lots, ..Amend::PLAIN })
            }
            _ => {
                let (order_type, tif) = match price {
                    Ticks::ZERO => (OrderType::Market, TimeInForce::ImmediateOrCancel),
                    price => (OrderType::Limit { price }, self.tif),
                };
                Command::Enter(NewOrder {
                    account,
                    instrument: InstrumentId(id(at(&self.instrument, row))),
                    side: side_of_sign(at(&self.side, row)).unwrap_or(Side::Buy),
                    order_type,
                    lots,
                    tif,
                    ..NewOrder::PLAIN
                })
            }
        }
    }

    /// Executes at most `limit` further rows, or fewer if the event buffer fills up.
    ///
    /// # Errors
    /// If the market cannot take the command, for example because its journal cannot be written.
    /// The rows before it are executed.
    pub fn execute(
        &self,
        running: &mut RunningMarket,
        effects: &mut BatchEffects,
        limit: usize,
    ) -> Result<(), Failure> {
        let first = effects.rows();
        for row in first..self.rows().min(first + limit) {
            if running.is_full() {
                return Ok(());
            }
            let command = self.command(row, running.market.engine());
            let is_entry = matches!(command, Command::Enter(_));
            let sequence = running.market.submit(command)?;
            running.record();
            let order = if is_entry { OrderId(sequence.0) } else { OrderId(unsigned(at(&self.order_id, row))) };
            effects.push(order, OrderEffect::of(order, running.market.events()));
        }
        Ok(())
    }
}

impl BatchEffects {
    pub fn with_capacity(rows: usize) -> Self {
        BatchEffects {
            order_id: Vec::with_capacity(rows),
            reason: Vec::with_capacity(rows),
            filled_lots: Vec::with_capacity(rows),
            open_lots: Vec::with_capacity(rows),
        }
    }

    pub fn rows(&self) -> usize {
        self.order_id.len()
    }

    fn push(&mut self, order: OrderId, effect: OrderEffect) {
        self.order_id.push(order.0);
        self.reason.push(effect.reason.map_or(0, |reason| reason as u8));
        self.filled_lots.push(effect.filled_lots);
        self.open_lots.push(effect.open_lots);
    }

    /// Moves the effects to NumPy arrays, by name.
    ///
    /// # Errors
    /// If Python has no memory for the arrays.
    pub fn into_arrays(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let arrays = PyDict::new(py);
        arrays.set_item("order_id", self.order_id.into_pyarray(py))?;
        arrays.set_item("reason", self.reason.into_pyarray(py))?;
        arrays.set_item("filled_lots", self.filled_lots.into_pyarray(py))?;
        arrays.set_item("open_lots", self.open_lots.into_pyarray(py))?;
        Ok(arrays)
    }
}
