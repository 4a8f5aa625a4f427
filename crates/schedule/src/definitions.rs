//! Calendar, schedule and session definitions, as a configuration file spells them.
//!
//! Leaves out  checks: the compiler makes them. Which session runs now: the engine knows it.
//! Start at    [`ScheduleDef`], then `compiler`.

use serde::{Deserialize, Serialize};

/// The line of a definition in its file, for error messages. All lines compare equal, so that a
/// moved definition is the same definition.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineNumber(pub u32);

impl PartialEq for LineNumber {
    fn eq(&self, _: &LineNumber) -> bool {
        true
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarDef {
    /// A name in the IANA time zone database.
    #[serde(default = "utc")]
    pub time_zone: String,
    /// Local time at which the venue day ends: `18:15`, or `24:00` for midnight.
    #[serde(default = "midnight")]
    pub day_ends: String,
    /// Trading weekdays, `mon` to `sun`. All seven if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trading_days: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holidays: Vec<String>,
    /// Days on which schedules use their `half_day` list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub half_days: Vec<String>,
    #[serde(skip)]
    pub line: LineNumber,
}

fn utc() -> String {
    "UTC".into()
}

fn midnight() -> String {
    "24:00".into()
}

impl Default for CalendarDef {
    fn default() -> Self {
        CalendarDef {
            time_zone: utc(),
            day_ends: midnight(),
            trading_days: Vec::new(),
            holidays: Vec::new(),
            half_days: Vec::new(),
            line: LineNumber::default(),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleDef {
    pub name: String,
    pub sessions: Vec<SessionDef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_day: Option<Vec<SessionDef>>,
    /// Trade reporting hours of every trading day, including half days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trade_reporting: Option<HoursDef>,
    #[serde(skip)]
    pub line: LineNumber,
}

/// Hours in which off-book trades may be reported, as times of day. They are independent of
/// sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoursDef {
    pub from: String,
    pub until: String,
}

/// One session. It begins at a time of day, or when a cron expression fires.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionDef {
    pub session: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// End of the session. The compiler checks that it equals the start of the next session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// With `cron`: the length of a call that interrupts continuous trading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<String>,
    /// Longest random delay of the end of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random_end: Option<String>,
    #[serde(skip)]
    pub line: LineNumber,
}

impl SessionDef {
    pub fn at(session: &str, from: &str) -> SessionDef {
        SessionDef { session: session.into(), from: Some(from.into()), ..SessionDef::default() }
    }

    #[must_use]
    pub fn ends_at_random(mut self, within: &str) -> SessionDef {
        self.random_end = Some(within.into());
        self
    }
}
