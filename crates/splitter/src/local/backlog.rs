//! The objects that a slow worker has not received yet, or will not receive.
//!
//! Does        queues, conflates or counts what a channel refused; delivers it when the channel
//!             accepts again.
//! Holds       every loss is counted, and declared to the worker unless gap records are disabled.
//! Start at    [`WorkerBacklog::add`] and [`WorkerBacklog::catch_up`].

use std::time::{Duration, Instant, SystemTime};

use pitwire_shard::{Conflation, GapRecord};

use super::channel::WorkerChannel;
use super::spill_queue::SpillQueue;
use crate::policy::SlowWorkerPolicy;
use crate::transport::TransportTotals;

/// Symbols that all workers together may conflate at a time, and the least per worker.
const SYMBOLS: usize = 32_768;
const SYMBOLS_FLOOR: usize = 512;

/// The contents of a gap record besides the loss itself.
pub(super) struct GapContext {
    pub connection: u64,
    pub is_wanted: bool,
    pub restarts: u64,
}

pub(super) struct WorkerBacklog {
    queue: SpillQueue,
    sums: Option<Conflation>,
    /// Objects lost and not yet declared.
    missing: u64,
    /// A gap record is owed without a loss: a note was lost, or the program is new.
    owes_note: bool,
    was_restarted: bool,
    is_closed: bool,
    is_reported: bool,
    /// How much the worker had read when it last read something, and when that was.
    taken: Option<(u64, Instant)>,
    pub gaps: u64,
    dropped: u64,
    spilled: u64,
    conflated: u64,
}

impl WorkerBacklog {
    pub fn new(policy: SlowWorkerPolicy, workers: u32) -> Self {
        let limit = match policy {
            SlowWorkerPolicy::Spill { bytes } => usize::try_from(bytes).unwrap_or(usize::MAX),
            _ => 0,
        };
        let symbols = (SYMBOLS / workers.max(1) as usize).max(SYMBOLS_FLOOR);
        Self {
            queue: SpillQueue::new(limit),
            sums: (policy == SlowWorkerPolicy::Conflate).then(|| Conflation::new(symbols)),
            missing: 0,
            owes_note: false,
            was_restarted: false,
            is_closed: false,
            is_reported: false,
            taken: None,
            gaps: 0,
            dropped: 0,
            spilled: 0,
            conflated: 0,
        }
    }

    pub fn miss(&mut self) {
        self.lost(1);
    }

    fn lost(&mut self, objects: u64) {
        self.missing += objects;
        self.dropped += objects;
    }

    /// Adds an object for a worker that is behind.
    pub fn add(&mut self, record: &[u8], gap: &GapContext) {
        if self.is_closed {
            return self.lost(1);
        }
        if let Some(sums) = &mut self.sums {
            if sums.add(record) {
                self.conflated += 1
            } else {
                self.lost(1)
            }
            return;
        }
        if self.owes() && !self.declare_in_queue(gap) {
            return self.lost(1);
        }
        if self.queue.push(record, false) { self.spilled += 1 } else { self.lost(1) }
    }

    /// Adds a record of the splitter itself for a worker that is behind.
    pub fn add_note(&mut self, record: &[u8]) {
        let in_place = !self.is_closed && self.sums.is_none() && !self.owes() && self.queue.push(record, true);
        if !in_place {
            self.owes_note = true;
        }
    }

    fn owes(&self) -> bool {
        self.missing > 0 || self.owes_note
    }

    /// Queues the gap record once half of the queue is free, so that a full queue does not fill
    /// with gap records.
    fn declare_in_queue(&mut self, gap: &GapContext) -> bool {
        if !self.queue.is_roomy() {
            return false;
        }
        let declared = !gap.is_wanted || self.queue.push(self.gap(gap).text().as_bytes(), true);
        if declared {
            self.settle();
        }
        declared
    }

