//! Orders through a running venue, timed from a client that costs little itself.
//!
//! Does        one measurement per function. A measurement alternates between the cases that it
//!             compares, so that all see the same load of the machine.
//! Leaves out  starting the venue: `scripts/bench.py` starts a fresh one for each measurement.
//! Start at    [`pairs::measure`], then [`open_loop::run`].

pub mod echo;
pub mod flood;
mod latencies;
pub mod open_loop;
pub mod overload;
pub mod pairs;
mod session;

pub use latencies::{Latencies, nanoseconds};
pub use session::{BenchTarget, raise_limits};
