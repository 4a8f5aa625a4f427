//! Readers who have fallen behind: of merged books (`book` 100ms and agg2) they are told in one change what they have missed,
//! in halls of other channels message by message.
//!
//! Does        ask the venue, which has the book, what leads on from what such a reader holds; let it go on behind that; give
//!             readers in halls what the history has, a piece at a time.
//! Holds       1. each reader's chain is whole: what it is told next changes what it holds;
//!             2. one question at a time, for all who hold the same; books take turns, and what leads nowhere is not asked;
//!             3. who cannot be helped is closed with 1013, as on other channels.
//! Leaves out  readers with an envelope: they are told a gap and a snapshot.
//! Start at    [`Node::ask_merged`], [`Node::merged`]; readers are found to be behind in [`Node::pump`] and by
//!             their halls: [`Node::behind`].

use std::collections::{BTreeMap, BTreeSet};

use pitwire_deribit::codec::{Channel, Interval};

use super::delivery::TOO_SLOW;
use super::{Instant, Mouth, Node, Outcome, Reply};
use crate::client::Step;
use crate::history::{ChannelId, Next};
use crate::upstream::Ask;

/// The venue answers so much a second and not more; then it is asked again.
const PATIENCE_NS: u64 = 50_000_000;
/// What a reader in a hall is told at once of what it has missed of other channels. It has read that before it is told more.
pub(super) const PIECE_BYTES: usize = 64 * 1024;

/// What becomes of a reader in a hall that is behind on a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoOn {
    /// It is told this, and then what comes behind this sequence.
    Told(Vec<u8>, u64),
    /// It gets these frames, and then what comes behind this sequence, if its hall has that.
    Frames(Vec<u8>, u64),
    /// Up to this sequence there is nothing to tell.
    Same(u64),
    Lost,
}

/// Who waits: a connection, and in a hall also up to which sequence it has read.
type Waiter = (u64, Option<u64>);

/// What is to be asked.
#[derive(Debug, Default)]
pub(super) struct Merging {
    /// Who waits, by book and by what of it they hold.
    waiting: BTreeMap<(ChannelId, u64), BTreeSet<Waiter>>,
    /// Answers for readers in halls that are ahead of the bus: with whom, the channel, and what it has read.
    early: Vec<(u64, ChannelId, u64, GoOn)>,
    /// What was asked last.
    last: (ChannelId, u64),
    is_asking: bool,
    not_before_ns: u64,
}

impl Merging {
    pub fn wait(&mut self, channel: ChannelId, held: u64, id: u64) {
        self.waiting.entry((channel, held)).or_default().insert((id, None));
    }

    /// Nothing that was told leads to what will be.
    pub fn restart(&mut self) {
        self.waiting.clear();
        self.early.clear();
    }

    pub fn due_ns(&self) -> Option<u64> {
        (!self.is_asking && !self.waiting.is_empty()).then_some(self.not_before_ns)
    }

    fn next(&self) -> Option<(ChannelId, u64)> {
        let behind = self.waiting.range((std::ops::Bound::Excluded(self.last), std::ops::Bound::Unbounded)).next();
        behind.or_else(|| self.waiting.first_key_value()).map(|(key, _)| *key)
    }
}

/// Whether who falls behind on a channel can be told in one change, as the venue does it.
pub(super) fn can_merge(name: &str, is_state: bool) -> bool {
    let is_book = !is_state && name.starts_with("book.");
    is_book && Channel::parse(name).is_some_and(|channel| channel.interval() != Interval::Raw)
}

impl Node {
    /// A reader in a hall is behind on a channel. It has read up to this sequence. Gives the bytes that it is told now.
    pub fn behind(&mut self, id: u64, channel: ChannelId, read: u64, mouth: &mut dyn Mouth) -> usize {
        let Some(facts) = self.facts.get(&channel).filter(|facts| facts.seated.contains(&id)) else { return 0 };
        let merges = facts.merges;
        let (how, bytes) = match self.history.held(channel, read).filter(|_| merges) {
            Some(held) => {
                self.figures.overrun += 1;
                self.merging.waiting.entry((channel, held)).or_default().insert((id, Some(read)));
                return 0;
            }
            None if merges => (GoOn::Lost, 0),
            None => self.next_piece(channel, read),
        };
        self.figures.overrun += u64::from(how == GoOn::Lost);
        mouth.go_on(id, channel, read, how);
        bytes
    }

