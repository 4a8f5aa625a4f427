//! The session scheduler: the commands that begin and end days and sessions.
//!
//! Does        begin and end days, lead each instrument through its schedule, end triggered calls,
//!             expire orders, run batches.
//! Holds       1. at one time the order is: `PassTime`, end or start of a day, batches, filters,
//!                sessions by instrument, trade reporting hours;
//!             2. the engine's count of remaining sessions is corrected before anything else
//!                happens;
//!             3. after a restart each missed boundary leads to one command, marked as missed, in
//!                order of time (rulebook 5.6). Days that began more than 31 days before the
//!                restart are left out.
//! Leaves out  when sessions begin: [`Calendar`]. Clocks: the caller passes the time.
//! Costs       nothing between two boundaries. A boundary visits every instrument.
//! Start at    [`SessionScheduler::take`].

use std::collections::BTreeSet;

use pitwire_model::{
    Allocation, Command, Event, Expiry, InstrumentId, OrderType, Phase, SequencedCommand, SessionReason, TimeInForce,
    TradingRules, VenueDay, VenueNanos,
};

use crate::calendar::{Calendar, NEVER};
use crate::instrument_schedule::{DueAction, InstrumentSchedule, SessionKind};
use crate::instrument_view::InstrumentView;
use crate::reporting_hours::ReportingHours;

/// Interval between two filters of hidden orders, in nanoseconds.
const FILTER_NS: u64 = 30_000_000_000;
/// Length of a volatility call to which the engine gave no end, in nanoseconds.
const VOLATILITY_NS: u64 = 300_000_000_000;
/// Search window for a schedule's previous and next session, in days.
const NEAR_DAYS: u32 = 14;
/// Most days before a restart whose sessions are made up for. Older days are skipped, so that a
/// start after decades takes no longer than one after a month.
const MISSED_DAYS: u32 = 31;

pub struct SessionScheduler {
    calendar: Box<dyn Calendar>,
    /// Indexed by instrument number.
    entries: Vec<InstrumentSchedule>,
    day: VenueDay,
    /// The day has ended and the next one has not begun.
    is_over: bool,
    closes: VenueNanos,
    /// Everything due up to this time was missed while the venue did not run.
    restart: VenueNanos,
    /// Start of a fresh venue; zero for a venue that continues.
    began: VenueNanos,
    now: VenueNanos,
    passed: VenueNanos,
    expiry: VenueNanos,
    /// Instruments in which hidden orders rest.
    hidden: BTreeSet<InstrumentId>,
    filter: VenueNanos,
    /// The last instrument that was filtered in the current pass over `hidden`.
    filtered: Option<InstrumentId>,
    /// At least one instrument trades in frequent batches.
    has_batches: bool,
    /// Batches with orders in them, by time.
    batches: BTreeSet<(VenueNanos, InstrumentId)>,
    soonest: VenueNanos,
}

/// A due event. At one time, events run in the order of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DueKind {
    Pass,
    Day,
    Remaining(usize),
    Batch(InstrumentId),
    Filter,
    Session(usize),
    ReportingHours(usize),
}

/// Adds a duration to a time. The sum is at most [`NEVER`].
const fn after(at: VenueNanos, ns: u64) -> VenueNanos {
    VenueNanos(at.0.saturating_add(ns))
}

const fn boundary_after(at: VenueNanos, width_ns: u64) -> VenueNanos {
    VenueNanos((at.0 / width_ns + 1).saturating_mul(width_ns))
}

