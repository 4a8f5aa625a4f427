//! Connections that have fallen behind on a channel.
//!
//! Does        For a merged book (`book` 100ms and agg2), asks the venue for one change that covers
//!             all changes that the client missed. For other channels of clients on delivery
//!             threads, sends the missed messages from the history in parts.
//! Holds       1. Each client's chain of changes is complete: the next change applies to its book.
//!             2. One question serves all clients with the same book.
//!             3. A client that cannot catch up is closed with 1013, as on other channels.
//! Leaves out  Clients with envelopes: they get a gap notice and a snapshot.
//! Start at    [`Subscriptions::behind`] for delivery threads; [`Subscriptions::read`] finds the
//!             other lagging clients.

use super::Subscriptions;
use super::messages::TOO_SLOW;
use crate::client::ReadState;
use crate::merge_queue::{MergeKey, MergeWaiter};
use crate::protocol::{Reply, ReplyOutcome};
use crate::sink::{CatchUp, ClientSink, GatewayTime};
use crate::upstream::VenueQuestion;
use pitwire_delivery::ChannelId;

impl Subscriptions {
    /// Handles a delegated connection that is behind on a channel and has read up to `read_to`.
    /// Returns the number of bytes that it gets now.
    pub fn behind(&mut self, id: u64, channel: ChannelId, read_to: u64, sink: &mut dyn ClientSink) -> usize {
        let state = self.channels.get(channel).filter(|state| state.attached.contains(&id));
        let Some(merges) = state.map(|state| state.merges) else { return 0 };
        let (how, bytes) = match self.channels.history.held(channel, read_to).filter(|_| merges) {
            Some(change_id) => {
                self.overrun += 1;
                self.merging.wait((channel, change_id), (id, Some(read_to)));
                return 0;
            }
            None if merges => (CatchUp::Lost, 0),
            None => self.channels.next_piece(channel, read_to, self.follower.last()),
        };
        self.overrun += u64::from(how == CatchUp::Lost);
        sink.catch_up(id, channel, read_to, how);
        bytes
    }

    fn awaits_merge(&self, (id, read_to): MergeWaiter, (channel, change_id): MergeKey) -> bool {
        match read_to {
            Some(_) => self.channels.is_attached(id, channel),
            None => self.connections.awaits_merge(id, channel, change_id),
        }
    }

    pub(crate) fn next_merge(&mut self, now_ns: u64) -> Option<VenueQuestion> {
        let mut merging = std::mem::take(&mut self.merging);
        let key = merging.next(now_ns, |waiter, key| self.awaits_merge(waiter, key));
        self.merging = merging;
        let (channel, change_id) = key?;
        Some(VenueQuestion::Merged { name: self.channels.history.name(channel).to_owned(), change_id })
    }

    /// Handles the venue's answer, or `None` if it did not answer.
    pub(crate) fn merged(
        &mut self,
        (name, change_id): (&str, u64),
        reply: Option<Reply>,
        now: GatewayTime,
        sink: &mut dyn ClientSink,
    ) {
        self.merging.answered();
        let reply = reply.filter(|reply| self.follower.epoch() == Some(reply.epoch));
        if reply.as_ref().is_some_and(|reply| reply.outcome == ReplyOutcome::Full) {
            return self.merging.retry_later(now.steady_ns);
        }
        let Some(channel) = self.channels.history.known(name) else { return };
        let key = (channel, change_id);
        let reply = reply.filter(|reply| reply.outcome == ReplyOutcome::Done);
        for (id, read_to) in self.merging.take(key) {
            // The client may have left the channel, or left and come back.
            if !self.awaits_merge((id, read_to), key) {
                continue;
            }
            match (&reply, read_to) {
                (Some(reply), None) => self.send_merged(id, channel, reply, sink),
                (None, None) => self.close_all(vec![id], TOO_SLOW, sink),
                (None, Some(read_to)) => sink.catch_up(id, channel, read_to, CatchUp::Lost),
                (Some(reply), Some(read_to)) => {
                    let how = match reply.first.is_empty() {
                        true => CatchUp::Unchanged(reply.last),
                        false => CatchUp::Message(reply.first.clone(), reply.last),
                    };
                    self.merging.hold(id, channel, read_to, how);
                }
            }
        }
        self.merging.send_early(self.follower.last(), sink);
        if let Some(reply) = reply {
            self.follower.position_seen(reply.epoch, reply.last);
        }
    }

    fn send_merged(&mut self, id: u64, channel: ChannelId, reply: &Reply, sink: &mut dyn ClientSink) {
        let Some(client) = self.connections.clients.get_mut(&id) else { return };
        for sub in client.subs.iter_mut().filter(|sub| sub.channel == channel) {
            let ReadState::AwaitsMerge(change_id) = sub.state else { continue };
            sub.after = sub.after.max(reply.last);
            // An empty change must not be sent. The client's book stays out of step until something
            // changes.
            if reply.first.is_empty() {
                sub.state = ReadState::OutOfStep(change_id);
            } else {
                sub.state = ReadState::Reading;
                sink.notify(id, &reply.first);
            }
        }
        if client.is_delegated {
            self.connections.unattached.insert(id);
        } else {
            self.connections.fresh.insert(id);
        }
    }
}
