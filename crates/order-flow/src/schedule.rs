//! Things to do at stated times, soonest first; things of one time in the order in which they were scheduled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pitwire_model::VenueNanos;

#[derive(Debug)]
pub struct Schedule<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    /// Makes the order of equal times the order of arrival: a heap alone promises nothing.
    arrivals: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: VenueNanos,
    arrival: u64,
    what: T,
}

impl<T> Entry<T> {
    fn key(&self) -> (VenueNanos, u64) {
        (self.at, self.arrival)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<T> Schedule<T> {
    pub fn new() -> Self {
        Schedule { heap: BinaryHeap::new(), arrivals: 0 }
    }

    pub fn push(&mut self, at: VenueNanos, what: T) {
        self.heap.push(Reverse(Entry { at, arrival: self.arrivals, what }));
        self.arrivals += 1;
    }

    pub fn next_due(&self) -> Option<VenueNanos> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    pub fn pop(&mut self) -> Option<(VenueNanos, T)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.what))
    }

    pub fn len(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_keep_their_order() {
        let mut schedule = Schedule::new();
        for (at, what) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b'), (5, 'e')] {
            schedule.push(VenueNanos(at), what);
        }
        assert_eq!((schedule.len(), schedule.next_due()), (5, Some(VenueNanos(3))));
        let order: String = std::iter::from_fn(|| schedule.pop()).map(|(_, what)| what).collect();
        assert_eq!(order, "abcde");
    }
}