impl SessionScheduler {
    /// Continues from the venue's current state. `last_seen` is the venue time of its last command,
    /// zero for a fresh venue.
    pub fn starting(
        calendar: Box<dyn Calendar>,
        view: &dyn InstrumentView,
        now: VenueNanos,
        last_seen: VenueNanos,
    ) -> SessionScheduler {
        let is_fresh = last_seen == VenueNanos::ZERO;
        let before = |day: VenueDay| VenueDay(day.0.saturating_sub(1));
        let (day, is_over) = match view.venue_day() {
            // The end of the day is the first command at or after the day's close.
            Some(day) => (day, calendar.closes(day) <= last_seen),
            None if is_fresh => (before(calendar.day_of(now)), true),
            // The log is older than numbered days.
            None => {
                let day = calendar.day_of(last_seen);
                if calendar.closes(day) <= now { (day, false) } else { (before(day), true) }
            }
        };
        let mut scheduler = SessionScheduler {
            closes: calendar.closes(day),
            calendar,
            entries: Vec::new(),
            day,
            is_over,
            restart: if is_fresh { VenueNanos::ZERO } else { now },
            began: if is_fresh { now } else { VenueNanos::ZERO },
            now,
            passed: VenueNanos::ZERO,
            expiry: NEVER,
            hidden: BTreeSet::new(),
            filter: NEVER,
            filtered: None,
            has_batches: false,
            batches: BTreeSet::new(),
            soonest: VenueNanos::ZERO,
        };
        for id in (0..view.instruments()).map(instrument) {
            scheduler.add(view.name(id));
            let at = scheduler.entries.len() - 1;
            scheduler.plan(at);
            scheduler.set_hours(at, view.reports(id), if is_fresh { now } else { last_seen });
            let entry = &mut scheduler.entries[at];
            (entry.phase, entry.ends) = (view.phase(id), view.ends(id));
            if entry.state() == SessionKind::Volatility {
                entry.ends.get_or_insert(after(last_seen, VOLATILITY_NS));
            }
            scheduler.has_batches |= is_batched(view.rules(id));
            let seen = if entry.state() == SessionKind::New { now } else { last_seen };
            entry.restore_position(&view.remaining(id), seen);
            scheduler.wake(id, view);
            if view.rests_hidden(id) {
                scheduler.await_filter(id);
            }
        }
        scheduler.expiry = view.next_expiry(VenueNanos::ZERO).unwrap_or(NEVER);
        scheduler.look(view);
        scheduler
    }

    fn add(&mut self, name: &str) {
        let mut entry = InstrumentSchedule::new(self.calendar.schedule_of(name));
        entry.passed_until = self.now;
        self.entries.push(entry);
    }

    /// Gives an instrument the plan of the current day.
    fn plan(&mut self, at: usize) {
        let Some(schedule) = self.entries[at].schedule else { return };
        let day = self.planned_day();
        let of = |day: u32| self.calendar.boundaries(schedule, VenueDay(day));
        let (plan, earlier) = (of(day.0), (1..=NEAR_DAYS).filter_map(|ago| day.0.checked_sub(ago)));
        let before = earlier.map(of).find_map(|plan| plan.last().map(|boundary| boundary.to));
        let after =
            (1..=NEAR_DAYS).map(|n| of(day.0.saturating_add(n))).find_map(|plan| plan.first().map(|first| first.at));
        let entry = &mut self.entries[at];
        (entry.plan, entry.before, entry.after) = (plan, before.unwrap_or(Phase::Closed), after);
        (entry.next, entry.drawn, entry.skip_to, entry.counted) = (0, None, None, None);
        (entry.is_blocked, entry.is_misplaced) = (false, false);
    }

    /// Sets the trade reporting hours of the current day. `seen` is the time at which the
    /// instrument was last seen.
    fn set_hours(&mut self, at: usize, runs: bool, seen: VenueNanos) {
        let day = self.planned_day();
        let planned = self.entries[at].schedule.and_then(|schedule| self.calendar.reporting(schedule, day));
        self.entries[at].hours = ReportingHours::of_day(planned, self.calendar.closes(day), runs, seen);
    }

    /// Returns the current day; between two days, the next one.
    fn planned_day(&self) -> VenueDay {
        if self.is_over { self.next_day() } else { self.day }
    }

    /// Returns the day after the current one, or a later one if that day was missed long ago.
    fn next_day(&self) -> VenueDay {
        let oldest = self.calendar.day_of(self.restart).0.saturating_sub(MISSED_DAYS);
        VenueDay(self.day.0.saturating_add(1).max(oldest))
    }

    /// Returns when the current day ends; between two days, when the next one begins.
    fn day_due(&self) -> VenueNanos {
        if !self.is_over {
            return self.closes;
        }
        let before = VenueDay(self.next_day().0.saturating_sub(1));
        if before > self.day { self.calendar.closes(before) } else { self.closes }
    }

