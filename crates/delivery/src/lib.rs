//! Delivers one message to many subscribers: rings of encoded frames, cursors and the policy for
//! slow subscribers.
//!
//! Does        Encodes a message once per frame format, stores the frames in a ring and finds the
//!             frames behind a cursor.
//! Holds       1. A frame consists of the same bytes for every subscriber of a format.
//!             2. Memory is bounded by the streams, regardless of the number of subscribers.
//! Leaves out  Sockets, clocks and threads: see the crate `publisher`.
//! Start at    [`Stream::append`], then [`Ring`].

mod channel_table;
mod compressor;
mod frame;
mod latest;
mod ring;
mod shuffle;
mod stream;

pub use channel_table::{ChannelId, ChannelTable};
pub use compressor::{Compressor, NARROW_BITS, POLICY};
pub use frame::{Frame, FrameHeader};
pub use latest::{Latest, LatestMessage};
pub use ring::{Cursor, Key, Ring, RingEntry};
pub use shuffle::ServiceOrder;
pub use stream::{
    DEFLATED, ENVELOPED, LagPolicy, Listener, MissingRange, NARROW, Stamp, Stream, StreamId, StreamMessage, StreamSpec,
};
