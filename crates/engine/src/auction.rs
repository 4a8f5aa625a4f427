//! Many orders, one price: calls, batches, the uncross of hidden orders, the closing price cross.
//!
//! Does        find the price; decide who trades how much at it; let them trade.
//! Holds       everybody in an uncross trades at one price that everybody accepts.
//! Leaves out  when a call begins and ends, and what happens to what is left: see `session`.
//! Start at    `uncross`; then `curve` for the price of a call, `filter` for hidden orders, `share` for who gets how much.

mod batch;
mod cross;
mod curve;
mod filter;
mod plan;
mod share;
#[cfg(test)]
mod tests;
mod trade;
mod uncross;

pub(crate) use cross::CrossQueues;
pub(crate) use curve::AuctionCurve;
pub(crate) use share::{AllocationClaim, AllocationRule, ProRataAllocation};

use pitwire_model::Side;

const SIDES: [Side; 2] = [Side::Buy, Side::Sell];
