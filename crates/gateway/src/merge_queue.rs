//! Clients that have fallen behind on a merged book and wait for one change that covers the gap.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use pitwire_deribit::codec::{Channel, Interval};

use crate::sink::{CatchUp, ClientSink};
use pitwire_delivery::ChannelId;

/// The venue answers a limited number of these questions per second. After a refusal the next
/// question waits this long, in nanoseconds.
const RETRY_NS: u64 = 50_000_000;

/// A waiting connection. On a delivery thread also the sequence up to which it has read.
pub(crate) type MergeWaiter = (u64, Option<u64>);

/// A channel, and the `change_id` of the book that the waiting clients have.
pub(crate) type MergeKey = (ChannelId, u64);

#[derive(Debug, Default)]
pub(crate) struct MergeQueue {
    waiting: BTreeMap<MergeKey, BTreeSet<MergeWaiter>>,
    /// Answers for delegated connections that are ahead of the bus: connection, channel and the
    /// sequence up to which it has read.
    early: Vec<(u64, ChannelId, u64, CatchUp)>,
    last: MergeKey,
    is_asking: bool,
    not_before_ns: u64,
}

impl MergeQueue {
    pub fn wait(&mut self, key: MergeKey, waiter: MergeWaiter) {
        self.waiting.entry(key).or_default().insert(waiter);
    }

    /// Forgets everything after a restart of the venue.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.early.clear();
    }

    pub fn due_ns(&self) -> Option<u64> {
        (!self.is_asking && !self.waiting.is_empty()).then_some(self.not_before_ns)
    }

    /// Returns what to ask the venue now. Books take turns; one question is under way at a time.
    /// Drops waiters for which `is_waiting` is false.
    pub fn next(&mut self, now_ns: u64, is_waiting: impl Fn(MergeWaiter, MergeKey) -> bool) -> Option<MergeKey> {
        self.due_ns().filter(|due_ns| *due_ns <= now_ns)?;
        loop {
            let after_last = self.waiting.range((Bound::Excluded(self.last), Bound::Unbounded)).next();
            let (key, waiters) = after_last.or_else(|| self.waiting.first_key_value())?;
            let key = *key;
            if waiters.iter().any(|waiter| is_waiting(*waiter, key)) {
                (self.is_asking, self.last) = (true, key);
                return Some(key);
            }
            self.waiting.remove(&key);
        }
    }

    /// The question was answered, or will not be.
    pub fn answered(&mut self) {
        self.is_asking = false;
    }

    /// The venue refused to answer for now.
    pub fn retry_later(&mut self, now_ns: u64) {
        self.not_before_ns = now_ns + RETRY_NS;
    }

    pub fn take(&mut self, key: MergeKey) -> BTreeSet<MergeWaiter> {
        self.waiting.remove(&key).unwrap_or_default()
    }

    /// Stores an answer until the delivery thread has received the messages before it.
    pub fn hold(&mut self, id: u64, channel: ChannelId, read_to: u64, catch_up: CatchUp) {
        self.early.push((id, channel, read_to, catch_up));
    }

    /// Sends the stored answers that lead up to sequence `last` or below.
    pub fn send_early(&mut self, last: u64, sink: &mut dyn ClientSink) {
        let is_early = |how: &CatchUp| matches!(how, CatchUp::Message(_, seq) | CatchUp::Unchanged(seq) if *seq > last);
        for (id, channel, read_to, how) in self.early.extract_if(.., |(.., how)| !is_early(how)) {
            sink.catch_up(id, channel, read_to, how);
        }
    }
}

/// Whether the venue can merge missed messages of a channel into one change.
pub(crate) fn can_merge(name: &str, is_state: bool) -> bool {
    let is_book = !is_state && name.starts_with("book.");
    is_book && Channel::parse(name).is_some_and(|channel| channel.interval() != Interval::Raw)
}