    pub fn next_due(&self) -> VenueNanos {
        self.soonest
    }

    /// Returns the next command that is due by `until`, and its due time.
    pub fn take(&mut self, until: VenueNanos, view: &dyn InstrumentView) -> Option<(VenueNanos, Command)> {
        while self.soonest <= until {
            let (due, what) = self.pick();
            let command = self.act(due, what, view);
            self.look(view);
            if let Some(command) = command {
                return Some((due, command));
            }
        }
        None
    }

    fn pick(&self) -> (VenueNanos, DueKind) {
        let remaining = self.entries.iter().position(|entry| entry.has_stale_count && !entry.is_blocked);
        if let Some(at) = remaining.filter(|_| !self.is_over) {
            return (self.now, DueKind::Remaining(at));
        }
        let day = (self.day_due(), DueKind::Day);
        let batch = self.batches.first().map(|(at, instrument)| (*at, DueKind::Batch(*instrument)));
        let sessions = self.entries.iter().enumerate().map(|(at, entry)| (entry.due().0, DueKind::Session(at)));
        // Between two days nothing happens.
        let sessions = sessions.filter(|_| !self.is_over);
        let listed = self.entries.iter().enumerate().filter(|(_, entry)| entry.state() != SessionKind::Deleted);
        let hours =
            listed.map(|(at, entry)| (entry.hours.due(), DueKind::ReportingHours(at))).filter(|_| !self.is_over);
        let timed = [(self.expiry, DueKind::Pass), day, (self.filter, DueKind::Filter)];
        timed.into_iter().chain(batch).chain(sessions).chain(hours).min().unwrap_or(day)
    }

    /// Draws random ends and finds the next due time.
    fn look(&mut self, view: &dyn InstrumentView) {
        for (at, entry) in self.entries.iter_mut().enumerate() {
            let next = entry.plan.get(entry.next).filter(|next| next.spread_ns > 0 && next.at > self.restart);
            if let (Some(next), false) = (next, entry.drawn.is_some_and(|(of, _)| of == entry.next)) {
                entry.drawn = Some((entry.next, after(next.at, self.calendar.draw(next.spread_ns))));
            }
            entry.has_stale_count =
                entry.state() != SessionKind::Deleted && entry.remaining() != view.remaining(instrument(at));
        }
        self.soonest = match self.pick() {
            (_, DueKind::Remaining(_)) => VenueNanos::ZERO,
            (due, _) => due,
        };
    }

    fn act(&mut self, due: VenueNanos, what: DueKind, view: &dyn InstrumentView) -> Option<Command> {
        match what {
            DueKind::Pass => {
                // One command expires all orders that are due by then.
                (self.passed, self.expiry) = (due, NEVER);
                Some(Command::PassTime)
            }
            DueKind::Day if self.is_over => {
                let day = self.next_day();
                Some(Command::BeginDay { day, closes: self.calendar.closes(day) })
            }
            DueKind::Day => Some(Command::EndDay),
            DueKind::Remaining(at) => {
                let entry = &mut self.entries[at];
                entry.is_blocked = true;
                Some(Command::SetRemaining { instrument: instrument(at), remaining: entry.remaining() })
            }
            DueKind::Batch(instrument) => {
                self.batches.remove(&(due, instrument));
                let open = view.phase(instrument) == Phase::Continuous;
                open.then_some(Command::RunBatch { instrument })
            }
            DueKind::Filter => self.filter(due, view),
            DueKind::Session(at) => self.session(at, due),
            DueKind::ReportingHours(at) => Some(self.turn_hours(at, due)),
        }
    }

    /// Filters one instrument at a time, in order of number. After the last one it sets the time of
    /// the next pass.
    fn filter(&mut self, due: VenueNanos, view: &dyn InstrumentView) -> Option<Command> {
        self.hidden.retain(|id| view.rests_hidden(*id));
        let open = |id: &InstrumentId| view.phase(*id) == Phase::Continuous;
        let from = self.filtered.map_or(0, |last: InstrumentId| last.0 + 1);
        let next = self.hidden.range(InstrumentId(from)..).copied().find(open);
        self.filtered = next;
        let Some(instrument) = next else {
            self.filter = if self.hidden.is_empty() {
                NEVER
            } else {
                boundary_after(due.max(self.now).max(self.restart), FILTER_NS)
            };
            return None;
        };
        Some(Command::FilterHidden { instrument })
    }

