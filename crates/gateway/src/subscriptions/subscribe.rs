//! Subscriptions to valid names: waiting for the venue, starting and ending them.

use std::collections::{BTreeMap, BTreeSet};

use pitwire_deribit::codec::{IgnoredChannels, Json, Params, RpcError, write_result_with};
use pitwire_websocket::CloseCode;

use super::Subscriptions;
use crate::client::{ClientSubscription, ReadState, reply_error, reply_snapshot, write_gap};
use crate::pending::{PendingSubscription, ResumeWishes, Resumption, no_such_channel};
use crate::sink::{ClientSink, GatewayTime};
use pitwire_delivery::ChannelId;

/// Most channels that the venue may be asked for at a time. More would make every client wait.
pub(crate) const JOINS_MAX: usize = 2_048;

impl Subscriptions {
    /// Prepares a subscription to valid names.
    ///
    /// # Errors
    ///
    /// The gateway has not reached its venue yet, or a limit is reached.
    pub(crate) fn pending_for(
        &mut self,
        id: u64,
        names: Vec<String>,
        wishes: ResumeWishes,
        from: Option<(u64, u64)>,
        now: GatewayTime,
    ) -> Result<PendingSubscription, RpcError> {
        if self.follower.epoch().is_none() {
            return Err(RpcError::new("retry", "this gateway has received nothing from its venue yet"));
        }
        let mut missing = self.names_to_resume(id, &wishes)?;
        let others = names.iter().filter(|name| !wishes.contains_key(*name));
        missing.extend(others.filter(|name| !self.is_ready(name, from)).cloned());
        if !missing.is_empty() {
            if self.questions.joins_waiting() + missing.len() > JOINS_MAX {
                let reason = "many channels are being asked for; try again in a moment";
                return Err(RpcError::new("too_many_requests", reason));
            }
            self.connections.add_waiting(id)?;
        }
        self.channels.need(&names, now.steady_ns);
        Ok(PendingSubscription {
            to: id,
            id: None,
            us_in: now.wall_us,
            names,
            missing,
            from,
            wishes,
            resumptions: BTreeMap::new(),
            malformed: None,
            ignored: IgnoredChannels::default(),
            failed: None,
        })
    }

    fn is_ready(&self, name: &str, from: Option<(u64, u64)>) -> bool {
        let Some(channel) = self.channels.named(name) else { return false };
        let has_snapshot = || self.channels.snapshot(channel, self.follower.last()).is_some();
        match from {
            Some(from) => self.resume(channel, from).is_some() || (self.is_past(from) && has_snapshot()),
            None => has_snapshot(),
        }
    }

    /// Whether a position cannot be ahead of the received messages.
    fn is_past(&self, (epoch, seq): (u64, u64)) -> bool {
        self.follower.epoch() != Some(epoch) || seq <= self.follower.last()
    }

    /// Returns the sequence after which a client continues, or `None` if messages after it are
    /// missing.
    fn resume(&self, channel: ChannelId, (epoch, seq): (u64, u64)) -> Option<u64> {
        let is_current = self.follower.epoch() == Some(epoch);
        (is_current && self.channels.can_resume(channel, seq, self.follower.last())).then_some(seq)
    }

    /// Replies at once if nothing is missing. Otherwise the request waits for the venue.
    pub(crate) fn grant_or_wait(&mut self, pending: PendingSubscription, now: GatewayTime, sink: &mut dyn ClientSink) {
        if pending.missing.is_empty() {
            return self.grant(pending, now, sink);
        }
        let joins = pending.missing.iter().filter(|name| !pending.wishes.contains_key(*name)).cloned();
        let joins: Vec<String> = joins.collect();
        let number = self.pending.insert(pending);
        joins.iter().for_each(|name| self.questions.join(name, Some(number)));
        if let Some(pending) = self.pending.get(number) {
            self.questions.ask_resume(number, pending);
        }
    }

    pub(crate) fn grant_if_complete(&mut self, number: u64, now: GatewayTime, sink: &mut dyn ClientSink) {
        let Some(pending) = self.pending.take_complete(number) else { return };
        if let Some(client) = self.connections.clients.get_mut(&pending.to) {
            client.waiting = client.waiting.saturating_sub(1);
        }
        self.grant(pending, now, sink);
    }

    /// Sends the reply, then each channel's snapshot. Messages follow by [`Subscriptions::read`].
    fn grant(&mut self, pending: PendingSubscription, now: GatewayTime, sink: &mut dyn ClientSink) {
        let PendingSubscription {
            to,
            id,
            us_in,
            names,
            from,
            wishes,
            mut resumptions,
            malformed,
            mut failed,
            mut ignored,
            ..
        } = pending;
        if resumptions.iter().any(|(name, resumption)| !self.channels.is_complete_after(name, resumption.after)) {
            failed = Some("a channel was begun anew meanwhile".to_owned());
        }
        let (names, left_out): (Vec<String>, Vec<String>) =
            names.into_iter().partition(|name| self.channels.named(name).is_some());
        for name in &left_out {
            ignored.add(name, || "the kind, currency or index in this name does not exist here".into());
        }
        let error = match (failed, malformed) {
            (Some(why), _) => Some(RpcError::new("retry", why)),
            (None, Some(name)) if names.is_empty() => Some(no_such_channel(&name, &ignored)),
            _ => None,
        };
        let now = GatewayTime { wall_us: now.wall_us.max(us_in), ..now };
        match (id, error) {
            (Some(id), Some(error)) => return reply_error(to, &id, &error, now, sink),
            (None, Some(error)) => return sink.close(to, CloseCode::TryAgainLater, &error.reason),
            (Some(id), None) => {
                let (mut result, mut out) = (Vec::new(), Vec::new());
                write_names(&mut result, &names);
                write_result_with(&mut out, &id, &result, ignored.as_slice(), us_in, now.wall_us);
                sink.reply(to, &out);
            }
            (None, None) => {}
        }
        for name in names {
            if wishes.contains_key(&name) && self.connections.is_subscribed(to, &name) {
                Self::reply_already_subscribed(to, &name, sink);
            }
            let resumption = resumptions.remove(&name);
            self.start(to, name, from, resumption, sink);
        }
        self.attach(to, sink);
    }

