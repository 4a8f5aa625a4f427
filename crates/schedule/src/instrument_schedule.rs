//! One instrument's position in its plan of the day.
//!
//! Does        tell when the instrument's next action is due, and follow the sessions that it
//!             enters.
//! Holds       1. a boundary is done once its session has been entered, by whatever command, and is
//!                never done twice;
//!             2. boundaries that pass during a halt, a pause or a triggered call wait until that
//!                ends.
//! Leaves out  commands and clocks: see `session_scheduler`.
//! Start at    [`InstrumentSchedule::due`], then [`InstrumentSchedule::target`].

use std::sync::Arc;

use pitwire_model::{Phase, RemainingSessions, VenueNanos};

use crate::calendar::{Boundary, NEVER, counted};
use crate::reporting_hours::ReportingHours;

/// DueKind ends the session that an instrument is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionKind {
    /// The instrument is new: it is closed and has never been opened.
    New,
    /// The schedule ends it.
    Scheduled,
    /// An operator ends it, or the day's last session does.
    Halted,
    /// An operator ends it, the day's last session does, or a scheduled call takes it over.
    Reopening,
    /// Its own end time ends it. Scheduled calls take it over; other sessions wait.
    Volatility,
    Deleted,
}

impl SessionKind {
    pub fn of(phase: Phase) -> SessionKind {
        match phase {
            Phase::Closed => SessionKind::New,
            Phase::Deleted => SessionKind::Deleted,
            Phase::Halted | Phase::HaltAndClose | Phase::Pause => SessionKind::Halted,
            Phase::ReopeningCall => SessionKind::Reopening,
            Phase::VolatilityCall => SessionKind::Volatility,
            _ => SessionKind::Scheduled,
        }
    }
}

/// DueKind an instrument must do when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueAction {
    /// Enter the session that this boundary of the plan begins.
    Enter(usize),
    /// Return to the session that the plan prescribes now. No boundary waits.
    Return,
    /// Count boundaries that passed during a halt. They reduce what remains of the day.
    SkipPassed,
}

