//! Client input: one HTTP request, then WebSocket frames.
//!
//! Holds       1. Bytes are buffered only while they are incomplete or wait for room in the
//!                outbound queue.
//!             2. A client that sends without reading is not read.

use std::sync::Arc;

use pitwire_delivery::{DEFLATED, FrameHeader, NARROW, NARROW_BITS, POLICY};
use pitwire_net::HttpResponse;
use pitwire_websocket::{Decoder, HandshakeAnswer, IncomingMessage, Opcode, ProtocolError, write_frame};

use crate::counters::add;
use crate::delivery_core::DeliveryCore;
use crate::delivery_core::input_buffers::SPARES;
use crate::handler::{ClientMessage, Request, weight};
use crate::request::{RequestParseResult, parse};
use crate::subscriber::{PendingControl, Stage, WAITING_WEIGHT_MOST};

/// Outbound queue size in bytes from which a newer small pong replaces a pending one.
const PONGS_MOST: usize = 4 * 1024;

impl DeliveryCore {
    /// Whether the event loop should read from this connection. If not, reading resumes once its
    /// outbound queue is empty.
    pub fn wants_input(&self, slot: u32) -> bool {
        self.fanout.subscribers.get(slot).is_some_and(|subscriber| match subscriber.stage {
            Stage::Handshake | Stage::Open => !subscriber.input.has_left_over && subscriber.has_room(),
            Stage::Draining | Stage::Closing | Stage::Lingering => true,
            Stage::Gone => false,
        })
    }

    /// Handles bytes that the event loop has received.
    pub fn received(&mut self, slot: u32, bytes: &[u8]) {
        let now = self.fanout.subscribers.stamp_ms();
        let Some(subscriber) = self.fanout.subscribers.get_mut(slot) else { return };
        subscriber.input.last_ms = now;
        if !matches!(subscriber.stage, Stage::Handshake | Stage::Open) {
            return;
        }
        let mut rest = subscriber.rare.as_mut().map(|rare| std::mem::take(&mut rare.inbound)).unwrap_or_default();
        if rest.is_empty() && rest.capacity() == 0 {
            let used = self.consume(slot, bytes);
            self.store(slot, bytes.get(used..).unwrap_or_default());
            return;
        }
        rest.extend_from_slice(bytes);
        let used = self.consume(slot, &rest);
        rest.drain(..used);
        self.store_buffer(slot, rest);
    }

    /// Continues with input that waited for room.
    pub(super) fn resume_input(&mut self, slot: u32) {
        let Some(subscriber) = self.fanout.subscribers.get_mut(slot) else { return };
        if !subscriber.input.has_left_over {
            return;
        }
        let Some(rare) = &mut subscriber.rare else { return };
        let mut rest = std::mem::take(&mut rare.inbound);
        let used = self.consume(slot, &rest);
        rest.drain(..used);
        self.store_buffer(slot, rest);
        self.fanout.subscribers.list(slot);
    }

    fn store(&mut self, slot: u32, rest: &[u8]) {
        if !rest.is_empty() {
            self.store_buffer(slot, rest.to_vec());
        }
    }

    fn store_buffer(&mut self, slot: u32, rest: Vec<u8>) {
        let Some(subscriber) = self.fanout.subscribers.get_mut(slot) else { return };
        if rest.is_empty() || !matches!(subscriber.stage, Stage::Handshake | Stage::Open) {
            subscriber.tidy();
            return;
        }
        subscriber.rare().inbound = rest;
    }

