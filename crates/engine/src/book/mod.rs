//! The order book of one instrument: two ladders of price levels over one slab of orders.
//!
//! Does        hold orders by price, then by arrival; fill an incoming quantity from the best level
//!             on.
//! Holds       1. the lots of a level are the sum of what its orders display;
//!             2. an order is on exactly one level; an empty level is removed before anything is
//!                reported;
//!             3. a resting order displays at least one lot. An iceberg keeps its slot. When its
//!                displayed part has traded out, the next part, at most `display` lots, joins the
//!                tail of its level.
//! Leaves out  who may trade, funds, sessions and ids: `market_context` and `admission`.
//! Costs       rest, remove, fill: constant per order; an iceberg's fill: constant per displayed
//!             part. For orders without a reserve and books without origins, one test of a word
//!             that is already loaded.
//! Start at    [`Book::sweep`].

mod details;
mod ladder;
mod level;
mod prefetch;
mod queries;
mod resting;
mod shared;
mod slab;
mod sweep;
#[cfg(test)]
mod tests;
mod uncross;

pub use details::{OrderFlags, OrderOrigin};
pub use queries::FillEstimate;
pub use resting::{Book, RestingOrder};
pub(crate) use resting::{key_of, price_of};
pub use slab::{Owner, Slot};
pub use sweep::{Maker, MakerAction, SweepSink};
pub(crate) use uncross::QueuedOrder;
