//! Slow subscribers of streams with [`LagPolicy::Ask`](crate::LagPolicy::Ask), whose missed
//! messages only the handler knows.
//!
//! Does        Takes a slow subscriber off the ring, requests its missed messages from the handler
//!             once it reads again, and resumes it behind the answer.
//! Holds       1. A waiting subscriber gets nothing of the stream, and resumes right behind the
//!                number in the answer.
//!             2. There is one open request per subscription. An outdated answer changes nothing.
//! Leaves out  The missed messages, which the handler provides.
//! Start at    [`Fanout::park`], [`Fanout::request_missed`], [`Fanout::resume`].

use pitwire_delivery::StreamId;

use crate::delivery_core::fanout::Fanout;
use crate::delivery_core::fanout::lag::{TOO_BUSY, TOO_SLOW};
use crate::handler::{LagAnswer, SubscriberId};
use crate::subscriber::{LagRequest, LagRequestState, NO_INDEX, PARKED};

impl Fanout {
    /// Takes a slow subscriber off the ring. Its cursor must be between two frames.
    pub fn park(&mut self, slot: u32, item: u32) {
        let Some(subscriber) = self.subscribers.get_mut(slot) else { return };
        let Some(of) = subscriber.items.as_mut_slice().get_mut(item as usize) else { return };
        let Some(ring) = self.streams.get(of.stream).and_then(|of| of.ring(subscriber.class)) else { return };
        let read = ring.number_before(std::mem::replace(&mut of.cursor, PARKED));
        subscriber.rare().lag_requests.push(LagRequest { item, read, state: LagRequestState::NotSent });
        self.subscribers.list(slot);
    }

    /// Requests the missed messages of a waiting subscriber from the handler, now that its socket
    /// accepts bytes again.
    pub(super) fn request_missed(&mut self, slot: u32) {
        let Fanout { subscribers, streams, context, .. } = self;
        let Some(subscriber) = subscribers.served_mut(slot) else { return };
        let Some(rare) = subscriber.rare.as_mut().filter(|rare| rare.waiting().is_empty()) else { return };
        for request in &mut rare.lag_requests {
            let Some(of) = subscriber.items.as_slice().get(request.item as usize) else { continue };
            let last_seq = streams.get(of.stream).map_or(0, |of| of.last_seq);
            let is_due = match request.state {
                LagRequestState::NotSent => true,
                LagRequestState::Sent => false,
                LagRequestState::UnchangedUntil(seq) => last_seq > seq,
            };
            if is_due {
                request.state = LagRequestState::Sent;
                context.handler.behind(subscriber.id, StreamId(of.stream), request.read);
            }
        }
    }

    pub fn resume(&mut self, to: SubscriberId, stream: StreamId, read: u64, how: LagAnswer) {
        let Some(slot) = self.subscribers.slot_of(to) else { return };
        let Some(subscriber) = self.subscribers.served_mut(slot) else {
            return;
        };
        let items = subscriber.items.as_slice();
        let Some(at) = items.iter().position(|item| item.stream == stream.0) else { return };
        let Some(rare) = subscriber.rare.as_mut() else { return };
        let item = u32::try_from(at).unwrap_or(NO_INDEX);
        let Some(waits) = rare.lag_requests.iter().position(|request| request.item == item && request.read == read)
        else {
            return;
        };
        match how {
            LagAnswer::Lost => {
                self.close_slow(slot, TOO_SLOW);
            }
            LagAnswer::Unchanged { seq } => {
                rare.lag_requests[waits].state = LagRequestState::UnchangedUntil(seq);
                // Newer messages may have arrived in the meantime.
                self.subscribers.list(slot);
            }
            LagAnswer::Text { payload, seq } => {
                self.place_behind(slot, at, seq);
                self.subscribers.queue_text(slot, &payload);
            }
            LagAnswer::Frames { frames, seq } => {
                self.place_behind(slot, at, seq);
                self.subscribers.queue(slot, &frames);
            }
        }
    }

    /// Subscribes to a stream behind message `read`, the last one that the subscriber received.
    pub fn join_behind(&mut self, slot: u32, stream: StreamId, read: u64) {
        let Some(subscriber) = self.subscribers.get(slot) else { return };
        let at = subscriber.items.as_slice().len();
        self.join(slot, stream);
        // An existing subscription keeps its position.
        if self.subscribers.get(slot).is_some_and(|subscriber| subscriber.items.as_slice().len() > at) {
            self.place_behind(slot, at, read);
        }
    }

    /// Moves the subscription at index `at` behind message `seq`. If the ring has lost the next
    /// message, the handler must provide it.
    fn place_behind(&mut self, slot: u32, at: usize, read: u64) {
        let Some(subscriber) = self.subscribers.get_mut(slot) else { return };
        let class = subscriber.class;
        let (Some(item), Ok(number)) = (subscriber.items.as_mut_slice().get_mut(at), u32::try_from(at)) else { return };
        let of = self.streams.get(item.stream).filter(|of| !of.has_hole_behind(read));
        let ring = of.filter(|_| !self.shed.contains_key(&item.stream)).and_then(|of| of.ring(class));
        item.cursor = ring.and_then(|ring| ring.after_safely(read)).unwrap_or(PARKED);
        let is_parked = item.cursor == PARKED;
        if is_parked || subscriber.rare.is_some() {
            let rare = subscriber.rare();
            rare.lag_requests.retain(|request| request.item != number);
            rare.lag_requests.extend(is_parked.then_some(LagRequest {
                item: number,
                read,
                state: LagRequestState::NotSent,
            }));
        }
        self.subscribers.list(slot);
    }

    /// Takes all readers of a stream with shed messages off the ring. Closes readers that joined
    /// since without a position, because their last message is unknown.
    pub(super) fn park_all(&mut self, stream: StreamId) {
        let Some(of) = self.streams.get(stream.0) else { return };
        for listener in of.listeners.clone() {
            let Some(subscriber) = self.subscribers.get(listener.slot) else { continue };
            let Some(item) = subscriber.items.as_slice().get(listener.item as usize) else { continue };
            if item.cursor == PARKED {
                continue;
            }
            if self.unplaced.contains(&(subscriber.id, stream)) {
                self.close_slow(listener.slot, TOO_BUSY);
                continue;
            }
            self.spill(listener.slot);
            self.park(listener.slot, listener.item);
        }
    }
}