    /// Handles the complete items at the front of `input`. Returns the number of bytes that are
    /// done with.
    fn consume(&mut self, slot: u32, input: &[u8]) -> usize {
        let Some(subscriber) = self.fanout.subscribers.get_mut(slot) else { return input.len() };
        subscriber.input.has_left_over = false;
        let mut used = 0;
        if subscriber.stage == Stage::Handshake {
            used = self.handle_request(slot, input);
            if used == 0 {
                return 0;
            }
        }
        let Some(subscriber) = self.fanout.subscribers.get_mut(slot) else { return input.len() };
        if subscriber.stage != Stage::Open {
            return input.len();
        }
        let rest = subscriber.rare.as_mut().and_then(|rare| rare.decoder.take());
        let (limits, deflates) = (self.fanout.context.limits.messages, subscriber.input.deflates);
        let fresh = || match deflates {
            true => Decoder::new(limits).with_deflate(Some(&POLICY.agreed())),
            false => self.input.decoders.pop().unwrap_or_else(|| Decoder::new(limits)),
        };
        let mut decoder = rest.unwrap_or_else(fresh);
        used += self.frames(slot, &mut decoder, input.get(used..).unwrap_or_default());
        let is_unfinished = decoder.is_unfinished();
        let now = self.fanout.subscribers.stamp_ms();
        let Some(subscriber) = self.fanout.subscribers.get_mut(slot) else { return input.len() };
        if subscriber.stage != Stage::Open {
            return input.len();
        }
        let owes = is_unfinished || (used < input.len() && !subscriber.input.has_left_over);
        // A decoder inside a message holds state of this client, so it cannot be shared.
        if is_unfinished {
            subscriber.rare().decoder = Some(decoder);
        } else if !deflates && self.input.decoders.len() < SPARES {
            self.input.decoders.push(decoder);
        }
        if owes && !std::mem::replace(&mut subscriber.input.is_unfinished, true) {
            subscriber.input.unfinished_ms = now;
            let wait_ms = self.fanout.context.limits.unfinished_ms;
            self.fanout.subscribers.set_timer(slot, wait_ms);
        } else if !owes {
            subscriber.input.is_unfinished = false;
        }
        used
    }

    fn frames(&mut self, slot: u32, decoder: &mut Decoder, input: &[u8]) -> usize {
        let mut used = 0;
        while used < input.len() {
            let Some(subscriber) = self.fanout.subscribers.get_mut(slot).filter(|it| it.stage == Stage::Open) else {
                return input.len();
            };
            if !subscriber.has_room() {
                subscriber.input.has_left_over = true;
                return used;
            }
            match decoder.decode(&input[used..]) {
                Ok((0, _)) => return used,
                Ok((bytes, incoming)) => {
                    used += bytes;
                    if let Some(incoming) = incoming {
                        let is_message = matches!(incoming, IncomingMessage::Text(_) | IncomingMessage::Binary(_));
                        self.handle_frame(slot, &incoming);
                        // A ping in between does not finish a fragmented message.
                        let is_whole = is_message || !decoder.is_mid_message();
                        if let Some(subscriber) = self.fanout.subscribers.get_mut(slot).filter(|_| is_whole) {
                            subscriber.input.is_unfinished = false;
                        }
                    }
                }
                Err(ProtocolError { code, reason }) => {
                    add(&self.counters().violations_total, 1);
                    self.close(slot, code, reason);
                    return input.len();
                }
            }
        }
        used
    }

    fn handle_frame(&mut self, slot: u32, incoming: &IncomingMessage<'_>) {
        match incoming {
            IncomingMessage::Pong => {}
            IncomingMessage::Ping(body) => self.pong(slot, body),
            IncomingMessage::Close(code) => {
                // Echo the code of the client (RFC 6455 section 5.5.1). Without a code there is
                // nothing to echo.
                let mut frame = Vec::with_capacity(4);
                match code {
                    Some(code) => write_frame(&mut frame, Opcode::Close, &code.to_be_bytes()),
                    None => write_frame(&mut frame, Opcode::Close, &[]),
                }
                self.fanout.queue_close(slot, &frame);
            }
            IncomingMessage::Text(text) => self.pass_to_handler(slot, ClientMessage::Text(text)),
            IncomingMessage::Binary(bytes) => self.pass_to_handler(slot, ClientMessage::Binary(bytes)),
        }
    }

