//! The integration tests of this crate, in one program because each program links the whole crate.

#[path = "../common/mod.rs"]
mod common;

mod ahead;
mod auctions;
mod busts;
mod continuous;
mod controls;
mod first_rules;
mod iceberg_bound;
mod image;
mod limits;
mod money;
mod reporting;
mod rules;
mod sessions;
mod tables;
mod terms;
