//! What a splitter hands its workers: records, and rings of them in shared memory. `docs/splitter.md` has the layout.
//!
//! Does        write and read records in streams (pipes) and in rings; say when a sleeper must be woken; sum trades up for
//!             a worker that cannot take each of them.
//! Holds       1. whatever the bytes say, nothing outside the given memory is touched and nothing panics;
//!             2. a reader sees each record once, whole and in order, or is told a fault;
//!             3. who went to sleep on the bell before a record was published is woken for it.
//! Leaves out  making memory shared, waiting and waking (system calls): the caller does both.
//! Start at    [`Producer::put`] and [`Consumer::take`]; [`Intake`] for pipes.

mod bell;
mod conflate;
mod consumer;
mod copy;
mod fields;
mod gap;
mod intake;
pub mod layout;
mod memory;
mod producer;

pub use conflate::Conflation;
pub use consumer::{Consumer, area_name};
pub use copy::{OVERSHOOT, copy_record};
pub use fields::Fields;
pub use gap::Gap;
pub use intake::Intake;
pub use memory::{Heap, Memory};
pub use producer::{Producer, Refused, Shape};

/// What a reader found that no splitter writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The header does not begin with `PWRING01`.
    NotARing,
    /// A version that this reader does not know.
    Version { found: u32 },
    /// Capacity or place of the records do not fit the memory, or are no power of two.
    Shape,
    /// Head or tail are where they cannot be.
    Positions { head: u64, tail: u64 },
    /// A length that leaves the record's place.
    Length { found: u32, at: u64 },
}

impl std::fmt::Display for Fault {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotARing => write!(out, "not a ring: it does not begin with PWRING01"),
            Self::Version { found } => write!(out, "a ring of version {found}, which this reader does not know here"),
            Self::Shape => write!(out, "the ring's header gives a capacity that its memory does not have"),
            Self::Positions { head, tail } => write!(out, "head {head} and tail {tail} do not fit together"),
            Self::Length { found, at } => write!(out, "a record of {found} bytes at position {at} leaves its place"),
        }
    }
}

impl std::error::Error for Fault {}

impl Fault {
    /// What to do about it, in one sentence.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::NotARing | Self::Shape => "give the names that `pitwire split` appended, nothing else",
            Self::Version { .. } => "use the reader that came with this splitter",
            Self::Positions { .. } | Self::Length { .. } => {
                "start splitter and workers again; something else wrote here"
            }
        }
    }
}
