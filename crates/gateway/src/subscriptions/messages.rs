//! Messages from the bus to clients, and notices and closes when messages are lost.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pitwire_websocket::{CloseCode, Opcode, payload_of, write_frame};

use super::Subscriptions;
use crate::client::{ReadState, reply_snapshot, write_envelope, write_epoch, write_gap};
use crate::follower::{FollowerProgress, FollowerRestart};
use crate::history::NextMessage;
use crate::protocol::{Reply, ReplyOutcome};
use crate::sink::{ClientSink, GatewayTime};
use crate::upstream::VenueQuestion;
use pitwire_delivery::ChannelId;

/// Close reason of a lagging subscriber. The code is 1013.
pub(super) const TOO_SLOW: &str = "too slow for this channel: reconnect and start from a snapshot";
const NEW_START: &str = "the venue has begun anew: reconnect and start from a snapshot";
const LOST: &str = "messages were lost on the way from the venue: reconnect and start from a snapshot";

impl Subscriptions {
    /// Handles a batch from the bus.
    pub fn batch(&mut self, bytes: Vec<u8>, sink: &mut dyn ClientSink) {
        let progress = self.follower.batch(bytes);
        self.advance(progress, sink);
    }

    /// Handles the venue's answer to a question about channels, or the reason why there is none.
    pub fn answered(
        &mut self,
        question: &VenueQuestion,
        answer: Result<Reply, String>,
        now: GatewayTime,
        sink: &mut dyn ClientSink,
    ) {
        use VenueQuestion::{From, Instruments, Join, Keep, Merged, Resume, Status};
        match (question, answer) {
            (Status | From { .. }, Ok(reply)) => {
                let progress = self.follower.answered(question, &reply, now.steady_ns);
                self.advance(progress, sink);
            }
            (Status | From { .. }, Err(_)) => self.follower.failed(now.steady_ns),
            (Join { name }, Ok(reply)) => {
                self.follower.position_seen(reply.epoch, reply.last);
                self.joined(name, reply, now, sink);
            }
            (Join { name }, Err(why)) => self.join_failed(name, &why, now, sink),
            (Keep { .. }, Ok(reply)) => {
                self.follower.position_seen(reply.epoch, reply.last);
                if self.follower.epoch() == Some(reply.epoch) {
                    self.dropped(&reply.names, sink);
                }
            }
            (Merged { name, change_id }, answer) => self.merged((name, *change_id), answer.ok(), now, sink),
            (Resume { number, wishes }, answer) => self.resumed(*number, wishes, answer, now, sink),
            (Instruments, _) | (Keep { .. }, Err(_)) => {}
        }
        self.attach_waiting(sink);
    }

    fn advance(&mut self, progress: FollowerProgress, sink: &mut dyn ClientSink) {
        if let Some(restart) = progress.restarted {
            self.restart(restart, sink);
        }
        for (bytes, from) in &progress.fresh {
            self.channels.append(bytes, *from);
        }
        let left = self.channels.publish(&progress.fresh, sink);
        if !left.is_empty() {
            self.dropped(&left, sink);
        }
        self.merging.send_early(self.follower.last(), sink);
        self.attach_waiting(sink);
    }

    /// Earlier messages do not lead up to what comes next: every subscription starts again.
    fn restart(&mut self, restart: FollowerRestart, sink: &mut dyn ClientSink) {
        self.channels.restart(restart.next.saturating_sub(1));
        self.merging.clear();
        let why = if restart.is_new_start { NEW_START } else { LOST };
        let mut notice = Vec::new();
        write_epoch(&mut notice, restart.epoch);
        let mut to_close = Vec::new();
        for (id, client) in self.connections.clients.iter_mut().filter(|(_, client)| !client.subs.is_empty()) {
            if !client.has_envelope {
                to_close.push(*id);
                continue;
            }
            if restart.is_new_start {
                sink.notify(*id, &notice);
            }
            for sub in &mut client.subs {
                sub.state = ReadState::AwaitsSnapshot;
                if restart.is_new_start {
                    // Sequences of another start mean nothing in this one.
                    sub.after = 0;
                }
                self.questions.rejoin(&sub.name);
            }
        }
        self.close_all(to_close, why, sink);
        self.questions.rejoin_now();
    }

