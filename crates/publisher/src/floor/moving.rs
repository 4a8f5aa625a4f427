//! Readers that go to another hall, and those that come from one.
//!
//! Holds       1. only whoever has got everything and owes nothing moves: its place is the number of the last message of
//!                each of its streams, which means the same in every hall;
//!             2. its connection does not end: nobody is told that it has left, and it is not counted again.
//!             3. its form and its choice go with it: keys by name, for each hall numbers them by itself; a form that nobody
//!                had there is made from what is kept.
//! Leaves out  readers with half a message said or sent, or something else that waits: they stay until they have not. When
//!             readers move: `reserve.rs`.

use std::net::IpAddr;
use std::sync::Arc;

use pitwire_websocket::CloseCode;

use crate::counters::add;
use crate::floor::Floor;
use crate::floor::lag::{TOO_BUSY, TOO_SLOW};
use crate::reserve::{Mover, Place};
use crate::subscriber::{NOBODY, Stage};
use pitwire_delivery::{ENVELOPED, LagPolicy, StreamId};
use pitwire_delivery::{Key, Ring};

/// Readers that are to go: where to, how many, and how far it has been looked for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parting {
    to: usize,
    left: usize,
    at: usize,
}

impl Floor {
    pub(super) fn part(&mut self, to: usize, count: usize) {
        self.parting = Some(Parting { to, left: count, at: 0 });
    }

    /// Whether readers are to go to another hall.
    pub fn is_parting(&self) -> bool {
        self.parting.is_some() && !self.is_stopping
    }

    /// Some of those who are to go, and could at this moment, and where to.
    pub fn take_parting(&mut self, most: usize, into: &mut Vec<u32>) -> usize {
        let Some(mut parting) = self.parting.take() else { return self.hall };
        let (most, end) = (most.min(parting.left), self.subscribers.capacity());
        while into.len() < most && parting.at < end {
            let slot = u32::try_from(parting.at).unwrap_or(NOBODY);
            into.extend(self.may_part(slot).then_some(slot));
            parting.at += 1;
        }
        parting.left -= into.len();
        self.parting = (parting.left > 0 && parting.at < end).then_some(parting);
        parting.to
    }

    /// Whether it has got everything, and nothing is known of it that is not known wherever it goes.
    pub fn may_part(&self, slot: u32) -> bool {
        let Some(subscriber) = self.subscribers.get(slot as usize) else { return false };
        let is_heard = subscriber.unheard == 0 && !(subscriber.is_at_end || subscriber.is_unfinished);
        let is_served = subscriber.mid_frame == NOBODY && subscriber.owed == 0 && !subscriber.is_blocked;
        let has_all = subscriber.control.as_bytes().is_empty() && self.is_between(subscriber);
        let is_settled = subscriber.rare.as_ref().is_none_or(|rare| rare.is_settled());
        subscriber.stage == Stage::Open && is_settled && is_heard && is_served && has_all
    }

    /// Forgets one that goes; [`Self::may_part`] has been asked.
    pub fn part_with(&mut self, slot: u32, socket: std::net::TcpStream, from: Option<IpAddr>) -> Option<Mover> {
        let keys = self.names_chosen(slot);
        let subscriber = self.subscribers.get_mut(slot as usize)?;
        let account = subscriber.rare.as_mut().and_then(|rare| rare.account.take());
        let (class, deflates, heard_ms) = (subscriber.class, subscriber.deflates, subscriber.heard_ms);
        let last_of = |stream: u32| Some((StreamId(stream), self.streams.get(stream as usize)?.last_seq));
        let read = subscriber.items.as_slice().iter().filter_map(|item| last_of(item.stream)).collect();
        let tag = self.forget(slot)?;
        Some(Mover { socket, tls: None, tag, from, place: Place { heard_ms, read, class, deflates, keys, account } })
    }

    fn names_chosen(&self, slot: u32) -> Option<Vec<Arc<[u8]>>> {
        let subscriber = self.subscribers.get(slot as usize)?;
        let keys = subscriber.filter()?;
        let of = self.streams.get(subscriber.items.as_slice().first()?.stream as usize)?;
        Some(keys.iter().filter_map(|key| of.name_of(*key)).cloned().collect())
    }

