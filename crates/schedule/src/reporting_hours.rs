//! The trade reporting hours of one instrument on one day.
//!
//! Holds       1. each start and each end is due exactly once;
//!             2. hours that last until the day's close end with the day and need no command.
//! Leaves out  commands and clocks: see `session_scheduler`.

use pitwire_model::VenueNanos;

use crate::calendar::NEVER;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HoursStage {
    Before,
    Within,
    Over,
}

#[derive(Clone, Copy, Debug)]
pub struct ReportingHours {
    from: VenueNanos,
    until: VenueNanos,
    /// The hours end at the day's close.
    ends_with_day: bool,
    stage: HoursStage,
}

impl ReportingHours {
    pub const NONE: ReportingHours =
        ReportingHours { from: NEVER, until: NEVER, ends_with_day: true, stage: HoursStage::Over };

    /// Returns the state of the hours on a day that closes at `closes`. `runs` tells whether they
    /// are open now, and `seen` when the instrument was last seen.
    ///
    /// A change that was due exactly at `seen` may have been done for some instruments and not for
    /// others.
    pub fn of_day(
        planned: Option<(VenueNanos, VenueNanos)>,
        closes: VenueNanos,
        runs: bool,
        seen: VenueNanos,
    ) -> ReportingHours {
        let Some((from, until)) = planned else {
            // The hours run without a plan: the schedule has changed since they began.
            let stage = if runs { HoursStage::Within } else { HoursStage::Over };
            return ReportingHours { until: seen, ends_with_day: false, stage, ..ReportingHours::NONE };
        };
        let stage = match () {
            () if runs => HoursStage::Within,
            () if seen >= until => HoursStage::Over,
            () => HoursStage::Before,
        };
        ReportingHours { from, until, ends_with_day: until >= closes, stage }
    }

    /// Returns the time of the next start or end.
    pub fn due(&self) -> VenueNanos {
        match self.stage {
            HoursStage::Before => self.from,
            HoursStage::Within if !self.ends_with_day => self.until,
            HoursStage::Within | HoursStage::Over => NEVER,
        }
    }

    /// Marks the due change as done. Returns whether it is a start, and the planned end.
    pub fn turn(&mut self) -> (bool, VenueNanos) {
        let begins = self.stage == HoursStage::Before;
        self.stage = if begins { HoursStage::Within } else { HoursStage::Over };
        (begins, self.until)
    }
}
