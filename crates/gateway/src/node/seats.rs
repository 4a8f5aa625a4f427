//! Connections whose sockets are a hall's: seated in a channel, they are told by it, all of them at once.
//!
//! Does        bring a connection from its beginning to where the channel is, then let it hear what the hall is told.
//! Holds       1. what brings it there and what the hall is told next meet: nothing twice, nothing missing;
//!             2. the venue's order is kept over the channels that a connection asks for at once; one that it takes on later may
//!                be ahead of what it has not read yet, as with the venue's own halls, and so may another of one that is behind;
//!             3. only those who need no notice of a gap are seated: who falls behind is told what it has missed, of a merged book
//!                in one change, and closed if that is not kept any more, as the dialects have it.
//! Start at    [`Node::seat`], [`Node::tell_seated`].

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::protocol::Batch;
use pitwire_deribit::codec::{Json, Params, RpcError};
use pitwire_websocket::payload_of;

use super::{Mouth, Node, Seat, write_names};
use crate::history::Next;

/// What one is told before it is seated. With more than that behind it, its hall asks for the rest as it reads.
pub(super) const TOLD_BEFORE: usize = 256 * 1024;

impl Node {
    /// Whether a hall can serve who comes for this: messages are the same for everybody, and begin now.
    pub fn suits_hall(path: &str, query: &str) -> bool {
        let is_ours = matches!(path, "/ws/api/v2" | "/ws/api/v2/") || pitwire_url_streams::is_stream_path(path);
        let is_plain = !query.split('&').any(|pair| pair.starts_with("envelope") || pair.starts_with("from="));
        let counts_for_itself = || {
            let wish = pitwire_url_streams::gemini::read_target(path, query);
            wish.is_some_and(|wish| !wish.entries.by_stream)
        };
        is_ours && is_plain && !counts_for_itself()
    }

    /// Tells halls what has come, of a state only the newest; gives the channels that left the bus in it while somebody here
    /// counted on them. The venue may have put them back since, for another gateway: what they told between is not here
    /// all the same, and nobody is told what comes behind that.
    pub(super) fn tell_seated(&self, fresh: &[(Arc<[u8]>, u64)], mouth: &mut dyn Mouth) -> Vec<String> {
        let mut left = BTreeSet::new();
        let batches = fresh.iter().filter_map(|(bytes, from)| Some((Batch::parse(bytes)?, *from)));
        for message in batches.flat_map(|(batch, from)| batch.messages().filter(move |message| message.seq >= from)) {
            // Without anybody in a hall only farewells are of interest.
            if self.seats == 0 && !message.is_farewell() {
                continue;
            }
            let known = self.history.known(message.channel).filter(|id| !left.contains(id));
            let Some((id, facts)) = known.and_then(|id| Some((id, self.facts.get(&id)?))) else { continue };
            if message.is_farewell() {
                // One from before this stay is known already.
                if facts.is_joined && message.seq > facts.since {
                    left.insert(id);
                }
                continue;
            }
            let is_newest = || self.history.newest(id).is_none_or(|newest| newest.seq == message.seq);
            if !facts.seated.is_empty() && (!facts.conflates || is_newest()) {
                mouth.tell_all(id, message.seq, payload_of(message.frame));
            }
        }
        left.into_iter().map(|id| self.history.name(id).to_owned()).collect()
    }

    /// Seats a connection in what it has asked for, as soon as everything has come that its beginnings stand on.
    pub(super) fn seat(&mut self, id: u64, mouth: &mut dyn Mouth) {
        let Some(client) = self.clients.get(&id).filter(|client| client.is_in_hall) else { return };
        self.fresh.remove(&id);
        let last = self.follower.last();
        let is_early = client.subs.iter().any(|sub| sub.is_read_to() && sub.after > last);
        if is_early || client.subs.iter().any(|sub| !sub.is_in_step()) {
            self.standing.insert(id);
        } else {
            self.standing.remove(&id);
        }
        if is_early {
            return;
        }
        let mut frames = Vec::new();
        if let Err((_, why)) = self.pump(id, &mut frames, TOLD_BEFORE) {
            return self.let_go(vec![id], why, mouth);
        }
        let Some(client) = self.clients.get_mut(&id) else { return };
        let mut seats = Vec::new();
        for sub in client.subs.iter_mut().filter(|sub| sub.is_read_to() && sub.is_in_step()) {
            sub.is_seated = true;
            let Some(facts) = self.facts.get_mut(&sub.channel) else { continue };
            facts.subscribers.remove(&id);
            let read = match self.history.next(sub.channel, sub.after) {
                Next::Nothing => last,
                // Of a state there is one message, and nobody asks for it later.
                Next::Message(found) if facts.conflates => {
                    frames.extend_from_slice(found.frame);
                    last
                }
                Next::Message(_) | Next::Gone(_) => sub.after,
            };
            // By another of its names it may be there already.
            let begins = facts.seated.is_empty().then_some(last);
            if facts.seated.insert(id) {
                self.seats += 1;
                seats.push((sub.channel, Seat { is_state: facts.conflates, read, begins }));
            }
        }
        if !frames.is_empty() {
            mouth.frames(id, frames);
        }
        seats.into_iter().for_each(|(channel, seat)| mouth.seat(id, channel, seat));
    }

    pub(super) fn seat_standing(&mut self, mouth: &mut dyn Mouth) {
        for id in std::mem::take(&mut self.standing) {
            self.seat(id, mouth);
        }
    }

    pub(super) fn unsubscribe(
        &mut self,
        id: u64,
        params: &Params<'_>,
        out: &mut Vec<u8>,
        mouth: &mut dyn Mouth,
    ) -> Result<(), RpcError> {
        let names = params.list("channels")?.ok_or_else(|| RpcError::invalid("channels", "channels is required"))?;
        let mut seen = BTreeSet::new();
        let names: Vec<String> = names.into_iter().filter(|name| seen.insert(name.clone())).collect();
        write_names(out, &names);
        names.iter().for_each(|name| self.unseat(id, name, mouth));
        Ok(())
    }

    pub(super) fn unsubscribe_all(
        &mut self,
        id: u64,
        out: &mut Vec<u8>,
        mouth: &mut dyn Mouth,
    ) -> Result<(), RpcError> {
        let names = self.clients.get(&id).into_iter().flat_map(|client| &client.subs).map(|sub| sub.name.clone());
        let names: Vec<String> = names.collect();
        names.iter().for_each(|name| self.unseat(id, name, mouth));
        Json::new(out).string("ok");
        Ok(())
    }

    /// One of its channels is wanted no longer, at least not by this name.
    pub(super) fn unseat(&mut self, id: u64, name: &str, mouth: &mut dyn Mouth) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let Some(at) = client.subs.iter().position(|sub| sub.name == *name) else { return };
        let sub = client.subs.remove(at);
        let is_last = client.subs.iter().all(|other| other.channel != sub.channel || !other.is_seated);
        if sub.is_seated && is_last {
            mouth.unseat(id, sub.channel);
        }
        self.leave(id, sub.channel);
    }
}