    pub(super) fn settle(&mut self, mover: Mover) {
        let Mover { socket, tls, tag, from, place } = mover;
        let Place { heard_ms, read, class, deflates, keys, account } = place;
        let slot = self.insert(tag);
        self.arrivals.push((slot, socket));
        self.sessions.extend(tls.map(|session| (slot, session)));
        self.callers.extend(from.map(|from| (slot, from)));
        self.set_stage(slot, Stage::Open, self.limits.idle_ms / 2 + 1);
        let class = self.class_for(class, &read);
        let filter = keys.zip(read.first()).map(|(names, (stream, _))| self.numbers_chosen(*stream, &names));
        let lacks_key = filter.as_ref().is_some_and(Option::is_none);
        if let Some(subscriber) = self.subscribers.get_mut(slot as usize) {
            (subscriber.class, subscriber.deflates, subscriber.heard_ms) = (class, deflates, heard_ms);
            if account.is_some() || filter.is_some() {
                let rare = subscriber.rare();
                (rare.account, rare.filter) = (account, filter.flatten());
            }
        }
        for (stream, seq) in read {
            self.go_on_behind(slot, stream, seq);
        }
        self.list(slot);
        if lacks_key {
            self.close(slot, CloseCode::TryAgainLater, "too many keys here for your choice; connect again");
        } else if self.is_stopping {
            self.set_stage(slot, Stage::Parting, self.limits.parting_ms);
        }
    }

    /// `None` if this hall has no number any more for one of them.
    fn numbers_chosen(&mut self, stream: StreamId, names: &[Arc<[u8]>]) -> Option<Arc<[Key]>> {
        let of = self.streams.get_mut(stream.0 as usize)?;
        let mut keys = names.iter().map(|name| of.key_chosen(name)).collect::<Option<Vec<Key>>>()?;
        keys.sort_unstable();
        Some(keys.into())
    }

    /// In which form one that comes is served: its own. Should what it needs next not be there compressed, but as it is, that:
    /// it can read both.
    fn class_for(&mut self, class: u8, read: &[(StreamId, u64)]) -> u8 {
        let Floor { streams, compressor, class: kept, epoch, .. } = self;
        let mut has_all = |class: u8| {
            read.iter().all(|(stream, seq)| {
                let Some(of) = streams.get_mut(stream.0 as usize) else { return true };
                of.open_ring_filled(class, *kept, *epoch, compressor);
                of.ring(class).is_some_and(|ring| ring.after_safely(*seq).is_some())
            })
        };
        let plain = class & ENVELOPED;
        if plain == class || has_all(class) || !has_all(plain) { class } else { plain }
    }

    /// Has one that comes read on behind a message. Should that be more than half a ring ago here (the hall that it comes from
    /// must have been held up), it has fallen behind.
    fn go_on_behind(&mut self, slot: u32, stream: StreamId, seq: u64) {
        let (kept, epoch) = (self.class, self.epoch);
        let class = self.subscribers.get(slot as usize).map_or(kept, |subscriber| subscriber.class);
        let Some(of) = self.streams.get_mut(stream.0 as usize) else { return };
        of.open_ring_filled(class, kept, epoch, &mut self.compressor);
        // What came before is not here: this hall was in reserve.
        of.last_seq = of.last_seq.max(seq);
        let goes_on = |ring: &Ring| ring.after_safely(seq).is_some_and(|cursor| cursor < ring.head());
        let is_lost = seq < of.last_seq && !of.ring(class).is_some_and(goes_on);
        let newest = of.ring(class).and_then(|ring| ring.newest()).map_or(seq, |entry| entry.seq.saturating_sub(1));
        // What this hall has shed, everybody else here has been closed for.
        let is_shed = of.has_hole_behind(seq);
        let from = match of.spec.lag {
            LagPolicy::Latest if is_lost => newest,
            LagPolicy::Close | LagPolicy::Ask if is_lost || is_shed => {
                self.join_at(slot, stream, None);
                add(&self.counters().closed_slow_total, 1);
                return self.close(slot, CloseCode::TryAgainLater, if is_shed { TOO_BUSY } else { TOO_SLOW });
            }
            _ => seq,
        };
        self.join_at(slot, stream, Some((epoch, from)));
    }

    /// Where one of the arrivals counts as coming from.
    pub fn take_caller(&mut self, slot: u32) -> Option<IpAddr> {
        let at = self.callers.iter().position(|(of, _)| *of == slot)?;
        Some(self.callers.swap_remove(at).1)
    }

    /// Asked to go into the reserve with so many moves made here, and nobody is here.
    pub fn take_retirement(&mut self) -> Option<u64> {
        self.retirement.take().filter(|_| self.is_empty() && self.arrivals.is_empty())
    }
}
