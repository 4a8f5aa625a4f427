//! How far apart the first and the last connection get one message.
//!
//! Does        for a sample of the sequence numbers: when it first and last came, and to how many connections.
//! Holds       at most [`MOST`] samples: when there are more, every second one goes, and fewer are taken from then on.
//! Start at    [`Spread::came`].

use serde::{Deserialize, Serialize};

const MOST: usize = 2_048;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    pub number: u64,
    pub first_ns: i64,
    pub last_ns: i64,
    pub count: u32,
    /// When it was due: connections that tell different things under one number do not number together.
    pub due_ns: i64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spread {
    /// Of numbers that are multiples of this: a power of two.
    every: u64,
    /// In order of their numbers.
    samples: Vec<Sample>,
    /// The same number was seen with different due times.
    is_torn: bool,
}

impl Default for Spread {
    fn default() -> Self {
        Spread { every: 1, samples: Vec::new(), is_torn: false }
    }
}

impl Spread {
    /// HOT. A message that was due at `due_ns` has come to one more connection.
    #[inline]
    pub fn came(&mut self, number: u64, due_ns: i64, now_ns: i64) {
        if number & (self.every - 1) == 0 {
            self.note(number, due_ns, now_ns);
        }
    }

    fn note(&mut self, number: u64, due_ns: i64, now_ns: i64) {
        let new = Sample { number, first_ns: now_ns, last_ns: now_ns, count: 1, due_ns };
        // Nearly always it is the newest, or one of the few before it.
        let at = match self.samples.iter().rposition(|sample| sample.number <= number) {
            Some(at) if self.samples[at].number == number => {
                self.is_torn |= !join(&mut self.samples[at], &new);
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

    /// What another thread saw of the same messages.
    pub fn merge(&mut self, mut other: Spread) {
        self.is_torn |= other.is_torn;
        let every = self.every.max(other.every);
        self.thin(every);
        other.thin(every);
        for sample in other.samples {
            match self.samples.binary_search_by_key(&sample.number, |mine| mine.number) {
                Ok(at) => self.is_torn |= !join(&mut self.samples[at], &sample),
                Err(at) => self.samples.insert(at, sample),
            }
        }
    }

    /// Whether one number means one message on every connection.
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// From first to last, ascending, of messages that were due before `until_ns` and came to several connections.
    pub fn widths_ns(&self, until_ns: i64) -> Vec<i64> {
        self.sorted(until_ns, |sample| sample.last_ns - sample.first_ns)
    }

    /// From when a message was due until the last connection had it, of the same messages.
    pub fn lasts_ns(&self, until_ns: i64) -> Vec<i64> {
        self.sorted(until_ns, |sample| sample.last_ns - sample.due_ns)
    }

    fn sorted(&self, until_ns: i64, of: impl Fn(&Sample) -> i64) -> Vec<i64> {
        let whole = self.samples.iter().filter(|sample| sample.count > 1 && sample.due_ns < until_ns);
        let mut all: Vec<i64> = whole.map(of).collect();
        all.sort_unstable();
        all
    }
}

/// Whether both are of one message.
fn join(mine: &mut Sample, other: &Sample) -> bool {
    mine.first_ns = mine.first_ns.min(other.first_ns);
    mine.last_ns = mine.last_ns.max(other.last_ns);
    mine.count += other.count;
    // Times of day are turned into monotonic ones thread by thread; the clocks may drift a little meanwhile.
    (mine.due_ns - other.due_ns).abs() < 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_last_over_threads() {
        let (mut one, mut two) = (Spread::default(), Spread::default());
        for (number, due, now) in [(1, 10, 20), (2, 30, 41), (1, 10, 25), (2, 30, 40), (3, 50, 60)] {
            one.came(number, due, now);
        }
        for (number, due, now) in [(2, 30, 47), (1, 10, 19)] {
            two.came(number, due, now);
        }
        one.merge(two);
        // 1: 19..25, 2: 40..47; 3 came to one connection only.
        assert_eq!(one.widths_ns(i64::MAX), [6, 7]);
        assert_eq!(one.widths_ns(30), [6]);
        // Due at 10 and 30.
        assert_eq!((one.lasts_ns(i64::MAX), one.lasts_ns(30)), (vec![15, 17], vec![15]));
        assert!(!one.is_torn());
    }

    #[test]
    fn samples_stay_few_and_meet() {
        let (mut one, mut two) = (Spread::default(), Spread::default());
        for number in 0..100_000_u64 {
            let due = i64::try_from(number).unwrap() * 10;
            one.came(number, due, due);
            if number < 5_000 {
                two.came(number, due, due + 3);
            }
        }
        assert!(one.samples.len() <= MOST && two.samples.len() <= MOST);
        one.merge(two);
        // Every 64th of the 5,000 that both saw.
        assert_eq!((one.every, one.widths_ns(i64::MAX)), (64, vec![3; 79]));
    }

    #[test]
    fn numbers_of_each_connections_own_are_noticed() {
        let mut spread = Spread::default();
        spread.came(1, 0, 5);
        spread.came(1, 2_000_000, 5);
        assert!(spread.is_torn());
    }
}
