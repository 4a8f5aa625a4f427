//! The newest messages, by channel.
//!
//! Does        Stores batches as they arrived, up to a number of bytes, and finds a channel's next
//!             message after a sequence.
//! Holds       1. Sequences increase, over all channels and in each.
//!             2. A reader that asks for a dropped message learns that it is gone.
//!             3. The `change_id` of a book is remembered for longer than the messages that led to
//!                it.
//! Costs       40 bytes per message beside its batch. A lookup is a binary search.
//! Start at    [`History::append`], [`History::next`].

use std::collections::VecDeque;
use std::sync::Arc;

use pitwire_delivery::{ChannelId, ChannelTable};
use pitwire_websocket::payload_of;

use crate::protocol::{Batch, Message};

/// Number of dropped book messages whose `change_id` is remembered: several minutes of a 100 ms
/// channel.
const LINKS: usize = 4_096;

#[derive(Debug)]
pub struct History {
    channels: ChannelTable<ChannelHistory>,
    batches: VecDeque<StoredBatch>,
    held_bytes: usize,
    most_bytes: usize,
    /// Every message after this sequence is stored.
    complete_after: u64,
}

#[derive(Debug)]
struct ChannelHistory {
    name: String,
    entries: VecDeque<HistoryEntry>,
    /// Sequence of the newest message that was dropped.
    let_go: u64,
    /// On a merged book: its dropped messages.
    links: Option<VecDeque<Link>>,
}

/// The stored part of a dropped book message.
#[derive(Clone, Copy, Debug)]
struct Link {
    seq: u64,
    prev: u64,
    /// The `change_id` to which the message applies.
    from: u64,
}

#[derive(Debug)]
struct HistoryEntry {
    seq: u64,
    prev: u64,
    batch: Arc<[u8]>,
    at: u32,
    len: u32,
}

#[derive(Debug)]
struct StoredBatch {
    bytes: usize,
    last: u64,
    touched: Vec<ChannelId>,
}

/// One message of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryMessage<'a> {
    pub seq: u64,
    /// Sequence of the channel's previous message.
    pub prev: u64,
    pub frame: &'a [u8],
}

/// The message after a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextMessage<'a> {
    Nothing,
    Message(HistoryMessage<'a>),
    /// Messages up to this sequence are gone.
    Gone(u64),
}

impl History {
    pub fn new(most_bytes: usize) -> Self {
        History {
            channels: ChannelTable::default(),
            batches: VecDeque::new(),
            held_bytes: 0,
            most_bytes,
            complete_after: 0,
        }
    }

    /// Drops every message. The next one has a sequence above `after`. Channels keep their ids.
    pub fn restart(&mut self, after: u64) {
        self.batches.clear();
        self.held_bytes = 0;
        self.complete_after = after;
        for channel in self.channels.iter_mut() {
            channel.entries.clear();
            channel.let_go = 0;
            channel.links.iter_mut().for_each(VecDeque::clear);
        }
    }

    pub fn channel(&mut self, name: &str) -> ChannelId {
        let new = |_| ChannelHistory { name: name.to_owned(), entries: VecDeque::new(), let_go: 0, links: None };
        self.channels.add(name, new)
    }

    pub fn known(&self, name: &str) -> Option<ChannelId> {
        self.channels.named(name)
    }

    pub fn name(&self, id: ChannelId) -> &str {
        self.channels.get(id).map_or("", |channel| &channel.name)
    }

    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Every message after this sequence is stored.
    pub fn complete_after(&self) -> u64 {
        self.complete_after
    }

    /// Stores the messages of a batch from sequence `from` on, and calls `visit` with the channel
    /// of each.
    pub fn append(&mut self, bytes: &Arc<[u8]>, from: u64, mut visit: impl FnMut(ChannelId)) {
        let Some(batch) = Batch::parse(bytes) else { return };
        let mut touched = Vec::new();
        for message in batch.messages().filter(|message| message.seq >= from && !message.is_removal()) {
            let id = self.channel(message.channel);
            self.enter(id, &message, bytes);
            touched.push(id);
            visit(id);
        }
        if let Some(last) = batch.next().checked_sub(1).filter(|_| !touched.is_empty()) {
            touched.sort_unstable();
            touched.dedup();
            self.held_bytes += bytes.len();
            self.batches.push_back(StoredBatch { bytes: bytes.len(), last, touched });
        }
        while self.held_bytes > self.most_bytes && self.batches.len() > 1 {
            self.let_go();
        }
    }

