//! The integration tests of this crate, in one program because each program links the whole crate.

#[path = "../samples/mod.rs"]
mod samples;

mod codec;
mod golden;
mod traces;
