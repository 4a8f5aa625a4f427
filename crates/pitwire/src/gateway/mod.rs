//! A complete gateway: the bus, the venue over HTTP, and clients on one event loop.
//!
//! Start at    [`application`].

pub mod application;
mod metrics;
mod public_connections;
