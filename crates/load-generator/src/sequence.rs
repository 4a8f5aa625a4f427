//! The sequence numbers of one connection: received, missing, or declared missing.
//!
//! Holds       every number between the first and the last is counted once: delivered, lost or
//!             declared.
//! Start at    [`SequenceTracker::step`].

/// The last received number, or `NONE` before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceTracker(u64);

const NONE: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceStep {
    /// The first number. Nothing is known about earlier ones.
    First,
    Next,
    /// This many numbers between the last one and this one did not arrive.
    Missing(u64),
    /// Not greater than the last number.
    Again,
}

impl SequenceTracker {
    pub const fn new() -> Self {
        SequenceTracker(NONE)
    }

    pub fn last(self) -> Option<u64> {
        (self.0 != NONE).then_some(self.0)
    }

    #[inline]
    pub fn step(&mut self, number: u64) -> SequenceStep {
        let last = self.0;
        if last == NONE {
            self.0 = number;
            return SequenceStep::First;
        }
        if number <= last {
            return SequenceStep::Again;
        }
        self.0 = number;
        match number - last - 1 {
            0 => SequenceStep::Next,
            missing => SequenceStep::Missing(missing),
        }
    }

    /// Notes that `from..=to` was declared missing.
    pub fn declare(&mut self, from: u64, to: u64) -> DeclaredGap {
        let Some(last) = self.last() else {
            self.0 = to;
            return DeclaredGap { missing: 0, lost: 0 };
        };
        if to <= last {
            return DeclaredGap { missing: 0, lost: 0 };
        }
        self.0 = to;
        let begin = from.max(last + 1);
        DeclaredGap { missing: to - begin + 1, lost: begin - (last + 1) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredGap {
    pub missing: u64,
    pub lost: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_counted_once() {
        let mut sequence = SequenceTracker::new();
        assert_eq!(sequence.last(), None);
        for (number, step) in [
            (7, SequenceStep::First),
            (8, SequenceStep::Next),
            (11, SequenceStep::Missing(2)),
            (11, SequenceStep::Again),
            (3, SequenceStep::Again),
            (12, SequenceStep::Next),
        ] {
            assert_eq!(sequence.step(number), step, "{number}");
        }
        // 13 is lost, 14 to 20 are declared.
        assert_eq!(sequence.declare(14, 20), DeclaredGap { missing: 7, lost: 1 });
        assert_eq!(sequence.step(21), SequenceStep::Next);
        // 19 to 25 are declared, of which 19 to 21 had arrived.
        assert_eq!(sequence.declare(19, 25), DeclaredGap { missing: 4, lost: 0 });
        assert_eq!(sequence.declare(1, 5), DeclaredGap { missing: 0, lost: 0 });
        assert_eq!(sequence.step(26), SequenceStep::Next);
    }

    #[test]
    fn gap_before_the_first_number_counts_nothing() {
        let mut sequence = SequenceTracker::new();
        assert_eq!(sequence.declare(1, 5), DeclaredGap { missing: 0, lost: 0 });
        assert_eq!(sequence.step(6), SequenceStep::Next);
    }
}
