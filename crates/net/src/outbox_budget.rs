//! How many unread bytes the outboxes may hold: those of one payer, and those of all connections.
//!
//! Does        counts the bytes of every outbox against its payer and against the server. The
//!             application names the payer of a connection, such as an account. Remembers which
//!             payers have sent slow requests.
//! Holds       1. one outbox counts at most [`COUNTED_BYTES`], so that one large answer does not
//!                stop the other connections of its payer;
//!             2. an outbox that is dropped counts nothing any more.
//! Start at    [`OutboxBudget::meter`], [`OutboxMeter::set`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use crate::limits::Limits;

/// Most bytes of one outbox that count.
const COUNTED_BYTES: usize = 1024 * 1024;
/// Calls of [`OutboxBudget::forget_payers`] after which a slow request of a payer is forgotten.
const SLOW_SWEEPS: u8 = 2;

/// Bytes that wait in some outboxes.
#[derive(Clone, Debug, Default)]
struct ByteCount(Arc<AtomicUsize>);

impl ByteCount {
    fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn replace(&self, before: usize, after: usize) {
        self.0.fetch_add(after, Ordering::Relaxed);
        self.0.fetch_sub(before, Ordering::Relaxed);
    }
}

/// What the connections of a payer share.
#[derive(Clone, Debug, Default)]
struct Payer {
    count: ByteCount,
    /// Above zero for a while after a slow request.
    slow_sweeps: Arc<AtomicU8>,
}

/// The counts of one server.
#[derive(Debug)]
pub(crate) struct OutboxBudget {
    all: ByteCount,
    payers: BTreeMap<u64, Payer>,
    max_bytes: usize,
    max_payer_bytes: usize,
    /// A payer has got below its limit since the last look.
    has_freed: Arc<AtomicBool>,
}

/// The share of one outbox in the counts.
#[derive(Debug)]
pub(crate) struct OutboxMeter {
    all: ByteCount,
    payer: Option<Payer>,
    max_payer_bytes: usize,
    counted: usize,
    has_freed: Arc<AtomicBool>,
}

impl OutboxBudget {
    /// Makes the counts of a server without connections.
    pub fn new(limits: &Limits) -> OutboxBudget {
        OutboxBudget {
            all: ByteCount::default(),
            payers: BTreeMap::new(),
            max_bytes: limits.outbox_bytes,
            max_payer_bytes: limits.outbox_bytes_per_payer,
            has_freed: Arc::default(),
        }
    }

    /// Returns the meter of a new outbox, which has no payer yet.
    pub fn meter(&self) -> OutboxMeter {
        OutboxMeter {
            all: self.all.clone(),
            payer: None,
            max_payer_bytes: self.max_payer_bytes,
            counted: 0,
            has_freed: Arc::clone(&self.has_freed),
        }
    }

    /// Counts an outbox against `payer` from here on.
    pub fn charge(&mut self, meter: &mut OutboxMeter, payer: u64) {
        let payer = self.payers.entry(payer).or_default();
        if let Some(before) = meter.payer.replace(payer.clone()) {
            before.count.replace(meter.counted, 0);
        }
        payer.count.replace(0, meter.counted);
    }

    /// Returns how many bytes have to go until the server is well within its limit: none, as long
    /// as the limit is not exceeded.
    pub fn excess_bytes(&self) -> usize {
        let bytes = self.all.bytes();
        if bytes <= self.max_bytes { 0 } else { bytes - self.max_bytes / 4 * 3 }
    }

    /// Says whether a payer has got below its limit since the last call.
    pub fn take_freed(&self) -> bool {
        self.has_freed.swap(false, Ordering::Relaxed)
    }

    /// Forgets payers without connections, and slow requests of the others after a while.
    pub fn forget_payers(&mut self) {
        self.payers.retain(|_, payer| {
            let sweeps = payer.slow_sweeps.load(Ordering::Relaxed);
            payer.slow_sweeps.store(sweeps.saturating_sub(1), Ordering::Relaxed);
            Arc::strong_count(&payer.count.0) > 1
        });
    }
}