    fn pong(&mut self, slot: u32, body: &[u8]) {
        let Some(subscriber) = self.fanout.subscribers.get_mut(slot) else { return };
        let has_another = !subscriber.control.as_bytes().is_empty();
        if has_another && subscriber.outbox().len() < PONGS_MOST {
            // Answer every ping while the client reads its pongs, later only the newest one (RFC
            // 6455 section 5.5.3).
            self.fanout.subscribers.queue(slot, b"");
        }
        let Some(subscriber) = self.fanout.subscribers.get_mut(slot) else { return };
        if body.len() <= PendingControl::MOST {
            subscriber.control.set(Opcode::Pong as u8, body);
            self.fanout.subscribers.list(slot);
        } else {
            let header = FrameHeader::new(Opcode::Pong, body.len(), false);
            self.fanout.subscribers.queue(slot, header.as_bytes());
            self.fanout.subscribers.queue(slot, body);
        }
    }

    fn pass_to_handler(&mut self, slot: u32, message: ClientMessage<'_>) {
        let Some(id) = self.fanout.subscribers.get(slot).map(|subscriber| subscriber.id) else {
            return;
        };
        let mut reply = std::mem::take(&mut self.input.reply);
        self.fanout.context.handler.received(id, message, &mut reply);
        if !reply.frames.is_empty() {
            self.fanout.subscribers.queue(slot, &reply.frames);
            reply.frames.clear();
        }
        if reply.owed > 0 && !self.fanout.context.answer.is_empty() {
            if let Some(subscriber) = self.fanout.subscribers.get_mut(slot) {
                subscriber.owed.count += reply.owed;
            }
            self.fanout.subscribers.list(slot);
        }
        reply.owed = 0;
        if std::mem::take(&mut reply.waits)
            && let Some(subscriber) = self.fanout.subscribers.get_mut(slot)
        {
            let bytes = match message {
                ClientMessage::Text(text) => text.len(),
                ClientMessage::Binary(bytes) => bytes.len(),
            };
            subscriber.input.waiting_weight = subscriber.input.waiting_weight.saturating_add(weight(bytes));
        }
        for stream in reply.leaves.drain(..) {
            self.fanout.leave_stream(slot, stream);
        }
        for stream in reply.joins.drain(..) {
            self.fanout.join(slot, stream);
        }
        if let Some((code, reason)) = reply.close.take() {
            self.close(slot, code, reason);
        }
        self.input.reply = reply;
    }

    /// Subtracts the weight of messages that the application has processed.
    pub(super) fn processed(&mut self, slot: u32, weight: u32) {
        let Some(subscriber) = self.fanout.subscribers.get_mut(slot) else { return };
        let was_waited_for = subscriber.input.waiting_weight >= WAITING_WEIGHT_MOST || subscriber.input.is_at_end;
        subscriber.input.waiting_weight = subscriber.input.waiting_weight.saturating_sub(weight);
        if was_waited_for {
            self.resume_input(slot);
            // Its next turn resumes reading.
            self.fanout.subscribers.list(slot);
        }
    }

    /// Handles the end of the input: the client has shut down its sending side, or the connection
    /// is broken.
    pub fn input_ended(&mut self, slot: u32) {
        let Some(subscriber) = self.fanout.subscribers.get_mut(slot) else { return };
        subscriber.input.is_at_end = true;
        let has_more =
            !subscriber.outbox().is_empty() || subscriber.owed.count > 0 || subscriber.input.waiting_weight > 0;
        match subscriber.stage {
            // A half-closed connection still gets the answers to its requests.
            Stage::Closing => self.fanout.subscribers.list(slot),
            Stage::Open if has_more => {
                self.fanout.drain(slot);
            }
            _ => self.finish(slot),
        }
    }

