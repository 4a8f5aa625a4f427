//! Serves and records feeds: synthetic or from a file, at any rate, with faults on demand.
//!
//! Does        serves one logical stream of trades over WebSocket, from a seed or a file; records
//!             any feed with the times at which its messages arrived.
//! Holds       a reader can prove what it lost, received twice or received out of order: see
//!             docs/tape.md.
//! Leaves out  the command line: `pitwire tape`.
//! Start at    [`stream::TapeStream`], then [`server::TapeServer`].

mod accept;
pub mod checksum;
mod connection;
pub mod dialect;
mod digits;
pub mod framing;
mod handshake;
pub mod live;
mod objects;
pub mod pace;
pub mod payload_sizes;
pub mod rate;
pub mod recorder;
pub mod recording;
pub mod rows;
pub mod serve_summary;
pub mod server;
mod server_socket;
mod server_state;
pub mod stream;
pub mod symbols;
pub mod synthetic;
pub mod trades;
