//! A session: one client's login at the venue, and its numbered messages.

use std::collections::BTreeSet;

use pitwire_deribit::codec::RpcError;
use pitwire_deribit::{RequestContext, Session, Transport, TypedAnswer};
use pitwire_model::{AccountId, InstrumentId};
use pitwire_net::{ConnectionId, Notices};

use crate::codec::FixedDecimal;
use crate::entry_context::{EntryContext, EntryRecipient, FollowRequest, SessionKey};
use crate::execution_reports::{accepted, market_answer};
use crate::messages::*;
use crate::profile::{ClientFrames, EntryRefusal, SessionProfile};
use crate::replay_log::ReplayLog;
use crate::requests::{Rejection, market_of, typed_request};

/// A session exists from the first logon of a client until the venue stops, so that reports reach
/// the log while the client is away.
pub(crate) struct EntrySession {
    pub key: SessionKey,
    pub account: AccountId,
    /// The login and the session of the dialect, to which the orders belong.
    pub dialect: Session,
    pub profile: Box<dyn SessionProfile>,
    pub log: ReplayLog,
    /// The client, if it is connected.
    pub connection: Option<ConnectionId>,
    /// The connection waits for an answer that takes several turns.
    pub awaits_answer: bool,
    /// The connection must end, because the venue has refused too many requests.
    pub is_refused_too_often: bool,
    /// Instruments whose public data the connected client gets.
    pub following: BTreeSet<InstrumentId>,
}

/// Whether the client has asked for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Request,
    Event,
}

impl EntrySession {
    pub fn new(key: SessionKey, account: AccountId, dialect: Session, profile: Box<dyn SessionProfile>) -> Self {
        EntrySession {
            key,
            account,
            dialect,
            profile,
            log: ReplayLog::new(),
            connection: None,
            awaits_answer: false,
            is_refused_too_often: false,
            following: BTreeSet::new(),
        }
    }

    /// Sends frames to the client, if it is connected.
    pub fn send(&self, frames: &[u8], cause: Cause, notices: &mut Notices) {
        let Some(id) = self.connection.filter(|_| !frames.is_empty()) else { return };
        // The reports of a mass cancel are part of its answer: the client need not have read the
        // first ones when the last ones come.
        if cause == Cause::Request || self.awaits_answer {
            notices.reply_bytes(id, frames);
        } else {
            notices.notify_bytes(id, frames);
        }
    }

    /// Encodes a message of the session protocol, which has no number.
    pub fn encode(&self, message: impl Into<SbeMessage>) -> Vec<u8> {
        match self.profile.encode(message.into(), 0) {
            ClientFrames::Numbered(frames) | ClientFrames::Unnumbered(frames) => frames,
            ClientFrames::Nothing => Vec::new(),
        }
    }

    /// Numbers a message, keeps it and sends it.
    pub fn publish(&mut self, message: impl Into<SbeMessage>, cause: Cause, notices: &mut Notices) {
        match self.profile.encode(message.into(), self.log.next()) {
            ClientFrames::Numbered(frames) => {
                self.send(&frames, cause, notices);
                self.log.append(frames);
            }
            ClientFrames::Unnumbered(frames) => self.send(&frames, cause, notices),
            ClientFrames::Nothing => {}
        }
    }

    /// Refuses a message before it is executed.
    pub fn refuse(&mut self, refusal: EntryRefusal, notices: &mut Notices) {
        let EntryRefusal { request_id, template_id, rejection } = refusal;
        self.publish(rejection.reject(request_id, template_id), Cause::Request, notices);
    }

    /// Executes one request and publishes its answer, unless the answer takes several turns.
    pub fn execute(&mut self, request: SbeMessage, context: &mut EntryContext<'_>) {
        let mut next = Some(request);
        while let Some(request) = next {
            let answer = match self.answer(&request, context) {
                Ok(Some(answer)) => answer,
                Ok(None) => return,
                Err(rejection) => rejection.reject(request.request_id(), request.template_id()),
            };
            next = self.profile.undo(&answer);
            self.publish(answer, Cause::Request, context.notices);
        }
    }

