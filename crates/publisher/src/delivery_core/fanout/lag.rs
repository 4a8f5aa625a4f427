//! Slow subscribers: detection, gap notices, catching up and closing.
//!
//! Holds       1. A subscriber that is half a ring behind leaves the ring before the other half is
//!                overwritten.
//!             2. A gap notice names the first and the last message that were skipped. The newest
//!                skipped message of each key follows in ascending order, then the messages after
//!                the gap.

use std::io::Write as _;

use pitwire_websocket::Opcode;

use pitwire_delivery::{Cursor, FrameHeader, LagPolicy, MissingRange, StreamId, StreamMessage};

use crate::counters::add;
use crate::delivery_core::context::TURN_BYTES;
use crate::delivery_core::fanout::Fanout;
use crate::inbox::ShedRange;
use crate::subscriber::{CatchUp, PARKED};
use crate::timer_wheel::TICK_MS;

pub(super) const TOO_SLOW: &str = "too slow for this stream; connect again";
pub(super) const TOO_BUSY: &str = "the publisher was too busy; connect again";

/// How far a subscription is behind.
#[derive(Clone, Copy, Debug)]
struct Lag {
    bytes: u64,
    bytes_most: u64,
    /// Age of the oldest unsent message in milliseconds.
    oldest_ms: u32,
}

impl Fanout {
    /// Finds the readers of a stream that are more bytes behind than allowed.
    pub(super) fn check_bytes(&mut self, stream: u32) {
        let mut at = 0;
        while let Some(listener) = self.streams.get(stream).and_then(|of| of.listeners.get(at)).copied() {
            at += 1;
            if self.lag_of(listener.slot, listener.item).is_some_and(|lag| lag.bytes > lag.bytes_most) {
                self.fall_behind(listener.slot, listener.item);
            }
        }
    }

    /// Finds blocked subscribers whose oldest unsent message is too old, once per tick.
    pub fn check_times(&mut self) {
        let (lag_ms, now_ms) = (self.context.limits.lag_ms, self.subscribers.now_ms());
        if now_ms < self.checked_ms + TICK_MS {
            return;
        }
        self.checked_ms = now_ms;
        let blocked = self.subscribers.take_blocked();
        if lag_ms > 0 {
            for slot in &blocked {
                let items = self.subscribers.get(*slot).map_or(0, |it| it.items.as_slice().len());
                for item in (0..items).filter_map(|item| u32::try_from(item).ok()) {
                    if self.lag_of(*slot, item).is_some_and(|lag| lag.oldest_ms > lag_ms) {
                        self.fall_behind(*slot, item);
                    }
                }
            }
        }
        self.subscribers.recycle_blocked(blocked);
    }

    /// Returns how far a subscription on a ring is behind.
    fn lag_of(&self, slot: u32, item: u32) -> Option<Lag> {
        let subscriber = self.subscribers.served(slot)?;
        let item = subscriber.items.as_slice().get(item as usize).filter(|item| item.cursor != PARKED)?;
        let ring = self.streams.ring_of(subscriber, item)?;
        let oldest = ring.entries_from(item.cursor).next();
        Some(Lag {
            bytes: ring.weight_behind(item.cursor),
            bytes_most: ring.capacity() as u64 / 2,
            oldest_ms: oldest.map_or(0, |entry| self.subscribers.elapsed_ms(entry.at_ms)),
        })
    }

    fn fall_behind(&mut self, slot: u32, item: u32) {
        self.spill(slot);
        let Some(subscriber) = self.subscribers.get_mut(slot) else { return };
        let Some(of) = subscriber.items.as_slice().get(item as usize).copied() else { return };
        let Some(stream) = self.streams.get(of.stream) else { return };
        let Some(ring) = stream.ring(subscriber.class) else { return };
        let newest = ring.newest().map_or(ring.head(), |entry| Cursor(entry.start));
        let first_missed = ring.entries_from(of.cursor).next().map_or(stream.last_seq + 1, |entry| entry.seq);
        match stream.spec.lag {
            LagPolicy::Close => {
                self.close_slow(slot, TOO_SLOW);
            }
            LagPolicy::Latest => {
                if let Some(of) = subscriber.items.as_mut_slice().get_mut(item as usize) {
                    // `spill` has already moved the rest of a partly sent frame to the outbound
                    // queue.
                    of.cursor = of.cursor.max(newest);
                }
            }
            LagPolicy::Ask => self.park(slot, item),
            LagPolicy::Conflate => {
                if let Some(of) = subscriber.items.as_mut_slice().get_mut(item as usize) {
                    of.cursor = PARKED;
                }
                let rare = subscriber.rare();
                match rare.catch_up.iter_mut().find(|catch_up| catch_up.item == item) {
                    // It fell behind again before it caught up. The second walk includes the rest
                    // of the first.
                    Some(catch_up) => (catch_up.missed_from, catch_up.until) = (Some(first_missed), None),
                    None => {
                        let done = first_missed.saturating_sub(1);
                        rare.catch_up.push(CatchUp {
                            item,
                            missed_from: Some(first_missed),
                            done,
                            hint: None,
                            until: None,
                        });
                    }
                }
            }
        }
    }

