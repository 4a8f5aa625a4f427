//! The channels on the bus: their history, snapshots and subscribers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pitwire_websocket::payload_of;

use crate::history::{History, NextMessage};
use crate::merge_queue::can_merge;
use crate::protocol::{Batch, Reply};
use crate::sink::{CatchUp, ClientSink};
use pitwire_delivery::ChannelId;

/// Most messages that follow a stored snapshot. With more, the gateway requests a new one.
pub(crate) const REPLAYED_MAX: usize = 64;
/// A channel without subscribers stays on the bus for this long, in nanoseconds.
const UNUSED_NS: u64 = 60_000_000_000;
/// A channel may have several names. Above this number of names they are learned again.
pub(crate) const ALIASES_MAX: usize = 16_384;
/// Most bytes that a lagging delegated connection gets at a time on a channel that is not merged.
/// It gets more when it has read them.
pub(crate) const PIECE_BYTES: usize = 64 * 1024;

/// A channel's state besides its messages.
#[derive(Debug, Default)]
pub(crate) struct ChannelState {
    /// The channel is on the bus and no message of it is missing.
    pub is_joined: bool,
    /// Only the newest message matters.
    pub conflates: bool,
    /// The venue can merge missed messages into one change.
    pub merges: bool,
    /// The channel has been on the bus without interruption since this sequence.
    pub since: u64,
    /// First message of a subscription, valid at `snapshot_seq`.
    pub snapshot: Vec<u8>,
    pub snapshot_seq: u64,
    /// Connections that read the history, or that are to be attached.
    pub subscribers: BTreeSet<u64>,
    /// Connections attached on delivery threads.
    pub attached: BTreeSet<u64>,
    needed_ns: u64,
}

pub(crate) struct BusChannels {
    pub history: History,
    states: BTreeMap<ChannelId, ChannelState>,
    /// Names that clients use.
    aliases: BTreeMap<String, ChannelId>,
    /// Above this number, names that no pending request contains are forgotten.
    aliases_max: usize,
    /// Number of attachments on all channels.
    attachments: usize,
    /// Channels with new messages.
    dirty: BTreeSet<ChannelId>,
}

impl BusChannels {
    pub fn new(history_bytes: usize) -> Self {
        BusChannels {
            history: History::new(history_bytes),
            states: BTreeMap::new(),
            aliases: BTreeMap::new(),
            aliases_max: ALIASES_MAX,
            attachments: 0,
            dirty: BTreeSet::new(),
        }
    }

    pub fn joined_count(&self) -> usize {
        self.states.values().filter(|state| state.is_joined).count()
    }

    pub fn get(&self, channel: ChannelId) -> Option<&ChannelState> {
        self.states.get(&channel)
    }

    pub fn get_mut(&mut self, channel: ChannelId) -> Option<&mut ChannelState> {
        self.states.get_mut(&channel)
    }

    /// Returns the channel that clients mean by `name`.
    pub fn named(&self, name: &str) -> Option<ChannelId> {
        self.aliases.get(name).copied()
    }

    /// Stores a name. Above the limit, names that no pending request contains are forgotten first:
    /// the reply to a request must name its channels.
    pub fn learn_name(&mut self, name: &str, channel: ChannelId, pending: &BTreeSet<&String>) {
        if self.aliases.len() >= self.aliases_max {
            self.aliases.retain(|name, _| pending.contains(name));
            self.aliases_max = ALIASES_MAX.max(2 * self.aliases.len());
        }
        self.aliases.insert(name.to_owned(), channel);
    }

    pub fn forget_name(&mut self, name: &str) {
        self.aliases.remove(name);
    }

    #[cfg(test)]
    pub fn name_count(&self) -> usize {
        self.aliases.len()
    }

    #[cfg(test)]
    pub fn attachment_count(&self) -> usize {
        self.attachments
    }

    #[cfg(test)]
    pub fn has_no_subscribers(&self) -> bool {
        self.states.values().all(|state| state.attached.is_empty() && state.subscribers.is_empty())
    }

