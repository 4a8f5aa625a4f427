//! Fault scripts: which messages and connections of a relay or a feed suffer which fault.
//!
//! Does        reads a script (TOML), makes one from a seed, and finds the fault of a message.
//! Holds       the choice depends only on script, seed, connection, direction and message number.
//! Leaves out  the effect of a fault: each program that injects faults has its own.
//! Start at    [`FaultScript::parse`], [`FaultScript::random`] and [`FaultScript::find`].

mod kind;
mod script;

pub use kind::{FaultKind, Injector};
pub use script::{Direction, Fault, FaultScript, MessagePlace};
