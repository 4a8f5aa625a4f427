//! State of an instrument between the orders of a call, a batch or the closing price cross.

use std::collections::VecDeque;

use pitwire_model::{OrderId, Side};

use super::curve::AuctionCurve;

/// Auction state of one instrument.
#[derive(Debug, Default)]
pub(crate) struct AuctionState {
    /// Orders of the current call or batch by price. Rebuilt after recovery; not part of an image.
    pub curve: Option<AuctionCurve>,
    /// Orders that wait in the closing price cross. Rebuilt after recovery; not part of an image.
    pub cross: Option<CrossQueues>,
    pub batch_ends: BatchEnds,
}

impl AuctionState {
    /// Adds an order to the queue of the closing price cross.
    pub fn wait_in_cross(&mut self, side: Side, time: u64, id: OrderId) {
        if let Some(queues) = &mut self.cross {
            queues.insert(side, time, id);
        }
    }
}

/// Time priorities at which batches ended, ascending. Contains every end that separates live
/// orders, and possibly others. An order with a time before an end belongs to that batch or an
/// earlier one.
#[derive(Debug, Default)]
pub(crate) struct BatchEnds {
    times: Vec<u64>,
}

impl BatchEnds {
    pub fn as_slice(&self) -> &[u64] {
        &self.times
    }

    /// Ends the current batch.
    pub fn push(&mut self, end: u64) {
        if self.times.last() != Some(&end) {
            self.times.push(end);
        }
    }

    /// Returns the number of live orders older than each end, ascending. Leaves out ends that
    /// separate no live orders. `live_times` holds the times of all live orders, ascending.
    pub fn counts(&self, live_times: &[u64]) -> Vec<u32> {
        let older = |end: &u64| u32::try_from(live_times.partition_point(|time| time < end)).ok();
        let mut counts: Vec<u32> = self.times.iter().filter_map(older).collect();
        counts.dedup();
        counts.retain(|count| *count > 0);
        counts
    }

    /// Sets the ends from the result of [`BatchEnds::counts`] for the same live orders.
    pub fn set_counts(&mut self, counts: &[u32], live_times: &[u64]) {
        let after = |count: &u32| live_times.get((*count as usize).checked_sub(1)?).map(|time| time + 1);
        self.times = counts.iter().filter_map(after).collect();
    }
}

/// Orders that wait at the closing price, by time. An entry may be stale, because its order has
/// left or has changed its time; the cross checks each entry when its turn comes.
#[derive(Debug, Default)]
pub(crate) struct CrossQueues {
    sides: [VecDeque<(u64, OrderId)>; 2],
}

impl CrossQueues {
    /// Entries of one side, earliest first.
    pub fn entries(&self, side: Side) -> impl Iterator<Item = (u64, OrderId)> {
        self.sides[side as usize & 1].iter().copied()
    }

    pub fn first(&self, side: Side) -> Option<(u64, OrderId)> {
        self.sides[side as usize & 1].front().copied()
    }

    pub fn remove_first(&mut self, side: Side) {
        self.sides[side as usize & 1].pop_front();
    }

    /// Adds an entry that is later than all others of its side.
    pub fn push(&mut self, side: Side, time: u64, id: OrderId) {
        self.sides[side as usize & 1].push_back((time, id));
    }

    /// Adds an entry by its time. It is nearly always the last: only a stop that was elected before
    /// other orders arrived is executed after them.
    pub fn insert(&mut self, side: Side, time: u64, id: OrderId) {
        let queue = &mut self.sides[side as usize & 1];
        let at = queue.partition_point(|(other, _)| *other < time);
        queue.insert(at, (time, id));
    }
}
