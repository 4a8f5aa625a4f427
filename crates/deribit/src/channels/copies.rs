//! Copies of channel messages for the readers that delivery threads serve.
//!
//! Does        copies each message of a handed-off channel: the same payload that goes into the
//!             ring.
//! Holds       1. messages have the order in which a reader of several channels receives them;
//!             2. each message has its number in its channel.
//! Leaves out  the time of sending: the caller waits for the commit.
//! Costs       one copy of the payload per message of a handed-off channel; nothing for other
//!             channels.
//! Start at    [`PublicChannels::add_remote`], [`PublicChannels::take_copies`].

use pitwire_delivery::LagPolicy;

use crate::channels::feed::Feed;
use pitwire_delivery::ChannelId;

/// A message of a handed-off channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelMessage<'a> {
    pub feed: ChannelId,
    pub lag: LagPolicy,
    /// Increases from message to message of a channel. For a merged book it is the `change_id`.
    pub number: u64,
    pub payload: &'a [u8],
}

#[derive(Debug)]
pub(super) struct CopyRecord {
    pub feed: ChannelId,
    pub lag: LagPolicy,
    pub place: u64,
    pub number: u64,
    pub start: usize,
    pub len: usize,
}

#[derive(Debug, Default)]
pub(super) struct MessageCopies {
    pub bytes: Vec<u8>,
    pub noted: Vec<CopyRecord>,
}

/// Capacity in bytes that the buffer keeps. A command that needed more returns the rest.
pub(super) const KEPT_BYTES: usize = 256 * 1024;

impl MessageCopies {
    pub fn note(&mut self, feed: &Feed, place: u64, payload: &[u8]) {
        let (start, len) = (self.bytes.len(), payload.len());
        self.bytes.extend_from_slice(payload);
        self.noted.push(CopyRecord { feed: feed.id, lag: feed.lag, place, number: feed.copy_number(), start, len });
    }
}
