//! The native part of the Python package `pitwire`.
//!
//! Does        give Python a market in its own process, and a connection to a venue.
//! Holds       1. a failure is an exception of `pitwire.errors` with a remedy, also after a panic;
//!             2. a long call releases the interpreter and ends soon after Ctrl-C, between two
//!                commands;
//!             3. an object refuses a second thread while one uses it, and a forked process.
//! Leaves out  frames, environments and conversions of units: see `clients/python/pitwire`.
//! Start at    [`market::Market`] and [`remote::Connection`].

mod arguments;
mod errors;
mod event_columns;
mod exclusive;
mod market;
mod order_batch;
mod outcome;
mod remote;
mod running_market;

use pyo3::prelude::*;

/// The native module `pitwire._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<market::Market>()?;
    module.add_class::<outcome::Outcome>()?;
    module.add_class::<remote::Connection>()?;
    module.add("EVENT_KINDS", event_columns::KINDS.to_vec())?;
    module.add("REASONS", event_columns::reasons())?;
    Ok(())
}
