//! Hostile input for the dispatcher, the journal reader, the feed scanner, the WebSocket decoder,
//! the order-by-order feed, binary order entry and captures: driven by fuzzers, replayed by a test.
//!
//! Does        take any bytes, pass them to a small venue in memory, to the recovery of a small
//!             journal or to a decoder, and panic when a guarantee is broken: an answer that is not
//!             JSON, an acknowledged command that is lost, an object that the slow scanner does not
//!             find, a frame that the simple decoder refuses.
//! Holds       one input has one behaviour: without clock and randomness, a crash is reproduced by
//!             its file.
//! Leaves out  libFuzzer (`fuzz/`, by `make fuzz`); the short form is this crate's test.
//! Start at    [`json_rpc::run`], [`journal::run`], [`feed::run`], [`frames::run`],
//!             [`handshake::run`], [`order_feed::run`], [`feed_network::run`],
//!             [`binary_entry::run`], [`capture::run`].

pub mod binary_entry;
pub mod capture;
pub mod feed;
pub mod feed_network;
pub mod frames;
pub mod handshake;
pub mod journal;
pub mod json_rpc;
pub mod mutate;
pub mod order_feed;
mod storage;
mod venue;
