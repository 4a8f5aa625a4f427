//! The Binance dialect: stream names, requests on the socket, payloads, REST bodies.
//!
//! Does        Writes payloads field by field in the order of the exchange's documentation, because
//!             sizes and hashes depend on it.
//! Leaves out  Trading, user data and fields of the futures market.
//! Start at    [`grammar`], then [`encode`].

pub mod encode;
pub mod grammar;
pub mod rest;
pub mod talk;
