//! The days of a venue: the calendar that the timetable asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use croner::Cron;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};
use pitwire_model::{Phase, VenueDay, VenueNanos};
use pitwire_order_flow::Random;

use crate::calendar::{Boundary, Calendar};

pub const DAY_SECONDS: u32 = 86_400;

/// Source of random session ends.
pub enum RandomEnds {
    /// A generator with a seed, for runs that must repeat exactly.
    Seeded(Random),
    /// A function that returns an unpredictable number of nanoseconds from zero to its argument.
    Unpredictable(fn(u64) -> u64),
}

impl RandomEnds {
    /// Creates a generator from the run's seed. No other stream of that seed has the same number.
    pub fn from_seed(seed: u64) -> RandomEnds {
        const STREAM: u64 = u64::MAX - 1;
        RandomEnds::Seeded(Random::new(seed, STREAM))
    }
}

/// One day's sessions, in order of the venue day.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sessions {
    pub fixed: Vec<Fixed>,
    pub crons: Vec<Repeated>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Fixed {
    /// Seconds after midnight; from the day's end on they are the evening before's.
    pub from: u32,
    pub to: Phase,
    pub random_end_ns: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Repeated {
    pub cron: Cron,
    pub to: Phase,
    /// How long it interrupts continuous trading; `None`: until the next session begins.
    pub lasts_ns: Option<u64>,
    pub random_end_ns: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub name: String,
    pub full: Sessions,
    pub half: Option<Sessions>,
    pub reporting: Option<Reporting>,
}

/// ReportingHours of trade reporting, in seconds after midnight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reporting {
    pub from: u32,
    /// The day's own end where it is that.
    pub until: u32,
}

pub struct VenueCalendar {
    pub zone: TimeZone,
    /// Seconds after midnight, to 24 hours.
    pub day_ends: u32,
    /// Monday first.
    pub trading: [bool; 7],
    pub holidays: BTreeSet<Date>,
    pub half_days: BTreeSet<Date>,
    pub schedules: Vec<Schedule>,
    /// Schedules by instrument.
    pub followers: BTreeMap<String, usize>,
    pub random_ends: RandomEnds,
}

/// From 1970 to the last nanosecond that is counted, in 2554; what lies before or beyond is one of the two.
fn nanos(at: Timestamp) -> VenueNanos {
    let most = if at < Timestamp::UNIX_EPOCH { 0 } else { u64::MAX };
    VenueNanos(u64::try_from(at.as_nanosecond()).unwrap_or(most))
}

/// The last day that is counted; nothing sensible lies beyond it, and everything after it is that day.
const LAST_DAY: u32 = 2_900_000;

impl VenueCalendar {
    fn date(day: VenueDay) -> Date {
        Date::constant(1970, 1, 1).saturating_add(i64::from(day.0.min(LAST_DAY)).days())
    }

    fn number(date: Date) -> VenueDay {
        let hours = date.duration_since(Date::constant(1970, 1, 1)).as_hours();
        VenueDay(u32::try_from(hours / 24).unwrap_or(0))
    }

    /// A time of day on a date; one that clocks leave out is taken as much later, one that comes twice the first time.
    fn instant(&self, date: Date, seconds: u32) -> VenueNanos {
        let (days, seconds) = (seconds / DAY_SECONDS, seconds % DAY_SECONDS);
        let date = date.saturating_add(i64::from(days).days());
        let time = Time::midnight().saturating_add(SignedDuration::from_secs(i64::from(seconds)));
        let zoned = self.zone.to_ambiguous_zoned(DateTime::from_parts(date, time)).compatible();
        zoned.map_or(VenueNanos(u64::MAX), |zoned| nanos(zoned.timestamp()))
    }

    fn zoned(&self, at: VenueNanos) -> Option<Zoned> {
        let at = Timestamp::from_nanosecond(i128::from(at.0)).ok()?;
        Some(at.to_zoned(self.zone.clone()))
    }

    pub fn trades_on(&self, date: Date) -> bool {
        let weekday = usize::try_from(date.weekday().to_monday_zero_offset()).unwrap_or(0);
        self.trading[weekday] && !self.holidays.contains(&date)
    }

    fn sessions(&self, schedule: usize, date: Date) -> Option<&Sessions> {
        let schedule = self.schedules.get(schedule).filter(|_| self.trades_on(date))?;
        schedule.half.as_ref().filter(|_| self.half_days.contains(&date)).or(Some(&schedule.full))
    }