    /// Fills the outbound queue of a subscriber that has to catch up.
    pub(super) fn catch_up(&mut self, slot: u32) {
        while let Some(subscriber) = self.subscribers.get(slot)
            && subscriber.is_served()
            && subscriber.outbox().len() < TURN_BYTES
            && let Some(catch_up) = subscriber.rare.as_ref().and_then(|rare| rare.catch_up.first()).copied()
        {
            if !self.catch_up_with(slot, catch_up) {
                return;
            }
        }
    }

    /// Continues one walk. Returns whether it is finished.
    fn catch_up_with(&mut self, slot: u32, mut catch_up: CatchUp) -> bool {
        let spare = self.subscribers.spare_outbox(slot);
        let (epoch, mut gaps) = (self.streams.epoch(), 0);
        let Some(subscriber) = self.subscribers.get_mut(slot) else { return false };
        let class = subscriber.class;
        let Some(item) = subscriber.items.as_mut_slice().get_mut(catch_up.item as usize) else { return false };
        let Some(stream) = self.streams.get_mut(item.stream) else { return false };
        let mut out = spare.unwrap_or_default();
        let until = match catch_up.until {
            Some(until) => until,
            None => {
                // The subscriber reads again, so the missed range ends here.
                item.cursor = stream.ring(class).map_or(PARKED, |ring| ring.head());
                if let Some(from) = catch_up.missed_from.filter(|from| *from <= stream.last_seq) {
                    gap_notice(&mut out, from, stream.last_seq);
                    gaps = 1;
                }
                catch_up.until = Some(stream.last_seq);
                stream.last_seq
            }
        };
        let filter = subscriber.rare.as_ref().and_then(|rare| rare.filter.clone());
        let latest = stream.latest.take();
        let mut is_done = true;
        while let Some(newest) = latest.as_ref().and_then(|latest| latest.next(catch_up.done, catch_up.hint)) {
            if newest.seq > until {
                break;
            }
            if out.len() >= TURN_BYTES {
                is_done = false;
                break;
            }
            (catch_up.done, catch_up.hint) = (newest.seq, Some(newest.key));
            if filter.as_ref().is_none_or(|keys| keys.binary_search(&newest.key).is_ok()) {
                let message = StreamMessage {
                    seq: newest.seq,
                    key: newest.key,
                    is_binary: newest.is_binary,
                    payload: newest.payload,
                };
                stream.frame(class, &message, epoch).write(&mut out);
            }
        }
        stream.latest = latest;
        let rare = subscriber.rare();
        if is_done {
            rare.catch_up.remove(0);
        } else {
            rare.catch_up[0] = catch_up;
        }
        if rare.outbox.is_empty() {
            rare.outbox = out;
        } else {
            rare.outbox.extend_from_slice(&out);
            self.subscribers.keep_outbox(out);
        }
        add(&self.counters().gaps_total, gaps);
        is_done
    }

    /// Declares shed messages to all readers of a stream, and records the hole for readers that
    /// resume later.
    pub fn declare_shed(&mut self, stream: StreamId, shed: &ShedRange) {
        let Some(of) = self.streams.get(stream.0) else { return };
        let lag = of.spec.lag;
        match lag {
            // The stream was restarted behind the hole, and no reader waits for it.
            LagPolicy::Ask if of.last_seq >= shed.to => return,
            LagPolicy::Ask => self.park_all(stream),
            LagPolicy::Close => {
                let slots: Vec<u32> = of.listeners.iter().map(|listener| listener.slot).collect();
                for slot in slots {
                    self.close_slow(slot, TOO_BUSY);
                }
            }
            LagPolicy::Conflate | LagPolicy::Latest => {}
        }
        if let LagPolicy::Close | LagPolicy::Conflate = lag {
            let mut notice = Vec::new();
            gap_text(&mut notice, shed.from, shed.to);
            if let Some(of) = self.streams.get_mut(stream.0) {
                // A new delivery thread may have an empty stream: place the notice where the hole
                // begins.
                of.last_seq = of.last_seq.max(shed.from.saturating_sub(1));
            }
            self.append_notice(stream.0, Opcode::Text, &notice);
        }
        let missing = match lag {
            // The position of a slow reader is derived from the ring before the hole.
            LagPolicy::Ask => shed.to,
            _ => (shed.from..=shed.to).rev().find(|seq| !shed.kept.contains_key(seq)).unwrap_or(0),
        };
        if let Some(of) = self.streams.get_mut(stream.0) {
            of.note_hole(MissingRange { from: shed.from, missing, to: shed.to });
        }
        for (seq, kept) in &shed.kept {
            self.append(stream, &kept.key, *seq, kept.is_binary, &kept.payload);
        }
    }
}

fn gap_text(out: &mut Vec<u8>, from: u64, to: u64) {
    // Writing to memory does not fail.
    let _ = write!(out, r#"{{"type":"gap","from":{from},"to":{to}}}"#);
}

pub(super) fn gap_notice(out: &mut Vec<u8>, from: u64, to: u64) {
    let mut text = Vec::with_capacity(64);
    gap_text(&mut text, from, to);
    out.extend_from_slice(FrameHeader::new(Opcode::Text, text.len(), false).as_bytes());
    out.extend_from_slice(&text);
}
