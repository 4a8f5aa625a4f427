//! The server of `pitwire gateway`: a node behind the event loop and delivery threads.
//!
//! Does        passes messages of the bus, answers of the venue and requests of clients to the
//!             node, and writes the node's output to the sockets.
//! Holds       the event loop never waits for the bus or the venue: other threads ask and wake it.
//! Leaves out  the protocol and the channels: `crates/gateway`. Sockets: `crates/net`. Arguments
//!             and printing: `crates/pitwire`.
//! Start at    [`GatewayApplication`].

mod application;
mod metrics;
mod public_connections;

pub use application::{GatewayApplication, GatewayParts};
pub use metrics::{GatewayCounters, GatewaySummary};