    /// A time of day on the first trading day that has it, from the date of `wall` on, that is not over by `last_seen`;
    /// in the midst of a day of trading it is `last_seen` itself.
    pub fn starting(&self, wall: VenueNanos, last_seen: VenueNanos, seconds: u32) -> VenueNanos {
        const LOOKED_AT: u32 = 400;
        let Some(from) = self.zoned(wall.max(last_seen)) else { return last_seen };
        let is_over = |day: VenueDay| {
            let lasts =
                (0..self.schedules.len()).filter_map(|schedule| Some(self.boundaries(schedule, day).last()?.at));
            lasts.max().is_none_or(|last| last <= last_seen)
        };
        let first = VenueDay(self.day_of(nanos(from.timestamp())).0.saturating_sub(1));
        let days = (0..LOOKED_AT).map(|n| VenueDay(first.0 + n)).filter(|day| Self::date(*day) >= from.date());
        let mut days = days.filter(|day| self.trades_on(Self::date(*day)) && !is_over(*day));
        let start = days.next().map_or(wall, |day| self.instant(Self::date(day), seconds));
        start.max(last_seen)
    }

    /// When a venue day begins and ends.
    fn span(&self, day: VenueDay) -> (VenueNanos, VenueNanos) {
        (self.closes(VenueDay(day.0.saturating_sub(1))), self.closes(day))
    }

    /// When an expression comes true in a stretch of time.
    pub fn occurrences(&self, cron: &Cron, from: VenueNanos, until: VenueNanos) -> Vec<VenueNanos> {
        let Some(start) = self.zoned(from) else { return Vec::new() };
        let times = cron.iter_from(start, croner::Direction::Forward).map(|zoned| nanos(zoned.timestamp()));
        times.take_while(|at| *at < until).filter(|at| *at >= from).collect()
    }

    /// The half days, or the first few other trading days, on which an expression comes true; none when it does so on
    /// no day of the next many.
    pub fn firing_days(&self, cron: &Cron, from: VenueNanos, on_half_days: bool) -> Vec<VenueDay> {
        const WANTED: usize = 7;
        const LOOKED_AT: usize = 400;
        let fires = |day: &VenueDay| {
            let (begins, ends) = self.span(*day);
            let next = self.zoned(begins).and_then(|start| cron.find_next_occurrence(&start, true).ok());
            next.is_some_and(|next| nanos(next.timestamp()) < ends)
        };
        if on_half_days {
            return self.half_days.iter().map(|date| Self::number(*date)).filter(fires).collect();
        }
        let (mut from, mut days) = (from, Vec::new());
        for _ in 0..LOOKED_AT {
            let Some(start) = self.zoned(from) else { break };
            let Ok(next) = cron.find_next_occurrence(&start, true) else { break };
            let day = self.day_of(nanos(next.timestamp()));
            let date = Self::date(day);
            if self.trades_on(date) && !self.half_days.contains(&date) {
                days.push(day);
            }
            if days.len() == WANTED {
                break;
            }
            from = self.closes(day);
        }
        days
    }

    fn plan(&self, sessions: &Sessions, day: VenueDay) -> Vec<Boundary> {
        let (_, ends) = self.span(day);
        let begun = self.begun(sessions, day);
        let mut plan = Vec::with_capacity(begun.len());
        let mut spread_ns = 0;
        for (k, session) in begun.iter().enumerate() {
            // Whatever the configuration was found to leave, clocks that are moved may leave less.
            let room = begun.get(k + 1).map_or(ends, |next| next.at).0.saturating_sub(session.at.0);
            plan.push(Boundary { at: session.at, spread_ns: spread_ns.min(room.saturating_sub(1)), to: session.to });
            spread_ns = session.random_end_ns;
        }
        plan
    }

    pub fn holds(&self, sessions: &Sessions, day: VenueDay, phase: Phase) -> bool {
        self.begun(sessions, day).iter().any(|session| session.to == phase)
    }

    /// The first call of a day whose random end leaves nothing of the session after it: which, and that session.
    pub fn swallows(&self, sessions: &Sessions, day: VenueDay) -> Option<(Phase, Phase)> {
        let (_, ends) = self.span(day);
        let begun = self.begun(sessions, day);
        let pairs = begun.windows(2).enumerate();
        let mut rooms = pairs.map(|(k, pair)| (&pair[0], &pair[1], begun.get(k + 2).map_or(ends, |next| next.at)));
        let found = rooms.find(|(call, next, until)| call.random_end_ns >= until.0.saturating_sub(next.at.0));
        found.map(|(call, next, _)| (call.to, next.to))
    }

