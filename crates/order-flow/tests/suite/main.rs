//! The integration tests of this crate, in one program because each program links the whole crate.

#[path = "../venue/mod.rs"]
mod venue;

mod adoption;
mod demo;
mod hawkes;
mod paper;
