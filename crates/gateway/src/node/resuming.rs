//! Subscribers who come back with a resume token: the venue says what they have missed, in its own words.
//!
//! Does        ask the venue about all tokens of a request at once; tell its answer, and go on behind where it stands.
//! Holds       1. tokens are the venue's, so they hold at every gateway and at the venue itself;
//!             2. what the venue tells and what comes over the bus behind it meet: nothing twice, nothing missing;
//!             3. few of these questions are with the venue at a time: what everybody waits for does not wait for them;
//!             4. what a reader was told to have missed it gets whole, or its request fails and it may ask again.
//! Leaves out  what a token means, and what is kept for it: see `crates/deribit/src/channels/missed.rs`.
//! Start at    [`Node::ask_resume`], [`Node::resumed`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pitwire_deribit::codec::{CaughtUp, Request, RpcError, Token, Why, write_resumption};

use super::{Instant, Mouth, Node, Outcome, Pending, Reply};
use crate::upstream::Ask;

/// Requests with tokens that may wait for the venue, and those that are with it.
const MOST_RESUMING: usize = 4_096;
const MOST_ASKED: usize = 2;

/// Questions about tokens, by the request's number.
#[derive(Debug, Default)]
pub(super) struct Resuming {
    waiting: VecDeque<(u64, Vec<Wish>)>,
    asked: usize,
}

impl Resuming {
    pub fn has_next(&self) -> bool {
        self.asked < MOST_ASKED && !self.waiting.is_empty()
    }
}

type Wish = (String, Option<Token>);

/// The channels of a request that are to be resumable.
pub(super) type Wishes = BTreeMap<String, Option<Token>>;

/// What is told of one of them before anything of the present, and the sequence where that ends.
#[derive(Debug)]
pub(super) struct Resumption {
    pub after: u64,
    pub told: Vec<Vec<u8>>,
}

impl Node {
    pub(super) fn wishes(&self, id: u64, request: &Request<'_>, names: &[String]) -> Result<Wishes, RpcError> {
        let wishes = pitwire_deribit::codec::resumed(&request.params, names)?;
        if !wishes.is_empty() && self.clients.get(&id).is_some_and(|client| client.has_envelope) {
            return Err(RpcError::invalid("resume", "with ?envelope it is by \"from\" that one goes on"));
        }
        Ok(wishes)
    }

    /// Those of a request's channels about which the venue must be asked.
    pub(super) fn unheard(&self, id: u64, wishes: &Wishes) -> Result<BTreeSet<String>, RpcError> {
        if !wishes.is_empty() && self.resuming.waiting.len() >= MOST_RESUMING {
            return Err(RpcError::new("too_many_requests", "many are coming back; try again in a moment"));
        }
        let client = self.clients.get(&id);
        let hears = |name: &str| client.is_some_and(|client| client.hears(name));
        Ok(wishes.keys().filter(|name| !hears(name)).cloned().collect())
    }

    pub(super) fn ask_resume(&mut self, number: u64, pending: &Pending) {
        let wanted = pending.wishes.iter().filter(|(name, _)| pending.missing.contains(*name));
        let wishes: Vec<Wish> = wanted.map(|(name, token)| (name.clone(), *token)).collect();
        if !wishes.is_empty() {
            self.resuming.waiting.push_back((number, wishes));
        }
    }

    pub(super) fn next_resume(&mut self) -> Option<Ask> {
        while self.resuming.has_next() {
            let (number, wishes) = self.resuming.waiting.pop_front()?;
            // Who has gone is not asked about.
            if self.pendings.contains_key(&number) {
                self.resuming.asked += 1;
                return Some(Ask::Resume { number, wishes });
            }
        }
        None
    }

    /// The venue's answer: one to each wish.
    pub(super) fn resumed(
        &mut self,
        number: u64,
        wishes: &[Wish],
        answer: Result<Reply, String>,
        now: Instant,
        mouth: &mut dyn Mouth,
    ) {
        self.resuming.asked = self.resuming.asked.saturating_sub(1);
        let mut replies = Vec::new();
        let mut failed = None;
        match answer {
            Ok(reply) => {
                self.follower.heard(reply.epoch, reply.last);
                replies = reply.batches.iter().filter_map(|bytes| Reply::parse(bytes)).collect();
            }
            Err(why) => failed = Some(why),
        }
        if failed.is_none() && replies.len() != wishes.len() {
            failed = Some("its answer is not to what was asked".to_owned());
        }
        if replies.iter().any(|reply| self.follower.epoch() != Some(reply.epoch)) {
            failed = Some("the venue has begun anew".to_owned());
        }
        if failed.is_some() {
            replies.clear();
        }
        let mut resumptions = BTreeMap::new();
        for ((name, _), mut reply) in wishes.iter().zip(replies) {
            let (after, told) = (reply.last, std::mem::take(&mut reply.batches));
            if reply.outcome == Outcome::Full {
                failed = Some("the venue has no room for another channel".to_owned());
            }
            if reply.outcome == Outcome::Done {
                resumptions.insert(name.clone(), Resumption { after, told });
            }
            // It is the answer to a join as well.
            self.joined(name, reply, now, mouth);
        }
        let Some(pending) = self.pendings.get_mut(&number) else { return };
        pending.resumptions = resumptions;
        for (name, _) in wishes {
            pending.missing.remove(name);
        }
        if let Some(why) = failed {
            pending.failed = Some(format!("the venue does not answer: {why}"));
        }
        self.grant_if_whole(number, now, mouth);
    }

    /// Whether everything behind what was told is on its way here.
    pub(super) fn follows(&self, name: &str, resumption: &Resumption) -> bool {
        let facts = self.aliases.get(name).and_then(|channel| self.facts.get(channel));
        facts.is_some_and(|facts| facts.is_joined && facts.since <= resumption.after)
    }

    /// One that hears a channel already goes on as it did.
    pub(super) fn say_heard(to: u64, name: &str, mouth: &mut dyn Mouth) {
        let mut notice = Vec::new();
        write_resumption(&mut notice, name, CaughtUp::Nothing(Why::AlreadySubscribed), None);
        mouth.reply(to, &notice);
    }
}
