//! Frequent batches: continuous trading as a series of uncrosses (rulebook 15.3).
//!
//! Holds       an order belongs to the batch that was open when the order got its time priority.
//! Costs       a batch: its uncross, and a search of the book for orders that live for one batch.
//! Start at    [`MarketContext::run_batch`].

use pitwire_model::{CancelReason, OrderId, Phase, Side};

use crate::book::Slot;
use crate::event_sink::EventSink;
use crate::market::Market;
use crate::market_context::MarketContext;
use crate::rule_tables::Tif;

impl MarketContext<'_> {
    /// Uncrosses the orders of the current batch, then cancels those that live for one batch. The
    /// end of the command elects stops.
    pub fn run_batch(&mut self, out: &mut impl EventSink) {
        self.market.end_batch(self.clock.last_priority + 1);
        let tolerance = self.market.rules.tolerance(Phase::Continuous);
        match self.uncross(Phase::Continuous, tolerance, out) {
            Ok(_) => self.cancel_batch_orders(CancelReason::ImmediateRemainder, out),
            Err(breach) => {
                out.emit(breach.event(self.instrument()));
                self.cancel_batch_orders(CancelReason::Breaker, out);
                self.start_volatility_call(out);
            }
        }
    }

    /// Cancels market orders and immediate orders, by order id.
    fn cancel_batch_orders(&mut self, reason: CancelReason, out: &mut impl EventSink) {
        for (_, slot) in self.market.batch_orders() {
            self.cancel_live(slot, reason, out);
        }
    }
}

impl Market {
    /// Orders that live for one batch, by order id.
    fn batch_orders(&self) -> Vec<(OrderId, Slot)> {
        let mut found = self.book.slots_of(|_, origin| origin.tif == Tif::ImmediateOrCancel);
        let unpriced = Side::BOTH.into_iter().flat_map(|side| self.undisplayed.unpriced(side));
        found.extend(unpriced.filter_map(|slot| Some((self.undisplayed.get(slot)?.id, slot))));
        found.sort_unstable();
        found
    }

    /// Ends the current batch. Orders with a time before `end` belong to this batch or an earlier
    /// one.
    fn end_batch(&mut self, end: u64) {
        let live = self.book.resting_orders() as usize + self.undisplayed.len();
        if self.auction.batch_ends.as_slice().len() > 2 * live + 16 {
            let counts = self.batch_counts();
            self.set_batch_counts(&counts);
        }
        self.auction.batch_ends.push(end);
    }

    /// Returns the number of live orders older than each batch end, as
    /// [`BatchEnds::counts`](super::state::BatchEnds::counts) does.
    pub(crate) fn batch_counts(&self) -> Vec<u32> {
        let ends = &self.auction.batch_ends;
        if ends.as_slice().is_empty() { Vec::new() } else { ends.counts(&self.live_times()) }
    }

    /// Sets the batch ends from the result of [`Market::batch_counts`].
    pub(crate) fn set_batch_counts(&mut self, counts: &[u32]) {
        let times = if counts.is_empty() { Vec::new() } else { self.live_times() };
        self.auction.batch_ends.set_counts(counts, &times);
    }

    /// The times of all live orders, ascending.
    fn live_times(&self) -> Vec<u64> {
        let in_book = self.book.unordered().map(|(slot, _)| self.book.origin(slot).time);
        let undisplayed = self.undisplayed.unordered().map(|(_, order)| order.origin.time);
        let mut times: Vec<u64> = in_book.chain(undisplayed).collect();
        times.sort_unstable();
        times
    }
}
