//! One feed dealt to workers: the connection, the transports, the policies for slow workers. See `docs/splitter.md`.

mod child;
mod counters;
mod lanes;
mod policy;
mod publish;
mod transport;

pub use child::Program;
pub use counters::Counted;
pub use lanes::{open_pipe, open_shm};
pub use policy::{BadPolicy, Policy};
pub use publish::{Publication, Publisher};
pub use transport::{Failure, Options, Summary, Totals, Transport};