    /// Appends a batch to the history.
    pub fn append(&mut self, bytes: &Arc<[u8]>, from: u64) {
        let BusChannels { history, dirty, .. } = self;
        history.append(bytes, from, |id| _ = dirty.insert(id));
    }

    /// Whether any channel has new messages.
    pub fn has_new_messages(&self) -> bool {
        !self.dirty.is_empty()
    }

    pub fn clear_new_messages(&mut self) {
        self.dirty.clear();
    }

    /// Returns the subscribers of channels with new messages. One may occur more than once.
    pub fn readers(&self) -> impl Iterator<Item = u64> {
        self.dirty.iter().filter_map(|id| self.states.get(id)).flat_map(|state| &state.subscribers).copied()
    }

    /// Forgets all messages and snapshots. The next message has a sequence above `after`.
    pub fn restart(&mut self, after: u64) {
        self.history.restart(after);
        for state in self.states.values_mut() {
            state.is_joined = false;
            state.snapshot.clear();
        }
    }

    /// Marks channels that the venue has taken off the bus, and returns the known ones.
    pub fn leave_bus(&mut self, names: &[String]) -> BTreeSet<ChannelId> {
        let gone: BTreeSet<ChannelId> = names.iter().filter_map(|name| self.history.known(name)).collect();
        for id in &gone {
            if let Some(state) = self.states.get_mut(id) {
                state.is_joined = false;
                state.snapshot.clear();
            }
        }
        gone
    }

    /// Whether a reply shows that a channel left the bus and came back unnoticed.
    pub fn has_missed(&self, channel: ChannelId, reply: &Reply) -> bool {
        self.states.get(&channel).is_some_and(|state| state.is_joined && state.since < reply.since)
    }

    /// Stores the answer to a join.
    pub fn joined(&mut self, channel: ChannelId, reply: Reply, now_ns: u64) {
        let merges = can_merge(&reply.channel, reply.conflates);
        let state = self.states.entry(channel).or_default();
        state.is_joined = true;
        state.conflates = reply.conflates;
        state.merges = merges;
        state.since = reply.since;
        state.snapshot = reply.first;
        state.snapshot_seq = reply.last;
        state.needed_ns = now_ns;
        if merges {
            self.history.remember_links(channel);
        }
    }

    /// Removes a connection from a channel.
    pub fn unsubscribe(&mut self, id: u64, channel: ChannelId) {
        if let Some(state) = self.states.get_mut(&channel) {
            state.subscribers.remove(&id);
            self.attachments -= usize::from(state.attached.remove(&id));
        }
    }

    /// Moves a connection from the readers of a channel to the attached ones. Returns whether it
    /// was not attached yet.
    pub fn attach(&mut self, id: u64, channel: ChannelId) -> bool {
        let Some(state) = self.states.get_mut(&channel) else { return false };
        state.subscribers.remove(&id);
        let is_new = state.attached.insert(id);
        self.attachments += usize::from(is_new);
        is_new
    }

    pub fn is_attached(&self, id: u64, channel: ChannelId) -> bool {
        self.states.get(&channel).is_some_and(|state| state.attached.contains(&id))
    }

    /// Marks channels as needed now.
    pub fn need(&mut self, names: &[String], now_ns: u64) {
        for channel in names.iter().filter_map(|name| self.aliases.get(name)) {
            if let Some(state) = self.states.get_mut(channel) {
                state.needed_ns = now_ns;
            }
        }
    }

    /// Returns the names of the channels that are to stay on the bus. Channels without subscribers
    /// leave it after a while.
    pub fn needed(&mut self, now_ns: u64) -> Vec<String> {
        let mut names = Vec::new();
        for (id, state) in &mut self.states {
            if !state.subscribers.is_empty() || !state.attached.is_empty() {
                state.needed_ns = now_ns;
            }
            state.is_joined &= state.needed_ns + UNUSED_NS > now_ns;
            if state.is_joined {
                names.push(self.history.name(*id).to_owned());
            }
        }
        names
    }

