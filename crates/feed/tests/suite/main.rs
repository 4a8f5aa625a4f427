//! The integration tests of this crate, in one program because each program links the whole crate.

#[path = "../support/mod.rs"]
mod support;

mod chunks;
mod framing;
mod routing;
