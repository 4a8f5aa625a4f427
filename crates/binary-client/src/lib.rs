//! Reference client of binary order entry and of the order-by-order feed.
//!
//! Does        log on, send requests, deliver each numbered message once and in order, request
//!             missed messages, log on again after a cut; and show it in three programs.
//! Holds       1. a request without an answer is sent again after a cut, and the venue executes an
//!                order once;
//!             2. a wait for the gateway ends: with a message, or after three heartbeats.
//! Leaves out  threads: a session belongs to one. The feed's reader is in `order-feed-network`.
//! Start at    [`OrderEntrySession`]; `docs/sbe.md` describes the protocol.

#![warn(clippy::missing_errors_doc)]

pub mod benchmark;
pub mod feed;
pub mod orders;
mod session;

pub use session::{EntryEvent, Login, OrderEntrySession, limit_order};
