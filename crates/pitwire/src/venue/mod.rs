//! The venue put together: one log, one engine, and everything that listens to them, served by one loop.
//!
//! Start at    [`application`], then [`core`].

pub mod agenda;
pub mod application;
mod audience;
pub mod bus;
pub mod chores;
pub mod clock;
pub mod core;
pub mod doors;
mod heartbeats;
pub mod inquiry;
pub mod ledger;
pub mod limits;
mod metrics;
pub mod opening;
mod page;
pub mod preset;
mod quarantine;
pub mod recovery;
mod residence;
mod resume;
mod room;
pub mod rules;
pub mod schedule;
pub mod setup;
pub mod streams;
pub mod vault;
mod windows;
