//! Hostile input for the JSON-RPC entrance, the journal reader, the feed's cutter and the WebSocket machine: what a fuzzer drives and a test replays.
//!
//! Does        take any bytes, show them to a small venue in memory, to the recovery of a small journal or to a cutter,
//!             and panic when what comes back breaks a promise: an answer that is no JSON, an acknowledged command that
//!             is lost, an object that is not where the slow cutter finds it, a frame that the plain reader refuses.
//! Holds       one input, one behaviour: no clock and no chance, so a crash is its file.
//! Leaves out  libFuzzer (`fuzz/`, by `make fuzz`); the short form is this crate's test.
//! Start at    [`entrance::run`], [`journal::run`], [`feed::run`], [`frames::run`], [`handshake::run`].

pub mod entrance;
pub mod feed;
pub mod frames;
pub mod handshake;
pub mod journal;
pub mod mutate;
mod storage;
mod venue;
