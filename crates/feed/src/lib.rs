//! Finds the objects of a market-wide feed: frames, scanning, routing. No sockets.
//!
//! Does        turns the bytes of a feed's server (RFC 6455 frames whose messages are JSON arrays
//!             of objects with a `"sym"` field) into runs of [`Object`]s, each with its worker.
//! Holds       1. the objects are the same however the bytes are cut into reads;
//!             2. an object is neither parsed nor copied, unless a read cuts it in two;
//!             3. memory is fixed, except for such an object, which may grow to
//!                [`OBJECT_BYTES_MAX`].
//! Leaves out  connections, answers to control frames, and what happens to the objects: see
//!             `crates/splitter`.
//! Start at    [`ObjectReader::feed`]. `testing/reference-feed` is the slow reference
//!             implementation that tests compare it with.

mod object;
mod object_reader;
mod scan;
mod symbol_router;
mod walk;

pub use object::{FRAME_BYTES_MAX, Object};
pub use object_reader::{MissingSymbol, OBJECT_BYTES_MAX, ObjectReader, ObjectSink, ScanCounters};
pub use pitwire_websocket::Violation;
pub use scan::SimdLevel;
pub use symbol_router::worker_of;
