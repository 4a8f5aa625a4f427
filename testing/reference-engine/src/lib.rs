//! A slow matching engine, written a second time from the rulebook. Tests compare the engine with
//! it.
//!
//! Does        apply the same commands as `pitwire_engine::Engine` and return the same image.
//! Holds       1. it is written from the rulebook and not from the engine's code, so that a mistake
//!                must be made twice to go unnoticed;
//!             2. it stores nothing derived. Queues are sorted, and levels, reserves and open
//!                orders are counted, each time they are needed.
//! Leaves out  speed. One question costs all orders of an instrument, some cost all orders of the
//!             venue.
//! Start at    [`ReferenceEngine::apply`], then `entering`, `trading` and `money`.
//!
//! `VenueState` holds the state. The other modules are functions over it, one module for each part
//! of the rulebook.

mod account;
mod amending;
mod auction;
mod breach;
mod closing;
mod continuous;
mod cross;
mod definitions;
mod engine;
mod entering;
mod fills;
mod image;
mod leaving;
mod machine;
mod market;
mod money;
mod operator;
mod order;
mod order_checks;
mod phases;
mod reach;
mod reducing;
mod reporting;
mod rule_tables;
mod session;
mod state;
mod trading;
mod uncross;
mod validity;

pub use engine::ReferenceEngine;
