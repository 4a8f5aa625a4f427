//! The venue's day and its sessions as commands: which is due next, and what it is.
//!
//! Does        begin and end days, lead each instrument through its schedule, end triggered calls, wake what acts by time.
//! Holds       1. at an expiry `PassTime` comes first, then the day's turn, batches and filters, then sessions by instrument,
//!                then hours of trade reporting;
//!             2. what the engine holds of a day's remaining sessions is what is left of them, before anything else happens;
//!             3. after a restart each boundary that passed is told once, as missed, in order of time (rulebook 5.6).
//! Leaves out  when sessions begin: [`Calendar`]. Clocks: the caller says how late it is.
//! Costs       nothing between boundaries; a boundary looks at every instrument.
//! Start at    [`SessionScheduler::take`].

use std::collections::BTreeSet;

use pitwire_model::{
    Allocation, Command, Event, Expiry, InstrumentId, OrderType, Phase, SessionReason, Stamped, TimeInForce,
    TradingRules, VenueDay, VenueNanos,
};

use crate::calendar::{Calendar, NEVER};
use crate::instrument_schedule::{InstrumentSchedule, Standing, Wish};
use crate::instrument_view::InstrumentView;
use crate::reporting_hours::ReportingHours;

/// Between two filters of an instrument in which hidden orders rest.
const FILTER_NS: u64 = 30_000_000_000;
/// A volatility call that the engine gave no end.
const VOLATILITY_NS: u64 = 300_000_000_000;
/// So many days ahead and back, a schedule's next and last session are looked for.
const NEAR_DAYS: u32 = 14;

pub struct SessionScheduler {
    calendar: Box<dyn Calendar>,
    /// By instrument; instruments are dense.
    lanes: Vec<InstrumentSchedule>,
    day: VenueDay,
    /// The day has ended and the next one has not begun.
    is_over: bool,
    closes: VenueNanos,
    /// What was due up to here was missed.
    restart: VenueNanos,
    /// When a fresh venue began; zero for one that goes on.
    began: VenueNanos,
    now: VenueNanos,
    passed: VenueNanos,
    expiry: VenueNanos,
    /// Where hidden orders rest, and when they are filtered next.
    hidden: BTreeSet<InstrumentId>,
    filter: VenueNanos,
    /// The last one filtered in the turn under way.
    filtered: Option<InstrumentId>,
    /// Some instrument trades in frequent batches.
    has_batches: bool,
    /// Batches that have something in them, by time.
    batches: BTreeSet<(VenueNanos, InstrumentId)>,
    soonest: VenueNanos,
}

/// In this order at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Pass,
    Day,
    Remaining(usize),
    Batch(InstrumentId),
    Filter,
    Session(usize),
    ReportingHours(usize),
}

/// Beyond the last nanosecond lies [`NEVER`].
const fn after(at: VenueNanos, ns: u64) -> VenueNanos {
    VenueNanos(at.0.saturating_add(ns))
}

const fn boundary_after(at: VenueNanos, width_ns: u64) -> VenueNanos {
    VenueNanos((at.0 / width_ns + 1).saturating_mul(width_ns))
}