    /// What comes next on a channel that is not merged, as far as one is told at once.
    fn next_piece(&self, channel: ChannelId, read: u64) -> (GoOn, usize) {
        let (mut frames, mut after) = (Vec::new(), read);
        while frames.len() < PIECE_BYTES {
            match self.history.next(channel, after) {
                Next::Message(found) => {
                    frames.extend_from_slice(found.frame);
                    after = found.seq;
                }
                Next::Nothing => {
                    after = after.max(self.follower.last());
                    break;
                }
                Next::Gone(_) => return (GoOn::Lost, 0),
            }
        }
        let bytes = frames.len();
        (GoOn::Frames(frames, after), bytes)
    }

    fn waits(&self, (id, read): Waiter, (channel, held): (ChannelId, u64)) -> bool {
        if read.is_some() {
            return self.facts.get(&channel).is_some_and(|facts| facts.seated.contains(&id));
        }
        let subs = self.clients.get(&id).into_iter().flat_map(|client| &client.subs);
        subs.into_iter().any(|sub| sub.channel == channel && sub.step == Step::Asked(held))
    }

    pub(super) fn ask_merged(&mut self, now_ns: u64) -> Option<Ask> {
        self.merging.due_ns().filter(|due_ns| *due_ns <= now_ns)?;
        while let Some(key) = self.merging.next() {
            let waiting = self.merging.waiting.get(&key);
            if waiting.is_some_and(|waiting| waiting.iter().any(|waiter| self.waits(*waiter, key))) {
                (self.merging.is_asking, self.merging.last) = (true, key);
                return Some(Ask::Merged { name: self.history.name(key.0).to_owned(), change_id: key.1 });
            }
            self.merging.waiting.remove(&key);
        }
        None
    }

    /// The venue's answer, if it has answered.
    pub(super) fn merged(
        &mut self,
        (name, held): (&str, u64),
        reply: Option<Reply>,
        now: Instant,
        mouth: &mut dyn Mouth,
    ) {
        self.merging.is_asking = false;
        let reply = reply.filter(|reply| self.follower.epoch() == Some(reply.epoch));
        if reply.as_ref().is_some_and(|reply| reply.outcome == Outcome::Full) {
            self.merging.not_before_ns = now.steady_ns + PATIENCE_NS;
            return;
        }
        let Some(channel) = self.history.known(name) else { return };
        let waiting = self.merging.waiting.remove(&(channel, held)).unwrap_or_default();
        let reply = reply.filter(|reply| reply.outcome == Outcome::Done);
        for (id, read) in waiting {
            // It may have left the channel meanwhile, and come back to it.
            if !self.waits((id, read), (channel, held)) {
                continue;
            }
            match (&reply, read) {
                (Some(reply), None) => self.catch_up(id, channel, reply, mouth),
                (None, None) => self.let_go(vec![id], TOO_SLOW, mouth),
                (None, Some(read)) => mouth.go_on(id, channel, read, GoOn::Lost),
                (Some(reply), Some(read)) => {
                    let is_same = reply.first.is_empty();
                    let how =
                        if is_same { GoOn::Same(reply.last) } else { GoOn::Told(reply.first.clone(), reply.last) };
                    self.merging.early.push((id, channel, read, how));
                }
            }
        }
        self.tell_early(mouth);
        if let Some(reply) = reply {
            self.follower.heard(reply.epoch, reply.last);
        }
    }

    /// Answers for halls: what they bring a reader to must have been told there before.
    pub(super) fn tell_early(&mut self, mouth: &mut dyn Mouth) {
        let last = self.follower.last();
        let is_there = |how: &GoOn| !matches!(how, GoOn::Told(_, seq) | GoOn::Same(seq) if *seq > last);
        for (id, channel, read, how) in self.merging.early.extract_if(.., |(.., how)| is_there(how)) {
            mouth.go_on(id, channel, read, how);
        }
    }

    fn catch_up(&mut self, id: u64, channel: ChannelId, reply: &Reply, mouth: &mut dyn Mouth) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        for sub in client.subs.iter_mut().filter(|sub| sub.channel == channel) {
            let Step::Asked(held) = sub.step else { continue };
            sub.after = sub.after.max(reply.last);
            // All is as it was, and a change that changes nothing must not be sent: it goes on with what it holds, out of
            // step until there is a difference to tell.
            sub.step = if reply.first.is_empty() { Step::Out(held) } else { Step::In };
            if !reply.first.is_empty() {
                mouth.notify(id, &reply.first);
            }
        }
        if client.is_in_hall {
            self.standing.insert(id);
        } else {
            self.fresh.insert(id);
        }
    }
}
