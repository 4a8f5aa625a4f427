//! A priority queue by time. Items with equal times come in the order in which they were added.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pitwire_model::VenueNanos;

/// Items with the time at which each is due.
#[derive(Debug)]
pub struct TimeQueue<T> {
    heap: BinaryHeap<Reverse<QueuedItem<T>>>,
    /// Number of the next item. A heap alone does not keep the order of equal times.
    arrivals: u64,
}

/// An item of the queue.
#[derive(Debug)]
struct QueuedItem<T> {
    at: VenueNanos,
    arrival: u64,
    item: T,
}

impl<T> QueuedItem<T> {
    fn key(&self) -> (VenueNanos, u64) {
        (self.at, self.arrival)
    }
}

impl<T> PartialEq for QueuedItem<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for QueuedItem<T> {}

impl<T> PartialOrd for QueuedItem<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for QueuedItem<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<T> TimeQueue<T> {
    /// Creates an empty queue.
    pub fn new() -> Self {
        TimeQueue { heap: BinaryHeap::new(), arrivals: 0 }
    }

    /// Adds an item.
    pub fn push(&mut self, at: VenueNanos, item: T) {
        self.heap.push(Reverse(QueuedItem { at, arrival: self.arrivals, item }));
        self.arrivals += 1;
    }

    /// Returns the earliest time.
    pub fn next_due(&self) -> Option<VenueNanos> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Removes the earliest item.
    pub fn pop(&mut self) -> Option<(VenueNanos, T)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.item))
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_with_equal_times_keep_their_order() {
        let mut schedule = TimeQueue::new();
        for (at, item) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b'), (5, 'e')] {
            schedule.push(VenueNanos(at), item);
        }
        assert_eq!((schedule.len(), schedule.next_due()), (5, Some(VenueNanos(3))));
        let order: String = std::iter::from_fn(|| schedule.pop()).map(|(_, item)| item).collect();
        assert_eq!(order, "abcde");
    }
}