#[derive(Debug)]
pub struct InstrumentSchedule {
    pub schedule: Option<usize>,
    pub plan: Arc<[Boundary]>,
    /// The session before the plan's first boundary.
    pub before: Phase,
    /// The start of the first session after this plan, on a later day.
    pub after: Option<VenueNanos>,
    /// Index of the first boundary that is not done.
    pub next: usize,
    pub phase: Phase,
    pub ends: Option<VenueNanos>,
    /// Boundaries up to this time have passed during a halt.
    pub passed_until: VenueNanos,
    /// Index of the boundary to continue from after the next one has been entered.
    pub skip_to: Option<usize>,
    /// Random time drawn for a boundary: its index and the time.
    pub drawn: Option<(usize, VenueNanos)>,
    /// A command is pending or was refused. Nothing is due until the instrument enters another
    /// session.
    pub is_blocked: bool,
    /// The instrument is in a session that its plan does not have at this time, because the
    /// schedule has changed.
    pub is_misplaced: bool,
    /// The engine's count of remaining sessions is out of date.
    pub has_stale_count: bool,
    /// Cached count of remaining sessions, with the boundary that it starts from.
    pub counted: Option<(usize, RemainingSessions)>,
    /// Trade reporting hours of today.
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
            passed_until: VenueNanos::ZERO,
            skip_to: None,
            drawn: None,
            is_blocked: false,
            is_misplaced: false,
            has_stale_count: false,
            counted: None,
            hours: ReportingHours::NONE,
        }
    }

    /// Finds the position in the plan after a restart, from the remaining sessions in the log.
    ///
    /// Boundaries up to `last_seen` are done. A boundary exactly at that time may have been done
    /// for some instruments and not for others.
    pub fn restore_position(&mut self, remaining: &RemainingSessions, last_seen: VenueNanos) {
        self.passed_until = last_seen;
        self.next = 0;
        self.next = self.due_index(last_seen);
        while let Some(k) = self.next.checked_sub(1) {
            let to = self.plan[k].to;
            let is_left = remaining.counts[to as usize] > counted(&self.plan[self.next..]).counts[to as usize];
            let is_before = self.state() == SessionKind::Scheduled && self.phase != to && self.is_near(k);
            if !(is_left || is_before) {
                break;
            }
            self.next = k;
        }
        let is_behind = self.next < self.due_index(last_seen) || self.is_extended();
        self.is_misplaced = self.state() == SessionKind::Scheduled && !is_behind && self.phase != self.current().0;
    }

    /// Returns whether the current session is among the three before boundary `k`.
    fn is_near(&self, k: usize) -> bool {
        self.plan[k.saturating_sub(3)..k].iter().any(|boundary| boundary.to == self.phase)
            || (k == 0 && self.before == self.phase)
    }

    pub fn state(&self) -> SessionKind {
        SessionKind::of(self.phase)
    }

    /// Returns the time of boundary `k`: the drawn time if there is one, else the planned time.
    pub fn begins(&self, k: usize) -> VenueNanos {
        let Some(boundary) = self.plan.get(k) else { return NEVER };
        match self.drawn {
            Some((of, at)) if of == k => at,
            _ => boundary.at,
        }
    }

    /// Returns the planned end of the session that boundary `k` begins.
    pub fn ends_of(&self, k: usize) -> Option<VenueNanos> {
        self.plan.get(k + 1).map(|boundary| boundary.at).or(self.after)
    }

    /// Returns the day's last session, post-close, which begins in every state.
    fn last(&self) -> Option<usize> {
        let last = self.plan.len().checked_sub(1)?;
        (last >= self.next && self.plan[last].to == Phase::PostClose).then_some(last)
    }

    /// Returns the index after the last boundary whose time has come by `at`.
    fn due_index(&self, at: VenueNanos) -> usize {
        self.next + self.plan.get(self.next..).unwrap_or_default().partition_point(|boundary| boundary.at <= at)
    }

    /// Returns the boundary to enter when the current halt, pause or call ends at `at`. `None`
    /// means the session that the plan prescribes then.
    pub fn target(&self, at: VenueNanos) -> Option<usize> {
        let come = self.due_index(at);
        if come == self.next {
            return None;
        }
        match self.state() {
            // Boundaries are entered one after another, so that a closing price exists before the
            // closing price cross.
            SessionKind::Scheduled | SessionKind::Volatility | SessionKind::Deleted => Some(self.next),
            // Sessions that passed are skipped, except the closing price publication and what
            // follows it.
            SessionKind::Halted | SessionKind::Reopening | SessionKind::New => {
                let publication = |k: &usize| self.plan[*k].to == Phase::ClosingPricePublication;
                let through = (self.state() != SessionKind::New).then(|| (self.next..come).find(publication));
                through.flatten().or(Some(come - 1))
            }
        }
    }

    /// Returns the planned session if no boundary waits, and its end.
    pub fn current(&self) -> (Phase, Option<VenueNanos>) {
        match self.next.checked_sub(1) {
            Some(k) => (self.plan[k].to, self.ends_of(k)),
            None => (self.before, self.plan.first().map(|boundary| boundary.at).or(self.after)),
        }
    }

    /// Returns the session that the schedule prescribes at `at`, and its end. An operator's resume
    /// leads there.
    pub fn scheduled(&self, at: VenueNanos) -> (Phase, Option<VenueNanos>) {
        match self.target(at) {
            _ if self.state() == SessionKind::Scheduled => (self.phase, self.ends),
            Some(k) => (self.plan[k].to, self.ends_of(k)),
            None => self.current(),
        }
    }

    /// Returns how many sessions of each kind remain today.
    pub fn remaining(&mut self) -> RemainingSessions {
        let from = match self.state() {
            SessionKind::Halted | SessionKind::Reopening | SessionKind::New => {
                self.target(self.passed_until).unwrap_or(self.next)
            }
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

    /// Returns the time of the next action, and the action.
    pub fn due(&self) -> (VenueNanos, DueAction) {
        if self.is_blocked {
            return (NEVER, DueAction::Return);
        }
        let by_plan =
            |k: Option<usize>| k.map_or((NEVER, DueAction::Return), |k| (self.plan[k].at, DueAction::Enter(k)));
        let sooner = |a: (VenueNanos, DueAction), b: (VenueNanos, DueAction)| if b.0 < a.0 { b } else { a };
        match self.state() {
            SessionKind::Deleted => (NEVER, DueAction::Return),
            SessionKind::New if self.schedule.is_none() => (NEVER, DueAction::Return),
            SessionKind::New => match self.target(self.passed_until) {
                Some(k) => (self.plan[k].at, DueAction::Enter(k)),
                None if self.current().0 != Phase::Closed => (self.passed_until, DueAction::Return),
                None => by_plan((self.next < self.plan.len()).then_some(self.next)),
            },
            SessionKind::Scheduled if self.is_misplaced => (self.passed_until, DueAction::Return),
            SessionKind::Scheduled if self.next < self.plan.len() => {
                let begins = self.begins(self.next);
                (
                    if self.is_extended() { begins.max(self.ends.unwrap_or(begins)) } else { begins },
                    DueAction::Enter(self.next),
                )
            }
            SessionKind::Scheduled => (NEVER, DueAction::Return),
            SessionKind::Halted => sooner(by_plan(self.last()), self.passing()),
            SessionKind::Reopening | SessionKind::Volatility => {
                let ended = (self.ends.unwrap_or(NEVER), DueAction::Return);
                let passing = if self.state() == SessionKind::Reopening {
                    self.passing()
                } else {
                    (NEVER, DueAction::SkipPassed)
                };
                sooner(sooner(sooner(by_plan(self.next_call()), by_plan(self.last())), ended), passing)
            }
        }
    }

    /// Returns whether the running call ends later than planned.
    fn is_extended(&self) -> bool {
        let planned = self.plan.get(self.next).map(|boundary| boundary.at);
        self.phase.is_call() && self.ends.zip(planned).is_some_and(|(ends, planned)| ends > planned)
    }

    fn passing(&self) -> (VenueNanos, DueAction) {
        let come = self.due_index(self.passed_until);
        (self.plan.get(come).map_or(NEVER, |boundary| boundary.at), DueAction::SkipPassed)
    }

    /// Records that the instrument entered a session at `at`.
    pub fn entered(&mut self, to: Phase, ends: Option<VenueNanos>, at: VenueNanos) {
        let (was, come) = (self.state(), self.due_index(at));
        let now = SessionKind::of(to);
        let scheduled = matches!(now, SessionKind::Scheduled);
        if scheduled && self.next < come {
            let done = match was {
                // A call replaces the boundaries that waited before it.
                SessionKind::Volatility | SessionKind::Reopening if to.is_call() => {
                    (self.next..come).find(|k| self.plan[*k].to == to)
                }
                _ => self.target(at).filter(|k| self.plan[*k].to == to),
            };
            match done {
                Some(k) => self.next = self.skip_to.take().unwrap_or(k + 1),
                None if !matches!(was, SessionKind::Volatility | SessionKind::Scheduled) => self.next = come,
                None => {}
            }
        }
        (self.phase, self.ends) = (to, ends);
        self.passed_until = self.passed_until.max(at);
        (self.is_blocked, self.is_misplaced) = (false, false);
    }
}
