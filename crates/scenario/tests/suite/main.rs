//! The integration tests of this crate, in one program because each program links the whole crate.

#[path = "../common/mod.rs"]
mod common;

mod auditor;
mod format;
mod steps;
mod vectors;