    fn enter(&mut self, id: ChannelId, message: &Message<'_>, batch: &Arc<[u8]>) {
        let place = (u32::try_from(message.at), u32::try_from(message.frame.len()));
        let (Some(channel), (Ok(at), Ok(len))) = (self.channels.get_mut(id), place) else { return };
        let entry = HistoryEntry { seq: message.seq, prev: message.prev, batch: Arc::clone(batch), at, len };
        channel.entries.push_back(entry);
    }

    fn let_go(&mut self) {
        let Some(StoredBatch { bytes, last, touched }) = self.batches.pop_front() else { return };
        self.held_bytes -= bytes;
        self.complete_after = last;
        for id in touched {
            let Some(channel) = self.channels.get_mut(id) else { continue };
            while let Some(entry) = channel.entries.front().filter(|entry| entry.seq <= last) {
                channel.let_go = entry.seq;
                if let Some(links) = &mut channel.links {
                    if links.len() == LINKS {
                        links.pop_front();
                    }
                    links.push_back(entry.link());
                }
                channel.entries.pop_front();
            }
        }
    }

    /// Returns the channel's first message after `after`.
    pub fn next(&self, id: ChannelId, after: u64) -> NextMessage<'_> {
        let Some(channel) = self.channels.get(id) else { return NextMessage::Nothing };
        if channel.let_go > after {
            return NextMessage::Gone(channel.let_go);
        }
        let at = channel.entries.partition_point(|entry| entry.seq <= after);
        channel.entries.get(at).map_or(NextMessage::Nothing, |entry| NextMessage::Message(entry.found()))
    }

    /// Remembers the `change_id` of dropped messages of this channel from now on.
    pub fn remember_links(&mut self, id: ChannelId) {
        if let Some(channel) = self.channels.get_mut(id) {
            channel.links.get_or_insert_default();
        }
    }

    /// Returns the `change_id` of the book of a reader that has every message up to `after`: the
    /// one to which the next message applies.
    pub fn held(&self, id: ChannelId, after: u64) -> Option<u64> {
        let channel = self.channels.get(id)?;
        let links = channel.links.as_ref()?;
        let gone = links.get(links.partition_point(|link| link.seq <= after)).copied();
        let next = gone.or_else(|| {
            let at = channel.entries.partition_point(|entry| entry.seq <= after);
            channel.entries.get(at).map(HistoryEntry::link)
        });
        // If a message in between is forgotten, the `change_id` is unknown.
        next.filter(|link| link.prev <= after && link.from > 0).map(|link| link.from)
    }

    /// Returns the channel's newest message.
    pub fn newest(&self, id: ChannelId) -> Option<HistoryMessage<'_>> {
        self.channels.get(id)?.entries.back().map(HistoryEntry::found)
    }

    /// Returns the number of messages that a channel has after `after`.
    pub fn count(&self, id: ChannelId, after: u64) -> usize {
        self.channels
            .get(id)
            .map_or(0, |channel| channel.entries.len() - channel.entries.partition_point(|entry| entry.seq <= after))
    }
}

impl HistoryEntry {
    fn link(&self) -> Link {
        Link { seq: self.seq, prev: self.prev, from: prev_change_id(payload_of(self.found().frame)) }
    }

    fn found(&self) -> HistoryMessage<'_> {
        let frame = self.batch.get(self.at as usize..self.at as usize + self.len as usize).unwrap_or_default();
        HistoryMessage { seq: self.seq, prev: self.prev, frame }
    }
}