impl OutboxMeter {
    /// Sets how many bytes the outbox holds.
    pub fn set(&mut self, bytes: usize) {
        let (before, after) = (self.counted, bytes.min(COUNTED_BYTES));
        if before == after {
            return;
        }
        self.counted = after;
        self.all.replace(before, after);
        if let Some(payer) = &self.payer {
            let was_over = payer.count.bytes() >= self.max_payer_bytes;
            payer.count.replace(before, after);
            if was_over && payer.count.bytes() < self.max_payer_bytes.saturating_mul(2) {
                self.has_freed.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Returns how many bytes of the outbox count.
    pub fn counted(&self) -> usize {
        self.counted
    }

    /// Returns whether the payer may get more answers. A connection that has read everything may
    /// use up to twice the limit, because another connection of the payer is the slow one.
    pub fn has_room(&self) -> bool {
        let factor = if self.counted == 0 { 2 } else { 1 };
        self.payer.as_ref().is_none_or(|payer| payer.count.bytes() < self.max_payer_bytes.saturating_mul(factor))
    }

    /// Notes that a request of the payer has taken much time.
    pub fn note_slow_request(&self) {
        if let Some(payer) = &self.payer {
            payer.slow_sweeps.store(SLOW_SWEEPS, Ordering::Relaxed);
        }
    }

    /// Returns whether the payer has sent a slow request, over any connection, in the last seconds.
    pub fn is_slow(&self) -> bool {
        self.payer.as_ref().is_some_and(|payer| payer.slow_sweeps.load(Ordering::Relaxed) > 0)
    }
}

impl Drop for OutboxMeter {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(max_bytes: usize, max_payer_bytes: usize) -> OutboxBudget {
        let limits = Limits { outbox_bytes: max_bytes, outbox_bytes_per_payer: max_payer_bytes, ..Limits::default() };
        OutboxBudget::new(&limits)
    }

    #[test]
    fn the_outboxes_of_a_payer_share_its_limit_and_free_it_when_they_are_dropped() {
        let mut budget = budget(1_000, 100);
        let [mut one, mut two, mut idle, mut other] = [budget.meter(), budget.meter(), budget.meter(), budget.meter()];
        for (meter, payer) in [(&mut one, 7), (&mut two, 7), (&mut idle, 7), (&mut other, 8)] {
            budget.charge(meter, payer);
        }
        one.set(60);
        two.set(40);
        other.set(10);
        assert_eq!([one.has_room(), two.has_room(), idle.has_room(), other.has_room()], [false, false, true, true]);
        one.set(160);
        assert!(!idle.has_room(), "twice the limit stops every connection of the payer");
        assert!(!budget.take_freed());
        drop(one);
        assert!(budget.take_freed() && two.has_room() && idle.has_room());
        assert_eq!(budget.all.bytes(), 50);
    }

    #[test]
    fn new_payer_takes_over_the_waiting_bytes() {
        let mut budget = budget(1_000, 100);
        let (mut meter, mut other) = (budget.meter(), budget.meter());
        meter.set(150);
        assert!(meter.has_room(), "without a payer only the server's limit holds");
        budget.charge(&mut meter, 1);
        assert!(!meter.has_room());
        budget.charge(&mut meter, 2);
        budget.charge(&mut other, 1);
        other.set(1);
        assert!(!meter.has_room() && other.has_room());
        drop((meter, other));
        budget.forget_payers();
        assert!(budget.payers.is_empty());
    }

    #[test]
    fn the_server_has_to_get_well_below_its_limit() {
        let budget = budget(1_000, 100);
        let mut meter = budget.meter();
        meter.set(1_000);
        assert_eq!(budget.excess_bytes(), 0);
        meter.set(1_001);
        assert_eq!(budget.excess_bytes(), 251);
        meter.set(usize::MAX);
        assert_eq!(meter.counted(), COUNTED_BYTES);
    }
}
