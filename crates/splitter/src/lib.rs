//! One feed dealt to workers: the connection, the transports, the policies for slow workers. See `docs/splitter.md`.
//!
//! Does        read a feed over as many connections as it takes (`source`), cut it (`pitwire_feed`), deal it to workers
//!             over pipes and rings (`lanes`) or WebSocket paths (`shards`, `serve`), and say how it goes.
//! Leaves out  what workers do with it.
//! Start at    [`Source`], then [`Transport`].

mod backoff;
mod board;
mod channel;
mod child;
mod clock;
mod connect;
mod counters;
mod dealer;
mod http;
mod lanes;
mod metrics;
mod nowhere;
mod policy;
mod printer;
mod publish;
mod serve;
mod shards;
mod shelf;
mod source;
mod stats;
mod tls;
mod transport;

pub use board::{Board, OCTAVES, Snapshot};
pub use child::Program;
pub use connect::ConnectError;
pub use counters::Counted;
pub use lanes::{Landing, open_pipe, open_shm, open_shm_ref};
pub use nowhere::Nowhere;
pub use pitwire_feed::NoSym;
pub use pitwire_websocket::{Address, BadUrl};
pub use policy::{BadPolicy, Policy};
pub use printer::Printer;
pub use publish::{Publication, Publisher};
pub use serve::{Server, serve};
pub use source::{Plan, Report, RunError, Source};
pub use stats::{Lag, Received};
pub use tls::config as tls_config;
pub use transport::{Failure, Options, Summary, Totals, Transport};
