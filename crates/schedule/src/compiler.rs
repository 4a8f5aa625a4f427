//! The schedule compiler: definitions in, a calendar or the first broken rule out.
//!
//! Start at    [`compile`].

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use croner::Cron;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use pitwire_failure::Failure;
use pitwire_model::{Phase, VenueNanos};

use crate::definitions::{CalendarDef, LineNumber, ScheduleDef, SessionDef};
use crate::venue_calendar::{
    CronSession, DAY_SECONDS, RandomEnds, ReportingTimes, Schedule, Sessions, TimedSession, VenueCalendar,
};

/// A definition that breaks a rule.
#[derive(Debug)]
struct DefinitionError {
    line: LineNumber,
    rule: &'static str,
    what: String,
    remedy: String,
}

type CompileResult<T> = Result<T, DefinitionError>;

fn definition_error<T>(
    line: LineNumber,
    rule: &'static str,
    what: impl Into<String>,
    remedy: impl Into<String>,
) -> CompileResult<T> {
    Err(DefinitionError { line, rule, what: what.into(), remedy: remedy.into() })
}

const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// A segment of the configuration, as far as schedules are concerned.
#[derive(Clone, Copy, Debug)]
pub struct SegmentMember<'a> {
    pub name: &'a str,
    pub schedule: Option<&'a str>,
    pub line: LineNumber,
}

/// An instrument of the configuration, as far as schedules are concerned.
#[derive(Clone, Copy, Debug)]
pub struct InstrumentMember<'a> {
    pub name: &'a str,
    pub segment: Option<&'a str>,
    /// The instrument's own schedule. It takes precedence over the segment's.
    pub schedule: Option<&'a str>,
    pub line: LineNumber,
}

/// Everything that a calendar is compiled from.
#[derive(Clone, Debug)]
pub struct ScheduleInput<'a> {
    /// The file that error messages name; `None` for a preset.
    pub file: Option<&'a str>,
    pub calendar: Option<&'a CalendarDef>,
    pub schedules: &'a [ScheduleDef],
    pub segments: Vec<SegmentMember<'a>>,
    pub instruments: Vec<InstrumentMember<'a>>,
}

/// Compiles definitions into a calendar. Random session ends are drawn from `random_ends`.
///
/// # Errors
///
/// Returns a failure that names the file, the line and the broken rule, with a remedy, if a
/// definition cannot be read or the sessions of a day have a gap or overlap.
pub fn compile(input: &ScheduleInput<'_>, random_ends: RandomEnds) -> Result<VenueCalendar, Failure> {
    calendar(input, random_ends).map_err(|definition_error| {
        let file = input.file.unwrap_or("the preset");
        let place =
            if definition_error.line.0 > 0 { format!("{file}:{}", definition_error.line.0) } else { file.to_owned() };
        Failure::new(format!("{place}: {} [rule: {}]", definition_error.what, definition_error.rule))
            .remedy(definition_error.remedy)
    })
}

fn calendar(input: &ScheduleInput<'_>, random_ends: RandomEnds) -> CompileResult<VenueCalendar> {
    let unset = CalendarDef::default();
    let def = input.calendar.unwrap_or(&unset);
    let mut calendar = frame(def, random_ends)?;
    let has_halves = !calendar.half_days.is_empty();
    let mut names = BTreeSet::new();
    for def in input.schedules {
        if !names.insert(def.name.as_str()) {
            return definition_error(
                def.line,
                "schedule",
                format!("there are two schedules {:?}", def.name),
                "rename one of them",
            );
        }
        let schedule = schedule(def, calendar.day_ends)?;
        // Repeated calls alone have no time of day that a half day could move.
        let has_times_of_day = def.sessions.iter().any(|session| session.cron.is_none());
        if has_halves && has_times_of_day && schedule.half.is_none() && is_followed(input, &def.name) {
            return definition_error(
                def.line,
                "half-day",
                format!("the calendar has half days, and schedule {:?} does not say what it does on them", def.name),
                "give it a half_day list, or take the days out of half_days",
            );
        }
        calendar.schedules.push(schedule);
    }
    for (schedule, def) in input.schedules.iter().enumerate() {
        crons_fire(&calendar, schedule, def)?;
    }
    calendar.followers = followers(input)?;
    Ok(calendar)
}

