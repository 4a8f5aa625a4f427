//! The integration tests of this crate, in one program because each program links the whole crate.

#[path = "../../../engine/tests/common/mod.rs"]
mod common;

mod feed;
mod recovery;
