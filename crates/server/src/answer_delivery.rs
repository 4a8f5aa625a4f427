//! The delivery of long answers, and the requests that wait behind them.
//!
//! Does        continues answers over the turns of the venue thread, and sends each when it is
//!             complete.
//! Start at    [`AnswerDelivery::queue`], [`AnswerDelivery::continue_turn`].

use pitwire_deribit::codec::RpcError;
use pitwire_deribit::{AnswerProgress, LongAnswer};
use pitwire_net::{ConnectionId, HttpResponse, SystemClock};

use crate::delivery_context::DeliveryContext;
use crate::long_answers::{LongAnswers, QueuedAnswer, Recipient};
use crate::private_delivery::PrivateDelivery;
use crate::waiting_texts::WaitingTexts;
use crate::window_sends::{RECORDS_AT_A_TIME, RECORDS_PER_TURN};

/// Answers that are not complete, and texts of connections on delivery threads that wait.
#[derive(Default)]
pub(crate) struct AnswerDelivery {
    answers: LongAnswers,
    texts: WaitingTexts,
}

impl AnswerDelivery {
    /// Says whether a connection waits for an answer.
    pub fn is_waiting(&self, id: ConnectionId) -> bool {
        self.answers.is_waiting(id)
    }

    /// Says whether there is something to do in the next turn.
    pub fn has_next(&self, private: &PrivateDelivery) -> bool {
        self.answers.has_next(|id| private.has_room(id)) || self.texts.has_resumable()
    }

    /// Forgets a connection that has ended. Its mass cancels remain.
    pub fn forget(&mut self, id: ConnectionId) {
        self.answers.forget(id);
        self.texts.forget(id);
    }

    /// Queues an answer that needs more turns. A client that has too many of them gets an error.
    pub fn queue(
        &mut self,
        to: Recipient,
        answer: LongAnswer,
        private: &mut PrivateDelivery,
        context: &mut DeliveryContext<'_>,
    ) {
        let public_connections = &mut context.service.market_data.public_connections;
        match to {
            Recipient::WebSocket(id) if public_connections.has(id) => public_connections.put_off(id),
            Recipient::WebSocket(id) => context.notices.put_off(id),
            Recipient::Binary(to) => {
                if let Some(id) = to.connection {
                    context.notices.put_off(id);
                }
            }
            Recipient::Http { .. } | Recipient::Gone => {}
        }
        let queued = QueuedAnswer { to, answer };
        if context.service.options.manual_time || context.service.is_stopping {
            // A driven run sequences the commands of a request at once, and a venue that stops has
            // no later turn.
            return self.finish(queued, private, context);
        }
        if let Err(queued) = self.answers.push(queued) {
            let (text, error) = queued.answer.refusal(SystemClock::wall_us);
            self.send(&queued, text, Some(error), context);
        }
    }

    /// Continues the answers that wait, for about as many records as one turn may cost.
    pub fn continue_turn(&mut self, private: &mut PrivateDelivery, context: &mut DeliveryContext<'_>) {
        let mut records = RECORDS_PER_TURN;
        self.answers.begin_turn(|id| private.has_room(id));
        while records > 0
            && context.failure.is_none()
            && let Some(queued) = self.answers.next(|id| private.has_room(id))
        {
            let share = records.min(RECORDS_AT_A_TIME);
            records -= share;
            self.continue_answer(queued, share, private, context);
        }
    }

    /// Continues one answer for about `records` records, and sends it if it is complete.
    fn continue_answer(
        &mut self,
        mut queued: QueuedAnswer,
        records: usize,
        private: &mut PrivateDelivery,
        context: &mut DeliveryContext<'_>,
    ) {
        let listeners = private.listeners_of(queued.answer.account());
        // Each cancel is a notice to each listener of the account.
        let share = if queued.answer.is_cancel() { records / (1 + listeners) } else { records };
        match queued.answer.advance(context.service, share, SystemClock::wall_us) {
            Err(error) => drop(context.failure.get_or_insert(error)),
            Ok(AnswerProgress::Unfinished) => self.answers.put_back(queued),
            Ok(AnswerProgress::Finished { text, error }) => {
                self.answers.finish(&queued);
                self.send(&queued, text, error, context);
            }
        }
        private.distribute(context);
    }

    /// Finishes an answer in this turn.
    fn finish(&mut self, mut queued: QueuedAnswer, private: &mut PrivateDelivery, context: &mut DeliveryContext<'_>) {
        match queued.answer.advance(context.service, usize::MAX, SystemClock::wall_us) {
            Err(error) => drop(context.failure.get_or_insert(error)),
            Ok(AnswerProgress::Unfinished) => {}
            Ok(AnswerProgress::Finished { text, error }) => self.send(&queued, text, error, context),
        }
        private.distribute(context);
    }

    /// Finishes the mass cancels, because the venue stops.
    pub fn finish_cancels(&mut self, private: &mut PrivateDelivery, context: &mut DeliveryContext<'_>) {
        for queued in self.answers.take_cancels() {
            self.finish(queued, private, context);
        }
    }

    fn send(
        &mut self,
        queued: &QueuedAnswer,
        text: Vec<u8>,
        error: Option<RpcError>,
        context: &mut DeliveryContext<'_>,
    ) {
        let is_error = error.is_some();
        context.counters.errors += u64::from(is_error);
        match queued.to {
            Recipient::Gone => {}
            Recipient::Binary(to) => {
                let result = error.map_or_else(|| Ok(queued.answer.cancelled()), Err);
                context.entry.finish(to, result, context.notices);
            }
            Recipient::Http { connection, keep_alive, head_only } => {
                let response = HttpResponse::json(if is_error { 400 } else { 200 }, text);
                context.notices.respond(connection, response, keep_alive, head_only);
            }
            Recipient::WebSocket(id) if !context.service.market_data.public_connections.has(id) => {
                context.notices.reply_late(id, text);
            }
            Recipient::WebSocket(id) => {
                context.output().reply(id, &text);
                context.service.market_data.public_connections.end_put_off(id);
                self.texts.resume(id);
            }
        }
    }

    /// Adds a text of a connection on a delivery thread behind its earlier ones.
    pub fn push_text(&mut self, id: ConnectionId, text: String) {
        self.texts.push(id, text);
    }

    /// Takes the first text of a connection, unless it has to wait for a long answer.
    pub fn take_text(&mut self, id: ConnectionId) -> Option<String> {
        if self.is_waiting(id) { None } else { self.texts.take(id) }
    }

    /// Returns the next connection whose texts perhaps need not wait any more. If there is none and
    /// `is_freed` says that clients have read answers, all that wait are tried again.
    pub fn next_resumable(&mut self, is_freed: impl FnOnce() -> bool) -> Option<ConnectionId> {
        if !self.texts.has_resumable() && is_freed() {
            self.texts.resume_all();
        }
        self.texts.next_resumable()
    }
}
