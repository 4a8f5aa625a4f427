//! Client input: one HTTP request, then WebSocket frames.
//!
//! Holds       1. Bytes are buffered only while they are incomplete or wait for room in the
//!                outbound queue.
//!             2. A client that sends without reading is not read.

use pitwire_websocket::{Answer as Shake, Decoder, Incoming, Opcode, ProtocolError, write_frame};

use crate::counters::add;
use crate::delivery_core::{DeliveryCore, OUTBOX_FULL, OWED_MOST, UNHEARD_MOST};
use crate::handler::{Answer, ClientMessage, Request, SubscriberId, weight};
use crate::request::{Head, Parsed, parse};
use crate::subscriber::{Control, Stage, Subscriber};
use pitwire_delivery::{DEFLATED, NARROW};
use pitwire_delivery::{NARROW_BITS, POLICY};

/// Outbound queue size in bytes from which a newer small pong replaces a pending one.
const PONGS_MOST: usize = 4 * 1024;

impl Subscriber {
    /// Whether more input of this client may be handled.
    pub fn has_room(&self) -> bool {
        self.outbox().len() < OUTBOX_FULL && self.owed < OWED_MOST && self.unheard < UNHEARD_MOST
    }
}

impl DeliveryCore {
    /// Whether the event loop should read from this connection. If not, reading resumes once its
    /// outbound queue is empty.
    pub fn wants_input(&self, slot: u32) -> bool {
        self.subscribers.get(slot as usize).is_some_and(|subscriber| match subscriber.stage {
            Stage::Asking | Stage::Open => !subscriber.has_left_over && subscriber.has_room(),
            Stage::Parting | Stage::Closing | Stage::Lingering => true,
            Stage::Gone => false,
        })
    }

    /// Handles bytes that the event loop has received.
    pub fn received(&mut self, slot: u32, bytes: &[u8]) {
        let now = self.stamp_ms();
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        subscriber.heard_ms = now;
        if !matches!(subscriber.stage, Stage::Asking | Stage::Open) {
            return;
        }
        let mut kept = subscriber.rare.as_mut().map(|rare| std::mem::take(&mut rare.inbound)).unwrap_or_default();
        if kept.is_empty() && kept.capacity() == 0 {
            let used = self.digest(slot, bytes);
            self.keep(slot, bytes.get(used..).unwrap_or_default());
            return;
        }
        kept.extend_from_slice(bytes);
        let used = self.digest(slot, &kept);
        kept.drain(..used);
        self.keep_buffer(slot, kept);
    }

    /// Continues with input that waited for room.
    pub(super) fn go_on(&mut self, slot: u32) {
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        if !subscriber.has_left_over {
            return;
        }
        let Some(rare) = &mut subscriber.rare else { return };
        let mut kept = std::mem::take(&mut rare.inbound);
        let used = self.digest(slot, &kept);
        kept.drain(..used);
        self.keep_buffer(slot, kept);
        self.list(slot);
    }

    fn keep(&mut self, slot: u32, rest: &[u8]) {
        if !rest.is_empty() {
            self.keep_buffer(slot, rest.to_vec());
        }
    }

    fn keep_buffer(&mut self, slot: u32, kept: Vec<u8>) {
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        if kept.is_empty() || !matches!(subscriber.stage, Stage::Asking | Stage::Open) {
            subscriber.tidy();
            return;
        }
        subscriber.rare().inbound = kept;
    }

