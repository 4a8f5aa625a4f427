//! Readers that fall behind where only the programme knows what they have missed.
//!
//! Does        take them off the ring, ask once they read again, and let them go on where the answer ends.
//! Holds       1. nothing of the stream goes to one that waits, and it goes on behind the very number that its answer names;
//!             2. it is asked about once until it is answered; an answer to what is not asked any more changes nothing.
//! Leaves out  what they have missed: the programme's.
//! Start at    [`DeliveryCore::stand_aside`], [`DeliveryCore::ask_about`], [`DeliveryCore::go_on_with`].

use pitwire_websocket::{CloseCode, Opcode};

use crate::counters::add;
use crate::delivery_core::DeliveryCore;
use crate::delivery_core::lag::{TOO_BUSY, TOO_SLOW};
use crate::handler::{LagAnswer, SubscriberId};
use crate::subscriber::{Answered, Ask, NOBODY, PARKED};
use pitwire_delivery::FrameHeader;
use pitwire_delivery::StreamId;

impl DeliveryCore {
    /// One that stands between two messages has fallen behind.
    pub(super) fn stand_aside(&mut self, slot: u32, item: u32) {
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        let Some(of) = subscriber.items.as_mut_slice().get_mut(item as usize) else { return };
        let Some(ring) = self.streams.get(of.stream as usize).and_then(|of| of.ring(subscriber.class)) else { return };
        let read = ring.number_before(std::mem::replace(&mut of.cursor, PARKED));
        subscriber.rare().asks.push(Ask { item, read, answer: Answered::NotAsked });
        self.list(slot);
    }

    /// One that takes something again: what has it missed?
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
                // There may be more by now.
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

    /// One that comes has read up to a message, and goes on behind it.
    pub(super) fn join_behind(&mut self, slot: u32, stream: StreamId, read: u64) {
        let Some(subscriber) = self.subscribers.get(slot as usize) else { return };
        let at = subscriber.items.as_slice().len();
        self.join(slot, stream);
        // One that was there stands where it stood.
        if self.subscribers.get(slot as usize).is_some_and(|subscriber| subscriber.items.as_slice().len() > at) {
            self.stand_behind(slot, at, read);
        }
    }

    /// One of a reader's streams, as many as come before it, goes on behind a message; if what follows that is not here, it is
    /// asked for.
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

    /// All who read a stream of which some was shed stand aside. Of whoever has come since, and not said behind what, nobody
    /// knows what it has.
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
                // It was to leave and could not be told so.
                true => self.go(slot),
                // Its goodbye is on its way, and the streams are nothing to it.
                false => self.leave_stream(slot, stream),
            }
        }
    }
}
