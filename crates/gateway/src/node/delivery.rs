//! Messages to clients, and what clients are told when they cannot have them all.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use pitwire_websocket::{CloseCode, Opcode, payload_of, write_frame};

use super::merging::can_merge;
use super::{Facts, Instant, Mouth, Node, Outcome, Reply, say_first};
use crate::client::{Step, wrap, write_epoch, write_gap};
use crate::follower::{Progress, Restart};
use crate::history::{ChannelId, Next};
use crate::upstream::Ask;

/// Why a lagging subscriber is closed; the code is 1013.
pub(super) const TOO_SLOW: &str = "too slow for this channel: reconnect and start from a snapshot";
const NEW_START: &str = "the venue has begun anew: reconnect and start from a snapshot";
const LOST: &str = "messages were lost on the way from the venue: reconnect and start from a snapshot";

impl Node {
    /// A batch from the bus.
    pub fn live(&mut self, bytes: Vec<u8>, mouth: &mut dyn Mouth) {
        let progress = self.follower.live(bytes);
        self.advance(progress, mouth);
    }

    /// The venue's answer to one of [`Self::asks`], or why there is none.
    pub fn told(&mut self, ask: &Ask, answer: Result<Reply, String>, now: Instant, mouth: &mut dyn Mouth) {
        self.is_venue_up = answer.is_ok();
        match (ask, answer) {
            (Ask::Status | Ask::From { .. }, Ok(reply)) => {
                let progress = self.follower.told(ask, &reply, now.steady_ns);
                self.advance(progress, mouth);
            }
            (Ask::Status | Ask::From { .. }, Err(_)) => self.follower.failed(now.steady_ns),
            (Ask::Join { name }, Ok(reply)) => {
                self.follower.heard(reply.epoch, reply.last);
                self.joined(name, reply, now, mouth);
            }
            (Ask::Join { name }, Err(why)) => self.not_joined(name, &why, now, mouth),
            (Ask::Keep { .. }, Ok(reply)) => {
                self.follower.heard(reply.epoch, reply.last);
                if self.follower.epoch() == Some(reply.epoch) {
                    self.dropped(&reply.names, mouth);
                }
            }
            (Ask::Merged { name, change_id }, answer) => self.merged((name, *change_id), answer.ok(), now, mouth),
            (Ask::Resume { number, wishes }, answer) => self.resumed(*number, wishes, answer, now, mouth),
            (Ask::Instruments, Ok(reply)) => self.learn(&reply.names),
            (Ask::Keep { .. } | Ask::Instruments, Err(_)) => {}
        }
        self.seat_standing(mouth);
    }

    fn advance(&mut self, progress: Progress, mouth: &mut dyn Mouth) {
        if let Some(restart) = progress.restarted {
            self.restart(restart, mouth);
        }
        let Node { history, dirty, .. } = self;
        for (bytes, from) in &progress.fresh {
            history.append(bytes, *from, |id| _ = dirty.insert(id));
        }
        let left = self.tell_seated(&progress.fresh, mouth);
        if !left.is_empty() {
            self.dropped(&left, mouth);
        }
        self.tell_early(mouth);
        self.seat_standing(mouth);
    }

    /// Nothing told before leads to what will be told: whoever hears anything must begin anew.
    fn restart(&mut self, restart: Restart, mouth: &mut dyn Mouth) {
        self.history.restart(restart.next.saturating_sub(1));
        self.merging.restart();
        for facts in self.facts.values_mut() {
            facts.is_joined = false;
            facts.first.clear();
        }
        let why = if restart.is_new_start { NEW_START } else { LOST };
        let mut notice = Vec::new();
        write_epoch(&mut notice, restart.epoch);
        let mut unaware = Vec::new();
        for (id, client) in self.clients.iter_mut().filter(|(_, client)| !client.subs.is_empty()) {
            if !client.has_envelope {
                unaware.push(*id);
                continue;
            }
            if restart.is_new_start {
                mouth.notify(*id, &notice);
            }
            for sub in &mut client.subs {
                sub.awaits = true;
                if restart.is_new_start {
                    // Sequences of another start are none of this one.
                    sub.after = 0;
                }
                self.lost.insert(sub.name.clone());
            }
        }
        self.let_go(unaware, why, mouth);
        self.rejoin_ns = 0;
    }

    /// Closes those to whom the dialect has no words for what has happened.
    pub(super) fn let_go(&mut self, unaware: Vec<u64>, why: &str, mouth: &mut dyn Mouth) {
        for id in unaware {
            let subs = self.clients.get_mut(&id).map(|client| std::mem::take(&mut client.subs)).unwrap_or_default();
            subs.iter().for_each(|sub| self.leave(id, sub.channel));
            mouth.close(id, CloseCode::TryAgainLater, why);
        }
    }

