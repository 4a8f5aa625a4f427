//! The integration tests of this crate, in one program because each program links the whole crate.

#[path = "../scripted_venue/mod.rs"]
mod scripted_venue;

mod agents;
mod bad_venue;
mod order_pool;
mod pipeline;
mod trader;
