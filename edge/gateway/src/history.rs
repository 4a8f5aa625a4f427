//! The newest messages, by channel.
//!
//! Does        keep batches as they came, up to so many bytes, and find a channel's next message behind a sequence.
//! Holds       1. sequences only grow, over all channels and in each;
//!             2. whoever asks for what has been let go is told so, and from which sequence on there is something.
//! Costs       a message: an entry of 32 bytes beside its batch. Finding: a binary search.
//! Start at    [`History::append`], [`History::next`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pitwire_bus::{Batch, Message};

/// Which channel, for as long as the process lives.
pub type ChannelId = usize;

#[derive(Debug)]
pub struct History {
    channels: Vec<Channel>,
    by_name: BTreeMap<String, ChannelId>,
    batches: VecDeque<Kept>,
    held_bytes: usize,
    most_bytes: usize,
    /// Every message behind this one is here.
    complete_after: u64,
}

#[derive(Debug)]
struct Channel {
    name: String,
    entries: VecDeque<Entry>,
    /// The newest message that was here and is not any longer.
    let_go: u64,
}

#[derive(Debug)]
struct Entry {
    seq: u64,
    prev: u64,
    batch: Arc<[u8]>,
    at: u32,
    len: u32,
}

#[derive(Debug)]
struct Kept {
    bytes: usize,
    last: u64,
    touched: Vec<ChannelId>,
}

/// One message of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    pub seq: u64,
    /// The channel's message before.
    pub prev: u64,
    pub frame: &'a [u8],
}

/// What there is behind a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<'a> {
    Nothing,
    Message(Found<'a>),
    /// Messages are missing up to this one.
    Gone(u64),
}

impl History {
    pub fn new(most_bytes: usize) -> Self {
        History {
            channels: Vec::new(),
            by_name: BTreeMap::new(),
            batches: VecDeque::new(),
            held_bytes: 0,
            most_bytes,
            complete_after: 0,
        }
    }

    /// Forgets every message: what comes next follows on `after`. Channels keep their numbers.
    pub fn restart(&mut self, after: u64) {
        self.batches.clear();
        self.held_bytes = 0;
        self.complete_after = after;
        for channel in &mut self.channels {
            channel.entries.clear();
            channel.let_go = 0;
        }
    }

    pub fn channel(&mut self, name: &str) -> ChannelId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        self.channels.push(Channel { name: name.to_owned(), entries: VecDeque::new(), let_go: 0 });
        self.by_name.insert(name.to_owned(), self.channels.len() - 1);
        self.channels.len() - 1
    }

    pub fn known(&self, name: &str) -> Option<ChannelId> {
        self.by_name.get(name).copied()
    }

    pub fn name(&self, id: ChannelId) -> &str {
        self.channels.get(id).map_or("", |channel| &channel.name)
    }

    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Every message behind this sequence is here.
    pub fn complete_after(&self) -> u64 {
        self.complete_after
    }

    /// Takes in a batch from `from` on; `visit` hears of each message's channel.
    pub fn append(&mut self, bytes: &Arc<[u8]>, from: u64, mut visit: impl FnMut(ChannelId)) {
        let Some(batch) = Batch::parse(bytes) else { return };
        let mut touched = Vec::new();
        for message in batch.messages().filter(|message| message.seq >= from && !message.is_farewell()) {
            let id = self.channel(message.channel);
            self.enter(id, &message, bytes);
            touched.push(id);
            visit(id);
        }
        if let Some(last) = batch.next().checked_sub(1).filter(|_| !touched.is_empty()) {
            touched.sort_unstable();
            touched.dedup();
            self.held_bytes += bytes.len();
            self.batches.push_back(Kept { bytes: bytes.len(), last, touched });
        }
        while self.held_bytes > self.most_bytes && self.batches.len() > 1 {
            self.let_go();
        }
    }

    fn enter(&mut self, id: ChannelId, message: &Message<'_>, batch: &Arc<[u8]>) {
        let place = (u32::try_from(message.at), u32::try_from(message.frame.len()));
        let (Some(channel), (Ok(at), Ok(len))) = (self.channels.get_mut(id), place) else { return };
        let entry = Entry { seq: message.seq, prev: message.prev, batch: Arc::clone(batch), at, len };
        channel.entries.push_back(entry);
    }

    fn let_go(&mut self) {
        let Some(Kept { bytes, last, touched }) = self.batches.pop_front() else { return };
        self.held_bytes -= bytes;
        self.complete_after = last;
        for id in touched {
            let Some(channel) = self.channels.get_mut(id) else { continue };
            while let Some(entry) = channel.entries.front().filter(|entry| entry.seq <= last) {
                channel.let_go = entry.seq;
                channel.entries.pop_front();
            }
        }
    }

    /// The channel's first message behind `after`.
    pub fn next(&self, id: ChannelId, after: u64) -> Next<'_> {
        let Some(channel) = self.channels.get(id) else { return Next::Nothing };
        if channel.let_go > after {
            return Next::Gone(channel.let_go);
        }
        let at = channel.entries.partition_point(|entry| entry.seq <= after);
        channel.entries.get(at).map_or(Next::Nothing, |entry| Next::Message(entry.found()))
    }

    /// The channel's newest message.
    pub fn newest(&self, id: ChannelId) -> Option<Found<'_>> {
        self.channels.get(id)?.entries.back().map(Entry::found)
    }

    /// How many messages a channel has behind `after`.
    pub fn count(&self, id: ChannelId, after: u64) -> usize {
        self.channels
            .get(id)
            .map_or(0, |channel| channel.entries.len() - channel.entries.partition_point(|entry| entry.seq <= after))
    }
}

