//! The integration tests of this crate, in one program because each program links the whole crate.

mod codec;
mod cointossx;
mod frames;
