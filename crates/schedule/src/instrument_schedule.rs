//! One instrument's way through its day: which boundary comes next, and which have come and wait.
//!
//! Does        say when something is due for the instrument and what; follow what sessions it really enters.
//! Holds       1. a boundary is done when the session it begins has been entered, whoever asked for it, and never twice;
//!             2. what waits behind a halt, a pause or a triggered call is kept until it has gone by.
//! Leaves out  commands and clocks: see `scheduler`.
//! Start at    [`InstrumentSchedule::due`], then [`InstrumentSchedule::target`].

use std::sync::Arc;

use pitwire_model::{Phase, RemainingSessions, VenueNanos};

use crate::calendar::{Boundary, NEVER, counted};
use crate::reporting_hours::ReportingHours;

/// What moves an instrument out of the session it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Closed, and nobody has opened it yet.
    Unborn,
    /// The schedule.
    Scheduled,
    /// An operator, and the day's last session.
    Held,
    /// As held; scheduled calls take it over.
    Reopening,
    /// Its own end; scheduled calls take it over, other sessions wait.
    Volatility,
    Gone,
}

impl Standing {
    pub fn of(phase: Phase) -> Standing {
        match phase {
            Phase::Closed => Standing::Unborn,
            Phase::Deleted => Standing::Gone,
            Phase::Halted | Phase::HaltAndClose | Phase::Pause => Standing::Held,
            Phase::ReopeningCall => Standing::Reopening,
            Phase::VolatilityCall => Standing::Volatility,
            _ => Standing::Scheduled,
        }
    }
}

/// What the schedule wants of a lane that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Enter the session that boundary `at` of the plan begins.
    Enter(usize),
    /// Back into the session that runs by the plan: no boundary waits.
    Return,
    /// Boundaries have gone by: what remains of the day is less.
    PassBy,
}

#[derive(Debug)]
pub struct InstrumentSchedule {
    pub schedule: Option<usize>,
    pub plan: Arc<[Boundary]>,
    /// The session that the plan's first boundary ends.
    pub before: Phase,
    /// When the first session after the plan's last begins.
    pub after: Option<VenueNanos>,
    /// The first boundary that is not done.
    pub next: usize,
    pub phase: Phase,
    pub ends: Option<VenueNanos>,
    /// Held: boundaries up to here have gone by.
    pub gone_by: VenueNanos,
    /// After the boundary entered next, go on from here.
    pub skip_to: Option<usize>,
    /// A random end, drawn for boundary `.0`.
    pub drawn: Option<(usize, VenueNanos)>,
    /// A command for it is on its way, or was refused: nothing is due until it has entered another session.
    pub is_stuck: bool,
    /// It stands in a session that its plan does not have at this time: the schedule was changed.
    pub is_misplaced: bool,
    /// What the engine holds of the day's sessions is not what is left of them.
    pub wants_remaining: bool,
    /// What the plan holds from boundary `.0` on, as counted last.
    pub counted: Option<(usize, RemainingSessions)>,
    /// Of trade reporting, today.
    pub hours: ReportingHours,
}

impl InstrumentSchedule {
    pub fn new(schedule: Option<usize>) -> InstrumentSchedule {
        InstrumentSchedule {
            schedule,
            plan: Arc::new([]),
            before: if schedule.is_some() { Phase::Closed } else { Phase::Continuous },
            after: None,
            next: 0,
            phase: Phase::Closed,
            ends: None,
            gone_by: VenueNanos::ZERO,
            skip_to: None,
            drawn: None,
            is_stuck: false,
            is_misplaced: false,
            wants_remaining: false,
            counted: None,
            hours: ReportingHours::NONE,
        }
    }

