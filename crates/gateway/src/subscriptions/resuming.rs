//! Clients that resume a subscription with a token: the venue sends the missed messages.
//!
//! Does        Asks the venue about all tokens of a request at once, sends its answer, and
//!             continues with the messages after it.
//! Holds       1. Tokens are the venue's, so they are valid at every gateway and at the venue
//!                itself.
//!             2. The venue's answer and the messages on the bus join without a gap or a duplicate.
//!             3. A client gets the missed messages completely, or its request fails and may be
//!                repeated.
//! Leaves out  The meaning of a token, and its storage: both are the venue's.
//! Start at    [`Subscriptions::resumed`].

use std::collections::{BTreeMap, BTreeSet};

use pitwire_deribit::codec::{CatchUpSource, Request, ResumeReason, RpcError, resumed, write_resumption};

use super::Subscriptions;
use crate::pending::{ResumeWishes, Resumption};
use crate::protocol::{Reply, ReplyOutcome};
use crate::questions::ResumeWish;
use crate::sink::{ClientSink, GatewayTime};

impl Subscriptions {
    /// Reads the resume tokens of a request.
    ///
    /// # Errors
    ///
    /// A token is malformed, or the client uses envelopes.
    pub(crate) fn read_wishes(
        &self,
        id: u64,
        request: &Request<'_>,
        names: &[String],
    ) -> Result<ResumeWishes, RpcError> {
        let wishes = resumed(&request.params, names)?;
        if !wishes.is_empty() && self.connections.clients.get(&id).is_some_and(|client| client.has_envelope) {
            return Err(RpcError::invalid("resume", "with ?envelope it is by \"from\" that one goes on"));
        }
        Ok(wishes)
    }

    /// Returns the channels about which the venue must be asked.
    ///
    /// # Errors
    ///
    /// Too many requests wait already.
    pub(crate) fn names_to_resume(&self, id: u64, wishes: &ResumeWishes) -> Result<BTreeSet<String>, RpcError> {
        if !wishes.is_empty() && self.questions.is_full_of_resumes() {
            return Err(RpcError::new("too_many_requests", "many are coming back; try again in a moment"));
        }
        Ok(wishes.keys().filter(|name| !self.connections.is_subscribed(id, name)).cloned().collect())
    }

    /// Handles the venue's answer: one reply per wish.
    pub(crate) fn resumed(
        &mut self,
        number: u64,
        wishes: &[ResumeWish],
        answer: Result<Reply, String>,
        now: GatewayTime,
        sink: &mut dyn ClientSink,
    ) {
        self.questions.resume_answered();
        let mut replies = Vec::new();
        let mut failed = None;
        match answer {
            Ok(reply) => {
                self.follower.position_seen(reply.epoch, reply.last);
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
            let (after, missed) = (reply.last, std::mem::take(&mut reply.batches));
            if reply.outcome == ReplyOutcome::Full {
                failed = Some("the venue has no room for another channel".to_owned());
            }
            if reply.outcome == ReplyOutcome::Done {
                resumptions.insert(name.clone(), Resumption { after, missed });
            }
            // The reply also answers a join.
            self.joined(name, reply, now, sink);
        }
        let Some(pending) = self.pending.get_mut(number) else { return };
        pending.resumptions = resumptions;
        for (name, _) in wishes {
            pending.missing.remove(name);
        }
        if let Some(why) = failed {
            pending.failed = Some(format!("the venue does not answer: {why}"));
        }
        self.grant_if_complete(number, now, sink);
    }

    /// Tells a client that its existing subscription continues unchanged.
    pub(crate) fn reply_already_subscribed(to: u64, name: &str, sink: &mut dyn ClientSink) {
        let mut notice = Vec::new();
        write_resumption(&mut notice, name, CatchUpSource::Nothing(ResumeReason::AlreadySubscribed), None);
        sink.reply(to, &notice);
    }
}
