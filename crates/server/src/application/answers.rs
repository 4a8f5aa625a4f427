//! Continues long answers.

use pitwire_deribit::codec::RpcError;
use pitwire_deribit::{AnswerProgress, LongAnswer};
use pitwire_net::{HttpResponse, Notices, SystemClock};

use crate::application::VenueApplication;
use crate::long_answers::{QueuedAnswer, Recipient};
use crate::public_connections::ConnectionOutput;
use crate::window_sends::{RECORDS_AT_A_TIME, RECORDS_PER_TURN};

impl VenueApplication {
    /// Queues an answer that needs more turns. A client that has too many of them gets an error.
    pub(super) fn queue_answer(&mut self, to: Recipient, answer: LongAnswer, notices: &mut Notices) {
        match to {
            Recipient::WebSocket(id) if self.service.market_data.public_connections.has(id) => {
                self.service.market_data.public_connections.put_off(id);
            }
            Recipient::WebSocket(id) => notices.put_off(id),
            Recipient::Binary(to) => {
                if let Some(id) = to.connection {
                    notices.put_off(id);
                }
            }
            Recipient::Http { .. } | Recipient::Gone => {}
        }
        let queued = QueuedAnswer { to, answer };
        if self.service.options.manual_time || self.service.is_stopping {
            // A driven run sequences the commands of a request at once, and a venue that stops has
            // no later turn.
            return self.finish_answer(queued, notices);
        }
        if let Err(queued) = self.long_answers.push(queued) {
            let (text, error) = queued.answer.refusal(SystemClock::wall_us);
            self.send_answer(&queued, text, Some(error), notices);
        }
    }

    /// Continues the answers that wait, for about as many records as one turn may cost.
    pub(super) fn continue_answers(&mut self, notices: &mut Notices) {
        let mut records = RECORDS_PER_TURN;
        self.long_answers.begin_turn(|id| self.window_sends.has_room(id));
        while records > 0
            && self.failure.is_none()
            && let Some(queued) = self.long_answers.next(|id| self.window_sends.has_room(id))
        {
            let share = records.min(RECORDS_AT_A_TIME);
            records -= share;
            self.continue_answer(queued, share, notices);
        }
    }

    /// Continues one answer for about `records` records, and sends it if it is complete.
    fn continue_answer(&mut self, mut queued: QueuedAnswer, records: usize, notices: &mut Notices) {
        let listeners = self.listeners.len_of(queued.answer.account());
        // Each cancel is a notice to each listener of the account.
        let share = if queued.answer.is_cancel() { records / (1 + listeners) } else { records };
        match queued.answer.advance(&mut self.service, share, SystemClock::wall_us) {
            Err(error) => drop(self.failure.get_or_insert(error)),
            Ok(AnswerProgress::Unfinished) => self.long_answers.put_back(queued),
            Ok(AnswerProgress::Finished { text, error }) => {
                self.long_answers.finish(&queued);
                self.send_answer(&queued, text, error, notices);
            }
        }
        self.distribute(notices);
    }

    /// Finishes an answer in this turn.
    fn finish_answer(&mut self, mut queued: QueuedAnswer, notices: &mut Notices) {
        match queued.answer.advance(&mut self.service, usize::MAX, SystemClock::wall_us) {
            Err(error) => drop(self.failure.get_or_insert(error)),
            Ok(AnswerProgress::Unfinished) => {}
            Ok(AnswerProgress::Finished { text, error }) => self.send_answer(&queued, text, error, notices),
        }
        self.distribute(notices);
    }

    /// Finishes the mass cancels, because the venue stops.
    pub(super) fn finish_cancels(&mut self, notices: &mut Notices) {
        for queued in self.long_answers.take_cancels() {
            self.finish_answer(queued, notices);
        }
    }

    fn send_answer(&mut self, queued: &QueuedAnswer, text: Vec<u8>, error: Option<RpcError>, notices: &mut Notices) {
        let is_error = error.is_some();
        self.counters.errors += u64::from(is_error);
        match queued.to {
            Recipient::Gone => {}
            Recipient::Binary(to) => {
                let result = error.map_or_else(|| Ok(queued.answer.cancelled()), Err);
                self.entry.finish(to, result, notices);
            }
            Recipient::Http { connection, keep_alive, head_only } => {
                let response = HttpResponse::json(if is_error { 400 } else { 200 }, text);
                notices.respond(connection, response, keep_alive, head_only);
            }
            Recipient::WebSocket(id) if !self.service.market_data.public_connections.has(id) => {
                notices.reply_late(id, text);
            }
            Recipient::WebSocket(id) => {
                let public_connections = &mut self.service.market_data.public_connections;
                ConnectionOutput { notices, public_connections }.reply(id, &text);
                self.service.market_data.public_connections.end_put_off(id);
                self.waiting_texts.resume(id);
            }
        }
    }
}