    /// Whether a client can continue after sequence `seq` of this start: nothing after it is
    /// missing. `last` is the newest sequence received.
    pub fn can_resume(&self, channel: ChannelId, seq: u64, last: u64) -> bool {
        let Some(state) = self.states.get(&channel).filter(|state| state.is_joined) else { return false };
        let is_complete = seq >= state.since && seq >= self.history.complete_after();
        is_complete && seq <= last.max(state.snapshot_seq)
    }

    /// Returns the snapshot for a new subscription and its sequence, or `None` if the venue must be
    /// asked. Without a snapshot the subscription starts with the next message.
    pub fn snapshot(&self, channel: ChannelId, last: u64) -> Option<(u64, Option<&[u8]>)> {
        let state = self.states.get(&channel).filter(|state| state.is_joined)?;
        if state.conflates
            && let Some(newest) = self.history.newest(channel).filter(|newest| newest.seq > state.snapshot_seq)
        {
            return Some((newest.seq - 1, None));
        }
        if state.snapshot.is_empty() {
            return Some((state.snapshot_seq.max(last), None));
        }
        let is_near = self.history.count(channel, state.snapshot_seq) <= REPLAYED_MAX;
        let is_usable = is_near && state.snapshot_seq >= self.history.complete_after();
        is_usable.then_some((state.snapshot_seq, Some(&state.snapshot)))
    }

    /// Whether every message of a channel after `seq` is received or will be.
    pub fn is_complete_after(&self, name: &str, seq: u64) -> bool {
        let state = self.aliases.get(name).and_then(|channel| self.states.get(channel));
        state.is_some_and(|state| state.is_joined && state.since <= seq)
    }

    /// Returns the next messages of a channel that is not merged, about [`PIECE_BYTES`], and their
    /// size in bytes.
    pub fn next_piece(&self, channel: ChannelId, read_to: u64, last: u64) -> (CatchUp, usize) {
        let (mut frames, mut after) = (Vec::new(), read_to);
        while frames.len() < PIECE_BYTES {
            match self.history.next(channel, after) {
                NextMessage::Message(found) => {
                    frames.extend_from_slice(found.frame);
                    after = found.seq;
                }
                NextMessage::Nothing => {
                    after = after.max(last);
                    break;
                }
                NextMessage::Gone(_) => return (CatchUp::Lost, 0),
            }
        }
        let bytes = frames.len();
        (CatchUp::Frames(frames, after), bytes)
    }

    /// Publishes new messages to attached connections, of a state only the newest. Returns the
    /// names of channels that left the bus. The venue may have put them back for another gateway,
    /// so what follows on them is not published: messages in between are missing here.
    pub fn publish(&self, fresh: &[(Arc<[u8]>, u64)], sink: &mut dyn ClientSink) -> Vec<String> {
        let mut left = BTreeSet::new();
        let batches = fresh.iter().filter_map(|(bytes, from)| Some((Batch::parse(bytes)?, *from)));
        for message in batches.flat_map(|(batch, from)| batch.messages().filter(move |message| message.seq >= from)) {
            // Without attachments only removals matter.
            if self.attachments == 0 && !message.is_removal() {
                continue;
            }
            let known = self.history.known(message.channel).filter(|id| !left.contains(id));
            let Some((id, state)) = known.and_then(|id| Some((id, self.states.get(&id)?))) else { continue };
            if message.is_removal() {
                // An earlier removal is known already.
                if state.is_joined && message.seq > state.since {
                    left.insert(id);
                }
                continue;
            }
            let is_newest = || self.history.newest(id).is_none_or(|newest| newest.seq == message.seq);
            if !state.attached.is_empty() && (!state.conflates || is_newest()) {
                sink.publish(id, message.seq, payload_of(message.frame));
            }
        }
        left.into_iter().map(|id| self.history.name(id).to_owned()).collect()
    }
}
