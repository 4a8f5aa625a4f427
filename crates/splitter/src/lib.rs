//! Splits one feed between workers: the connection, the transports, the policies for slow workers.
//! See `docs/splitter.md`.
//!
//! Does        reads a feed and reconnects when it is lost (`splitter`), finds its objects
//!             (`pitwire_feed`), routes them to workers over pipes and rings (`local`) or WebSocket
//!             paths (`ws_transport`, `serve`), and reports statistics.
//! Leaves out  what workers do with the objects.
//! Start at    [`Splitter`], then [`Transport`].

mod backoff;
mod clock;
mod counters;
mod discard;
mod http_responses;
mod line_printer;
mod local;
mod metrics;
mod metrics_application;
mod policy;
mod receive_area;
mod retained_log;
mod router;
mod serve;
mod shard_application;
mod shard_publisher;
mod shared_stats;
mod splitter;
mod stats;
mod stream_checker;
mod transport;
mod transport_error;
mod worker_ends;
mod worker_process;
mod ws_transport;

pub use discard::DiscardTransport;
pub use line_printer::LinePrinter;
pub use local::{open_pipe, open_shm, open_shm_ref};
pub use pitwire_feed::MissingSymbol;
pub use pitwire_net::ConnectError;
pub use pitwire_websocket::{Address, BadUrl};
pub use policy::{InvalidPolicy, SlowWorkerPolicy};
pub use receive_area::ReceiveBuffer;
pub use serve::{ShardServer, serve};
pub use shard_publisher::{Publication, ShardPublisher};
pub use shared_stats::{LAG_OCTAVES, SharedStats, SplitterStats};
pub use splitter::{Splitter, SplitterConfig, SplitterError, SplitterReport};
pub use stats::{FeedTotals, HandOverLag};
pub use stream_checker::StreamCounts;
pub use transport::{Transport, TransportOptions, TransportSummary, TransportTotals};
pub use transport_error::TransportError;
pub use worker_process::WorkerProgram;
