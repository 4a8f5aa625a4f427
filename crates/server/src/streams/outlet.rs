//! Messages and control messages in order, until they may leave.
//!
//! Holds       1. messages, joins, snapshots and sockets keep their order;
//!             2. each stream's messages are numbered without gaps.
//! Start at    [`Outlet::order`], [`Outlet::release`].

use std::collections::BTreeMap;

use pitwire_model::VenueNanos;
use pitwire_net::SystemClock;
use pitwire_publisher::{LagPolicy, MessageBatch, Publisher, StreamSpec, SubscriberId};
use pitwire_url_streams::{Names, NumberPosition, Sink, Stamps, StreamId, StreamKey};
use pitwire_venue::VenueClock;

use super::encoder::{EncoderTask, MessageEncoder};
use crate::delivery_threads::Order;

/// Ring capacity per stream and delivery thread, in bytes: many seconds of a busy stream, or the
/// trades of a large uncross.
const DELTA_RING: usize = 1 << 20;
const STATE_RING: usize = 1 << 16;

type Ring = pitwire_publisher::StreamId;

enum OutletItem {
    /// A message; its payload is the next `len` bytes of the buffer.
    Message {
        stream: StreamId,
        len: usize,
    },
    Order(Order),
}

/// A stream that the delivery threads know.
struct StreamProgress {
    /// `None` if the messages carry a number per socket.
    ring: Option<Ring>,
    seq: u64,
}

#[derive(Default)]
pub struct Outlet {
    pub clocks: Option<(SystemClock, VenueClock)>,
    known: BTreeMap<StreamId, StreamProgress>,
    bytes: Vec<u8>,
    items: Vec<OutletItem>,
    batch: MessageBatch,
    encoder: MessageEncoder,
    /// Work for the numbering thread, in order.
    tasks: Vec<EncoderTask>,
}

impl Sink for Outlet {
    fn send(&mut self, stream: StreamId, payload: &[u8], numbered: Option<NumberPosition>) {
        if let Some(place) = numbered {
            self.tasks.push(EncoderTask::Message { stream, payload: payload.into(), place });
            return;
        }
        self.bytes.extend_from_slice(payload);
        self.items.push(OutletItem::Message { stream, len: payload.len() });
    }

    fn stamps(&mut self, at: VenueNanos) -> Stamps {
        let Some((clock, venue)) = &self.clocks else { return Stamps::default() };
        let mono_ns = clock.monotonic_ns();
        // `u64::MAX` means that venue time stands still. Then nothing has a due time, so use the
        // current time.
        let due_ns = Some(venue.real(at)).filter(|due| *due != u64::MAX).unwrap_or(mono_ns);
        let [due_ns, mono_ns] = [due_ns, mono_ns].map(|at| clock.on_this_machine(at));
        Stamps { due_ns, mono_ns, ts_ns: clock.wall_ns() }
    }
}

impl Outlet {
    /// Registers a stream with the delivery threads on first use.
    pub fn know(&mut self, id: StreamId, key: &StreamKey, names: Option<&Names>, delivery: &Publisher) {
        self.known.entry(id).or_insert_with(|| {
            let (lag, ring_bytes) =
                if key.kind.is_state() { (LagPolicy::Latest, STATE_RING) } else { (LagPolicy::Close, DELTA_RING) };
            let spec = StreamSpec { name: key.label(names), lag, ring_bytes, snapshot: false, keep: false };
            StreamProgress { ring: (!key.has_socket_numbers()).then(|| delivery.create(&spec)), seq: 0 }
        });
    }

    pub fn ring(&self, id: StreamId) -> Option<Ring> {
        self.known.get(&id)?.ring
    }

    pub fn order(&mut self, order: Order) {
        self.items.push(OutletItem::Order(order));
    }

    pub fn order_leave(&mut self, tag: SubscriberId, id: StreamId) {
        if let Some(ring) = self.ring(id) {
            self.order(Order::Leave(tag, ring));
        }
    }

    /// Subscribes a socket to a stream whose messages carry a number per socket. Returns the first
    /// message.
    pub fn first_of_socket(
        &mut self,
        tag: SubscriberId,
        id: StreamId,
        payload: &[u8],
        place: Option<NumberPosition>,
    ) -> Vec<u8> {
        let number = self.encoder.take_number(tag);
        self.tasks.push(EncoderTask::Join { tag, stream: id, next: number + 1 });
        let mut first = Vec::with_capacity(payload.len() + 20);
        match place {
            Some(place) => place.fill(payload, number, &mut first),
            None => first.extend_from_slice(payload),
        }
        first
    }

    pub fn leave_socket(&mut self, tag: SubscriberId, id: StreamId) {
        if self.known.get(&id).is_some_and(|known| known.ring.is_none()) {
            self.tasks.push(EncoderTask::Leave { tag, stream: id });
        }
    }

    pub fn forget(&mut self, tag: SubscriberId) {
        self.encoder.forget(tag);
    }

    /// Hands everything over in order. Without delivery threads only `tap` receives the messages,
    /// for gateways.
    pub fn release(&mut self, delivery: Option<&std::sync::Arc<Publisher>>, tap: &mut dyn FnMut(StreamId, &[u8])) {
        let mut start = 0;
        for item in self.items.drain(..) {
            match item {
                OutletItem::Message { stream, len } => {
                    let payload = self.bytes.get(start..start + len).unwrap_or_default();
                    start += len;
                    tap(stream, payload);
                    let Some(known) = self.known.get_mut(&stream) else { continue };
                    known.seq += 1;
                    if let Some(ring) = known.ring {
                        self.batch.text(ring, b"", known.seq, payload);
                    }
                }
                OutletItem::Order(order) => {
                    let Some(delivery) = delivery else { continue };
                    delivery.send(&mut self.batch);
                    order.carry_out(delivery);
                }
            }
        }
        self.bytes.clear();
        let Some(delivery) = delivery else { return self.tasks.clear() };
        delivery.send(&mut self.batch);
        // The sockets must have been handed off before the numbering thread writes to them.
        if !self.tasks.is_empty() {
            self.encoder.send(std::mem::take(&mut self.tasks), delivery);
        }
    }
}
