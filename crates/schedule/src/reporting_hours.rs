//! An instrument's hours of trade reporting in one day: when they begin and end, beside whatever session runs.
//!
//! Holds       1. each turn is asked for once;
//!             2. hours that last until the day's close end with the day, without a command of their own.
//! Leaves out  commands and clocks: see `scheduler`.

use pitwire_model::VenueNanos;

use crate::calendar::NEVER;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Before,
    Within,
    Over,
}

#[derive(Clone, Copy, Debug)]
pub struct ReportingHours {
    from: VenueNanos,
    until: VenueNanos,
    /// The end is the day's own.
    ends_with_day: bool,
    stage: Stage,
}

impl ReportingHours {
    pub const NONE: ReportingHours =
        ReportingHours { from: NEVER, until: NEVER, ends_with_day: true, stage: Stage::Over };

    /// Those of a day that closes at `closes`, of an instrument whose hours run or do not, last seen at `seen`. What was
    /// due at that very moment may have come for some instruments and not for others.
    pub fn of_day(
        planned: Option<(VenueNanos, VenueNanos)>,
        closes: VenueNanos,
        runs: bool,
        seen: VenueNanos,
    ) -> ReportingHours {
        let Some((from, until)) = planned else {
            // Nothing planned, and they run: another schedule than the one that began them.
            let stage = if runs { Stage::Within } else { Stage::Over };
            return ReportingHours { until: seen, ends_with_day: false, stage, ..ReportingHours::NONE };
        };
        let stage = match () {
            () if runs => Stage::Within,
            () if seen >= until => Stage::Over,
            () => Stage::Before,
        };
        ReportingHours { from, until, ends_with_day: until >= closes, stage }
    }

    /// When the next turn is due.
    pub fn due(&self) -> VenueNanos {
        match self.stage {
            Stage::Before => self.from,
            Stage::Within if !self.ends_with_day => self.until,
            Stage::Within | Stage::Over => NEVER,
        }
    }

    /// The turn that is due is asked for: whether hours begin, and when they end.
    pub fn turn(&mut self) -> (bool, VenueNanos) {
        let begins = self.stage == Stage::Before;
        self.stage = if begins { Stage::Within } else { Stage::Over };
        (begins, self.until)
    }
}
