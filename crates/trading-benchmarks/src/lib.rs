//! The benchmarks of `pitwire bench`: the trading loop of a client, and the Hawkes test bench.
//!
//! Does        measures a venue through the client library, and prints tables, JSON, histogram
//!             files and a page of plots.
//! Holds       1. a quantile is printed only if at least 100 values lie above it;
//!             2. in an open loop a latency counts from the time at which the request was due, so a
//!                slow answer does not hide the requests behind it;
//!             3. figures of different modes and of other machines are never in one table.
//! Leaves out  the limits of a venue at many subscribers, which `pitwire load` measures.
//! Start at    [`Bench::run`].

mod client_threads;
mod command;
mod cost;
mod hawkes;
mod histogram_file;
mod pacing;
mod summary;
mod trading_loop;

pub use command::Bench;
pub use cost::AllocationCounter;