    /// What begins on a day, in order.
    fn begun(&self, sessions: &Sessions, day: VenueDay) -> Vec<Begun> {
        let (begins, ends) = self.span(day);
        let mut base = self.base(sessions, day);
        let mut calls = Vec::new();
        for repeated in &sessions.crons {
            let Some(lasts_ns) = repeated.lasts_ns else { continue };
            for at in self.occurrences(&repeated.cron, begins, ends) {
                calls.push((at, VenueNanos(at.0.saturating_add(lasts_ns)), repeated));
            }
        }
        calls.sort_by_key(|(at, ..)| *at);
        let mut free = begins;
        for (at, back, repeated) in calls {
            let k = base.partition_point(|session| session.at <= at);
            let inside = k.checked_sub(1).is_some_and(|k| base[k].to == Phase::Continuous);
            let next = base.get(k).map_or(ends, |next| next.at);
            if at < free || !inside || back > next {
                continue;
            }
            free = back;
            base.insert(k, Begun { at, to: repeated.to, random_end_ns: repeated.random_end_ns });
            if back < next {
                base.insert(k + 1, Begun { at: back, to: Phase::Continuous, random_end_ns: 0 });
            }
        }
        tidied(base)
    }

    /// When a time of day comes in the venue day of a date: from the day's end on, the evening before.
    fn placed(&self, date: Date, seconds: u32) -> VenueNanos {
        let evening_before = self.day_ends < DAY_SECONDS && seconds >= self.day_ends;
        self.instant(if evening_before { date.yesterday().unwrap_or(date) } else { date }, seconds)
    }

    /// Sessions by time of day, and repeated ones that last until the next.
    fn base(&self, sessions: &Sessions, day: VenueDay) -> Vec<Begun> {
        let (begins, ends) = self.span(day);
        let date = Self::date(day);
        let mut base = Vec::new();
        for fixed in &sessions.fixed {
            let at = self.placed(date, fixed.from);
            base.push(Begun { at, to: fixed.to, random_end_ns: fixed.random_end_ns });
        }
        for repeated in sessions.crons.iter().filter(|repeated| repeated.lasts_ns.is_none()) {
            for at in self.occurrences(&repeated.cron, begins, ends) {
                base.push(Begun { at, to: repeated.to, random_end_ns: repeated.random_end_ns });
            }
        }
        // Calls need something to interrupt.
        if base.is_empty() && sessions.crons.iter().any(|repeated| repeated.lasts_ns.is_some()) {
            base.push(Begun { at: begins, to: Phase::Continuous, random_end_ns: 0 });
        }
        base.sort_by_key(|session| session.at);
        base.retain(|session| (begins..ends).contains(&session.at));
        base
    }
}

/// A session begins; its random end moves the one after it.
struct Begun {
    at: VenueNanos,
    to: Phase,
    random_end_ns: u64,
}

/// Of several at one instant the last counts; one that begins what runs already begins nothing.
fn tidied(sessions: Vec<Begun>) -> Vec<Begun> {
    let mut tidy: Vec<Begun> = Vec::with_capacity(sessions.len());
    for session in sessions {
        if tidy.last().is_some_and(|last| last.at == session.at) {
            tidy.pop();
        }
        if tidy.last().is_none_or(|last| last.to != session.to) {
            tidy.push(session);
        }
    }
    tidy
}

impl Calendar for VenueCalendar {
    fn day_of(&self, at: VenueNanos) -> VenueDay {
        let date = self.zoned(at).map_or(Date::constant(1970, 1, 1), |zoned| zoned.date());
        let mut day = Self::number(date);
        // The day may have ended already; where clocks are moved at midnight, it may not have begun.
        while day.0 < LAST_DAY && self.closes(day) <= at {
            day.0 += 1;
        }
        while day.0 > 0 && self.closes(VenueDay(day.0 - 1)) > at {
            day.0 -= 1;
        }
        day
    }

    fn closes(&self, day: VenueDay) -> VenueNanos {
        self.instant(Self::date(day), self.day_ends)
    }

    fn schedule_of(&self, instrument: &str) -> Option<usize> {
        self.followers.get(instrument).copied()
    }

    fn boundaries(&self, schedule: usize, day: VenueDay) -> Arc<[Boundary]> {
        self.sessions(schedule, Self::date(day)).map_or_else(Vec::new, |sessions| self.plan(sessions, day)).into()
    }

    fn reporting(&self, schedule: usize, day: VenueDay) -> Option<(VenueNanos, VenueNanos)> {
        let date = Self::date(day);
        let hours = self.schedules.get(schedule).filter(|_| self.trades_on(date))?.reporting?;
        let closes = self.closes(day);
        let until = if hours.until == self.day_ends { closes } else { self.placed(date, hours.until) };
        let (from, until) = (self.placed(date, hours.from), until.min(closes));
        // Where clocks are moved there may be nothing left of them.
        (from < until).then_some((from, until))
    }

    fn draw(&mut self, most_ns: u64) -> u64 {
        match &mut self.random_ends {
            RandomEnds::Seeded(random) => random.below(most_ns.saturating_add(1)),
            RandomEnds::Unpredictable(draw) => draw(most_ns),
        }
    }
}
