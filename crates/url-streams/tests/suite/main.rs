//! The integration tests of this crate, in one program because each program links the whole crate.

#[path = "../fixture/mod.rs"]
mod fixture;

mod books;
mod hostile;
mod leak;
mod talk;
mod vectors;