    /// Channels that the venue has taken off the bus: what they tell since is not here.
    fn dropped(&mut self, names: &[String], mouth: &mut dyn Mouth) {
        let gone: BTreeSet<ChannelId> = names.iter().filter_map(|name| self.history.known(name)).collect();
        for id in &gone {
            if let Some(facts) = self.facts.get_mut(id) {
                facts.is_joined = false;
                facts.first.clear();
            }
        }
        let mut unaware = Vec::new();
        for (id, client) in &mut self.clients {
            let mut is_hit = false;
            for sub in client.subs.iter_mut().filter(|sub| gone.contains(&sub.channel)) {
                is_hit = true;
                sub.awaits = true;
                if client.has_envelope {
                    self.lost.insert(sub.name.clone());
                }
            }
            if is_hit && !client.has_envelope {
                unaware.push(*id);
            }
        }
        self.let_go(unaware, LOST, mouth);
        self.rejoin_ns = 0;
    }

    pub(super) fn joined(&mut self, name: &str, reply: Reply, now: Instant, mouth: &mut dyn Mouth) {
        if self.follower.epoch() != Some(reply.epoch) {
            return self.not_joined(name, "the venue has begun anew", now, mouth);
        }
        let id = (reply.outcome == Outcome::Done).then(|| self.history.channel(&reply.channel));
        if let Some(id) = id {
            self.learn_alias(name, id);
            if self.facts.get(&id).is_some_and(|facts| facts.is_joined && facts.since < reply.since) {
                // It left the bus and came back, and no keep has said so: what was said between is not here.
                self.dropped(std::slice::from_ref(&reply.channel), mouth);
            }
            let facts = self.facts.entry(id).or_default();
            let (subscribers, seated) = (std::mem::take(&mut facts.subscribers), std::mem::take(&mut facts.seated));
            *facts = Facts {
                is_joined: true,
                conflates: reply.conflates,
                merges: can_merge(&reply.channel, reply.conflates),
                since: reply.since,
                first: reply.first,
                stands_at: reply.last,
                subscribers,
                seated,
                wanted_ns: now.steady_ns,
            };
            if can_merge(&reply.channel, reply.conflates) {
                self.history.remember_links(id);
            }
            self.begin_anew(id, mouth);
        } else {
            self.aliases.remove(name);
        }
        let failed = (reply.outcome == Outcome::Full).then_some("the venue has no room for another channel");
        self.release(name, failed, reply.outcome, now, mouth);
    }

    /// Spellings are forgotten once there are very many, but none that a subscription under way has been granted: its answer
    /// must name it, and its messages must come.
    fn learn_alias(&mut self, name: &str, id: ChannelId) {
        if self.aliases.len() >= self.most_aliases {
            let awaited: BTreeSet<&String> = self.pendings.values().flat_map(|pending| &pending.names).collect();
            self.aliases.retain(|name, _| awaited.contains(name));
            self.most_aliases = super::MOST_ALIASES.max(2 * self.aliases.len());
        }
        self.aliases.insert(name.to_owned(), id);
    }

    /// Those who were told a gap get the channel's beginning.
    fn begin_anew(&mut self, channel: ChannelId, mouth: &mut dyn Mouth) {
        let (Some(facts), Some(epoch)) = (self.facts.get(&channel), self.follower.epoch()) else { return };
        for id in &facts.subscribers {
            let Some(client) = self.clients.get_mut(id) else { continue };
            let mut begins = 0;
            for sub in client.subs.iter_mut().filter(|sub| sub.channel == channel && sub.awaits) {
                if client.has_envelope && sub.after > 0 && sub.after < facts.stands_at {
                    let mut out = Vec::new();
                    write_gap(&mut out, &sub.name, epoch, sub.after + 1, facts.stands_at);
                    mouth.notify(*id, &out);
                }
                sub.awaits = false;
                (sub.after, sub.step) = (facts.stands_at, Step::In);
                begins += 1;
            }
            for _ in 0..if facts.first.is_empty() { 0 } else { begins } {
                let first = client.numbered(&facts.first);
                say_first(*id, client.has_envelope, epoch, facts.stands_at, &first, mouth);
            }
            self.fresh.insert(*id);
        }
    }

    fn not_joined(&mut self, name: &str, why: &str, now: Instant, mouth: &mut dyn Mouth) {
        let is_awaited =
            self.clients.values().flat_map(|client| &client.subs).any(|sub| sub.awaits && sub.name == name);
        if is_awaited {
            self.lost.insert(name.to_owned());
            self.rejoin_ns = self.rejoin_ns.max(now.steady_ns + super::REJOIN_NS);
        }
        self.release(name, Some(why), Outcome::Done, now, mouth);
    }

