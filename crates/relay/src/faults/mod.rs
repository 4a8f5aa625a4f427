//! The proxy that injects faults.

mod counts;
mod direction;
mod exchange;
mod messages;
mod proxy;

pub use counts::FaultCounts;
pub use proxy::FaultProxy;
