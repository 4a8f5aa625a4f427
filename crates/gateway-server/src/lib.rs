//! What `pitwire gateway` runs: a gateway node behind the event loop and delivery threads.
//!
//! Does        gives the node the messages of the bus, the answers of the venue and the requests of
//!             clients; sends what the node says to sockets.
//! Holds       the event loop never waits for the bus or the venue: other threads ask and wake it.
//! Leaves out  the protocol and the channels: `crates/gateway`. Sockets: `crates/net`. Arguments
//!             and printing: `crates/pitwire`.
//! Start at    [`GatewayApplication`].

mod application;
mod metrics;
mod public_connections;

pub use application::{GatewayApplication, GatewayParts};
pub use metrics::{GatewayCounters, GatewaySummary};
