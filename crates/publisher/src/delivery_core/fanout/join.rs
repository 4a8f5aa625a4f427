//! Subscribing to streams and unsubscribing.
//!
//! Holds       The first messages of a new subscriber and its cursor refer to the same sequence
//!             number.

use pitwire_websocket::Opcode;

use pitwire_delivery::{Cursor, DEFLATED, ENVELOPED, FrameHeader, Key, LagPolicy, Listener, NARROW, StreamId};

use crate::counters::add;
use crate::delivery_core::fanout::Fanout;
use crate::delivery_core::fanout::lag::gap_notice;
use crate::handler::SubscriberSetup;
use crate::subscriber::{CatchUp, NO_INDEX, PARKED, Stage, SubscribedStream};

impl Fanout {
    /// Opens a WebSocket after its handshake: applies its setup and subscribes it to its streams.
    pub fn open(&mut self, slot: u32, setup: &SubscriberSetup) {
        self.subscribers.set_stage(slot, Stage::Open, self.context.limits.idle_ms / 2 + 1);
        add(&self.counters().opened_total, 1);
        let keys = setup.keys.as_ref().zip(setup.streams.first());
        let filter = keys.map(|(names, stream)| {
            let mut keys: Vec<Key> =
                names.iter().filter_map(|name| self.streams.get_mut(stream.0)?.subscriber_key(name)).collect();
            keys.sort_unstable();
            keys.dedup();
            keys
        });
        let Some(subscriber) = self.subscribers.get_mut(slot) else { return };
        if setup.enveloped {
            subscriber.class |= ENVELOPED;
        }
        if let Some(filter) = filter {
            subscriber.rare().filter = Some(filter.into());
        }
        subscriber.rare().account.clone_from(&setup.account);
        for payload in &setup.first {
            self.subscribers.queue_text(slot, payload);
        }
        let mut from = setup.from;
        for stream in &setup.streams {
            self.join_at(slot, *stream, from.take());
        }
        self.subscribers.list(slot);
    }

    /// Returns the sequence number for the resume token: the number that the subscriber resumes
    /// behind, or the newest number of its first stream if it does not resume. None without a
    /// stream.
    pub fn place_of(&self, setup: &SubscriberSetup) -> Option<u64> {
        let last = self.streams.get(setup.streams.first()?.0)?.last_seq;
        let place = setup.from.filter(|(epoch, seq)| *epoch == self.streams.epoch() && *seq <= last);
        Some(place.map_or(last, |(_, seq)| seq))
    }

    pub fn join(&mut self, slot: u32, stream: StreamId) {
        self.join_at(slot, stream, None);
        self.subscribers.list(slot);
    }

