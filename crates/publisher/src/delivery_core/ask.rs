//! Slow subscribers of streams with [`LagPolicy::Ask`](crate::LagPolicy::Ask), whose missed
//! messages only the handler knows.
//!
//! Does        Takes a slow subscriber off the ring, asks the handler once it reads again, and
//!             resumes it behind the answer.
//! Holds       1. A waiting subscriber gets nothing of the stream, and resumes right behind the
//!                number in the answer.
//!             2. There is one open question per subscription. An outdated answer changes nothing.
//! Leaves out  The missed messages, which the handler provides.
//! Start at    [`DeliveryCore::stand_aside`], [`DeliveryCore::ask_about`],
//!             [`DeliveryCore::go_on_with`].

use pitwire_websocket::{CloseCode, Opcode};

use crate::counters::add;
use crate::delivery_core::DeliveryCore;
use crate::delivery_core::lag::{TOO_BUSY, TOO_SLOW};
use crate::handler::{LagAnswer, SubscriberId};
use crate::subscriber::{Answered, Ask, NOBODY, PARKED};
use pitwire_delivery::FrameHeader;
use pitwire_delivery::StreamId;

impl DeliveryCore {
    /// Takes a slow subscriber off the ring. Its cursor must be between two frames.
    pub(super) fn stand_aside(&mut self, slot: u32, item: u32) {
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        let Some(of) = subscriber.items.as_mut_slice().get_mut(item as usize) else { return };
        let Some(ring) = self.streams.get(of.stream as usize).and_then(|of| of.ring(subscriber.class)) else { return };
        let read = ring.number_before(std::mem::replace(&mut of.cursor, PARKED));
        subscriber.rare().asks.push(Ask { item, read, answer: Answered::NotAsked });
        self.list(slot);
    }

    /// Requests the missed messages of a waiting subscriber from the handler, now that its socket
    /// accepts bytes again.
    pub(super) fn ask_about(&mut self, slot: u32) {
        let DeliveryCore { subscribers, streams, settings, .. } = self;
        let Some(subscriber) = subscribers.get_mut(slot as usize).filter(|it| it.stage.is_served()) else { return };
        let Some(rare) = subscriber.rare.as_mut().filter(|rare| rare.waiting().is_empty()) else { return };
        for ask in &mut rare.asks {
            let Some(of) = subscriber.items.as_slice().get(ask.item as usize) else { continue };
            let last_seq = streams.get(of.stream as usize).map_or(0, |of| of.last_seq);
            let is_due = match ask.answer {
                Answered::NotAsked => true,
                Answered::NotYet => false,
                Answered::NothingUntil(seq) => last_seq > seq,
            };
            if is_due {
                ask.answer = Answered::NotYet;
                settings.programme.behind(SubscriberId(subscriber.tag), StreamId(of.stream), ask.read);
            }
        }
    }

    pub(super) fn go_on_with(&mut self, to: SubscriberId, stream: StreamId, read: u64, how: LagAnswer) {
        let Some(slot) = self.slot_of(to) else { return };
        let Some(subscriber) = self.subscribers.get_mut(slot as usize).filter(|it| it.stage.is_served()) else {
            return;
        };
        let items = subscriber.items.as_slice();
        let Some(at) = items.iter().position(|item| item.stream == stream.0) else { return };
        let Some(rare) = subscriber.rare.as_mut() else { return };
        let item = u32::try_from(at).unwrap_or(NOBODY);
        let Some(waits) = rare.asks.iter().position(|ask| ask.item == item && ask.read == read) else { return };
        match how {
            LagAnswer::Lost => {
                add(&self.counters().closed_slow_total, 1);
                self.close(slot, CloseCode::TryAgainLater, TOO_SLOW);
            }
            LagAnswer::Unchanged { seq } => {
                rare.asks[waits].answer = Answered::NothingUntil(seq);
                // Newer messages may have arrived in the meantime.
                self.list(slot);
            }
            LagAnswer::Text { payload, seq } => {
                self.stand_behind(slot, at, seq);
                self.say(slot, FrameHeader::new(Opcode::Text, payload.len(), false).as_bytes());
                self.say(slot, &payload);
            }
            LagAnswer::Frames { frames, seq } => {
                self.stand_behind(slot, at, seq);
                self.say(slot, &frames);
            }
        }
    }

    /// Subscribes to a stream behind message `read`, the last one that the subscriber received.
    pub(super) fn join_behind(&mut self, slot: u32, stream: StreamId, read: u64) {
        let Some(subscriber) = self.subscribers.get(slot as usize) else { return };
        let at = subscriber.items.as_slice().len();
        self.join(slot, stream);
        // An existing subscription keeps its position.
        if self.subscribers.get(slot as usize).is_some_and(|subscriber| subscriber.items.as_slice().len() > at) {
            self.stand_behind(slot, at, read);
        }
    }

    /// Moves the subscription at index `at` behind message `seq`. If the ring has lost the next
    /// message, the handler must provide it.
    fn stand_behind(&mut self, slot: u32, at: usize, read: u64) {
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        let class = subscriber.class;
        let (Some(item), Ok(number)) = (subscriber.items.as_mut_slice().get_mut(at), u32::try_from(at)) else { return };
        let of = self.streams.get(item.stream as usize).filter(|of| !of.has_hole_behind(read));
        let ring = of.filter(|_| !self.input.queue.shed.contains_key(&item.stream)).and_then(|of| of.ring(class));
        item.cursor = ring.and_then(|ring| ring.after_safely(read)).unwrap_or(PARKED);
        let is_parked = item.cursor == PARKED;
        if is_parked || subscriber.rare.is_some() {
            let rare = subscriber.rare();
            rare.asks.retain(|ask| ask.item != number);
            rare.asks.extend(is_parked.then_some(Ask { item: number, read, answer: Answered::NotAsked }));
        }
        self.list(slot);
    }

    /// Takes all readers of a stream with shed messages off the ring. Closes readers that joined
    /// since without a position, because their last message is unknown.
    pub(super) fn stand_all_aside(&mut self, stream: StreamId) {
        let Some(of) = self.streams.get(stream.0 as usize) else { return };
        for listener in of.listeners.clone() {
            let Some(subscriber) = self.subscribers.get(listener.slot as usize) else { continue };
            let Some(item) = subscriber.items.as_slice().get(listener.item as usize) else { continue };
            if item.cursor == PARKED {
                continue;
            }
            if self.input.unplaced.contains(&(subscriber.tag, stream)) {
                add(&self.counters().closed_slow_total, 1);
                self.close(listener.slot, CloseCode::TryAgainLater, TOO_BUSY);
                continue;
            }
            self.spill(listener.slot);
            self.stand_aside(listener.slot, listener.item);
        }
    }

    pub(super) fn begin(&mut self, stream: StreamId, seq: u64) {
        let Some(of) = self.streams.get_mut(stream.0 as usize) else { return };
        of.begin(seq);
        let left: Vec<u32> = of.listeners.iter().map(|listener| listener.slot).collect();
        for slot in left {
            match self.subscribers.get(slot as usize).is_some_and(|subscriber| subscriber.stage.is_served()) {
                // It had to leave, and its close frame could not be queued.
                true => self.go(slot),
                // Its close frame is queued, so it needs no streams.
                false => self.leave_stream(slot, stream),
            }
        }
    }
}
