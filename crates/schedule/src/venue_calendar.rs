//! The compiled calendar of a venue, in its own time zone.

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

/// The sessions of one kind of day, in order of the venue day.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sessions {
    pub fixed: Vec<TimedSession>,
    pub crons: Vec<CronSession>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TimedSession {
    /// Start in seconds after midnight. Times after the day's end belong to the evening before.
    pub from: u32,
    pub to: Phase,
    pub random_end_ns: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CronSession {
    pub cron: Cron,
    pub to: Phase,
    /// Length of a call that interrupts continuous trading. `None` if the session lasts until the
    /// next one.
    pub lasts_ns: Option<u64>,
    pub random_end_ns: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub name: String,
    pub full: Sessions,
    pub half: Option<Sessions>,
    pub reporting: Option<ReportingTimes>,
}

/// Trade reporting hours, in seconds after midnight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReportingTimes {
    pub from: u32,
    /// Equals the calendar's `day_ends` if the hours end with the day.
    pub until: u32,
}

pub struct VenueCalendar {
    pub zone: TimeZone,
    /// End of the venue day in seconds after midnight, at most 86,400.
    pub day_ends: u32,
    /// Trading weekdays, Monday first.
    pub trading: [bool; 7],
    pub holidays: BTreeSet<Date>,
    pub half_days: BTreeSet<Date>,
    pub schedules: Vec<Schedule>,
    /// Schedule number by instrument name.
    pub followers: BTreeMap<String, usize>,
    pub random_ends: RandomEnds,
}

/// Converts a timestamp. Times before 1970 become zero, and times after the year 2554 become the
/// largest value.
fn nanos(at: Timestamp) -> VenueNanos {
    let most = if at < Timestamp::UNIX_EPOCH { 0 } else { u64::MAX };
    VenueNanos(u64::try_from(at.as_nanosecond()).unwrap_or(most))
}

/// Returns a function from a time in nanoseconds since 1970 to the offset of a time zone from UTC,
/// in seconds. Returns `None` if the time zone database has no zone of this name.
pub fn utc_offset_of(time_zone: &str) -> Option<impl Fn(u64) -> i64 + Send + Sync + use<>> {
    let zone = TimeZone::get(time_zone).ok()?;
    Some(move |at_ns: u64| {
        let at = Timestamp::from_nanosecond(i128::from(at_ns)).unwrap_or(Timestamp::UNIX_EPOCH);
        i64::from(zone.to_offset(at).seconds())
    })
}

/// The last day that the calendar distinguishes. All later days count as this one.
const LAST_DAY: u32 = 2_900_000;

impl VenueCalendar {
    fn date(day: VenueDay) -> Date {
        Date::constant(1970, 1, 1).saturating_add(i64::from(day.0.min(LAST_DAY)).days())
    }

    fn number(date: Date) -> VenueDay {
        let hours = date.duration_since(Date::constant(1970, 1, 1)).as_hours();
        VenueDay(u32::try_from(hours / 24).unwrap_or(0))
    }

    /// Returns the time of a local time of day on a date. A time that a clock change skips is taken
    /// as much later as the change; a time that comes twice is taken the first time.
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

    /// Returns where venue time starts: the time of day `seconds` on the first trading day from the
    /// date of `wall` on that is not over by `last_seen`. Within an unfinished trading day it is
    /// `last_seen`.
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

    /// Returns the start and the end of a venue day.
    fn span(&self, day: VenueDay) -> (VenueNanos, VenueNanos) {
        (self.closes(VenueDay(day.0.saturating_sub(1))), self.closes(day))
    }

    /// Returns the times at which a cron expression fires in `from..until`.
    pub fn occurrences(&self, cron: &Cron, from: VenueNanos, until: VenueNanos) -> Vec<VenueNanos> {
        let Some(start) = self.zoned(from) else { return Vec::new() };
        let times = cron.iter_from(start, croner::Direction::Forward).map(|zoned| nanos(zoned.timestamp()));
        times.take_while(|at| *at < until).filter(|at| *at >= from).collect()
    }

