//! Order flows as files: reading them, and fitting them to an exported tape.
//!
//! Does        read the parameters of Hawkes processes with any number of event types and
//!             exponentials, and what each type does to the book, by instrument.
//! Holds       a flow whose spectral radius is 1 or more is refused with its radius.
//! Leaves out  running a flow: `crates/order-flow`.
//! Start at    [`FlowSource`], then [`FlowFile`].

#![allow(clippy::cast_precision_loss)] // counts of events are far below 2^53

mod event_tape;
mod fit;
mod flow_file;
mod flow_source;
mod likelihood;
mod linear;

pub use event_tape::{EventTape, TypeColumn};
pub use fit::{Estimate, FEWEST_EVENTS, Fit, FittedType, exponential_test};
pub use flow_file::{DecayDef, FlowDef, FlowFile, KernelDef, OrdersDef, SideDef, TypeDef};
pub use flow_source::{FlowSource, PUBLISHED_FILES, PublishedFile};
