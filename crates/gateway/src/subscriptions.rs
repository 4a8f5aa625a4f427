//! Subscriptions of the gateway's clients, from the messages of the bus.
//!
//! Does        Stores the newest messages, asks the venue for snapshots and missing messages, and
//!             sends each client its channels.
//! Holds       1. A snapshot and the messages after it join without a gap or a duplicate.
//!             2. Messages of several channels reach a client in the venue's order.
//!             3. A client that misses messages gets close code 1013, or a notice for clients with
//!                envelopes.
//! Leaves out  Requests and their limits: `node`. Names of channels: `directory`.
//! Start at    [`Subscriptions::batch`] and [`Subscriptions::read`]; `messages` has what happens
//!             when the venue or the bus fails.

use crate::channels::BusChannels;
use crate::connections::ConnectionTable;
use crate::follower::Follower;
use crate::merge_queue::MergeQueue;
use crate::pending::PendingTable;
use crate::questions::QuestionQueue;
use crate::sink::NodeFigures;
use crate::upstream::VenueQuestion;

mod attach;
mod lagging;
mod messages;
mod resuming;
mod subscribe;

#[cfg(test)]
pub(crate) use {attach::BEFORE_ATTACH_MAX, subscribe::JOINS_MAX};

pub struct Subscriptions {
    pub follower: Follower,
    pub(crate) channels: BusChannels,
    pub(crate) connections: ConnectionTable,
    pending: PendingTable,
    questions: QuestionQueue,
    merging: MergeQueue,
    /// Times that a client fell behind a channel.
    overrun: u64,
}

impl Subscriptions {
    /// Creates a state without subscriptions, whose history holds at most `history_bytes` bytes of
    /// batches.
    pub fn new(history_bytes: usize) -> Self {
        Subscriptions {
            follower: Follower::default(),
            channels: BusChannels::new(history_bytes),
            connections: ConnectionTable::default(),
            pending: PendingTable::default(),
            questions: QuestionQueue::default(),
            merging: MergeQueue::default(),
            overrun: 0,
        }
    }

    /// Returns the figures of subscriptions. `calls` is zero.
    pub(crate) fn figures(&self) -> NodeFigures {
        NodeFigures {
            clients: self.connections.clients.len(),
            channels: self.channels.joined_count(),
            joins: self.questions.joined_total,
            calls: 0,
            overrun: self.overrun,
            history_bytes: self.channels.history.held_bytes(),
        }
    }

    pub(crate) fn disconnected(&mut self, id: u64) {
        let Some(client) = self.connections.remove(id) else { return };
        for sub in &client.subs {
            self.leave(id, sub.channel);
        }
        self.pending.remove_connection(id);
    }

    /// Returns the next question to the venue, if one is due.
    pub fn next_question(&mut self, now_ns: u64) -> Option<VenueQuestion> {
        if let Some(question) = self.follower.next_question(now_ns) {
            return Some(question);
        }
        if self.follower.epoch().is_some() {
            if self.questions.is_keep_due(now_ns) {
                let names = self.channels.needed(now_ns);
                return Some(self.questions.keep(&names, now_ns));
            }
            self.questions.join_lost(now_ns);
        }
        let merge = self.next_merge(now_ns);
        let question = merge.or_else(|| self.questions.next());
        question.or_else(|| self.questions.next_resume(|number| self.pending.get(number).is_some()))
    }

    /// Returns the time at which [`Self::next_question`] or `Node::beat` may have something to
    /// do, in nanoseconds.
    pub fn due_ns(&self) -> u64 {
        if self.questions.has_next() {
            return 0;
        }
        let [keep, rejoin] = self.questions.due_ns();
        let keep = keep.filter(|_| self.follower.epoch().is_some());
        let times = [self.follower.due_ns(), keep, rejoin, self.connections.next_beat_ns(), self.merging.due_ns()];
        times.into_iter().flatten().min().unwrap_or(u64::MAX)
    }
}
