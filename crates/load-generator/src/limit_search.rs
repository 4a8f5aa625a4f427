//! `--find-limit`: searches for the largest load that a server carries with nothing late and
//! nothing lost.
//!
//! Does        doubles the load until a step fails, then bisects until the interval is at most a
//!             tenth of the load.
//! Start at    [`LimitSearch`].

use crate::report::LoadReport;

/// Largest number of steps of a search.
const MOST_STEPS: usize = 40;

/// State of a search: the bounds and the next load to try.
#[derive(Debug)]
pub struct LimitSearch {
    /// Largest load that passed. `refused` is the smallest load that failed.
    carried: u64,
    refused: Option<u64>,
    next: u64,
    most: u64,
    steps: usize,
}

impl LimitSearch {
    /// Starts a search at `first`, which is limited to 1 to `most`.
    pub fn new(first: u64, most: u64) -> Self {
        LimitSearch { carried: 0, refused: None, next: first.clamp(1, most), most, steps: 0 }
    }

    /// Returns the next load to try, or `None` when the search is complete.
    pub fn next(&self) -> Option<u64> {
        let is_known = self.refused.is_some_and(|refused| refused - self.carried <= (self.carried / 10).max(1));
        (!is_known && self.carried < self.most && self.steps < MOST_STEPS).then_some(self.next)
    }

    /// Records whether the server carried the last load.
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

    /// Returns the largest load that passed; 0 if none did.
    pub fn limit(&self) -> u64 {
        self.carried
    }
}

/// Returns the name of the first problem in a report, or `None` if the step passed.
pub fn first_problem(report: &LoadReport) -> Option<String> {
    let counters = &report.counters;
    // A bound generator is checked first, because then all figures measure the generator and not
    // the server.
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

    /// Searches against a server that carries `capacity`. Returns the loads that were tried and the
    /// limit.
    fn search(first: u64, most: u64, capacity: u64) -> (Vec<u64>, u64) {
        let (mut search, mut tried) = (LimitSearch::new(first, most), Vec::new());
        while let Some(next) = search.next() {
            tried.push(next);
            search.tried(next <= capacity);
        }
        (tried, search.limit())
    }

    #[test]
    fn search_doubles_then_bisects() {
        assert_eq!(search(100, 1_000_000, 1_000), (vec![100, 200, 400, 800, 1_600, 1_200, 1_000, 1_100], 1_000));
        assert_eq!(search(1_000, 1_000_000, 10), (vec![1_000, 500, 250, 125, 62, 31, 15, 7, 11, 9, 10], 10));
        assert_eq!(search(100, 300, 1_000), (vec![100, 200, 300], 300));
        assert_eq!(search(8, 1_000, 0), (vec![8, 4, 2, 1], 0));
        assert_eq!(search(1, 1, 5), (vec![1], 1));
    }

    #[test]
    fn bound_generator_is_reported_first() {
        let mut report = LoadReport::default();
        assert_eq!(first_problem(&report), None);
        report.counters.late = 3;
        report.counters.lost = 1;
        assert_eq!(first_problem(&report).as_deref(), Some("lost"));
        report.generator.demand = 0.95;
        assert_eq!(first_problem(&report).as_deref(), Some("generator"));
    }
}
