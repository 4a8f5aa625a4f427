//! The object of a feed, and the largest frame.

/// Longest valid frame in bytes. A longer length means that the stream is out of step, and would
/// swallow the feed.
pub const FRAME_BYTES_MAX: u64 = 1 << 30;

/// Position of one object in the text that it comes with, and its worker. The vector scan relies on
/// the field order.
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
