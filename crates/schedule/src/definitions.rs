//! When sessions begin: schedules, calendar and segments as a configuration file says them.
//!
//! Does        read them, refuse what cannot be kept with file, line and rule, and answer the timetable's questions.
//! Holds       1. what is accepted has in each day an order of sessions without gap or overlap;
//!             2. times are the venue's own zone's, on days when clocks are put forward or back too.
//! Leaves out  what a session permits: contracts/rules. Which session an instrument really is in: the engine.
//! Start at    [`ScheduleDef`], then [`compile`], then [`days`].

use serde::{Deserialize, Serialize};

/// Where something stands in its file; for messages alone, so that no line makes two definitions differ.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line(pub u32);

impl PartialEq for Line {
    fn eq(&self, _: &Line) -> bool {
        true
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarDef {
    /// A name of the IANA database.
    #[serde(default = "utc")]
    pub time_zone: String,
    /// When the venue day turns: `18:15`, or `24:00` for midnight.
    #[serde(default = "midnight")]
    pub day_ends: String,
    /// `mon` to `sun`; all seven when left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trading_days: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holidays: Vec<String>,
    /// Days on which schedules go by their `half_day`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub half_days: Vec<String>,
    #[serde(skip)]
    pub line: Line,
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
            line: Line::default(),
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
    /// On every trading day, half days too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trade_reporting: Option<HoursDef>,
    #[serde(skip)]
    pub line: Line,
}

/// When trades made beside the book may be reported: times of day, beside whatever session runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoursDef {
    pub from: String,
    pub until: String,
}

/// One session: from a time of day, or whenever a cron expression says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionDef {
    pub session: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Checked against the next session's beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// With `cron`: a call inside continuous trading, which goes on after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<String>,
    /// A call ends at a random time up to this much later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random_end: Option<String>,
    #[serde(skip)]
    pub line: Line,
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
