//! What the venue needs of the world, as small traits: clock, storage, log, venue.
//!
//! Does        name the seams at which the world can be replaced by a double.
//! Leaves out  every implementation: `crates/net` holds the real ones, `testing/faulty-disk` the faulty ones.

mod clock;
mod log;
mod storage;
mod venue;

pub use clock::Clock;
pub use log::{Log, LogError, OutputHash};
pub use storage::{File, Storage};
pub use venue::{Explained, Standing, Venue};