impl SessionScheduler {
    /// Goes on from where a venue stands. `last_seen`: venue time of its last command, zero for a fresh one.
    pub fn starting(
        calendar: Box<dyn Calendar>,
        view: &dyn InstrumentView,
        now: VenueNanos,
        last_seen: VenueNanos,
    ) -> SessionScheduler {
        let is_fresh = last_seen == VenueNanos::ZERO;
        let before = |day: VenueDay| VenueDay(day.0.saturating_sub(1));
        let (day, is_over) = match view.venue_day() {
            // Nothing is in the log at a day's close or later but after its end.
            Some(day) => (day, calendar.closes(day) <= last_seen),
            None if is_fresh => (before(calendar.day_of(now)), true),
            // A log from before days had numbers.
            None => {
                let day = calendar.day_of(last_seen);
                if calendar.closes(day) <= now { (day, false) } else { (before(day), true) }
            }
        };
        let mut scheduler = SessionScheduler {
            closes: calendar.closes(day),
            calendar,
            lanes: Vec::new(),
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
            let at = scheduler.lanes.len() - 1;
            scheduler.plan(at);
            scheduler.set_hours(at, view.reports(id), if is_fresh { now } else { last_seen });
            let lane = &mut scheduler.lanes[at];
            (lane.phase, lane.ends) = (view.phase(id), view.ends(id));
            if lane.standing() == Standing::Volatility {
                lane.ends.get_or_insert(after(last_seen, VOLATILITY_NS));
            }
            scheduler.has_batches |= is_batched(view.rules(id));
            let seen = if lane.standing() == Standing::Unborn { now } else { last_seen };
            lane.place(&view.remaining(id), seen);
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
        let mut lane = InstrumentSchedule::new(self.calendar.schedule_of(name));
        lane.gone_by = self.now;
        self.lanes.push(lane);
    }

    /// Gives a lane the plan of the day that runs.
    fn plan(&mut self, at: usize) {
        let Some(schedule) = self.lanes[at].schedule else { return };
        // Between two days it is tomorrow's that counts.
        let day = if self.is_over { VenueDay(self.day.0.saturating_add(1)) } else { self.day };
        let of = |day: u32| self.calendar.boundaries(schedule, VenueDay(day));
        let (plan, earlier) = (of(day.0), (1..=NEAR_DAYS).filter_map(|ago| day.0.checked_sub(ago)));
        let before = earlier.map(of).find_map(|plan| plan.last().map(|boundary| boundary.to));
        let after =
            (1..=NEAR_DAYS).map(|n| of(day.0.saturating_add(n))).find_map(|plan| plan.first().map(|first| first.at));
        let lane = &mut self.lanes[at];
        (lane.plan, lane.before, lane.after) = (plan, before.unwrap_or(Phase::Closed), after);
        (lane.next, lane.drawn, lane.skip_to, lane.counted) = (0, None, None, None);
        (lane.is_stuck, lane.is_misplaced) = (false, false);
    }

    /// The hours of the day that runs, of an instrument last seen at `seen`.
    fn set_hours(&mut self, at: usize, runs: bool, seen: VenueNanos) {
        let day = if self.is_over { VenueDay(self.day.0.saturating_add(1)) } else { self.day };
        let planned = self.lanes[at].schedule.and_then(|schedule| self.calendar.reporting(schedule, day));
        self.lanes[at].hours = ReportingHours::of_day(planned, self.calendar.closes(day), runs, seen);
    }

    pub fn next_due(&self) -> VenueNanos {
        self.soonest
    }

    /// The next command that is due by `until`, and when it was.
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

    fn pick(&self) -> (VenueNanos, What) {
        let remaining = self.lanes.iter().position(|lane| lane.wants_remaining && !lane.is_stuck);
        if let Some(at) = remaining.filter(|_| !self.is_over) {
            return (self.now, What::Remaining(at));
        }
        let day = (self.closes, What::Day);
        let batch = self.batches.first().map(|(at, instrument)| (*at, What::Batch(*instrument)));
        let sessions = self.lanes.iter().enumerate().map(|(at, lane)| (lane.due().0, What::Session(at)));
        // Between two days nothing happens.
        let sessions = sessions.filter(|_| !self.is_over);
        let standing = self.lanes.iter().enumerate().filter(|(_, lane)| lane.standing() != Standing::Gone);
        let hours = standing.map(|(at, lane)| (lane.hours.due(), What::ReportingHours(at))).filter(|_| !self.is_over);
        let timed = [(self.expiry, What::Pass), day, (self.filter, What::Filter)];
        timed.into_iter().chain(batch).chain(sessions).chain(hours).min().unwrap_or(day)
    }

    /// Draws what has to be drawn and finds what is due next.
    fn look(&mut self, view: &dyn InstrumentView) {
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            let next = lane.plan.get(lane.next).filter(|next| next.spread_ns > 0 && next.at > self.restart);
            if let (Some(next), false) = (next, lane.drawn.is_some_and(|(of, _)| of == lane.next)) {
                lane.drawn = Some((lane.next, after(next.at, self.calendar.draw(next.spread_ns))));
            }
            lane.wants_remaining = lane.standing() != Standing::Gone && lane.count() != view.remaining(instrument(at));
        }
        self.soonest = match self.pick() {
            (_, What::Remaining(_)) => VenueNanos::ZERO,
            (due, _) => due,
        };
    }

    fn act(&mut self, due: VenueNanos, what: What, view: &dyn InstrumentView) -> Option<Command> {
        match what {
            What::Pass => {
                // Whatever is due by then goes with it, and orders of a call with their call.
                (self.passed, self.expiry) = (due, NEVER);
                Some(Command::PassTime)
            }
            What::Day if self.is_over => {
                let day = VenueDay(self.day.0.saturating_add(1));
                Some(Command::BeginDay { day, closes: self.calendar.closes(day) })
            }
            What::Day => Some(Command::EndDay),
            What::Remaining(at) => {
                let lane = &mut self.lanes[at];
                lane.is_stuck = true;
                Some(Command::SetRemaining { instrument: instrument(at), remaining: lane.count() })
            }
            What::Batch(instrument) => {
                self.batches.remove(&(due, instrument));
                let open = view.phase(instrument) == Phase::Continuous;
                open.then_some(Command::RunBatch { instrument })
            }
            What::Filter => self.filter(due, view),
            What::Session(at) => self.session(at, due),
            What::ReportingHours(at) => Some(self.turn_hours(at, due)),
        }
    }