fn frame(def: &CalendarDef, random_ends: RandomEnds) -> CompileResult<VenueCalendar> {
    let line = def.line;
    let Ok(zone) = TimeZone::get(&def.time_zone) else {
        let what = format!("there is no time zone {:?}", def.time_zone);
        return definition_error(
            line,
            "zone",
            what,
            "take a name of the IANA database, like Africa/Johannesburg or UTC",
        );
    };
    let day_ends = match time(&def.day_ends) {
        Some(seconds) if seconds > 0 => seconds,
        _ => {
            let what = format!("day_ends: {:?} is no time of day after midnight", def.day_ends);
            return definition_error(line, "time", what, "write HH:MM or HH:MM:SS, at most 24:00");
        }
    };
    let mut trading = [def.trading_days.is_empty(); 7];
    for day in &def.trading_days {
        let Some(at) = WEEKDAYS.iter().position(|name| name == day) else {
            return definition_error(
                line,
                "day",
                format!("trading_days: {day:?} is no day"),
                "write mon, tue, wed, thu, fri, sat, sun",
            );
        };
        trading[at] = true;
    }
    let dates = |key: &str, texts: &[String]| -> CompileResult<BTreeSet<Date>> {
        let mut dates = BTreeSet::new();
        for text in texts {
            let Ok(date) = Date::from_str(text) else {
                return definition_error(
                    line,
                    "date",
                    format!("{key}: {text:?} is no date"),
                    "write YYYY-MM-DD, a day of the calendar",
                );
            };
            if !dates.insert(date) {
                return definition_error(
                    line,
                    "date",
                    format!("{key}: {text} stands there twice"),
                    "take one of them out",
                );
            }
        }
        Ok(dates)
    };
    let (holidays, half_days) = (dates("holidays", &def.holidays)?, dates("half_days", &def.half_days)?);
    let calendar = VenueCalendar {
        zone,
        day_ends,
        trading,
        holidays,
        half_days,
        schedules: Vec::new(),
        followers: BTreeMap::new(),
        random_ends,
    };
    if let Some(date) = calendar.half_days.iter().find(|date| !calendar.trades_on(**date)) {
        let what = format!("half_days: {date} is a holiday or no trading day");
        return definition_error(line, "half-day", what, "take it out of half_days");
    }
    Ok(calendar)
}

/// Parses a time of day, `HH:MM`, `HH:MM:SS` or `24:00`, into seconds after midnight.
fn time(text: &str) -> Option<u32> {
    let mut parts = text.split(':');
    let mut part = |most: u32| -> Option<u32> {
        let part = parts.next()?;
        let fine = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse().ok().filter(|value| fine && *value <= most)
    };
    let (hours, minutes) = (part(24)?, part(59)?);
    let seconds = if text.len() > 5 { part(59)? } else { 0 };
    let total = hours * 3600 + minutes * 60 + seconds;
    (parts.next().is_none() && total <= DAY_SECONDS).then_some(total)
}

