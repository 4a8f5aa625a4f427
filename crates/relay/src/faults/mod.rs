//! The proxy that injects faults.

mod counts;
mod direction;
mod exchange;
mod messages;
mod proxy;
mod script;

pub use counts::FaultCounts;
pub use proxy::FaultProxy;
pub use script::{FaultKind, FaultScript};