    fn gap(&self, gap: &GapContext) -> GapRecord {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        GapRecord {
            connection: gap.connection,
            at_ns: u64::try_from(now).unwrap_or(u64::MAX),
            dropped: (self.missing > 0).then_some(self.missing),
            restarts: self.was_restarted.then_some(gap.restarts),
        }
    }

    fn settle(&mut self) {
        (self.missing, self.owes_note, self.was_restarted) = (0, false, false);
    }

    /// Sends the gap record for the missing objects. Returns false if the channel refused it.
    pub fn declare(&mut self, channel: &mut impl WorkerChannel, gap: &GapContext) -> bool {
        if self.is_closed {
            return false;
        }
        if !self.owes() || !gap.is_wanted {
            self.settle();
            return true;
        }
        let text = self.gap(gap).text();
        if channel.put(text.as_bytes(), 0, text.len()).is_err() {
            return false;
        }
        self.gaps += 1;
        self.settle();
        true
    }

    /// Delivers as much as the channel accepts. Returns whether the worker has caught up.
    pub fn catch_up(
        &mut self,
        channel: &mut impl WorkerChannel,
        gap: &GapContext,
        handed: &mut u64,
        scratch: &mut String,
    ) -> bool {
        if self.is_closed {
            return false;
        }
        self.empty_queue(channel, handed);
        self.empty_sums(channel, scratch);
        let is_empty = self.queue.is_empty() && self.sums.as_ref().is_none_or(Conflation::is_empty);
        if !is_empty || !channel.is_roomy() {
            return false;
        }
        let caught_up = self.declare(channel, gap);
        if caught_up {
            self.taken = None;
        }
        caught_up
    }

    fn empty_queue(&mut self, channel: &mut impl WorkerChannel, handed: &mut u64) {
        while let Some((record, is_note)) = self.queue.front() {
            if channel.put(record, 0, record.len()).is_err() {
                return;
            }
            self.queue.pop();
            if is_note { self.gaps += 1 } else { *handed += 1 }
        }
    }

    fn empty_sums(&mut self, channel: &mut impl WorkerChannel, scratch: &mut String) {
        let Some(sums) = &mut self.sums else { return };
        loop {
            scratch.clear();
            if !sums.front(scratch) || channel.put(scratch.as_bytes(), 0, scratch.len()).is_err() {
                return;
            }
            sums.pop();
        }
    }

    /// Closes the backlog. `unread` records in the channel are lost.
    pub fn close(&mut self, unread: u64) {
        self.is_closed = true;
        self.lose(unread);
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub fn mark_reported(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reported, true)
    }

    /// Returns how long the worker has read nothing.
    pub fn idle_time(&mut self, taken: u64, now: Instant) -> Duration {
        match self.taken {
            Some((before, since)) if before == taken => now.duration_since(since),
            _ => {
                self.taken = Some((taken, now));
                Duration::ZERO
            }
        }
    }

    /// Counts everything here, and `besides` more objects, as lost.
    pub fn lose(&mut self, besides: u64) {
        let queued = self.queue.clear();
        self.spilled -= queued;
        let summed = self.sums.as_mut().map_or(0, |sums| {
            let trades = sums.trades();
            while sums.pop() > 0 {}
            trades
        });
        self.conflated -= summed;
        self.lost(queued + summed + besides);
    }

    /// Reopens the backlog for a restarted program, which receives a gap record first.
    pub fn reopen(&mut self) {
        (self.is_closed, self.is_reported, self.taken) = (false, false, None);
        (self.owes_note, self.was_restarted) = (true, true);
    }

    pub fn queued_bytes(&self) -> u64 {
        self.queue.bytes() as u64
    }

    pub fn add_to(&self, totals: &mut TransportTotals) {
        totals.gaps += self.gaps;
        totals.dropped += self.dropped;
        totals.spilled += self.spilled;
        totals.spilled_now += self.queue.objects();
        totals.conflated += self.conflated;
    }
}
