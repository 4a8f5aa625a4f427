//! The integration tests of this crate, in one program because each program links the whole crate.

#[path = "../common/mod.rs"]
mod common;

mod crash;
mod failing;
mod history;
mod live;
mod overlap;
mod rot;
mod snapshots;
mod space;
