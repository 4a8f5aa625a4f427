//! A gateway put together: the bus, the venue over HTTP, and clients on one loop.
//!
//! Start at    [`application`].

pub mod application;
mod metrics;
mod public_connections;
