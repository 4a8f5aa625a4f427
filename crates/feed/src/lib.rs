//! A market-wide feed cut into its objects: frames, scanning, routing. No sockets.
//!
//! Does        turn what a feed's server sends (RFC 6455, frames whose messages are JSON arrays of objects with a `"sym"`
//!             field) into runs of [`Object`]s, each with the worker it belongs to.
//! Holds       1. however the bytes are cut into pieces, the objects are the same;
//!             2. an object is neither parsed nor copied, but for one that a piece cuts in two;
//!             3. memory is fixed but for such an object, which may grow to [`OBJECT_BYTES_MAX`].
//! Leaves out  connections, answers to control frames, what becomes of the objects: see `crates/splitter`.
//! Start at    [`ObjectReader::feed`]; [`reference`] says the same slowly, and is what the fast way is compared with.

mod object;
mod object_reader;
pub mod reference;
mod scan;
mod symbol_router;
mod walk;

pub use object::{FRAME_BYTES_MAX, Object};
pub use object_reader::{MissingSymbol, OBJECT_BYTES_MAX, ObjectReader, ObjectSink, ScanCounters};
pub use pitwire_websocket::Violation;
pub use scan::SimdLevel;
pub use symbol_router::worker_of;