    fn answer(
        &mut self,
        request: &SbeMessage,
        context: &mut EntryContext<'_>,
    ) -> Result<Option<SbeMessage>, Rejection> {
        if let Some(instrument_id) = request.instrument_id() {
            let market = market_of(context.venue.engine(), instrument_id)?;
            if !matches!(request, SbeMessage::MassCancel(_)) {
                let (tick, lot) = (FixedDecimal::of(market.spec.tick), FixedDecimal::of(market.spec.lot));
                self.profile.check_instrument(tick, lot)?;
            }
        }
        let Some(typed) = typed_request(request)? else {
            let reason = format!("template id {} is not a request of a logged-on client", request.template_id());
            return Err(Rejection::invalid(reason, "Send the requests that docs/sbe.md lists."));
        };
        let call = RequestContext {
            venue: &mut *context.venue,
            session: &mut self.dialect,
            transport: Transport::WebSocket,
            clock: context.clock,
        };
        let outcome = context.dispatcher.execute(call, &typed);
        context.effects.log_failed |= outcome.log_failed;
        self.is_refused_too_often |= outcome.closes;
        let request_id = request.request_id();
        Ok(Some(match outcome.answer? {
            TypedAnswer::Order(order) => accepted(request_id, order, self.account, &*context.venue)?,
            TypedAnswer::Cancelled(count) => mass_cancelled(request_id, count),
            TypedAnswer::Allowed => match request {
                SbeMessage::MarketQuery(query) => market_answer(query, &*context.venue)?,
                _ => return Ok(None),
            },
            TypedAnswer::Later(work) => {
                self.awaits_answer = true;
                let to = EntryRecipient { session: self.key, connection: self.connection, request_id };
                context.effects.long_answer = Some((to, *work));
                return Ok(None);
            }
        }))
    }

    /// Publishes the answer to a mass cancel that took several turns.
    pub fn finish(&mut self, to: EntryRecipient, result: Result<usize, RpcError>, notices: &mut Notices) {
        let message = match result {
            Ok(count) => mass_cancelled(to.request_id, count),
            Err(error) => Rejection::from(error).reject(to.request_id, MASS_CANCEL),
        };
        self.publish(message, Cause::Request, notices);
        self.awaits_answer = false;
        // The connection acts on its next request now.
        if let Some(id) = to.connection {
            notices.reply_bytes_late(id, &[]);
        }
    }

    /// Sends messages again.
    pub fn retransmit(&self, request: &RetransmitRequest, notices: &mut Notices) {
        let &RetransmitRequest { from_sequence, to_sequence } = request;
        self.send(&self.profile.acknowledge_retransmit(), Cause::Request, notices);
        let mut sent = 0;
        for sequence in from_sequence.max(self.log.oldest())..=to_sequence.min(self.log.next() - 1) {
            let Some(frames) = self.log.get(sequence) else { continue };
            self.send(frames, Cause::Request, notices);
            sent += 1;
        }
        let requested = to_sequence.checked_sub(from_sequence).map_or(0, |more| more.saturating_add(1));
        let complete = RetransmitComplete { from_sequence, to_sequence, missing: requested - sent };
        self.send(&self.encode(complete), Cause::Request, notices);
    }

    /// Starts or ends the public data of an instrument.
    ///
    /// # Errors
    ///
    /// Fails if no instrument has the number, or if the schema cannot express its prices.
    pub fn follow(
        &mut self,
        instrument_id: u32,
        is_wanted: bool,
        context: &mut EntryContext<'_>,
    ) -> Result<(), Rejection> {
        let spec = &market_of(context.venue.engine(), instrument_id)?.spec;
        self.profile.check_instrument(FixedDecimal::of(spec.tick), FixedDecimal::of(spec.lot))?;
        if !is_wanted {
            self.following.remove(&spec.id);
        } else if self.following.insert(spec.id) {
            context.effects.follow = Some(FollowRequest { session: self.key, instrument: spec.id });
        }
        Ok(())
    }
}

/// Template id of a mass cancel.
const MASS_CANCEL: u16 = 13;

fn mass_cancelled(request_id: u64, count: usize) -> SbeMessage {
    MassCancelAccepted { sequence: 0, request_id, cancelled: u32::try_from(count).unwrap_or(u32::MAX) }.into()
}
