//! A market-wide feed cut into its objects: frames, scanning, routing. No sockets.
//!
//! Does        turn what a feed's server sends (RFC 6455, frames whose messages are JSON arrays of objects with a `"sym"`
//!             field) into runs of [`Object`]s, each with the worker it belongs to.
//! Holds       1. however the bytes are cut into pieces, the objects are the same;
//!             2. an object is neither parsed nor copied, but for one that a piece cuts in two;
//!             3. memory is fixed but for such an object, which may grow to [`OBJECT_BYTES_MAX`].
//! Leaves out  connections, answers to control frames, what becomes of the objects: see `crates/splitter`.
//! Start at    [`Cutter::feed`]; [`obvious`] says the same slowly, and is what the fast way is compared with.

mod cutter;
pub mod obvious;
mod route;
mod scan;
mod walk;

pub use cutter::{Counters, Cutter, NoSym, OBJECT_BYTES_MAX, Sink};
pub use pitwire_websocket::Violation;
pub use route::worker_of;
pub use scan::Lanes;

/// No feed sends such a frame: a length like that is a stream out of step, and would swallow the feed in silence.
pub const FRAME_BYTES_MAX: u64 = 1 << 30;

/// One object of a message: where it lies in the text it came with, and whose it is. The scan relies on the order
/// of the fields in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Object {
    /// Offset of its `{`.
    pub start: u32,
    /// Offset behind its `}`.
    pub end: u32,
    /// The worker that its symbol belongs to.
    pub worker: u32,
}
