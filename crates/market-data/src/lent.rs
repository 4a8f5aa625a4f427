//! Channels whose readers are, some of them, served elsewhere: what those are to be told.
//!
//! Does        note each message of a lent channel, the very payload that the ring has.
//! Holds       1. messages come in the order in which a reader of several channels here is told them;
//!             2. each has its number in its channel.
//! Leaves out  when they may leave: whoever takes them waits for the commit.
//! Costs       a copy of the payload of a lent channel's message; nothing of the others'.
//! Start at    [`Publisher::lend`], [`Publisher::take_lent`].

use crate::feed::{Feed, Lag};
use crate::publisher::{FeedId, Publisher};
use crate::ring::Cursor;

/// A message of a lent channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent<'a> {
    pub feed: FeedId,
    pub lag: Lag,
    /// Grows from message to message of a channel; the `change_id` of a merged book.
    pub number: u64,
    pub payload: &'a [u8],
}

#[derive(Debug)]
struct Noted {
    feed: FeedId,
    lag: Lag,
    place: u64,
    number: u64,
    start: usize,
    len: usize,
}

#[derive(Debug, Default)]
pub(crate) struct LentMessages {
    bytes: Vec<u8>,
    noted: Vec<Noted>,
}

/// The buffer is given back when one command has made it larger than this.
const KEPT_BYTES: usize = 256 * 1024;

impl LentMessages {
    pub fn note(&mut self, feed: &Feed, place: u64, payload: &[u8]) {
        let (start, len) = (self.bytes.len(), payload.len());
        self.bytes.extend_from_slice(payload);
        self.noted.push(Noted {
            feed: feed.id,
            lag: feed.lag,
            place,
            number: feed.ring.end().place(feed.lag == Lag::Merge),
            start,
            len,
        });
    }
}

impl Publisher {
    /// One of a channel's subscribers reads it elsewhere from now on. Of a merged book that nobody else reads there, gives the
    /// number behind which its next message comes.
    pub fn lend(&mut self, id: FeedId) -> Option<u64> {
        let feed = self.feeds.get_mut(id.0 as usize)?;
        feed.lent += 1;
        (feed.lent == 1 && feed.lag == Lag::Merge).then(|| feed.ring.end().number())
    }

    /// Undoes one [`Self::lend`]. It still is a subscriber.
    pub fn take_back(&mut self, id: FeedId) {
        if let Some(feed) = self.feeds.get_mut(id.0 as usize) {
            feed.lent = feed.lent.saturating_sub(1);
        }
    }

    /// Whether a reader has had all that its channel has told, released or not, and the next message leads on from what it
    /// has.
    pub fn is_at_end(&self, id: FeedId, cursor: Cursor) -> bool {
        self.feeds.get(id.0 as usize).is_none_or(|feed| {
            let end = feed.ring.end();
            cursor.has_reached(end) && (feed.lag != Lag::Merge || cursor.number() == end.number())
        })
    }

    /// What lent channels have told since the last call, in order.
    pub fn take_lent(&mut self, mut take: impl FnMut(Lent<'_>)) {
        let LentMessages { bytes, noted } = &mut self.scratch.lent;
        if noted.is_empty() {
            return;
        }
        // Within one command a reader here is told trades first, and tickers last.
        noted.sort_by_key(|message| message.place);
        for Noted { feed, lag, number, start, len, .. } in noted.drain(..) {
            let payload = bytes.get(start..start + len).unwrap_or_default();
            take(Lent { feed, lag, number, payload });
        }
        bytes.clear();
        bytes.shrink_to(KEPT_BYTES);
    }
}
