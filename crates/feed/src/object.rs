//! One object of a feed, and the largest frame.

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
