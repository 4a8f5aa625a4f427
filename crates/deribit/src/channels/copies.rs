//! Channels whose readers are, some of them, served elsewhere: what those are to be told.
//!
//! Does        note each message of a lent channel, the very payload that the ring has.
//! Holds       1. messages come in the order in which a reader of several channels here is told them;
//!             2. each has its number in its channel.
//! Leaves out  when they may leave: whoever takes them waits for the commit.
//! Costs       a copy of the payload of a lent channel's message; nothing of the others'.
//! Start at    [`PublicChannels::lend`], [`PublicChannels::take_lent`].

use pitwire_delivery::LagPolicy;

use crate::channels::feed::{Feed, FeedId};

/// A message of a lent channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelMessage<'a> {
    pub feed: FeedId,
    pub lag: LagPolicy,
    /// Grows from message to message of a channel; the `change_id` of a merged book.
    pub number: u64,
    pub payload: &'a [u8],
}

#[derive(Debug)]
pub(super) struct CopyRecord {
    pub feed: FeedId,
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

/// The buffer is given back when one command has made it larger than this.
pub(super) const KEPT_BYTES: usize = 256 * 1024;

impl MessageCopies {
    pub fn note(&mut self, feed: &Feed, place: u64, payload: &[u8]) {
        let (start, len) = (self.bytes.len(), payload.len());
        self.bytes.extend_from_slice(payload);
        self.noted.push(CopyRecord { feed: feed.id, lag: feed.lag, place, number: feed.copy_number(), start, len });
    }
}