    /// Closes connections whose dialect has no message for what happened.
    pub(crate) fn close_all(&mut self, ids: Vec<u64>, why: &str, sink: &mut dyn ClientSink) {
        for id in ids {
            let client = self.connections.clients.get_mut(&id);
            let subs = client.map(|client| std::mem::take(&mut client.subs)).unwrap_or_default();
            subs.iter().for_each(|sub| self.leave(id, sub.channel));
            sink.close(id, CloseCode::TryAgainLater, why);
        }
    }

    /// Handles channels that the venue has taken off the bus: their messages since are missing.
    fn dropped(&mut self, names: &[String], sink: &mut dyn ClientSink) {
        let gone = self.channels.leave_bus(names);
        let mut to_close = Vec::new();
        for (id, client) in &mut self.connections.clients {
            let mut is_affected = false;
            for sub in client.subs.iter_mut().filter(|sub| gone.contains(&sub.channel)) {
                is_affected = true;
                sub.state = ReadState::AwaitsSnapshot;
                if client.has_envelope {
                    self.questions.rejoin(&sub.name);
                }
            }
            if is_affected && !client.has_envelope {
                to_close.push(*id);
            }
        }
        self.close_all(to_close, LOST, sink);
        self.questions.rejoin_now();
    }

    /// Handles the venue's answer to a join of `name`.
    pub(crate) fn joined(&mut self, name: &str, reply: Reply, now: GatewayTime, sink: &mut dyn ClientSink) {
        if self.follower.epoch() != Some(reply.epoch) {
            return self.join_failed(name, "the venue has begun anew", now, sink);
        }
        let outcome = reply.outcome;
        if outcome == ReplyOutcome::Done {
            let channel = self.channels.history.channel(&reply.channel);
            self.channels.learn_name(name, channel, &self.pending.names());
            if self.channels.has_missed(channel, &reply) {
                self.dropped(std::slice::from_ref(&reply.channel), sink);
            }
            self.channels.joined(channel, reply, now.steady_ns);
            self.send_snapshots(channel, sink);
        } else {
            self.channels.forget_name(name);
        }
        let failed = (outcome == ReplyOutcome::Full).then_some("the venue has no room for another channel");
        self.join_ended(name, failed, outcome, now, sink);
    }

    /// Sends the snapshot of a channel to the clients that wait for it.
    fn send_snapshots(&mut self, channel: ChannelId, sink: &mut dyn ClientSink) {
        let (Some(state), Some(epoch)) = (self.channels.get(channel), self.follower.epoch()) else { return };
        let seq = state.snapshot_seq;
        for id in &state.subscribers {
            let Some(client) = self.connections.clients.get_mut(id) else { continue };
            let mut started = 0;
            let waits = |sub: &&mut crate::client::ClientSubscription| {
                sub.channel == channel && sub.state == ReadState::AwaitsSnapshot
            };
            for sub in client.subs.iter_mut().filter(waits) {
                if client.has_envelope && sub.after > 0 && sub.after < seq {
                    let mut out = Vec::new();
                    write_gap(&mut out, &sub.name, epoch, sub.after + 1, seq);
                    sink.notify(*id, &out);
                }
                (sub.after, sub.state) = (seq, ReadState::Reading);
                started += 1;
            }
            for _ in 0..if state.snapshot.is_empty() { 0 } else { started } {
                let snapshot = client.numbered(&state.snapshot);
                reply_snapshot(*id, client.has_envelope, (epoch, seq), &snapshot, sink);
            }
            self.connections.fresh.insert(*id);
        }
    }

    fn join_failed(&mut self, name: &str, why: &str, now: GatewayTime, sink: &mut dyn ClientSink) {
        if self.connections.awaits_snapshot(name) {
            self.questions.rejoin(name);
            self.questions.rejoin_later(now.steady_ns);
        }
        self.join_ended(name, Some(why), ReplyOutcome::Done, now, sink);
    }

