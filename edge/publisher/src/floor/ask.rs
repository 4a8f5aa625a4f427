//! Readers that fall behind where only the programme knows what they have missed.
//!
//! Does        take them off the ring, ask once they read again, and let them go on where the answer ends.
//! Holds       1. nothing of the stream goes to one that waits, and it goes on behind the very number that its answer names;
//!             2. it is asked about once until it is answered; an answer to what is not asked any more changes nothing.
//! Leaves out  what they have missed: the programme's. What a full queue has shed: `lag.rs`.
//! Start at    [`Floor::stand_aside`], [`Floor::ask_about`], [`Floor::go_on_with`].

use pitwire_websocket::{CloseCode, Opcode};

use crate::counters::add;
use crate::floor::Floor;
use crate::floor::lag::TOO_SLOW;
use crate::programme::{GoOn, Tag};
use crate::ring::Header;
use crate::stream::StreamId;
use crate::subscriber::{Answered, Ask, NOBODY, PARKED};

impl Floor {
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
        let Floor { subscribers, streams, programme, .. } = self;
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
                programme.behind(Tag(subscriber.tag), StreamId(of.stream), ask.read);
            }
        }
    }

    pub(super) fn go_on_with(&mut self, to: Tag, stream: StreamId, read: u64, how: GoOn) {
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
            GoOn::Lost => {
                add(&self.counters().closed_slow_total, 1);
                self.close(slot, CloseCode::TryAgainLater, TOO_SLOW);
            }
            GoOn::Same { seq } => {
                rare.asks[waits].answer = Answered::NothingUntil(seq);
                // There may be more by now.
                self.list(slot);
            }
            GoOn::Told { payload, seq } => {
                let ring = self.streams.get(stream.0 as usize).and_then(|of| of.ring(subscriber.class));
                let cursor = ring.and_then(|ring| ring.after_safely(seq));
                match cursor {
                    Some(_) => {
                        rare.asks.swap_remove(waits);
                    }
                    None => rare.asks[waits] = Ask { item, read: seq, answer: Answered::NotAsked },
                }
                subscriber.items.as_mut_slice()[at].cursor = cursor.unwrap_or(PARKED);
                self.say(slot, Header::new(Opcode::Text, payload.len(), false).as_bytes());
                self.say(slot, &payload);
            }
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
