//! Records between a splitter and its workers, in streams and in rings of shared memory.
//! `docs/splitter-formats.md` has the layout.
//!
//! Does        writes and reads records in streams (pipes) and in rings; tells when a sleeping
//!             reader must be woken; conflates trades for a worker that is too slow for all of
//!             them.
//! Holds       1. whatever the bytes are, nothing outside the given memory is touched and nothing
//!                panics;
//!             2. a reader receives each record once, whole and in order, or a fault;
//!             3. a reader that went to sleep before a record was published is woken for it.
//! Leaves out  mapping memory and the system calls to wait and wake: the caller makes them.
//! Start at    [`Producer::put`] and [`Consumer::take`]; [`StreamReader`] for pipes.

mod bell;
mod conflate;
mod consumer;
mod copy;
mod fault;
mod fields;
mod gap;
pub mod layout;
mod memory;
mod producer;
mod stream_reader;

pub use conflate::Conflation;
pub use consumer::{Consumer, area_name};
pub use copy::{OVERSHOOT, copy_record};
pub use fault::RingFault;
pub use fields::Fields;
pub use gap::GapRecord;
pub use memory::{HeapMemory, Memory};
pub use producer::{Producer, PutError, RingConfig};
pub use stream_reader::StreamReader;
