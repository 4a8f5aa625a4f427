//! The interface through which a gateway sends to its clients and delivery threads.

use pitwire_deribit::codec::RequestId;
use pitwire_websocket::CloseCode;

use pitwire_delivery::ChannelId;

/// The current time on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct GatewayTime {
    /// Monotonic, in nanoseconds since an arbitrary start.
    pub steady_ns: u64,
    /// Microseconds since 1970.
    pub wall_us: u64,
}

/// Sends to the gateway's connections. Calls take effect in the order in which they are made.
pub trait ClientSink {
    /// Sends a message that the connection asked for.
    fn reply(&mut self, to: u64, text: &[u8]);

    /// Sends a message that the connection did not ask for.
    fn notify(&mut self, to: u64, text: &[u8]);

    fn close(&mut self, to: u64, code: CloseCode, reason: &str);

    /// Sends a message with this sequence to all connections attached to the channel.
    fn publish(&mut self, _: ChannelId, _seq: u64, _payload: &[u8]) {}

    /// Sends encoded frames to a connection on a delivery thread.
    fn send_frames(&mut self, _to: u64, _frames: Vec<u8>) {}

    /// Attaches a connection on a delivery thread to a channel.
    fn attach(&mut self, _to: u64, _: ChannelId, _: Attachment) {}

    /// Continues a connection that was behind when it had read up to `read_to`.
    fn catch_up(&mut self, _to: u64, _: ChannelId, _read_to: u64, _: CatchUp) {}

    /// Ends an attachment.
    fn detach(&mut self, _to: u64, _: ChannelId) {}
}

/// How a connection is attached to a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Only the channel's latest message matters. On other channels a lagging connection gets what
    /// it missed: see [`crate::Subscriptions::behind`].
    pub is_state: bool,
    /// Sequence of the last message that the connection has received.
    pub read_to: u64,
    /// Set for the first connection of a channel: published messages have sequences above this.
    pub ring_start: Option<u64>,
}

/// The message for a lagging connection on a delivery thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatchUp {
    /// One message that contains everything up to this sequence.
    Message(Vec<u8>, u64),
    /// Encoded frames up to this sequence.
    Frames(Vec<u8>, u64),
    /// Nothing changed up to this sequence.
    Unchanged(u64),
    /// The missed messages no longer exist: the connection is closed.
    Lost,
}

/// A client's request that the venue has to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VenueCall {
    /// Request id, for the error if the venue does not answer.
    pub id: RequestId,
    /// The request contains credentials.
    pub is_login: bool,
}

/// Figures of a node, for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeFigures {
    pub clients: usize,
    pub channels: usize,
    pub joins: u64,
    pub calls: u64,
    pub overrun: u64,
    pub history_bytes: usize,
}