impl Entry {
    fn found(&self) -> Found<'_> {
        let frame = self.batch.get(self.at as usize..self.at as usize + self.len as usize).unwrap_or_default();
        Found { seq: self.seq, prev: self.prev, frame }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pitwire_bus::Writer;

    fn batch(first: u64, messages: &[(u64, &str, &str)]) -> Arc<[u8]> {
        let mut writer = Writer::new(1, first);
        for (prev, channel, frame) in messages {
            let written = writer.push(*prev, channel, |out| {
                out.extend_from_slice(frame.as_bytes());
                Ok::<(), ()>(())
            });
            written.unwrap();
        }
        writer.finish().into()
    }

    fn told(next: Next<'_>) -> String {
        match next {
            Next::Nothing => "-".into(),
            Next::Message(found) => {
                format!("{}<{} {}", found.prev, found.seq, std::str::from_utf8(found.frame).unwrap())
            }
            Next::Gone(up_to) => format!("!{up_to}"),
        }
    }

    #[test]
    fn a_channel_is_read_in_order_from_any_sequence() {
        let mut history = History::new(1 << 20);
        let mut seen = Vec::new();
        history.append(&batch(1, &[(0, "a", "A1"), (0, "b", "B2"), (1, "a", "A3")]), 1, |id| seen.push(id));
        // The front of this one was taken in before.
        history.append(&batch(3, &[(1, "a", "A3 again"), (3, "a", "A4")]), 4, |id| seen.push(id));
        assert_eq!(seen, [0, 1, 0, 0]);
        let (a, b) = (history.known("a").unwrap(), history.known("b").unwrap());
        let told = |id, after| told(history.next(id, after));
        assert_eq!([told(a, 0), told(a, 1), told(a, 2), told(a, 3)], ["0<1 A1", "1<3 A3", "1<3 A3", "3<4 A4"]);
        assert_eq!([told(a, 4), told(b, 0), told(b, 2)], ["-", "0<2 B2", "-"]);
        assert_eq!((history.count(a, 1), history.newest(a).unwrap().seq), (2, 4));
        assert_eq!(history.known("c"), None);
    }

    #[test]
    fn what_was_let_go_is_missed_by_those_who_had_not_read_it_and_by_nobody_else() {
        let one = batch(1, &[(0, "a", "A1"), (0, "b", "B2")]);
        let mut history = History::new(one.len() * 2);
        history.append(&one, 1, |_| {});
        history.append(&batch(3, &[(1, "a", "A3"), (3, "a", "A4")]), 3, |_| {});
        assert_eq!(history.complete_after(), 0);
        history.append(&batch(5, &[(4, "a", "A5"), (5, "a", "A6")]), 5, |_| {});
        let (a, b) = (0, 1);
        assert_eq!(history.complete_after(), 2);
        assert_eq!([told(history.next(a, 0)), told(history.next(a, 1))], ["!1", "1<3 A3"]);
        // Nothing of b has come since: who has read its message misses nothing.
        assert_eq!([told(history.next(b, 1)), told(history.next(b, 2))], ["!2", "-"]);
        history.restart(40);
        assert_eq!((told(history.next(a, 0)), history.complete_after(), history.held_bytes()), ("-".into(), 40, 0));
        assert_eq!((history.channel("a"), history.name(b)), (a, "b"));
    }

    #[test]
    fn the_newest_batch_stays_however_large() {
        let mut history = History::new(1);
        history.append(&batch(1, &[(0, "a", "A1")]), 1, |_| {});
        assert_eq!(told(history.next(0, 0)), "0<1 A1");
        history.append(&batch(2, &[(1, "a", "A2")]), 2, |_| {});
        assert_eq!(told(history.next(0, 1)), "1<2 A2");
    }
}