/// Returns the `prev_change_id` of a book message, or 0 if it has none.
fn prev_change_id(payload: &[u8]) -> u64 {
    let key = b"\"prev_change_id\":";
    let at = payload.windows(key.len()).position(|window| window == key).map_or(payload.len(), |at| at + key.len());
    let digits = payload.iter().skip(at).take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |id: u64, digit| id.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prev_change_id_is_read_from_a_book_message() {
        assert_eq!(prev_change_id(br#"{"data":{"prev_change_id":17,"change_id":19,"bids":[]}}"#), 17);
        let none: [&[u8]; 4] = [b"", br#"{"change_id":4}"#, br#"{"prev_change_id":"x"}"#, br#"{"prev_change_id":"#];
        assert_eq!(none.map(prev_change_id), [0; 4]);
    }
    use crate::protocol::BatchWriter;

    fn batch(first: u64, messages: &[(u64, &str, &str)]) -> Arc<[u8]> {
        let mut writer = BatchWriter::new(1, first);
        for (prev, channel, frame) in messages {
            let written = writer.push(*prev, channel, |out| {
                out.extend_from_slice(frame.as_bytes());
                Ok::<(), ()>(())
            });
            written.unwrap();
        }
        writer.finish().into()
    }

    fn line_of(next: NextMessage<'_>) -> String {
        match next {
            NextMessage::Nothing => "-".into(),
            NextMessage::Message(found) => {
                format!("{}<{} {}", found.prev, found.seq, std::str::from_utf8(found.frame).unwrap())
            }
            NextMessage::Gone(up_to) => format!("!{up_to}"),
        }
    }

    #[test]
    fn channel_is_read_in_order_from_any_sequence() {
        let mut history = History::new(1 << 20);
        let mut seen = Vec::new();
        history.append(&batch(1, &[(0, "a", "A1"), (0, "b", "B2"), (1, "a", "A3")]), 1, |id| seen.push(id));
        // The first messages of this batch were stored before.
        history.append(&batch(3, &[(1, "a", "A3 again"), (3, "a", "A4")]), 4, |id| seen.push(id));
        assert_eq!(seen, [0, 1, 0, 0].map(ChannelId));
        let (a, b) = (history.known("a").unwrap(), history.known("b").unwrap());
        let line_of = |id, after| line_of(history.next(id, after));
        assert_eq!(
            [line_of(a, 0), line_of(a, 1), line_of(a, 2), line_of(a, 3)],
            ["0<1 A1", "1<3 A3", "1<3 A3", "3<4 A4"]
        );
        assert_eq!([line_of(a, 4), line_of(b, 0), line_of(b, 2)], ["-", "0<2 B2", "-"]);
        assert_eq!((history.count(a, 1), history.newest(a).unwrap().seq), (2, 4));
        assert_eq!(history.known("c"), None);
    }

    #[test]
    fn only_readers_behind_a_dropped_message_miss_it() {
        let one = batch(1, &[(0, "a", "A1"), (0, "b", "B2")]);
        let mut history = History::new(one.len() * 2);
        history.append(&one, 1, |_| {});
        history.append(&batch(3, &[(1, "a", "A3"), (3, "a", "A4")]), 3, |_| {});
        assert_eq!(history.complete_after(), 0);
        history.append(&batch(5, &[(4, "a", "A5"), (5, "a", "A6")]), 5, |_| {});
        let (a, b) = (ChannelId(0), ChannelId(1));
        assert_eq!(history.complete_after(), 2);
        assert_eq!([line_of(history.next(a, 0)), line_of(history.next(a, 1))], ["!1", "1<3 A3"]);
        // Channel b has no newer message, so its readers miss nothing.
        assert_eq!([line_of(history.next(b, 1)), line_of(history.next(b, 2))], ["!2", "-"]);
        history.restart(40);
        assert_eq!((line_of(history.next(a, 0)), history.complete_after(), history.held_bytes()), ("-".into(), 40, 0));
        assert_eq!((history.channel("a"), history.name(b)), (a, "b"));
    }

    #[test]
    fn change_id_outlives_dropped_messages() {
        let text = |from: u64| format!("\x01\x05{{\"prev_change_id\":{from},\"change_id\":{}}}", from + 10);
        let mut history = History::new(1);
        let id = history.channel("a");
        assert_eq!(history.held(id, 0), None);
        history.remember_links(id);
        // Messages on every second sequence from the fifth on. Only the newest batch is stored.
        let last = 5 + 2 * (LINKS as u64 + 4);
        let mut prev = 0;
        for seq in (5..=last).step_by(2) {
            history.append(&batch(seq, &[(prev, "a", &text(seq * 10))]), seq, |_| {});
            prev = seq;
        }
        // Four links are forgotten, but not the target of the last of them.
        let held = [0, 4, 5, 10, 11, 12, 13, 14].map(|after| history.held(id, after));
        assert_eq!(held, [None, None, None, None, Some(130), Some(130), Some(150), Some(150)]);
        assert_eq!([last - 3, last - 2, last - 1, last].map(|after| history.held(id, after)), {
            let (before, newest) = (Some((last - 2) * 10), Some(last * 10));
            [before, newest, newest, None]
        });
        history.restart(last);
        assert_eq!(history.held(id, 14), None);
    }

    #[test]
    fn newest_batch_is_never_dropped() {
        let mut history = History::new(1);
        history.append(&batch(1, &[(0, "a", "A1")]), 1, |_| {});
        assert_eq!(line_of(history.next(ChannelId(0), 0)), "0<1 A1");
        history.append(&batch(2, &[(1, "a", "A2")]), 2, |_| {});
        assert_eq!(line_of(history.next(ChannelId(0), 1)), "1<2 A2");
    }
}
