//! `--find-limit`: the most that a server carries with nothing late and nothing lost.
//!
//! Does        double until something is wrong, then halve the distance until it is a tenth.
//! Start at    [`Search`].

use pitwire_load_generator::LoadReport;

/// Steps after which it is enough, whatever they say.
const MOST_STEPS: usize = 40;

/// Which number of how many to try next.
#[derive(Debug)]
pub struct Search {
    /// The largest that was carried, and the smallest that was not.
    carried: u64,
    refused: Option<u64>,
    next: u64,
    most: u64,
    steps: usize,
}

impl Search {
    pub fn new(first: u64, most: u64) -> Self {
        Search { carried: 0, refused: None, next: first.clamp(1, most), most, steps: 0 }
    }

    /// What to try now; nothing when the limit is known well enough.
    pub fn next(&self) -> Option<u64> {
        let is_known = self.refused.is_some_and(|refused| refused - self.carried <= (self.carried / 10).max(1));
        (!is_known && self.carried < self.most && self.steps < MOST_STEPS).then_some(self.next)
    }

    pub fn tried(&mut self, is_carried: bool) {
        self.steps += 1;
        if is_carried {
            self.carried = self.next;
        } else {
            self.refused = Some(self.next);
        }
        self.next = match self.refused {
            None => self.carried.saturating_mul(2).min(self.most),
            Some(refused) => (self.carried + refused.saturating_sub(self.carried) / 2).max(1),
        };
    }

    pub fn limit(&self) -> u64 {
        self.carried
    }
}

/// What was wrong with a step, if anything was.
pub fn wrong(report: &LoadReport) -> Option<String> {
    let counters = &report.counters;
    // Before everything else: what a bound generator measures is itself.
    if report.generator.is_bound() {
        return Some("generator".into());
    }
    let counts = [
        ("failed", counters.failed),
        ("ended_early", counters.ended_early),
        ("lost", counters.lost),
        ("late", counters.late),
        ("conflated", counters.conflated),
        ("duplicated", counters.duplicated),
        ("malformed", counters.malformed),
        ("silent", counters.silent),
    ];
    counts.iter().find(|(_, count)| *count > 0).map(|(what, _)| (*what).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with a server that carries `capacity`; what was tried, and the limit.
    fn search(first: u64, most: u64, capacity: u64) -> (Vec<u64>, u64) {
        let (mut search, mut tried) = (Search::new(first, most), Vec::new());
        while let Some(next) = search.next() {
            tried.push(next);
            search.tried(next <= capacity);
        }
        (tried, search.limit())
    }

    #[test]
    fn doubles_then_halves_the_distance() {
        assert_eq!(search(100, 1_000_000, 1_000), (vec![100, 200, 400, 800, 1_600, 1_200, 1_000, 1_100], 1_000));
        assert_eq!(search(1_000, 1_000_000, 10), (vec![1_000, 500, 250, 125, 62, 31, 15, 7, 11, 9, 10], 10));
        assert_eq!(search(100, 300, 1_000), (vec![100, 200, 300], 300));
        assert_eq!(search(8, 1_000, 0), (vec![8, 4, 2, 1], 0));
        assert_eq!(search(1, 1, 5), (vec![1], 1));
    }

    #[test]
    fn a_bound_generator_is_told_before_what_it_measured() {
        let mut report = LoadReport::default();
        assert_eq!(wrong(&report), None);
        report.counters.late = 3;
        report.counters.lost = 1;
        assert_eq!(wrong(&report).as_deref(), Some("lost"));
        report.generator.demand = 0.95;
        assert_eq!(wrong(&report).as_deref(), Some("generator"));
    }
}