    /// One instrument at a time, in order of number; the last sets the next time.
    fn filter(&mut self, due: VenueNanos, view: &dyn InstrumentView) -> Option<Command> {
        self.hidden.retain(|id| view.rests_hidden(*id));
        let open = |id: &InstrumentId| view.phase(*id) == Phase::Continuous;
        let from = self.filtered.map_or(0, |last: InstrumentId| last.0 + 1);
        let next = self.hidden.range(InstrumentId(from)..).copied().find(open);
        self.filtered = next;
        let Some(instrument) = next else {
            self.filter = if self.hidden.is_empty() { NEVER } else { boundary_after(due.max(self.now), FILTER_NS) };
            return None;
        };
        Some(Command::FilterHidden { instrument })
    }

    fn session(&mut self, at: usize, due: VenueNanos) -> Option<Command> {
        let lane = &mut self.lanes[at];
        let (_, wish) = lane.due();
        let enter = match wish {
            Wish::PassBy => {
                lane.gone_by = due;
                self.now = self.now.max(due);
                return None;
            }
            Wish::Enter(k) if lane.plan[k].to.is_call() || lane.standing() == Standing::Scheduled => Some(k),
            Wish::Enter(_) | Wish::Return => lane.target(due),
        };
        lane.is_stuck = true;
        let is_unborn = lane.standing() == Standing::Unborn;
        if let (Wish::Enter(last), Standing::Held | Standing::Reopening, Some(k)) = (wish, lane.standing(), enter)
            && lane.plan[last].to == Phase::PostClose
            && k < last
        {
            lane.skip_to = Some(last);
        }
        let (to, ends, came) = match enter {
            Some(k) => (lane.plan[k].to, lane.ends_of(k), lane.plan[k].at),
            None => (lane.current().0, lane.current().1, due),
        };
        if to == lane.phase {
            // There already: the boundary is done without a command.
            lane.entered(to, ends, came.max(due));
            lane.next = enter.map_or(lane.next, |k| k + 1);
            return None;
        }
        let is_held = to.is_call() || to == Phase::ClosingPriceCross;
        let was_missed = came <= self.restart && !is_unborn && !lane.is_misplaced;
        let reason = match ends {
            _ if !was_missed => SessionReason::Scheduled,
            Some(ends) if is_held && ends > self.restart => SessionReason::Scheduled,
            None if is_held => SessionReason::Scheduled,
            _ => SessionReason::Missed,
        };
        Some(Command::ChangeSession { instrument: instrument(at), to, reason, due: came, ends })
    }

    fn turn_hours(&mut self, at: usize, due: VenueNanos) -> Command {
        let (open, until) = self.lanes[at].hours.turn();
        // ReportingHours that still run begin late.
        let was_missed = due <= self.restart && (!open || until <= self.restart);
        let reason = if was_missed { SessionReason::Missed } else { SessionReason::Scheduled };
        Command::SetReporting { instrument: instrument(at), open, reason, due, ends: open.then_some(until) }
    }

    /// Learns what a command has done.
    pub fn observe(&mut self, stamped: &Stamped, events: &[Event], view: &dyn InstrumentView) {
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
                        // Left waiting by a call that did not end.
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
                    self.plan(self.lanes.len() - 1);
                    self.set_hours(self.lanes.len() - 1, false, self.now);
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

    /// The scheduler's own commands, whatever has come of them: none is given twice.
    fn commanded(&mut self, stamped: &Stamped, events: &[Event], view: &dyn InstrumentView) -> bool {
        match &stamped.command {
            Command::EndDay => self.is_over = true,
            Command::BeginDay { day, closes } => {
                (self.day, self.closes, self.is_over) = (*day, *closes, false);
                for at in 0..self.lanes.len() {
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
                if let Some(lane) = self.lanes.get_mut(instrument.0 as usize) {
                    lane.is_stuck = is_refused;
                }
            }
            _ => return false,
        }
        true
    }

    fn entered(&mut self, instrument: InstrumentId, to: Phase, ends: Option<VenueNanos>, stamped: &Stamped) {
        let Some(lane) = self.lanes.get_mut(instrument.0 as usize) else { return };
        let at = match &stamped.command {
            Command::ChangeSession { due, reason: SessionReason::Scheduled | SessionReason::Missed, .. } => {
                stamped.at.min(*due)
            }
            _ => stamped.at,
        };
        let unnamed = (to == Phase::VolatilityCall).then_some(after(stamped.at, VOLATILITY_NS));
        lane.entered(to, ends.or(unnamed), at);
    }

    /// HOT. What an order brings along is due at a time of its own: no lane has to be looked at.
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

    /// An instrument of frequent batches has something for the next one.
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

    /// What the schedule says is current for an instrument, and when that ends.
    pub fn scheduled(&self, instrument: InstrumentId, at: VenueNanos) -> (Phase, Option<VenueNanos>) {
        let lane = self.lanes.get(instrument.0 as usize);
        lane.map_or((Phase::Continuous, None), |lane| lane.scheduled(at))
    }
}

fn is_batched(rules: Option<&TradingRules>) -> bool {
    rules.is_some_and(|rules| rules.allocation == Allocation::FrequentBatch)
}

/// Instruments are dense, and so are lanes.
fn instrument(at: usize) -> InstrumentId {
    InstrumentId(u32::try_from(at).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
