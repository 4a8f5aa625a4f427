//! Frequent batches: continuous trading in uncrosses (rulebook 15.3).
//!
//! Holds       an order belongs to the batch in which it got its time; a batch ends when it is run.
//! Costs       a batch: its uncross, plus looking through the book for orders that live for one batch.
//! Start at    [`Engine::run_batch`].

use pitwire_model::{CancelReason, InstrumentId, OrderId, Phase};

use super::SIDES;
use crate::book::Slot;
use crate::engine::{Engine, EventSink};
use crate::market::Market;
use crate::rule_tables::Tif;

impl Engine {
    /// Uncrosses what has gathered; then what lives for one batch goes. The end of the command elects stops.
    pub(crate) fn run_batch(&mut self, instrument: InstrumentId, out: &mut impl EventSink) {
        let now = self.times + 1;
        let market = &mut self.markets[instrument.0 as usize];
        market.end_batch(now);
        let tolerance = market.rules.tolerance(Phase::Continuous);
        match self.uncross(instrument, Phase::Continuous, tolerance, out) {
            Ok(_) => self.expire_batch(instrument, CancelReason::ImmediateRemainder, out),
            Err(breach) => {
                out.emit(breach.event(instrument));
                self.expire_batch(instrument, CancelReason::Breaker, out);
                self.breaker_call(instrument, out);
            }
        }
    }

    /// Market orders and those for at once, in order of number.
    fn expire_batch(&mut self, instrument: InstrumentId, reason: CancelReason, out: &mut impl EventSink) {
        for (_, slot) in self.markets[instrument.0 as usize].lives_for_one_batch() {
            self.take_off(instrument, slot, reason, out);
        }
    }
}

impl Market {
    fn lives_for_one_batch(&self) -> Vec<(OrderId, Slot)> {
        let mut found = self.book.slots_of(|_, origin| origin.tif == Tif::ImmediateOrCancel);
        let unpriced = SIDES.into_iter().flat_map(|side| self.special.unpriced(side));
        found.extend(unpriced.filter_map(|slot| Some((self.special.get(slot)?.id, slot))));
        found.sort_unstable();
        found
    }

    /// Orders with an earlier time than `now` belong to this batch or an earlier one.
    fn end_batch(&mut self, now: u64) {
        let live = self.book.resting_orders() as usize + self.special.len();
        if self.special.batch_ends.len() > 2 * live + 16 {
            let counts = self.batch_counts();
            self.set_batch_counts(&counts);
        }
        if self.special.batch_ends.last() != Some(&now) {
            self.special.batch_ends.push(now);
        }
    }

    /// How many live orders are older than each end of a batch: ends that part nobody are left out. Ascending.
    pub(crate) fn batch_counts(&self) -> Vec<u32> {
        if self.special.batch_ends.is_empty() {
            return Vec::new();
        }
        let times = self.live_times();
        let older = |end: &u64| times.partition_point(|time| time < end);
        let mut counts: Vec<u32> =
            self.special.batch_ends.iter().filter_map(|end| u32::try_from(older(end)).ok()).collect();
        counts.dedup();
        counts.retain(|count| *count > 0);
        counts
    }

    /// Ends of batches by how many live orders are older: what [`Market::batch_counts`] says.
    pub(crate) fn set_batch_counts(&mut self, counts: &[u32]) {
        if counts.is_empty() {
            self.special.batch_ends.clear();
            return;
        }
        let times = self.live_times();
        let after = |count: &u32| times.get((*count as usize).checked_sub(1)?).map(|time| time + 1);
        self.special.batch_ends = counts.iter().filter_map(after).collect();
    }

    /// The times of all live orders, ascending.
    fn live_times(&self) -> Vec<u64> {
        let in_book = self.book.unordered().map(|(slot, _)| self.book.origin(slot).time);
        let mut times: Vec<u64> = in_book.chain(self.special.unordered().map(|(_, order)| order.origin.time)).collect();
        times.sort_unstable();
        times
    }
}
