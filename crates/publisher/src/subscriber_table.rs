//! The subscribers of one delivery thread: their slots, timers, outbound queues, and the lists of
//! those that a delivery pass has to serve.
//!
//! Holds       1. A slot stays the same from [`SubscriberTable::insert`] to
//!                [`SubscriberTable::remove`].
//!             2. A list may name a slot that has been freed since. [`Service`] says whether an
//!                entry still counts.
//! Start at    [`SubscriberTable::insert`], [`SubscriberTable::queue`].

use std::collections::HashMap;

use pitwire_delivery::FrameHeader;
use pitwire_websocket::Opcode;
use slab::Slab;

use crate::handler::SubscriberId;
use crate::subscriber::{NO_INDEX, Service, Stage, Subscriber};
use crate::timer_wheel::TimerWheel;

/// Most spare buffers that are kept for reuse, and the largest capacity of one in bytes.
const SPARES: usize = 64;
const SPARE_BYTES: usize = 128 * 1024;

/// The connections of one delivery thread, each with its unsent messages. The channels that a
/// connection has requested are in another table, of the thread that parses its requests.
#[derive(Default)]
pub(crate) struct SubscriberTable {
    slots: Slab<Subscriber>,
    by_id: HashMap<SubscriberId, u32>,
    timers: TimerWheel,
    now_ms: u64,
    /// Slots with individual frames.
    listed: Vec<u32>,
    /// Slots whose sockets accept no more bytes.
    blocked: Vec<u32>,
    /// Slots of finished connections, whose sockets the caller has to close.
    finished: Vec<u32>,
    spare_outboxes: Vec<Vec<u8>>,
    /// Buffer for the slots whose timers have expired.
    expired: Vec<u32>,
}

impl SubscriberTable {
    /// Sets the current time and returns the slots whose timers have expired. Give the list back to
    /// [`Self::recycle_expired`].
    pub fn advance(&mut self, now_ms: u64) -> Vec<u32> {
        self.now_ms = now_ms;
        let mut expired = std::mem::take(&mut self.expired);
        self.timers.turn(&mut self.slots, now_ms, &mut expired);
        expired
    }

    pub fn recycle_expired(&mut self, mut expired: Vec<u32>) {
        expired.clear();
        self.expired = expired;
    }

    /// Advances the time without expiring timers.
    pub fn has_waited(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
    }

    /// Returns the time in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Returns the time in milliseconds, wrapped after 49 days. Only differences are used.
    #[allow(clippy::cast_possible_truncation)]
    pub fn stamp_ms(&self) -> u32 {
        self.now_ms as u32
    }