    /// Handles the complete items at the front of `input`. Returns the number of bytes that are
    /// done with.
    fn digest(&mut self, slot: u32, input: &[u8]) -> usize {
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return input.len() };
        subscriber.has_left_over = false;
        let mut used = 0;
        if subscriber.stage == Stage::Asking {
            used = self.ask(slot, input);
            if used == 0 {
                return 0;
            }
        }
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return input.len() };
        if subscriber.stage != Stage::Open {
            return input.len();
        }
        let kept = subscriber.rare.as_mut().and_then(|rare| rare.decoder.take());
        let (limits, deflates) = (self.settings.limits.messages, subscriber.deflates);
        let fresh = || match deflates {
            true => Decoder::new(limits).with_deflate(Some(&POLICY.agreed())),
            false => self.spare.decoders.pop().unwrap_or_else(|| Decoder::new(limits)),
        };
        let mut decoder = kept.unwrap_or_else(fresh);
        used += self.frames(slot, &mut decoder, input.get(used..).unwrap_or_default());
        let is_unfinished = decoder.is_unfinished();
        let now = self.stamp_ms();
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return input.len() };
        if subscriber.stage != Stage::Open {
            return input.len();
        }
        let owes = is_unfinished || (used < input.len() && !subscriber.has_left_over);
        // A decoder inside a message holds state of this client, so it cannot be shared.
        if is_unfinished {
            subscriber.rare().decoder = Some(decoder);
        } else if !deflates && self.spare.decoders.len() < super::SPARES {
            self.spare.decoders.push(decoder);
        }
        if owes && !std::mem::replace(&mut subscriber.is_unfinished, true) {
            subscriber.unfinished_ms = now;
            let wait_ms = self.settings.limits.unfinished_ms;
            self.wheel.set(&mut self.subscribers, slot, self.clock.now_ms, wait_ms);
        } else if !owes {
            subscriber.is_unfinished = false;
        }
        used
    }

    fn frames(&mut self, slot: u32, decoder: &mut Decoder, input: &[u8]) -> usize {
        let mut used = 0;
        while used < input.len() {
            let Some(subscriber) = self.subscribers.get_mut(slot as usize).filter(|it| it.stage == Stage::Open) else {
                return input.len();
            };
            if !subscriber.has_room() {
                subscriber.has_left_over = true;
                return used;
            }
            match decoder.decode(&input[used..]) {
                Ok((0, _)) => return used,
                Ok((bytes, incoming)) => {
                    used += bytes;
                    if let Some(incoming) = incoming {
                        let is_message = matches!(incoming, Incoming::Text(_) | Incoming::Binary(_));
                        self.act(slot, &incoming);
                        // A ping in between does not finish a fragmented message.
                        let is_whole = is_message || !decoder.is_mid_message();
                        if let Some(subscriber) = self.subscribers.get_mut(slot as usize).filter(|_| is_whole) {
                            subscriber.is_unfinished = false;
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

    fn act(&mut self, slot: u32, incoming: &Incoming<'_>) {
        match incoming {
            Incoming::Pong => {}
            Incoming::Ping(body) => self.pong(slot, body),
            Incoming::Close(code) => {
                // Echo the code of the client (RFC 6455 section 5.5.1). Without a code there is
                // nothing to echo.
                let mut frame = Vec::with_capacity(4);
                match code {
                    Some(code) => write_frame(&mut frame, Opcode::Close, &code.to_be_bytes()),
                    None => write_frame(&mut frame, Opcode::Close, &[]),
                }
                self.say_last(slot, &frame);
            }
            Incoming::Text(text) => self.hear(slot, ClientMessage::Text(text)),
            Incoming::Binary(bytes) => self.hear(slot, ClientMessage::Binary(bytes)),
        }
    }

    fn pong(&mut self, slot: u32, body: &[u8]) {
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        let has_another = !subscriber.control.as_bytes().is_empty();
        if has_another && subscriber.outbox().len() < PONGS_MOST {
            // Answer every ping while the client reads its pongs, later only the newest one (RFC
            // 6455 section 5.5.3).
            self.say(slot, b"");
        }
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        if body.len() <= Control::MOST {
            subscriber.control.set(Opcode::Pong as u8, body);
            self.list(slot);
        } else {
            let header = pitwire_delivery::FrameHeader::new(Opcode::Pong, body.len(), false);
            self.say(slot, header.as_bytes());
            self.say(slot, body);
        }
    }

    fn hear(&mut self, slot: u32, said: ClientMessage<'_>) {
        let Some(tag) = self.subscribers.get(slot as usize).map(|subscriber| SubscriberId(subscriber.tag)) else {
            return;
        };
        let mut reply = std::mem::take(&mut self.spare.reply);
        self.settings.programme.said(tag, said, &mut reply);
        if !reply.frames.is_empty() {
            self.say(slot, &reply.frames);
            reply.frames.clear();
        }
        if reply.owed > 0 && !self.settings.answer.is_empty() {
            if let Some(subscriber) = self.subscribers.get_mut(slot as usize) {
                subscriber.owed += reply.owed;
            }
            self.list(slot);
        }
        reply.owed = 0;
        if std::mem::take(&mut reply.waits)
            && let Some(subscriber) = self.subscribers.get_mut(slot as usize)
        {
            let bytes = match said {
                ClientMessage::Text(text) => text.len(),
                ClientMessage::Binary(bytes) => bytes.len(),
            };
            subscriber.unheard = subscriber.unheard.saturating_add(weight(bytes));
        }
        for stream in reply.leaves.drain(..) {
            self.leave_stream(slot, stream);
        }
        for stream in reply.joins.drain(..) {
            self.join(slot, stream);
        }
        if let Some((code, reason)) = reply.close.take() {
            self.close(slot, code, reason);
        }
        self.spare.reply = reply;
    }

    /// Subtracts the weight of messages that the application has processed.
    pub(super) fn heard(&mut self, slot: u32, weight: u32) {
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        let was_waited_for = subscriber.unheard >= UNHEARD_MOST || subscriber.is_at_end;
        subscriber.unheard = subscriber.unheard.saturating_sub(weight);
        if was_waited_for {
            self.go_on(slot);
            // Its next turn resumes reading.
            self.list(slot);
        }
    }

    /// Handles the end of the input: the client has shut down its sending side, or the connection
    /// is broken.
    pub fn ended(&mut self, slot: u32) {
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        subscriber.is_at_end = true;
        let has_more = !subscriber.outbox().is_empty() || subscriber.owed > 0 || subscriber.unheard > 0;
        match subscriber.stage {
            // A half-closed connection still gets the answers to its requests.
            Stage::Closing => self.list(slot),
            Stage::Open if has_more => {
                self.set_stage(slot, Stage::Parting, self.settings.limits.parting_ms);
                self.list(slot);
            }
            _ => self.go(slot),
        }
    }

    /// Handles the request head, if it is complete. Returns its length in bytes, or 0 if more is
    /// needed.
    fn ask(&mut self, slot: u32, input: &[u8]) -> usize {
        let origins = std::sync::Arc::clone(&self.settings.origins);
        let parsed = parse(input, &origins, self.settings.limits.deflate.then_some(POLICY));
        if parsed == Parsed::NeedMore {
            return 0;
        }
        // At the connection limit a client gets the refusal and no place.
        if !matches!(parsed, Parsed::Plain(_))
            && let Some(refusal) = self.take_refusal(slot)
        {
            self.answer_http(slot, &refusal);
            return input.len();
        }
        match parsed {
            Parsed::NeedMore => 0,
            Parsed::Refuse(status, why) => {
                self.answer_http(slot, &Answer::text(status, why));
                input.len()
            }
            Parsed::Plain(head) => {
                let answer = if head.method == "GET" || head.method == "HEAD" {
                    self.settings.programme.http(&request(&head))
                } else {
                    Answer::text(405, "GET is all there is")
                };
                self.answer_http(slot, &answer);
                input.len()
            }
            Parsed::Upgrade { head, answer, bytes } => {
                self.upgrade(slot, &head, &answer);
                bytes
            }
        }
    }

    fn upgrade(&mut self, slot: u32, head: &Head<'_>, shake: &Shake) {
        let opening = match self.settings.programme.open(&request(head)) {
            Ok(opening) => opening,
            Err(answer) => return self.answer_http(slot, &answer),
        };
        if let Some(account) = &opening.account
            && !self.settings.board.enter_account(account)
        {
            return self.answer_http(slot, &Answer::text(429, "too many connections of this account").retry_after(5));
        }
        if let (Some(agreed), Some(subscriber)) = (shake.deflate, self.subscribers.get_mut(slot as usize)) {
            subscriber.class |= if agreed.server_class() == NARROW_BITS { DEFLATED | NARROW } else { DEFLATED };
            subscriber.deflates = true;
        }
        let mut hello = Vec::new();
        match self.place_of(&opening).map(|seq| format!("{}:{seq}", self.settings.epoch)) {
            Some(place) => shake.write_with(&[("Pitwire-Resume", &place)], &mut hello),
            None => shake.write(&mut hello),
        }
        self.say(slot, &hello);
        self.open(slot, &opening);
    }

    /// Refuses a new connection. The client gets `answer` once it has requested a WebSocket.
    pub fn refuse(&mut self, slot: u32, answer: Answer) {
        if let Some(subscriber) = self.subscribers.get_mut(slot as usize) {
            subscriber.rare().refusal = Some(Box::new(answer));
        }
    }

    fn take_refusal(&mut self, slot: u32) -> Option<Box<Answer>> {
        let refusal = self.subscribers.get_mut(slot as usize)?.rare.as_mut()?.refusal.take()?;
        add(&self.counters().refused_total, 1);
        Some(refusal)
    }

    fn answer_http(&mut self, slot: u32, answer: &Answer) {
        let mut bytes = Vec::new();
        answer.write(&mut bytes);
        self.say(slot, &bytes);
        self.set_stage(slot, Stage::Closing, self.settings.limits.parting_ms);
    }

    /// Closes a connection whose request was not finished in time.
    pub(super) fn refuse_slow(&mut self, slot: u32) {
        let has_begun = self
            .subscribers
            .get(slot as usize)
            .and_then(|it| it.rare.as_ref())
            .is_some_and(|it| !it.inbound.is_empty());
        self.take_refusal(slot);
        if has_begun {
            self.answer_http(slot, &Answer::text(408, "the request was not finished in time"));
        } else {
            self.go(slot);
        }
    }
}

fn request<'a>(head: &Head<'a>) -> Request<'a> {
    Request { method: head.method, target: head.target, from: None, authorization: head.authorization }
}
