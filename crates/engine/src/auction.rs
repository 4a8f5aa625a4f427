//! Many orders, one price: calls, batches, uncrosses of hidden orders, the closing price cross.
//!
//! Does        find the price; decide which order trades how much at it; execute the trades.
//! Holds       every order of an uncross trades at one price that it accepts.
//! Leaves out  when a call begins and ends and what becomes of the remaining orders:
//!             `session_change`.
//! Start at    `uncross`; then `curve` for the price of a call, `filter` for hidden orders,
//!             `planner` and `plan` for the quantities.

mod batch;
mod cross;
mod curve;
mod filter;
mod plan;
mod planner;
mod state;
#[cfg(test)]
mod tests;
mod uncross;

pub(crate) use cross::{CrossExecution, CrossView};
pub(crate) use curve::AuctionCurve;
pub(crate) use state::AuctionState;