    /// Finds its place again after a restart: what the log held when the venue was last seen is done, and nothing else.
    /// A boundary at the very moment of the end may have come for some instruments and not for others.
    pub fn place(&mut self, remaining: &RemainingSessions, last_seen: VenueNanos) {
        self.gone_by = last_seen;
        self.next = 0;
        self.next = self.come(last_seen);
        while let Some(k) = self.next.checked_sub(1) {
            let to = self.plan[k].to;
            let is_left = remaining.counts[to as usize] > counted(&self.plan[self.next..]).counts[to as usize];
            let is_before = self.standing() == Standing::Scheduled && self.phase != to && self.is_near(k);
            if !(is_left || is_before) {
                break;
            }
            self.next = k;
        }
        let is_behind = self.next < self.come(last_seen) || self.is_extended();
        self.is_misplaced = self.standing() == Standing::Scheduled && !is_behind && self.phase != self.current().0;
    }

    /// Whether the session it is in is one of the plan's last few before boundary `k`.
    fn is_near(&self, k: usize) -> bool {
        self.plan[k.saturating_sub(3)..k].iter().any(|boundary| boundary.to == self.phase)
            || (k == 0 && self.before == self.phase)
    }

    pub fn standing(&self) -> Standing {
        Standing::of(self.phase)
    }

    /// When boundary `k` comes: as drawn, else as planned.
    pub fn begins(&self, k: usize) -> VenueNanos {
        let Some(boundary) = self.plan.get(k) else { return NEVER };
        match self.drawn {
            Some((of, at)) if of == k => at,
            _ => boundary.at,
        }
    }

    /// When the session that boundary `k` begins ends by the plan.
    pub fn ends_of(&self, k: usize) -> Option<VenueNanos> {
        self.plan.get(k + 1).map(|boundary| boundary.at).or(self.after)
    }

    /// The day's last session, which comes whatever runs.
    fn last(&self) -> Option<usize> {
        let last = self.plan.len().checked_sub(1)?;
        (last >= self.next && self.plan[last].to == Phase::PostClose).then_some(last)
    }

    /// Boundaries that are not done, and whose time has come by `at`: `next..` this.
    fn come(&self, at: VenueNanos) -> usize {
        self.next + self.plan.get(self.next..).unwrap_or_default().partition_point(|boundary| boundary.at <= at)
    }

    /// The boundary to enter when what holds the instrument ends at `at`; `None`: the session that runs by the plan.
    pub fn target(&self, at: VenueNanos) -> Option<usize> {
        let come = self.come(at);
        if come == self.next {
            return None;
        }
        match self.standing() {
            // One after another, so that a closing price is there before the cross.
            Standing::Scheduled | Standing::Volatility | Standing::Gone => Some(self.next),
            // What was passed is over; but the publication is gone through, and what follows it.
            Standing::Held | Standing::Reopening | Standing::Unborn => {
                let publication = |k: &usize| self.plan[*k].to == Phase::ClosingPricePublication;
                let through = (self.standing() != Standing::Unborn).then(|| (self.next..come).find(publication));
                through.flatten().or(Some(come - 1))
            }
        }
    }

    /// The session of the plan that runs when nothing waits, and when it ends.
    pub fn current(&self) -> (Phase, Option<VenueNanos>) {
        match self.next.checked_sub(1) {
            Some(k) => (self.plan[k].to, self.ends_of(k)),
            None => (self.before, self.plan.first().map(|boundary| boundary.at).or(self.after)),
        }
    }

    /// What the schedule says is current at `at`: what an operator's resume goes to.
    pub fn scheduled(&self, at: VenueNanos) -> (Phase, Option<VenueNanos>) {
        match self.target(at) {
            _ if self.standing() == Standing::Scheduled => (self.phase, self.ends),
            Some(k) => (self.plan[k].to, self.ends_of(k)),
            None => self.current(),
        }
    }