    /// Returns days on which a cron expression fires: half days, or the first seven other trading
    /// days. Returns none if it does not fire within the search window.
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
            // A clock change can make a session shorter than the definition allows.
            let room = begun.get(k + 1).map_or(ends, |next| next.at).0.saturating_sub(session.at.0);
            plan.push(Boundary { at: session.at, spread_ns: spread_ns.min(room.saturating_sub(1)), to: session.to });
            spread_ns = session.random_end_ns;
        }
        plan
    }

    pub fn holds(&self, sessions: &Sessions, day: VenueDay, phase: Phase) -> bool {
        self.begun(sessions, day).iter().any(|session| session.to == phase)
    }

    /// Returns the first call of a day whose random end can use up the whole session after it, and
    /// that session.
    pub fn swallows(&self, sessions: &Sessions, day: VenueDay) -> Option<(Phase, Phase)> {
        let (_, ends) = self.span(day);
        let begun = self.begun(sessions, day);
        let pairs = begun.windows(2).enumerate();
        let mut rooms = pairs.map(|(k, pair)| (&pair[0], &pair[1], begun.get(k + 2).map_or(ends, |next| next.at)));
        let found = rooms.find(|(call, next, until)| call.random_end_ns >= until.0.saturating_sub(next.at.0));
        found.map(|(call, next, _)| (call.to, next.to))
    }

    /// Returns what begins on a day, in order.
    fn begun(&self, sessions: &Sessions, day: VenueDay) -> Vec<SessionStart> {
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
            base.insert(k, SessionStart { at, to: repeated.to, random_end_ns: repeated.random_end_ns });
            if back < next {
                base.insert(k + 1, SessionStart { at: back, to: Phase::Continuous, random_end_ns: 0 });
            }
        }
        tidied(base)
    }

    /// Returns the time of a time of day within the venue day of a date. Times after the day's end
    /// lie on the evening before.
    fn placed(&self, date: Date, seconds: u32) -> VenueNanos {
        let evening_before = self.day_ends < DAY_SECONDS && seconds >= self.day_ends;
        self.instant(if evening_before { date.yesterday().unwrap_or(date) } else { date }, seconds)
    }

    /// Returns the sessions by time of day and the repeated sessions that last until the next one.
    fn base(&self, sessions: &Sessions, day: VenueDay) -> Vec<SessionStart> {
        let (begins, ends) = self.span(day);
        let date = Self::date(day);
        let mut base = Vec::new();
        for fixed in &sessions.fixed {
            let at = self.placed(date, fixed.from);
            base.push(SessionStart { at, to: fixed.to, random_end_ns: fixed.random_end_ns });
        }
        for repeated in sessions.crons.iter().filter(|repeated| repeated.lasts_ns.is_none()) {
            for at in self.occurrences(&repeated.cron, begins, ends) {
                base.push(SessionStart { at, to: repeated.to, random_end_ns: repeated.random_end_ns });
            }
        }
        // A schedule that consists only of calls interrupts continuous trading.
        if base.is_empty() && sessions.crons.iter().any(|repeated| repeated.lasts_ns.is_some()) {
            base.push(SessionStart { at: begins, to: Phase::Continuous, random_end_ns: 0 });
        }
        base.sort_by_key(|session| session.at);
        base.retain(|session| (begins..ends).contains(&session.at));
        base
    }
}

/// The start of a session, with the random end that delays the session after it.
struct SessionStart {
    at: VenueNanos,
    to: Phase,
    random_end_ns: u64,
}

/// Removes sessions without effect: all but the last of those at one time, and repetitions of the
/// running session.
fn tidied(sessions: Vec<SessionStart>) -> Vec<SessionStart> {
    let mut tidy: Vec<SessionStart> = Vec::with_capacity(sessions.len());
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
        // The venue day can differ from the date: the day may have ended, or a clock change at
        // midnight may delay its start.
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
        // A clock change can leave nothing of the hours.
        (from < until).then_some((from, until))
    }

    fn draw(&mut self, most_ns: u64) -> u64 {
        match &mut self.random_ends {
            RandomEnds::Seeded(random) => random.below(most_ns.saturating_add(1)),
            RandomEnds::Unpredictable(draw) => draw(most_ns),
        }
    }
}
