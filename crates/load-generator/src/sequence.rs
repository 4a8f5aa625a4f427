//! One connection's numbers: what came, what is missing, what was declared missing.
//!
//! Holds       every number between the first and the last that came is counted once: delivered, lost, or declared.
//! Start at    [`Sequence::step`].

/// The last number that came. Before the first: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence(u64);

const NONE: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing is known of what was before.
    First,
    Next,
    /// So many between the last and this one never came.
    Missing(u64),
    /// The same or less than the last.
    Again,
}

impl Sequence {
    pub const fn new() -> Self {
        Sequence(NONE)
    }

    pub fn last(self) -> Option<u64> {
        (self.0 != NONE).then_some(self.0)
    }

    #[inline]
    pub fn step(&mut self, number: u64) -> Step {
        let last = self.0;
        if last == NONE {
            self.0 = number;
            return Step::First;
        }
        if number <= last {
            return Step::Again;
        }
        self.0 = number;
        match number - last - 1 {
            0 => Step::Next,
            missing => Step::Missing(missing),
        }
    }

    /// `from..=to` is declared missing. Returns how many of them had not come, and how many before `from` are lost.
    pub fn declare(&mut self, from: u64, to: u64) -> Declared {
        let Some(last) = self.last() else {
            self.0 = to;
            return Declared { missing: 0, lost: 0 };
        };
        if to <= last {
            return Declared { missing: 0, lost: 0 };
        }
        self.0 = to;
        let begin = from.max(last + 1);
        Declared { missing: to - begin + 1, lost: begin - (last + 1) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    pub missing: u64,
    pub lost: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_counted_once() {
        let mut sequence = Sequence::new();
        assert_eq!(sequence.last(), None);
        for (number, step) in [
            (7, Step::First),
            (8, Step::Next),
            (11, Step::Missing(2)),
            (11, Step::Again),
            (3, Step::Again),
            (12, Step::Next),
        ] {
            assert_eq!(sequence.step(number), step, "{number}");
        }
        // 13 is lost, 14..=20 are declared.
        assert_eq!(sequence.declare(14, 20), Declared { missing: 7, lost: 1 });
        assert_eq!(sequence.step(21), Step::Next);
        // 19..=25 of which 19..=21 had come.
        assert_eq!(sequence.declare(19, 25), Declared { missing: 4, lost: 0 });
        assert_eq!(sequence.declare(1, 5), Declared { missing: 0, lost: 0 });
        assert_eq!(sequence.step(26), Step::Next);
    }

    #[test]
    fn a_gap_before_the_first_is_nobodys() {
        let mut sequence = Sequence::new();
        assert_eq!(sequence.declare(1, 5), Declared { missing: 0, lost: 0 });
        assert_eq!(sequence.step(6), Step::Next);
    }
}