    /// Handles the request head, if it is complete. Returns its length in bytes, or 0 if more is
    /// needed.
    fn handle_request(&mut self, slot: u32, input: &[u8]) -> usize {
        let origins = Arc::clone(&self.input.origins);
        let parsed = parse(input, &origins, self.fanout.context.limits.deflate.then_some(POLICY));
        if parsed == RequestParseResult::NeedMore {
            return 0;
        }
        // At the connection limit a client gets the refusal and no place.
        if !matches!(parsed, RequestParseResult::Plain(_))
            && let Some(refusal) = self.take_refusal(slot)
        {
            self.answer_http(slot, *refusal);
            return input.len();
        }
        match parsed {
            RequestParseResult::NeedMore => 0,
            RequestParseResult::Refuse(refusal) => {
                self.answer_http(slot, HttpResponse::refusing(refusal));
                input.len()
            }
            RequestParseResult::Plain(request) => {
                let answer = if request.method == "GET" || request.method == "HEAD" {
                    self.fanout.context.handler.http(&request)
                } else {
                    HttpResponse::text(405, "GET is all there is")
                };
                self.answer_http(slot, answer);
                input.len()
            }
            RequestParseResult::Upgrade { request, answer, bytes } => {
                self.upgrade(slot, &request, &answer);
                bytes
            }
        }
    }

    fn upgrade(&mut self, slot: u32, request: &Request<'_>, handshake: &HandshakeAnswer) {
        let setup = match self.fanout.context.handler.open(request) {
            Ok(setup) => setup,
            Err(answer) => return self.answer_http(slot, answer),
        };
        if let Some(account) = &setup.account
            && !self.fanout.context.statistics.enter_account(account)
        {
            return self
                .answer_http(slot, HttpResponse::text(429, "too many connections of this account").retry_after(5));
        }
        if let (Some(agreed), Some(subscriber)) = (handshake.deflate, self.fanout.subscribers.get_mut(slot)) {
            subscriber.class |= if agreed.server_class() == NARROW_BITS { DEFLATED | NARROW } else { DEFLATED };
            subscriber.input.deflates = true;
        }
        let mut response = Vec::new();
        match self.fanout.place_of(&setup).map(|seq| format!("{}:{seq}", self.fanout.streams.epoch())) {
            Some(place) => handshake.write_with(&[("Pitwire-Resume", &place)], &mut response),
            None => handshake.write(&mut response),
        }
        self.fanout.subscribers.queue(slot, &response);
        self.fanout.open(slot, &setup);
        if let Some(subscriber) = self.fanout.subscribers.get(slot) {
            self.fanout.context.handler.opened(subscriber.id, request);
        }
    }

    /// Refuses a new connection. The client gets `answer` once it has requested a WebSocket.
    pub fn refuse(&mut self, slot: u32, answer: HttpResponse) {
        if let Some(subscriber) = self.fanout.subscribers.get_mut(slot) {
            subscriber.rare().refusal = Some(Box::new(answer));
        }
    }

    fn take_refusal(&mut self, slot: u32) -> Option<Box<HttpResponse>> {
        let refusal = self.fanout.subscribers.get_mut(slot)?.rare.as_mut()?.refusal.take()?;
        add(&self.counters().refused_total, 1);
        Some(refusal)
    }

    fn answer_http(&mut self, slot: u32, answer: HttpResponse) {
        let mut bytes = Vec::new();
        answer.with_header("Cache-Control", "no-store").write(&mut bytes, false, false);
        self.fanout.subscribers.queue(slot, &bytes);
        self.fanout.begin_end(slot, Stage::Closing);
    }

    /// Closes a connection whose request was not finished in time.
    pub(super) fn refuse_slow(&mut self, slot: u32) {
        let has_begun =
            self.fanout.subscribers.get(slot).and_then(|it| it.rare.as_ref()).is_some_and(|it| !it.inbound.is_empty());
        self.take_refusal(slot);
        if has_begun {
            self.answer_http(slot, HttpResponse::text(408, "the request was not finished in time"));
        } else {
            self.finish(slot);
        }
    }
}