    /// Answers the requests that waited for this channel and for no other.
    fn join_ended(
        &mut self,
        name: &str,
        failed: Option<&str>,
        outcome: ReplyOutcome,
        now: GatewayTime,
        sink: &mut dyn ClientSink,
    ) {
        for number in self.questions.take_joined(name) {
            let Some(pending) = self.pending.get_mut(number) else { continue };
            pending.missing.remove(name);
            if let Some(why) = failed {
                pending.failed = Some(format!("the venue does not answer: {why}"));
            }
            if outcome == ReplyOutcome::Malformed {
                pending.malformed = Some(name.to_owned());
            }
            self.grant_if_complete(number, now, sink);
        }
    }

    /// Whether any connection may have something to read since [`Self::clear_readers`].
    pub fn has_readers(&self) -> bool {
        !self.connections.fresh.is_empty() || self.channels.has_new_messages()
    }

    /// Returns the connections that may have something to read. One may occur more than once.
    pub fn readers(&self) -> impl Iterator<Item = u64> {
        self.channels.readers().chain(self.connections.fresh.iter().copied())
    }

    pub fn clear_readers(&mut self) {
        self.connections.fresh.clear();
        self.channels.clear_new_messages();
    }

    /// Appends a client's next messages to `out` in the venue's order, until it holds about
    /// `enough` bytes.
    ///
    /// # Errors
    ///
    /// The close code and reason of a client that is too slow for a channel.
    pub fn read(&mut self, id: u64, out: &mut Vec<u8>, enough: usize) -> Result<(), (CloseCode, &'static str)> {
        let Subscriptions { connections, channels, follower, questions, merging, overrun, .. } = self;
        let (Some(client), Some(epoch)) = (connections.clients.get_mut(&id), follower.epoch()) else { return Ok(()) };
        let has_envelope = client.has_envelope;
        let history = &channels.history;
        let mut due = BinaryHeap::new();
        for (at, sub) in client.subs.iter_mut().enumerate().filter(|(_, sub)| sub.reads_history()) {
            let state = channels.get(sub.channel);
            let newest = if state.is_some_and(|state| state.conflates) { history.newest(sub.channel) } else { None };
            if let Some(newest) = newest {
                sub.after = sub.after.max(newest.seq - 1);
            }
            let next = match (history.next(sub.channel, sub.after), sub.state) {
                (NextMessage::Message(_), ReadState::OutOfStep(_)) => NextMessage::Gone(sub.after),
                (next, _) => next,
            };
            match next {
                NextMessage::Nothing => {}
                NextMessage::Message(found) => due.push(Reverse((found.seq, at))),
                NextMessage::Gone(_) if has_envelope => {
                    *overrun += 1;
                    sub.state = ReadState::AwaitsSnapshot;
                    questions.rejoin(&sub.name);
                }
                NextMessage::Gone(_) => {
                    let change_id = match sub.state {
                        ReadState::OutOfStep(change_id) => Some(change_id),
                        _ if state.is_some_and(|state| state.merges) => history.held(sub.channel, sub.after),
                        _ => None,
                    };
                    *overrun += u64::from(sub.state == ReadState::Reading);
                    let Some(change_id) = change_id else { return Err((CloseCode::TryAgainLater, TOO_SLOW)) };
                    sub.state = ReadState::AwaitsMerge(change_id);
                    merging.wait((sub.channel, change_id), (id, None));
                }
            }
        }
        let mut enveloped = Vec::new();
        while let Some(Reverse((_, at))) = due.pop().filter(|_| out.len() < enough) {
            let sub = &mut client.subs[at];
            let NextMessage::Message(found) = history.next(sub.channel, sub.after) else { continue };
            sub.after = found.seq;
            if let NextMessage::Message(next) = history.next(sub.channel, sub.after) {
                due.push(Reverse((next.seq, at)));
            }
            if !has_envelope && client.next_number.is_none() {
                out.extend_from_slice(found.frame);
                continue;
            }
            let message = client.numbered(payload_of(found.frame));
            if has_envelope {
                enveloped.clear();
                write_envelope(&mut enveloped, epoch, &found, &message);
                write_frame(out, Opcode::Text, &enveloped);
            } else {
                write_frame(out, Opcode::Text, &message);
            }
        }
        Ok(())
    }
}
