//! The two rule tables from `contracts/rules`, read with a separate parser.
//!
//! Does        tell which times in force each order type takes, how a session treats either, and
//!             which actions each session permits, injects and expires.
//! Holds       every cell exists exactly once. A missing cell answers "reject".
//! Leaves out  TOML beyond one inline table per line, which is all that the two files contain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use pitwire_model::{OrderType, Phase, TimeInForce};

/// How a session treats a new order. If two cells differ, the smaller answer applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableAnswer {
    Reject,
    Park,
    Immediate,
    Active,
}

#[derive(Debug, Default)]
pub struct RuleTables {
    /// Whether an order type accepts a time in force.
    types: BTreeMap<(String, String), bool>,
    cells: BTreeMap<(String, String), TableAnswer>,
    sessions: BTreeMap<String, SessionPermissions>,
}

/// The actions that a session permits, whatever the order.
#[derive(Clone, Debug, Default)]
pub struct SessionPermissions {
    pub enter: bool,
    pub amend: bool,
    pub amend_hidden: bool,
    pub inject: BTreeSet<String>,
    pub expire: BTreeSet<String>,
}

const TYPES: &str = include_str!("../../../contracts/rules/order-types.toml");

const SESSIONS: &str = include_str!("../../../contracts/rules/sessions.toml");

/// Returns the tables from the contracts.
pub fn tables() -> &'static RuleTables {
    static TABLES: OnceLock<RuleTables> = OnceLock::new();
    TABLES.get_or_init(|| RuleTables::read(TYPES, SESSIONS))
}

/// Returns the table column of an order. An iceberg is a limit order with a display.
pub fn column(order_type: OrderType, has_display: bool) -> &'static str {
    match order_type {
        OrderType::Limit { .. } if has_display => "iceberg",
        OrderType::Limit { .. } => "limit",
        OrderType::Market => "market",
        OrderType::Hidden { .. } => "hidden",
        OrderType::Stop { .. } => "stop",
        OrderType::StopLimit { .. } => "stop_limit",
    }
}

impl RuleTables {
    fn read(types: &str, sessions: &str) -> RuleTables {
        let mut tables = RuleTables::default();
        for row in rows(types) {
            if let (Some(tif), Some(kind), Some(answer)) = (row.text("tif"), row.text("type"), row.text("answer")) {
                tables.types.insert((tif, kind), answer == "accept");
            }
        }
        for row in rows(sessions) {
            if let (Some(session), Some(column), Some(answer)) =
                (row.text("session"), row.text("column"), row.text("answer"))
            {
                let answer = match answer.as_str() {
                    "active" => TableAnswer::Active,
                    "immediate" => TableAnswer::Immediate,
                    "park" => TableAnswer::Park,
                    _ => TableAnswer::Reject,
                };
                tables.cells.insert((session, column), answer);
            } else if let Some(name) = row.text("name") {
                let permits = SessionPermissions {
                    enter: row.holds("enter"),
                    amend: row.holds("amend"),
                    amend_hidden: row.holds("amend_hidden"),
                    inject: row.list("inject"),
                    expire: row.list("expire"),
                };
                tables.sessions.insert(name, permits);
            }
        }
        tables
    }

    /// Whether orders of this column may have this time in force in any session.
    pub fn allows_type(&self, tif: TimeInForce, column: &str) -> bool {
        self.types.get(&(tif.name().to_owned(), column.to_owned())).copied().unwrap_or(false)
    }

    /// Returns the cells of a session, first by time in force, then by order type.
    pub fn cells(&self, phase: Phase, tif: TimeInForce, column: &str) -> (TableAnswer, TableAnswer) {
        let cell = |column: &str| self.cells.get(&(phase.name().to_owned(), column.to_owned())).copied();
        (cell(tif.name()).unwrap_or(TableAnswer::Reject), cell(column).unwrap_or(TableAnswer::Reject))
    }

    /// Returns the permissions of a session. Closed counts as post-close, and deleted permits
    /// nothing.
    pub fn permits(&self, phase: Phase) -> &SessionPermissions {
        static NOTHING: OnceLock<SessionPermissions> = OnceLock::new();
        let phase = if phase == Phase::Closed { Phase::PostClose } else { phase };
        self.sessions.get(phase.name()).unwrap_or_else(|| NOTHING.get_or_init(SessionPermissions::default))
    }

    pub fn injects(&self, phase: Phase, tif: TimeInForce) -> bool {
        self.permits(phase).inject.contains(tif.name())
    }

    pub fn expires(&self, phase: Phase, what: &str) -> bool {
        self.permits(phase).expire.contains(what)
    }
}

/// One line with an inline table.
struct TableRow<'a>(&'a str);

fn rows(text: &str) -> impl Iterator<Item = TableRow<'_>> {
    text.lines().map(str::trim).filter(|line| line.starts_with('{')).map(TableRow)
}

impl<'a> TableRow<'a> {
    /// Returns the text after `key =`.
    fn after(&self, key: &str) -> Option<&'a str> {
        let at = self.0.match_indices(key).find(|(at, _)| {
            let before = self.0[..*at].trim_end();
            let rest = self.0[at + key.len()..].trim_start();
            (before.ends_with('{') || before.ends_with(',')) && rest.starts_with('=')
        });
        let (at, _) = at?;
        Some(self.0[at + key.len()..].trim_start().trim_start_matches('=').trim_start())
    }

    fn text(&self, key: &str) -> Option<String> {
        Some(self.after(key)?.strip_prefix('"')?.split('"').next()?.to_owned())
    }

    fn holds(&self, key: &str) -> bool {
        self.after(key).is_some_and(|rest| rest.starts_with("true"))
    }

    fn list(&self, key: &str) -> BTreeSet<String> {
        let inside = self.after(key).and_then(|rest| rest.strip_prefix('[')?.split(']').next()).unwrap_or("");
        inside.split(',').map(|word| word.trim().trim_matches('"').to_owned()).filter(|word| !word.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_tables_have_every_cell() {
        let tables = tables();
        assert_eq!((tables.types.len(), tables.cells.len(), tables.sessions.len()), (11 * 6, 14 * 17, 14));
        assert!(tables.sessions.keys().all(|name| Phase::named(name).is_some()));
    }

    #[test]
    fn documented_cells_have_their_answers() {
        let (tables, price) = (tables(), pitwire_model::Ticks(1));
        let (day, gfa) = (TimeInForce::Day, TimeInForce::AnyCall);
        assert!(!tables.allows_type(TimeInForce::GoodTillCancel, column(OrderType::Market, false)));
        assert!(tables.allows_type(gfa, column(OrderType::Limit { price }, true)));
        assert_eq!(tables.cells(Phase::Continuous, gfa, "limit"), (TableAnswer::Park, TableAnswer::Active));
        assert_eq!(tables.cells(Phase::OpeningCall, day, "hidden"), (TableAnswer::Active, TableAnswer::Reject));
        assert_eq!(tables.cells(Phase::Closed, day, "limit"), (TableAnswer::Reject, TableAnswer::Reject));
        assert!(tables.permits(Phase::Pause).amend_hidden && !tables.permits(Phase::OpeningCall).amend_hidden);
        assert!(
            tables.injects(Phase::ClosingCall, TimeInForce::ClosingCall) && !tables.injects(Phase::Continuous, gfa)
        );
        assert!(tables.expires(Phase::Pause, "market") && !tables.expires(Phase::Halted, "market"));
    }
}