    /// Starts a subscription where the client wants to continue, or with a snapshot.
    fn start(
        &mut self,
        to: u64,
        name: String,
        from: Option<(u64, u64)>,
        resumption: Option<Resumption>,
        sink: &mut dyn ClientSink,
    ) {
        let (Some(channel), Some(epoch)) = (self.channels.named(&name), self.follower.epoch()) else { return };
        let client = self.connections.clients.get(&to).filter(|client| !client.is_subscribed(&name));
        let Some(has_envelope) = client.map(|client| client.has_envelope) else { return };
        for text in resumption.iter().flat_map(|resumption| &resumption.missed) {
            sink.reply(to, text);
        }
        let after_missed = resumption.map(|resumption| resumption.after);
        let resumed = after_missed.or_else(|| from.and_then(|from| self.resume(channel, from)));
        let last = self.follower.last();
        let snapshot = if resumed.is_none() { self.channels.snapshot(channel, last) } else { None };
        let mut state = ReadState::Reading;
        let mut after = resumed.unwrap_or(last);
        if let Some((seq, snapshot)) = snapshot {
            after = seq;
            if let Some((of, seen)) = from.filter(|(of, seen)| has_envelope && *of == epoch && *seen < seq) {
                let mut out = Vec::new();
                write_gap(&mut out, &name, of, seen + 1, seq);
                sink.reply(to, &out);
            }
            if let Some((snapshot, client)) = snapshot.zip(self.connections.clients.get_mut(&to)) {
                reply_snapshot(to, has_envelope, (epoch, seq), &client.numbered(snapshot), sink);
            }
        } else if resumed.is_none() {
            // The snapshot has become too old since the request was checked.
            state = ReadState::AwaitsSnapshot;
            self.questions.rejoin(&name);
        }
        if let Some(channel) = self.channels.get_mut(channel) {
            channel.subscribers.insert(to);
        }
        if let Some(client) = self.connections.clients.get_mut(&to) {
            client.subs.push(ClientSubscription { name, channel, after, state });
        }
        self.connections.fresh.insert(to);
    }

    pub(crate) fn unsubscribe(
        &mut self,
        id: u64,
        params: &Params<'_>,
        out: &mut Vec<u8>,
        sink: &mut dyn ClientSink,
    ) -> Result<(), RpcError> {
        let names = params.list("channels")?.ok_or_else(|| RpcError::invalid("channels", "channels is required"))?;
        let mut seen = BTreeSet::new();
        let names: Vec<String> = names.into_iter().filter(|name| seen.insert(name.clone())).collect();
        write_names(out, &names);
        names.iter().for_each(|name| self.end_subscription(id, name, sink));
        Ok(())
    }

    pub(crate) fn unsubscribe_all(
        &mut self,
        id: u64,
        out: &mut Vec<u8>,
        sink: &mut dyn ClientSink,
    ) -> Result<(), RpcError> {
        let client = self.connections.clients.get(&id);
        let names: Vec<String> =
            client.into_iter().flat_map(|client| &client.subs).map(|sub| sub.name.clone()).collect();
        names.iter().for_each(|name| self.end_subscription(id, name, sink));
        Json::new(out).string("ok");
        Ok(())
    }

    /// Ends the subscription with this name. Another name of the same channel stays subscribed.
    pub(crate) fn end_subscription(&mut self, id: u64, name: &str, sink: &mut dyn ClientSink) {
        let Some(client) = self.connections.clients.get_mut(&id) else { return };
        let Some(at) = client.subs.iter().position(|sub| sub.name == *name) else { return };
        let sub = client.subs.remove(at);
        let is_attached = |sub: &ClientSubscription| sub.state == ReadState::Attached;
        let is_last = client.subs.iter().all(|other| other.channel != sub.channel || !is_attached(other));
        if is_attached(&sub) && is_last {
            sink.detach(id, sub.channel);
        }
        self.leave(id, sub.channel);
    }

    /// Removes a connection from a channel unless another of its subscriptions needs it.
    pub(crate) fn leave(&mut self, id: u64, channel: ChannelId) {
        let client = self.connections.clients.get(&id);
        if !client.is_some_and(|client| client.subs.iter().any(|sub| sub.channel == channel)) {
            self.channels.unsubscribe(id, channel);
        }
    }
}

fn write_names(out: &mut Vec<u8>, names: &[String]) {
    Json::new(out).array(|j| {
        for name in names {
            j.string(name);
        }
    });
}