    pub fn elapsed_ms(&self, since_ms: u32) -> u32 {
        self.stamp_ms().wrapping_sub(since_ms)
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub fn get(&self, slot: u32) -> Option<&Subscriber> {
        self.slots.get(slot as usize)
    }

    pub fn get_mut(&mut self, slot: u32) -> Option<&mut Subscriber> {
        self.slots.get_mut(slot as usize)
    }

    /// Returns a subscriber that gets messages of its streams.
    pub fn served(&self, slot: u32) -> Option<&Subscriber> {
        self.get(slot).filter(|subscriber| subscriber.is_served())
    }

    pub fn served_mut(&mut self, slot: u32) -> Option<&mut Subscriber> {
        self.get_mut(slot).filter(|subscriber| subscriber.is_served())
    }

    /// Returns the slot of a connection.
    pub fn slot_of(&self, id: SubscriberId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    pub fn all_slots(&self) -> Vec<u32> {
        self.slots.iter().filter_map(|(slot, _)| u32::try_from(slot).ok()).collect()
    }

    /// Adds a connection whose timer expires in `wait_ms` milliseconds, and returns its slot.
    pub fn insert(&mut self, id: SubscriberId, wait_ms: u32) -> u32 {
        let slot = self.slots.insert(Subscriber::new(id, self.stamp_ms()));
        let slot = u32::try_from(slot).unwrap_or(NO_INDEX - 1);
        self.by_id.insert(id, slot);
        self.set_timer(slot, wait_ms);
        slot
    }

    /// Removes a connection. Its subscriptions must have been removed before.
    pub fn remove(&mut self, slot: u32) -> Option<Subscriber> {
        self.timers.unset(&mut self.slots, slot);
        let mut subscriber = self.slots.try_remove(slot as usize)?;
        if let Some(rare) = &mut subscriber.rare {
            self.keep_outbox(std::mem::take(&mut rare.outbox));
        }
        self.by_id.remove(&subscriber.id);
        Some(subscriber)
    }

    pub fn set_timer(&mut self, slot: u32, wait_ms: u32) {
        self.timers.set(&mut self.slots, slot, self.now_ms, wait_ms);
    }

    /// Begins a stage. The deadlines are checked in `wait_ms` milliseconds.
    pub fn set_stage(&mut self, slot: u32, stage: Stage, wait_ms: u32) {
        let now_ms = self.stamp_ms();
        if let Some(subscriber) = self.get_mut(slot) {
            (subscriber.stage, subscriber.since_ms) = (stage, now_ms);
        }
        self.set_timer(slot, wait_ms);
    }

    /// Lists a subscriber for the next delivery pass, unless its socket accepts no bytes.
    pub fn list(&mut self, slot: u32) {
        let Some(subscriber) = self.get_mut(slot) else { return };
        if subscriber.service == Service::Idle {
            subscriber.service = Service::Listed;
            self.listed.push(slot);
        }
    }

    /// Whether subscribers have individual frames to send.
    pub fn has_listed(&self) -> bool {
        !self.listed.is_empty()
    }

    /// Moves the listed slots to `into`. They stay listed until their turn begins.
    pub fn take_listed(&mut self, into: &mut Vec<u32>) {
        into.append(&mut self.listed);
        // A listed slot may have been freed, or be listed twice. A batch would then send the same
        // bytes twice.
        into.retain(|slot| {
            let subscriber = self.slots.get_mut(*slot as usize).filter(|it| it.service == Service::Listed);
            subscriber.map(|subscriber| subscriber.service = Service::Idle).is_some()
        });
        for slot in into.iter() {
            if let Some(subscriber) = self.slots.get_mut(*slot as usize) {
                subscriber.service = Service::Listed;
            }
        }
    }

    /// Begins the turn of a listed subscriber.
    pub fn unlist(&mut self, slot: u32) {
        if let Some(subscriber) = self.get_mut(slot)
            && subscriber.service == Service::Listed
        {
            subscriber.service = Service::Idle;
        }
    }

    /// Records that a socket accepts no more bytes.
    pub fn block(&mut self, slot: u32) {
        if let Some(subscriber) = self.get_mut(slot)
            && std::mem::replace(&mut subscriber.service, Service::Blocked) != Service::Blocked
        {
            self.blocked.push(slot);
        }
    }

    /// Records that a socket accepts bytes again.
    pub fn unblock(&mut self, slot: u32) {
        if let Some(subscriber) = self.get_mut(slot)
            && subscriber.service == Service::Blocked
        {
            subscriber.service = Service::Idle;
            self.list(slot);
        }
    }

    /// Returns the slots whose sockets accept no bytes. Give the list back to
    /// [`Self::recycle_blocked`].
    pub fn take_blocked(&mut self) -> Vec<u32> {
        let mut blocked = std::mem::take(&mut self.blocked);
        blocked.retain(|slot| self.get(*slot).is_some_and(|subscriber| subscriber.service == Service::Blocked));
        blocked.sort_unstable();
        blocked.dedup();
        blocked
    }

    pub fn recycle_blocked(&mut self, mut blocked: Vec<u32>) {
        blocked.append(&mut self.blocked);
        self.blocked = blocked;
    }

    /// Drops a connection at once, with all its unsent bytes.
    pub fn finish(&mut self, slot: u32) {
        let Some(subscriber) = self.get_mut(slot) else { return };
        if std::mem::replace(&mut subscriber.stage, Stage::Gone) != Stage::Gone {
            self.finished.push(slot);
        }
    }

    /// Moves the slots of finished connections to `into`.
    pub fn take_finished(&mut self, into: &mut Vec<u32>) {
        into.append(&mut self.finished);
    }

    /// Appends bytes to the outbound queue.
    pub fn queue(&mut self, slot: u32, bytes: &[u8]) {
        let spare = self.spare_outbox(slot);
        let Some(subscriber) = self.get_mut(slot) else { return };
        let control = std::mem::take(&mut subscriber.control);
        let rare = subscriber.rare();
        if let Some(spare) = spare {
            rare.outbox = spare;
        }
        // The pending control frame was queued earlier, so it goes first.
        rare.outbox.extend_from_slice(control.as_bytes());
        rare.outbox.extend_from_slice(bytes);
        self.list(slot);
    }

    /// Queues one text message.
    pub fn queue_text(&mut self, slot: u32, payload: &[u8]) {
        self.queue(slot, FrameHeader::new(Opcode::Text, payload.len(), false).as_bytes());
        self.queue(slot, payload);
    }

    /// Queues an individual ping, for a subscriber without a stream.
    pub fn queue_ping(&mut self, slot: u32) {
        let Some(subscriber) = self.get_mut(slot) else { return };
        subscriber.control.set(Opcode::Ping as u8, b"");
        self.list(slot);
    }

    /// Records that bytes of the outbound queue were sent. Returns whether it is empty now.
    pub fn note_outbox_sent(&mut self, slot: u32, bytes: usize) -> bool {
        let rare = self.get_mut(slot).and_then(|subscriber| subscriber.rare.as_mut());
        let Some(rare) = rare else { return false };
        rare.outbox_sent += bytes;
        if rare.outbox_sent < rare.outbox.len() {
            return false;
        }
        rare.outbox_sent = 0;
        let outbox = std::mem::take(&mut rare.outbox);
        self.keep_outbox(outbox);
        true
    }

    /// Records that bytes of the control frame were sent. The rest moves to the outbound queue.
    pub fn note_control_sent(&mut self, slot: u32, bytes: usize) {
        let Some(subscriber) = self.get_mut(slot) else { return };
        let control = std::mem::take(&mut subscriber.control);
        let rest = control.as_bytes().get(bytes..).unwrap_or_default();
        if !rest.is_empty() {
            self.queue(slot, rest);
        }
    }

    /// Returns a spare buffer, if the subscriber has none.
    pub fn spare_outbox(&mut self, slot: u32) -> Option<Vec<u8>> {
        let rare = self.get(slot)?.rare.as_ref();
        rare.is_none_or(|rare| rare.outbox.capacity() == 0).then(|| self.spare_outboxes.pop()).flatten()
    }

    /// Keeps an empty outbound queue for reuse.
    pub fn keep_outbox(&mut self, mut outbox: Vec<u8>) {
        let is_useful = outbox.capacity() > 0 && outbox.capacity() <= SPARE_BYTES;
        if is_useful && self.spare_outboxes.len() < SPARES {
            outbox.clear();
            self.spare_outboxes.push(outbox);
        }
    }
}