    pub fn join_at(&mut self, slot: u32, stream: StreamId, from: Option<(u64, u64)>) {
        let epoch = self.streams.epoch();
        let Some(subscriber) = self.subscribers.get_mut(slot) else { return };
        let Some(of) = self.streams.get_mut(stream.0) else { return };
        if subscriber.items.as_slice().iter().any(|item| item.stream == stream.0) {
            return;
        }
        if let Some((_, seq)) = from
            && subscriber.items.as_slice().is_empty()
            && of.ring(subscriber.class).and_then(|ring| ring.after_safely(seq)).is_none()
        {
            // Missed messages are stored uncompressed. The subscriber can read that format too.
            subscriber.class &= !(DEFLATED | NARROW);
        }
        let head = of.open_ring(subscriber.class);
        let number = u32::try_from(subscriber.items.as_slice().len()).unwrap_or(NO_INDEX);
        let mut catch_up = None;
        let snapshot = CatchUp { item: number, missed_from: None, done: 0, hint: None, until: Some(of.last_seq) };
        let cursor = match from {
            Some((theirs, seq)) if theirs == epoch && seq <= of.last_seq => {
                let behind =
                    of.ring(subscriber.class).and_then(|ring| ring.after_safely(seq)).filter(|cursor| *cursor < head);
                if let Some((first, last)) =
                    of.missing_behind(seq).filter(|_| behind.is_some() && of.spec.lag != LagPolicy::Latest)
                {
                    gap_notice(&mut subscriber.rare().outbox, first, last);
                    add(&self.context.counters().gaps_total, 1);
                }
                match behind.or_else(|| (seq == of.last_seq).then_some(head)) {
                    Some(cursor) => cursor,
                    None => {
                        catch_up = Some(CatchUp { missed_from: Some(seq + 1), done: seq, until: None, ..snapshot });
                        PARKED
                    }
                }
            }
            Some(_) => {
                let notice = format!(r#"{{"type":"snapshot","epoch":{epoch},"seq":{}}}"#, of.last_seq);
                catch_up = of.latest.is_some().then_some(snapshot);
                let rare = subscriber.rare();
                rare.outbox.extend_from_slice(FrameHeader::new(Opcode::Text, notice.len(), false).as_bytes());
                rare.outbox.extend_from_slice(notice.as_bytes());
                head
            }
            None => {
                catch_up = of.spec.snapshot.then_some(snapshot);
                head
            }
        };
        if let Some(catch_up) = catch_up {
            subscriber.rare().catch_up.push(catch_up);
        }
        if of.spec.lag == LagPolicy::Ask && self.shed.contains_key(&stream.0) {
            self.unplaced.push((subscriber.id, stream));
        }
        let listed = of.add_listener(slot, number);
        subscriber.items.push(SubscribedStream { cursor, stream: stream.0, listed });
        self.context.statistics.joined(stream);
    }

    pub fn leave_stream(&mut self, slot: u32, stream: StreamId) {
        let Some(subscriber) = self.subscribers.get(slot) else { return };
        if let Some(at) = subscriber.items.as_slice().iter().position(|item| item.stream == stream.0) {
            self.spill(slot);
            self.drop_item(slot, at);
        }
    }

    /// Removes the subscription at index `at`. The last subscription takes its index. A partly sent
    /// frame of it must have been spilled.
    pub fn drop_item(&mut self, slot: u32, at: usize) {
        let Some(subscriber) = self.subscribers.get_mut(slot) else { return };
        let last = subscriber.items.as_slice().len().saturating_sub(1);
        let Some(item) = subscriber.items.swap_remove(at) else { return };
        let number = |at: usize| u32::try_from(at).unwrap_or(NO_INDEX);
        if let Some(rare) = &mut subscriber.rare {
            rare.catch_up.retain(|catch_up| catch_up.item != number(at));
            for catch_up in rare.catch_up.iter_mut().filter(|catch_up| catch_up.item == number(last)) {
                catch_up.item = number(at);
            }
            rare.lag_requests.retain(|request| request.item != number(at));
            rare.lag_requests
                .iter_mut()
                .filter(|request| request.item == number(last))
                .for_each(|request| request.item = number(at));
        }
        if subscriber.mid_frame == number(at) {
            subscriber.mid_frame = NO_INDEX;
        } else if subscriber.mid_frame == number(last) {
            subscriber.mid_frame = number(at);
        }
        // The subscription that moved to index `at` must be found there.
        if let Some(moved) = subscriber.items.as_slice().get(at).copied()
            && let Some(listener) = self.listener_mut(moved.stream, moved.listed)
        {
            listener.item = number(at);
        }
        let Some(stream) = self.streams.get_mut(item.stream) else { return };
        if (item.listed as usize) < stream.listeners.len() {
            stream.listeners.swap_remove(item.listed as usize);
        }
        if let Some(moved) = stream.listeners.get(item.listed as usize).copied()
            && let Some(subscriber) = self.subscribers.get_mut(moved.slot)
            && let Some(theirs) = subscriber.items.as_mut_slice().get_mut(moved.item as usize)
        {
            theirs.listed = item.listed;
        }
        self.context.statistics.left(StreamId(item.stream));
    }

    fn listener_mut(&mut self, stream: u32, listed: u32) -> Option<&mut Listener> {
        self.streams.get_mut(stream)?.listeners.get_mut(listed as usize)
    }

    /// Moves the unsent rest of a partly sent frame to the front of the outbound queue, so that its
    /// ring position is free.
    pub fn spill(&mut self, slot: u32) {
        let Some(subscriber) = self.subscribers.get(slot).filter(|it| it.mid_frame != NO_INDEX) else { return };
        let at = subscriber.mid_frame as usize;
        let Some(item) = subscriber.items.as_slice().get(at) else { return };
        let Some(ring) = self.streams.ring_of(subscriber, item) else { return };
        let end = ring.end_of_frame(item.cursor);
        let (first, second) = ring.slices(item.cursor, end);
        let rest = [first, second].concat();
        let is_whole = rest.len() as u64 == end.0.saturating_sub(item.cursor.0);
        let Some(subscriber) = self.subscribers.get_mut(slot) else { return };
        subscriber.mid_frame = NO_INDEX;
        subscriber.items.as_mut_slice()[at].cursor = Cursor(end.0);
        let rare = subscriber.rare();
        debug_assert_eq!(rare.outbox_sent, 0, "the outbox waits for the frame");
        rare.outbox.splice(0..0, rest);
        if !is_whole {
            // The ring has overwritten the rest, so no valid frame can follow.
            self.subscribers.finish(slot);
        }
    }
}
