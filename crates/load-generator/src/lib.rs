//! The load client: very many WebSocket readers that check every number, with their own ceiling in the result.
//!
//! Does        open connections in waves over several addresses, listen or ask, count, time, and say whether the limit
//!             was its own. See `docs/load.md`.
//! Holds       latency is from the intended send, whatever came between; what was not delivered is lost, late or declared.
//! Leaves out  the command line, processes, and what a result looks like: `crates/pitwire`.
//! Start at    [`run`], then `worker`.

mod clock;
mod connection;
mod control;
mod echo;
mod frames;
mod gauge;
mod numbers;
mod plan;
mod refusal;
mod report;
mod run;
mod schedule;
mod sequence;
mod socket;
mod spread;
mod stamp;
mod tls;
mod worker;

pub use clock::mono_ns;
pub use control::{Control, NEVER};
pub use pitwire_websocket::{Address, BadUrl};
pub use plan::{Arrivals, Expect, Faults, MOST_CONNECTIONS, Plan, Share, Traffic};
pub use refusal::Refusal;
pub use report::{Failures, Generator, Latencies, Report, Tally};
pub use run::{RunError, Start, is_open, run};
pub use socket::raise_file_limit;
pub use tls::{Trust, config as tls_config};
