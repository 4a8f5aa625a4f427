//! The load client: opens very many WebSocket connections and checks every sequence number.
//!
//! Does        opens connections over several source addresses; listens, or sends and awaits
//!             answers; counts and times; reports whether the load client itself was the
//!             bottleneck. See `docs/load.md`.
//! Holds       1. latency runs from the intended send;
//!             2. every message that did not arrive is counted as lost, late or declared missing.
//! Leaves out  the command line, child processes and progress: see `crates/pitwire`.
//! Start at    [`run`], then `worker`.

mod clock;
mod connection;
mod echo;
mod fields;
mod frame_scanner;
mod kernel_time;
mod limit_search;
mod machine_load;
mod messages;
mod meter;
mod open_failure;
mod open_queue;
mod plan;
mod poller;
mod report;
mod run;
mod run_control;
mod schedule;
mod sequence;
mod socket;
mod spread;
mod storm;
pub mod summary;
mod tls;
mod transport;
mod verdict;
mod worker;

pub use clock::mono_ns;
pub use limit_search::{LimitSearch, first_problem};
pub use machine_load::MachineLoad;
pub use open_failure::OpenFailure;
pub use pitwire_websocket::{Address, BadUrl};
pub use plan::{Arrivals, ConnectionShare, ExpectedReplies, FaultyReaders, LoadPlan, MOST_CONNECTIONS, Traffic};
pub use report::{FailureCount, GeneratorLoad, Latencies, LoadCounters, LoadReport};
pub use run::{MeasurementStart, RunError, is_open, run};
pub use run_control::{NEVER, RunControl};
pub use socket::raise_file_limit;
pub use verdict::{Bottleneck, Confidence, LimitVerdict};