    /// Answers those who waited for this channel and for no other.
    fn release(&mut self, name: &str, failed: Option<&str>, outcome: Outcome, now: Instant, mouth: &mut dyn Mouth) {
        for number in self.joins.remove(name).unwrap_or_default() {
            let Some(pending) = self.pendings.get_mut(&number) else { continue };
            pending.missing.remove(name);
            if let Some(why) = failed {
                pending.failed = Some(format!("the venue does not answer: {why}"));
            }
            if outcome == Outcome::Malformed {
                pending.malformed = Some(name.to_owned());
            }
            self.grant_if_whole(number, now, mouth);
        }
    }

    pub(super) fn grant_if_whole(&mut self, number: u64, now: Instant, mouth: &mut dyn Mouth) {
        if self.pendings.get(&number).is_none_or(|pending| !pending.missing.is_empty()) {
            return;
        }
        if let Some(pending) = self.pendings.remove(&number) {
            if let Some(client) = self.clients.get_mut(&pending.to) {
                client.waiting = client.waiting.saturating_sub(1);
            }
            self.grant(pending, now, mouth);
        }
    }

    /// Whether anything has come for anyone since [`Self::forget_fresh`].
    pub fn has_fresh(&self) -> bool {
        !(self.fresh.is_empty() && self.dirty.is_empty())
    }

    /// Those for whom something may have come; some of them more than once.
    pub fn fresh(&self) -> impl Iterator<Item = u64> {
        let heard = self.dirty.iter().filter_map(|id| self.facts.get(id)).flat_map(|facts| &facts.subscribers);
        heard.chain(&self.fresh).copied()
    }

    pub fn forget_fresh(&mut self) {
        self.fresh.clear();
        self.dirty.clear();
    }

    /// Copies a client's next messages to `out`, in the venue's order, until it holds about `enough` bytes.
    pub fn pump(&mut self, id: u64, out: &mut Vec<u8>, enough: usize) -> Result<(), (CloseCode, &'static str)> {
        let Node { clients, history, facts, follower, lost, figures, merging, .. } = self;
        let (Some(client), Some(epoch)) = (clients.get_mut(&id), follower.epoch()) else { return Ok(()) };
        let has_envelope = client.has_envelope;
        let mut due = BinaryHeap::new();
        for (at, sub) in client.subs.iter_mut().enumerate().filter(|(_, sub)| sub.is_read_to()) {
            let of = facts.get(&sub.channel);
            let newest = if of.is_some_and(|of| of.conflates) { history.newest(sub.channel) } else { None };
            if let Some(newest) = newest {
                sub.after = sub.after.max(newest.seq - 1);
            }
            let next = match (history.next(sub.channel, sub.after), sub.step) {
                (Next::Message(_), Step::Out(_)) => Next::Gone(sub.after),
                (next, _) => next,
            };
            match next {
                Next::Nothing => {}
                Next::Message(found) => due.push(Reverse((found.seq, at))),
                Next::Gone(_) if has_envelope => {
                    figures.overrun += 1;
                    sub.awaits = true;
                    lost.insert(sub.name.clone());
                }
                Next::Gone(_) => {
                    let held = match sub.step {
                        Step::Out(held) => Some(held),
                        _ if of.is_some_and(|of| of.merges) => history.held(sub.channel, sub.after),
                        _ => None,
                    };
                    figures.overrun += u64::from(sub.step == Step::In);
                    let Some(held) = held else { return Err((CloseCode::TryAgainLater, TOO_SLOW)) };
                    sub.step = Step::Asked(held);
                    merging.wait(sub.channel, held, id);
                }
            }
        }
        let mut wrapped = Vec::new();
        while let Some(Reverse((_, at))) = due.pop().filter(|_| out.len() < enough) {
            let sub = &mut client.subs[at];
            let Next::Message(found) = history.next(sub.channel, sub.after) else { continue };
            sub.after = found.seq;
            if let Next::Message(next) = history.next(sub.channel, sub.after) {
                due.push(Reverse((next.seq, at)));
            }
            if !has_envelope && client.next_number.is_none() {
                out.extend_from_slice(found.frame);
                continue;
            }
            let message = client.numbered(payload_of(found.frame));
            if has_envelope {
                wrapped.clear();
                wrap(&mut wrapped, epoch, &found, &message);
                write_frame(out, Opcode::Text, &wrapped);
            } else {
                write_frame(out, Opcode::Text, &message);
            }
        }
        Ok(())
    }
}