    /// What is left of the day's sessions; counted anew where that is another stretch than the last time.
    pub fn count(&mut self) -> RemainingSessions {
        let from = match self.standing() {
            Standing::Held | Standing::Reopening | Standing::Unborn => self.target(self.gone_by).unwrap_or(self.next),
            _ => self.next,
        };
        match self.counted {
            Some((of, remaining)) if of == from => remaining,
            _ => {
                let remaining = counted(self.plan.get(from..).unwrap_or_default());
                self.counted = Some((from, remaining));
                remaining
            }
        }
    }

    fn next_call(&self) -> Option<usize> {
        let waiting = self.plan.get(self.next..)?;
        waiting.iter().position(|boundary| boundary.to.is_call()).map(|k| self.next + k)
    }

    /// When the next thing is due, and what.
    pub fn due(&self) -> (VenueNanos, Wish) {
        if self.is_stuck {
            return (NEVER, Wish::Return);
        }
        let by_plan = |k: Option<usize>| k.map_or((NEVER, Wish::Return), |k| (self.plan[k].at, Wish::Enter(k)));
        let sooner = |a: (VenueNanos, Wish), b: (VenueNanos, Wish)| if b.0 < a.0 { b } else { a };
        match self.standing() {
            Standing::Gone => (NEVER, Wish::Return),
            Standing::Unborn if self.schedule.is_none() => (NEVER, Wish::Return),
            Standing::Unborn => match self.target(self.gone_by) {
                Some(k) => (self.plan[k].at, Wish::Enter(k)),
                None if self.current().0 != Phase::Closed => (self.gone_by, Wish::Return),
                None => by_plan((self.next < self.plan.len()).then_some(self.next)),
            },
            Standing::Scheduled if self.is_misplaced => (self.gone_by, Wish::Return),
            Standing::Scheduled if self.next < self.plan.len() => {
                let begins = self.begins(self.next);
                (
                    if self.is_extended() { begins.max(self.ends.unwrap_or(begins)) } else { begins },
                    Wish::Enter(self.next),
                )
            }
            Standing::Scheduled => (NEVER, Wish::Return),
            Standing::Held => sooner(by_plan(self.last()), self.passing()),
            Standing::Reopening | Standing::Volatility => {
                let ended = (self.ends.unwrap_or(NEVER), Wish::Return);
                let passing =
                    if self.standing() == Standing::Reopening { self.passing() } else { (NEVER, Wish::PassBy) };
                sooner(sooner(sooner(by_plan(self.next_call()), by_plan(self.last())), ended), passing)
            }
        }
    }

    /// Whether the running call was given a later end than the plan's.
    fn is_extended(&self) -> bool {
        let planned = self.plan.get(self.next).map(|boundary| boundary.at);
        self.phase.is_call() && self.ends.zip(planned).is_some_and(|(ends, planned)| ends > planned)
    }

    fn passing(&self) -> (VenueNanos, Wish) {
        let come = self.come(self.gone_by);
        (self.plan.get(come).map_or(NEVER, |boundary| boundary.at), Wish::PassBy)
    }

    /// The instrument is in another session since `at`, whoever wished it.
    pub fn entered(&mut self, to: Phase, ends: Option<VenueNanos>, at: VenueNanos) {
        let (was, come) = (self.standing(), self.come(at));
        let now = Standing::of(to);
        let scheduled = matches!(now, Standing::Scheduled);
        if scheduled && self.next < come {
            let done = match was {
                // A call takes over whatever waited before it.
                Standing::Volatility | Standing::Reopening if to.is_call() => {
                    (self.next..come).find(|k| self.plan[*k].to == to)
                }
                _ => self.target(at).filter(|k| self.plan[*k].to == to),
            };
            match done {
                Some(k) => self.next = self.skip_to.take().unwrap_or(k + 1),
                None if !matches!(was, Standing::Volatility | Standing::Scheduled) => self.next = come,
                None => {}
            }
        }
        (self.phase, self.ends) = (to, ends);
        self.gone_by = self.gone_by.max(at);
        (self.is_stuck, self.is_misplaced) = (false, false);
    }
}
