//! The time between the first and the last connection that receive one message.
//!
//! Does        records when sampled sequence numbers first and last arrived, and on how many
//!             connections.
//! Holds       at most [`MOST`] samples: above that, every second one is dropped and the sampling
//!             interval doubles.
//! Start at    [`DeliverySpread::record`].

use serde::{Deserialize, Serialize};

const MOST: usize = 2_048;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpreadSample {
    pub number: u64,
    pub first_ns: i64,
    pub last_ns: i64,
    pub count: u32,
    /// When the message was due. Differs if connections have separate sequence numbers.
    pub due_ns: i64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeliverySpread {
    /// Sampling interval: numbers that are multiples of this are recorded. A power of two.
    every: u64,
    /// Ascending by number.
    samples: Vec<SpreadSample>,
    /// One number was seen with different due times.
    has_conflict: bool,
}

impl Default for DeliverySpread {
    fn default() -> Self {
        DeliverySpread { every: 1, samples: Vec::new(), has_conflict: false }
    }
}

impl DeliverySpread {
    /// HOT. Records that a message reached one more connection.
    #[inline]
    pub fn record(&mut self, number: u64, due_ns: i64, now_ns: i64) {
        if number & (self.every - 1) == 0 {
            self.record_sample(number, due_ns, now_ns);
        }
    }

    fn record_sample(&mut self, number: u64, due_ns: i64, now_ns: i64) {
        let new = SpreadSample { number, first_ns: now_ns, last_ns: now_ns, count: 1, due_ns };
        // Nearly always the newest sample, or one of the few before it.
        let at = match self.samples.iter().rposition(|sample| sample.number <= number) {
            Some(at) if self.samples[at].number == number => {
                self.has_conflict |= !join(&mut self.samples[at], &new);
                return;
            }
            Some(at) => at + 1,
            None => 0,
        };
        self.samples.insert(at, new);
        if self.samples.len() > MOST {
            self.thin(self.every * 2);
        }
    }

    fn thin(&mut self, every: u64) {
        self.every = every;
        self.samples.retain(|sample| sample.number & (every - 1) == 0);
    }

    /// Adds what another thread saw of the same messages.
    pub fn merge(&mut self, mut other: DeliverySpread) {
        self.has_conflict |= other.has_conflict;
        let every = self.every.max(other.every);
        self.thin(every);
        other.thin(every);
        for sample in other.samples {
            match self.samples.binary_search_by_key(&sample.number, |mine| mine.number) {
                Ok(at) => self.has_conflict |= !join(&mut self.samples[at], &sample),
                Err(at) => self.samples.insert(at, sample),
            }
        }
    }

    /// Returns whether one number stood for different messages on different connections.
    pub fn has_conflict(&self) -> bool {
        self.has_conflict
    }

    /// Returns last minus first arrival, ascending, of messages due before `until_ns` that reached
    /// several connections.
    pub fn widths_ns(&self, until_ns: i64) -> Vec<i64> {
        self.sorted(until_ns, |sample| sample.last_ns - sample.first_ns)
    }

    /// Returns last arrival minus due time, ascending, of the same messages.
    pub fn last_delivery_ns(&self, until_ns: i64) -> Vec<i64> {
        self.sorted(until_ns, |sample| sample.last_ns - sample.due_ns)
    }

    fn sorted(&self, until_ns: i64, of: impl Fn(&SpreadSample) -> i64) -> Vec<i64> {
        let whole = self.samples.iter().filter(|sample| sample.count > 1 && sample.due_ns < until_ns);
        let mut all: Vec<i64> = whole.map(of).collect();
        all.sort_unstable();
        all
    }
}

/// Merges two samples of one number. Returns whether they belong to one message.
fn join(mine: &mut SpreadSample, other: &SpreadSample) -> bool {
    mine.first_ns = mine.first_ns.min(other.first_ns);
    mine.last_ns = mine.last_ns.max(other.last_ns);
    mine.count += other.count;
    // Each thread converts wall-clock times by itself, and the clocks drift a little meanwhile.
    (mine.due_ns - other.due_ns).abs() < 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_covers_all_threads() {
        let (mut one, mut two) = (DeliverySpread::default(), DeliverySpread::default());
        for (number, due, now) in [(1, 10, 20), (2, 30, 41), (1, 10, 25), (2, 30, 40), (3, 50, 60)] {
            one.record(number, due, now);
        }
        for (number, due, now) in [(2, 30, 47), (1, 10, 19)] {
            two.record(number, due, now);
        }
        one.merge(two);
        // 1 took 19 to 25, 2 took 40 to 47; 3 reached one connection only.
        assert_eq!(one.widths_ns(i64::MAX), [6, 7]);
        assert_eq!(one.widths_ns(30), [6]);
        // The messages were due at 10 and 30.
        assert_eq!((one.last_delivery_ns(i64::MAX), one.last_delivery_ns(30)), (vec![15, 17], vec![15]));
        assert!(!one.has_conflict());
    }

    #[test]
    fn samples_stay_bounded_and_merge() {
        let (mut one, mut two) = (DeliverySpread::default(), DeliverySpread::default());
        for number in 0..100_000_u64 {
            let due = i64::try_from(number).unwrap() * 10;
            one.record(number, due, due);
            if number < 5_000 {
                two.record(number, due, due + 3);
            }
        }
        assert!(one.samples.len() <= MOST && two.samples.len() <= MOST);
        one.merge(two);
        // Every 64th of the 5,000 numbers that both saw.
        assert_eq!((one.every, one.widths_ns(i64::MAX)), (64, vec![3; 79]));
    }

    #[test]
    fn different_due_times_of_one_number_are_a_conflict() {
        let mut spread = DeliverySpread::default();
        spread.record(1, 0, 5);
        spread.record(1, 2_000_000, 5);
        assert!(spread.has_conflict());
    }
}
