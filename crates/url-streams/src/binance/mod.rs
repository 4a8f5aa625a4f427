//! The Binance form: stream names, what clients say on the socket, payloads, REST bodies.
//!
//! Does        payloads field by field and in the order of the venue's documents, because sizes and hashes depend on it.
//! Leaves out  trading, user data and the futures' own fields.
//! Start at    [`grammar`], then [`encode`].

pub mod encode;
pub mod grammar;
pub mod rest;
pub mod talk;