    fn session(&mut self, at: usize, due: VenueNanos) -> Option<Command> {
        let entry = &mut self.entries[at];
        let (_, action) = entry.due();
        let enter = match action {
            DueAction::SkipPassed => {
                entry.passed_until = due;
                self.now = self.now.max(due);
                return None;
            }
            DueAction::Enter(k) if entry.plan[k].to.is_call() || entry.state() == SessionKind::Scheduled => Some(k),
            DueAction::Enter(_) | DueAction::Return => entry.target(due),
        };
        entry.is_blocked = true;
        let is_new = entry.state() == SessionKind::New;
        if let (DueAction::Enter(last), SessionKind::Halted | SessionKind::Reopening, Some(k)) =
            (action, entry.state(), enter)
            && entry.plan[last].to == Phase::PostClose
            && k < last
        {
            entry.skip_to = Some(last);
        }
        let (to, ends, came) = match enter {
            Some(k) => (entry.plan[k].to, entry.ends_of(k), entry.plan[k].at),
            None => (entry.current().0, entry.current().1, due),
        };
        if to == entry.phase {
            // The instrument is already in that session, so the boundary is done without a command.
            entry.entered(to, ends, came.max(due));
            entry.next = enter.map_or(entry.next, |k| k + 1);
            return None;
        }
        let is_held = to.is_call() || to == Phase::ClosingPriceCross;
        let was_missed = came <= self.restart && !is_new && !entry.is_misplaced;
        let reason = match ends {
            _ if !was_missed => SessionReason::Scheduled,
            Some(ends) if is_held && ends > self.restart => SessionReason::Scheduled,
            None if is_held => SessionReason::Scheduled,
            _ => SessionReason::Missed,
        };
        Some(Command::ChangeSession { instrument: instrument(at), to, reason, due: came, ends })
    }

    fn turn_hours(&mut self, at: usize, due: VenueNanos) -> Command {
        let (open, until) = self.entries[at].hours.turn();
        // Hours that have not ended begin late and are not missed.
        let was_missed = due <= self.restart && (!open || until <= self.restart);
        let reason = if was_missed { SessionReason::Missed } else { SessionReason::Scheduled };
        Command::SetReporting { instrument: instrument(at), open, reason, due, ends: open.then_some(until) }
    }

    /// Updates the plan after a command.
    pub fn observe(&mut self, stamped: &SequencedCommand, events: &[Event], view: &dyn InstrumentView) {
        self.now = stamped.at;
        let mut is_touched = self.commanded(stamped, events, view);
        for event in events {
            is_touched |= match event {
                Event::Accepted { instrument, order_type, tif, .. } => {
                    let hidden = matches!(order_type, OrderType::Hidden { .. });
                    let expires = if let TimeInForce::GoodTillTime { at } = tif { Some(*at) } else { None };
                    self.arrived(*instrument, hidden, expires, view);
                    false
                }
                Event::Amended { instrument, expiry, .. } => {
                    let expires = if let Some(Expiry::Time(at)) = expiry { Some(*at) } else { None };
                    self.arrived(*instrument, false, expires, view);
                    false
                }
                Event::Triggered { instrument, .. } => {
                    self.wake(*instrument, view);
                    false
                }
                Event::SessionChanged { instrument, from, to, ends, .. } => {
                    if from.is_call()
                        && !to.is_call()
                        && view.next_expiry(VenueNanos::ZERO).is_some_and(|at| at <= self.now)
                    {
                        // The call kept expired orders waiting; they expire now.
                        self.expiry = self.now;
                    }
                    self.entered(*instrument, *to, *ends, stamped);
                    self.wake(*instrument, view);
                    true
                }
                Event::PhaseChanged { instrument, phase } => {
                    self.entered(*instrument, *phase, None, stamped);
                    true
                }
                Event::InstrumentAdded(spec) => {
                    self.has_batches |= is_batched(spec.rules.as_deref());
                    self.add(&spec.name);
                    self.plan(self.entries.len() - 1);
                    self.set_hours(self.entries.len() - 1, false, self.now);
                    true
                }
                Event::TradingRulesSet { instrument, .. } => {
                    self.has_batches = (0..view.instruments()).any(|at| is_batched(view.rules(self::instrument(at))));
                    self.wake(*instrument, view);
                    true
                }
                _ => false,
            };
        }
        if is_touched {
            self.look(view);
        }
    }