/// Parses a duration such as `500ms`, `30s`, `5m` or `2h` into nanoseconds. Returns `None` for
/// zero, for more than a day, and for other texts.
pub fn duration_ns(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let unit = match &text[digits..] {
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let count: u64 = text[..digits].parse().ok()?;
    count.checked_mul(unit).filter(|ns| *ns > 0 && *ns <= u64::from(DAY_SECONDS) * 1_000_000_000)
}

fn schedule(def: &ScheduleDef, day_ends: u32) -> CompileResult<Schedule> {
    let full = sessions(&def.name, &def.sessions, def.line, day_ends)?;
    let half = def.half_day.as_ref().map(|list| sessions(&def.name, list, def.line, day_ends)).transpose()?;
    let reporting = reporting(def, day_ends)?;
    Ok(Schedule { name: def.name.clone(), full, half, reporting })
}

/// Compiles the hours of trade reporting. They must start before they end, within one venue day.
fn reporting(def: &ScheduleDef, day_ends: u32) -> CompileResult<Option<ReportingTimes>> {
    let Some(hours) = &def.trade_reporting else { return Ok(None) };
    let of = format!("schedule {:?}, trade_reporting", def.name);
    let read = |key, text| of_day(&of, def.line, key, text);
    let (from, until) = (read("from", &hours.from)?, read("until", &hours.until)?);
    if from == DAY_SECONDS {
        return definition_error(def.line, "time", format!("{of}: nothing begins at 24:00"), "write 00:00");
    }
    if into_day(from, day_ends) >= until_of_day(until, day_ends) {
        let what = format!(
            "{of} ends at {}, not after it begins at {}, in a day that turns at day_ends",
            hours.until, hours.from
        );
        return definition_error(def.line, "order", what, "correct from or until; hours lie within one venue day");
    }
    Ok(Some(ReportingTimes { from, until }))
}

/// Returns the description of a session for error messages.
fn named(schedule: &str, at: usize, def: &SessionDef) -> String {
    format!("schedule {schedule:?}, session {} ({})", at + 1, def.session)
}

fn sessions(name: &str, defs: &[SessionDef], line: LineNumber, day_ends: u32) -> CompileResult<Sessions> {
    if defs.is_empty() {
        return definition_error(
            line,
            "session",
            format!("schedule {name:?} has no sessions"),
            "list at least one, or leave it out",
        );
    }
    let mut sessions = Sessions::default();
    // Sessions that begin at a time of day: index in the list, and seconds since the venue day
    // began.
    let mut placed: Vec<(usize, u32)> = Vec::new();
    for (at, def) in defs.iter().enumerate() {
        let of = named(name, at, def);
        let to = phase(&of, def)?;
        let random_end_ns = random_end(&of, def, to)?;
        if let Some(repeated) = repeated(&of, def, to, random_end_ns)? {
            sessions.crons.push(repeated);
            continue;
        }
        let from = of_day(&of, def.line, "from", def.from.as_deref().unwrap_or_default())?;
        if from == DAY_SECONDS {
            return definition_error(def.line, "time", format!("{of}: no session begins at 24:00"), "write 00:00");
        }
        let place = into_day(from, day_ends);
        if let Some((earlier, began)) = placed.last() {
            follows(&of, def, place, (&defs[*earlier], *began), day_ends)?;
        }
        placed.push((at, place));
        sessions.fixed.push(TimedSession { from, to, random_end_ns });
    }
    if let Some((at, began)) = placed.last()
        && let Some(until) = &defs[*at].until
    {
        let of = named(name, *at, &defs[*at]);
        if until_of_day(of_day(&of, defs[*at].line, "until", until)?, day_ends) <= *began {
            return definition_error(
                defs[*at].line,
                "order",
                format!("{of} ends before it begins"),
                "correct from or until",
            );
        }
    }
    leave_room(name, defs, &placed, &sessions.fixed)?;
    Ok(sessions)
}

/// Checks that a random end leaves some time of the session after it.
fn leave_room(name: &str, defs: &[SessionDef], placed: &[(usize, u32)], fixed: &[TimedSession]) -> CompileResult<()> {
    for (k, session) in fixed.iter().enumerate() {
        let Some((at, begins)) = placed.get(k + 1) else { continue };
        let ends = placed.get(k + 2).map_or(DAY_SECONDS, |(_, place)| *place);
        if session.random_end_ns >= u64::from(ends - begins) * 1_000_000_000 {
            let (def, swallowed) = (&defs[placed[k].0], named(name, *at, &defs[*at]));
            let what = format!("the random end of {} may swallow {swallowed}", def.session);
            return definition_error(def.line, "random-end", what, "make random_end shorter than the session after it");
        }
    }
    Ok(())
}

/// Returns the seconds from the start of the venue day to a time of day.
fn into_day(seconds: u32, day_ends: u32) -> u32 {
    (seconds + DAY_SECONDS - day_ends) % DAY_SECONDS
}

/// As [`into_day`] for an end: the end of the day is its last second, not its first.
fn until_of_day(seconds: u32, day_ends: u32) -> u32 {
    match into_day(seconds, day_ends) {
        0 => DAY_SECONDS,
        place => place,
    }
}

fn of_day(of: &str, line: LineNumber, key: &str, text: &str) -> CompileResult<u32> {
    match time(text) {
        Some(seconds) => Ok(seconds),
        None => {
            definition_error(line, "time", format!("{of}: {key} {text:?} is no time of day"), "write HH:MM or HH:MM:SS")
        }
    }
}

fn phase(of: &str, def: &SessionDef) -> CompileResult<Phase> {
    let scheduled: Vec<Phase> = Phase::ALL.into_iter().filter(|phase| is_scheduled(*phase)).collect();
    if let Some(phase) = scheduled.iter().find(|phase| phase.name() == def.session) {
        return Ok(*phase);
    }
    let names: Vec<&str> = scheduled.iter().map(|phase| phase.name()).collect();
    let why = match Phase::named(&def.session) {
        Some(_) => "begins by an operator or a price, not by a schedule",
        None => "is no session",
    };
    definition_error(
        def.line,
        "session",
        format!("{of}: {:?} {why}", def.session),
        format!("one of {}", names.join(", ")),
    )
}

fn is_scheduled(phase: Phase) -> bool {
    let by_hand = matches!(phase, Phase::Closed | Phase::Deleted | Phase::Halted | Phase::HaltAndClose | Phase::Pause);
    !by_hand && !phase.is_triggered_call()
}

fn random_end(of: &str, def: &SessionDef, to: Phase) -> CompileResult<u64> {
    let Some(text) = &def.random_end else { return Ok(0) };
    if !to.is_call() {
        return definition_error(
            def.line,
            "random-end",
            format!("{of}: only a call ends at random"),
            "take random_end out",
        );
    }
    match duration_ns(text) {
        Some(ns) => Ok(ns),
        None => definition_error(
            def.line,
            "time",
            format!("{of}: random_end {text:?} is no length of time"),
            "write 30s or 1m",
        ),
    }
}

fn repeated(of: &str, def: &SessionDef, to: Phase, random_end_ns: u64) -> CompileResult<Option<CronSession>> {
    let Some(expression) = &def.cron else {
        if def.from.is_none() {
            return definition_error(
                def.line,
                "time",
                format!("{of} does not say when it begins"),
                "give it from or cron",
            );
        }
        if def.lasts.is_some() {
            return definition_error(
                def.line,
                "time",
                format!("{of}: lasts goes with cron"),
                "leave it out, or give until",
            );
        }
        return Ok(None);
    };
    if def.from.is_some() || def.until.is_some() {
        return definition_error(
            def.line,
            "cron",
            format!("{of} has cron beside from or until"),
            "give one of the two",
        );
    }
    let cron = match Cron::from_str(expression) {
        Ok(cron) => cron,
        Err(error) => {
            let what = format!("{of}: cron {expression:?} cannot be read: {error}");
            return definition_error(
                def.line,
                "cron",
                what,
                "write second, minute, hour, day, month and weekday: \"0 */3 * * * *\"",
            );
        }
    };
    let lasts_ns = match def.lasts.as_deref().map(|text| (text, duration_ns(text))) {
        None => None,
        Some((_, Some(ns))) => Some(ns),
        Some((text, None)) => {
            return definition_error(
                def.line,
                "time",
                format!("{of}: lasts {text:?} is no length of time"),
                "write 30s, 15m or 1h",
            );
        }
    };
    if lasts_ns.is_some() && !to.is_call() {
        return definition_error(
            def.line,
            "cron",
            format!("{of}: only a call interrupts trading for a while"),
            "take lasts out",
        );
    }
    Ok(Some(CronSession { cron, to, lasts_ns, random_end_ns }))
}

/// Checks that a session starts after the one before it, without a gap or an overlap.
fn follows(
    of: &str,
    def: &SessionDef,
    place: u32,
    (earlier, began): (&SessionDef, u32),
    day_ends: u32,
) -> CompileResult<()> {
    let (from, last) = (def.from.as_deref().unwrap_or_default(), &earlier.session);
    if place <= began {
        let what = format!("{of} begins at {from}, not after {last} before it");
        return definition_error(def.line, "order", what, "list sessions in the order of the venue day");
    }
    if let Some(text) = &earlier.until {
        let until = until_of_day(of_day(&format!("session {last}"), earlier.line, "until", text)?, day_ends);
        if until < place {
            let what =
                format!("nothing runs between {text}, when {last} ends, and {from}, when {} begins", def.session);
            return definition_error(
                def.line,
                "gap",
                what,
                format!("let {last} last until {from}, or list a session for that time"),
            );
        }
        if until > place {
            let what = format!("{last} ends at {text}, but {} begins at {from}", def.session);
            return definition_error(
                def.line,
                "overlap",
                what,
                format!("let {last} end at {from}, or {} begin later", def.session),
            );
        }
    }
    if def.session == *last {
        return definition_error(def.line, "session", format!("{of} follows itself"), "list it once");
    }
    Ok(())
}

/// Checks that each cron expression fires on some trading day, inside continuous trading, and ends
/// before the next session.
fn crons_fire(calendar: &VenueCalendar, schedule: usize, def: &ScheduleDef) -> CompileResult<()> {
    let of = &calendar.schedules[schedule];
    list_fires(calendar, &def.name, &def.sessions, &of.full, false)?;
    match (&def.half_day, &of.half) {
        (Some(defs), Some(half)) if !calendar.half_days.is_empty() => list_fires(calendar, &def.name, defs, half, true),
        _ => Ok(()),
    }
}

fn list_fires(
    calendar: &VenueCalendar,
    name: &str,
    defs: &[SessionDef],
    sessions: &Sessions,
    is_half: bool,
) -> CompileResult<()> {
    // The search starts on 2026-01-01. Any start works, because it only looks for days that exist.
    let start = VenueNanos(1_767_225_600_000_000_000);
    let repeating = defs.iter().enumerate().filter(|(_, session)| session.cron.is_some());
    for ((at, session), repeated) in repeating.zip(&sessions.crons) {
        let of = named(name, at, session);
        let days = calendar.firing_days(&repeated.cron, start, is_half);
        if days.is_empty() {
            let of_which = if is_half { "half day" } else { "trading day" };
            let what = format!("{of}: {:?} never comes on a {of_which}", session.cron.as_deref().unwrap_or_default());
            return definition_error(
                session.line,
                "cron-never",
                what,
                "correct the expression, or the calendar's trading days",
            );
        }
        if repeated.lasts_ns.is_some() && !days.iter().any(|day| calendar.holds(sessions, *day, repeated.to)) {
            let what = format!("{of} never finds continuous trading long enough to interrupt");
            return definition_error(session.line, "overlap", what, "let it begin and end inside a continuous session");
        }
        if let Some((call, swallowed)) = days.iter().find_map(|day| calendar.swallows(sessions, *day)) {
            let ends_so = |def: &&SessionDef| def.session == call.name() && def.random_end.is_some();
            let line = defs.iter().find(ends_so).map_or(session.line, |def| def.line);
            let what = format!("{of}: the random end of {} may swallow {} after it", call.name(), swallowed.name());
            return definition_error(
                line,
                "random-end",
                what,
                "make random_end shorter than what is left until the next session",
            );
        }
    }
    Ok(())
}

/// Returns the number of the schedule that each instrument follows.
fn followers(input: &ScheduleInput<'_>) -> CompileResult<BTreeMap<String, usize>> {
    let number = |name: &str, line: LineNumber, of: &str| match input.schedules.iter().position(|def| def.name == name)
    {
        Some(at) => Ok(at),
        None => {
            let names: Vec<&str> = input.schedules.iter().map(|def| def.name.as_str()).collect();
            let known = if names.is_empty() { "there is none".into() } else { names.join(", ") };
            let what = format!("{of} goes by schedule {name:?}, which is not there");
            definition_error(line, "schedule", what, format!("define it, or take one of these: {known}"))
        }
    };
    let mut segments = BTreeMap::new();
    for def in &input.segments {
        let of = format!("segment {}", def.name);
        let schedule = def.schedule.map(|name| number(name, def.line, &of)).transpose()?;
        if segments.insert(def.name, schedule).is_some() {
            return definition_error(
                def.line,
                "segment",
                format!("there are two segments {:?}", def.name),
                "rename one of them",
            );
        }
    }
    let mut followers = BTreeMap::new();
    for def in &input.instruments {
        let of = format!("instrument {}", def.name);
        let by_segment = match def.segment {
            None => None,
            Some(segment) => match segments.get(segment) {
                Some(schedule) => *schedule,
                None => {
                    let names: Vec<&str> = segments.keys().copied().collect();
                    let what = format!("{of} belongs to segment {segment:?}, which is not there");
                    let remedy = format!("define it, or take one of these: {}", names.join(", "));
                    return definition_error(def.line, "segment", what, remedy);
                }
            },
        };
        let own = def.schedule.map(|name| number(name, def.line, &of)).transpose()?;
        if let Some(schedule) = own.or(by_segment) {
            followers.insert(def.name.to_owned(), schedule);
        }
    }
    Ok(followers)
}

/// Returns whether any instrument follows a schedule, by its own definition or by its segment's.
fn is_followed(input: &ScheduleInput<'_>, schedule: &str) -> bool {
    let of_segment = |name: &str| input.segments.iter().find(|segment| segment.name == name)?.schedule;
    input.instruments.iter().any(|def| def.schedule.or_else(|| def.segment.and_then(of_segment)) == Some(schedule))
}