    /// Records the scheduler's own commands, accepted or refused, so that none is issued twice.
    fn commanded(&mut self, stamped: &SequencedCommand, events: &[Event], view: &dyn InstrumentView) -> bool {
        match &stamped.command {
            Command::EndDay => self.is_over = true,
            Command::BeginDay { day, closes } => {
                (self.day, self.closes, self.is_over) = (*day, *closes, false);
                for at in 0..self.entries.len() {
                    self.plan(at);
                    self.set_hours(at, view.reports(instrument(at)), self.began);
                }
            }
            Command::PassTime => {
                self.passed = stamped.at;
                self.expiry = view.next_expiry(self.passed).unwrap_or(NEVER);
            }
            Command::SetRemaining { instrument, .. } => {
                let is_refused = matches!(events, [.., Event::CommandRefused { .. }]);
                if let Some(entry) = self.entries.get_mut(instrument.0 as usize) {
                    entry.is_blocked = is_refused;
                }
            }
            _ => return false,
        }
        true
    }

    fn entered(&mut self, instrument: InstrumentId, to: Phase, ends: Option<VenueNanos>, stamped: &SequencedCommand) {
        let Some(entry) = self.entries.get_mut(instrument.0 as usize) else { return };
        let at = match &stamped.command {
            Command::ChangeSession { due, reason: SessionReason::Scheduled | SessionReason::Missed, .. } => {
                stamped.at.min(*due)
            }
            _ => stamped.at,
        };
        let unnamed = (to == Phase::VolatilityCall).then_some(after(stamped.at, VOLATILITY_NS));
        entry.entered(to, ends.or(unnamed), at);
    }

    /// HOT. An order's timers have their own due times, so no instrument needs to be searched.
    fn arrived(&mut self, id: InstrumentId, hidden: bool, expires: Option<VenueNanos>, view: &dyn InstrumentView) {
        if hidden {
            self.await_filter(id);
        }
        if let Some(at) = expires {
            self.expiry = self.expiry.min(at);
            self.soonest = self.soonest.min(at);
        }
        self.wake(id, view);
    }

    fn await_filter(&mut self, instrument: InstrumentId) {
        self.hidden.insert(instrument);
        self.filter = self.filter.min(boundary_after(self.now, FILTER_NS));
        self.soonest = self.soonest.min(self.filter);
    }

    /// Schedules the next batch of an instrument that trades in frequent batches.
    fn wake(&mut self, instrument: InstrumentId, view: &dyn InstrumentView) {
        if !self.has_batches {
            return;
        }
        let Some(rules) = view.rules(instrument).filter(|rules| rules.allocation == Allocation::FrequentBatch) else {
            return;
        };
        if !self.batches.iter().any(|(_, waiting)| *waiting == instrument) {
            let at = boundary_after(self.now, rules.batch_interval_ns.max(1));
            self.batches.insert((at, instrument));
            self.soonest = self.soonest.min(at);
        }
    }

    /// Returns the session that the schedule prescribes for an instrument at `at`, and its end.
    pub fn scheduled(&self, instrument: InstrumentId, at: VenueNanos) -> (Phase, Option<VenueNanos>) {
        let entry = self.entries.get(instrument.0 as usize);
        entry.map_or((Phase::Continuous, None), |entry| entry.scheduled(at))
    }
}

fn is_batched(rules: Option<&TradingRules>) -> bool {
    rules.is_some_and(|rules| rules.allocation == Allocation::FrequentBatch)
}

/// Returns the id of the instrument at an index. Instrument numbers have no gaps.
fn instrument(at: usize) -> InstrumentId {
    InstrumentId(u32::try_from(at).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
