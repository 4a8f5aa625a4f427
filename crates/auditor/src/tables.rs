//! The two tables of the rules, read from the contracts in the auditor's own way.
//!
//! Does        order type by time in force, session by either, and what each session permits, injects and expires.
//! Holds       every cell is there once; a table that is not whole makes each question an offence.
//! Leaves out  TOML beyond one table in braces for each line, which is all that those two files hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use pitwire_model::{OrderType, Phase, TimeInForce};

/// What a session makes of a new order, the first that applies before the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    Reject,
    Park,
    Immediate,
    Active,
}

#[derive(Debug, Default)]
pub struct Tables {
    /// Time in force and type, and whether they go together.
    types: BTreeMap<(String, String), bool>,
    cells: BTreeMap<(String, String), Answer>,
    sessions: BTreeMap<String, Permits>,
}

/// What a session permits, whatever the order.
#[derive(Clone, Debug, Default)]
pub struct Permits {
    pub enter: bool,
    pub amend: bool,
    pub amend_hidden: bool,
    pub inject: BTreeSet<String>,
    pub expire: BTreeSet<String>,
}

const TYPES: &str = include_str!("../../../contracts/rules/order-types.toml");
const SESSIONS: &str = include_str!("../../../contracts/rules/sessions.toml");

/// The tables as they stand in the contracts.
pub fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| Tables::read(TYPES, SESSIONS))
}

/// The column that an order stands in; an iceberg is a limit order with a display.
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

impl Tables {
    fn read(types: &str, sessions: &str) -> Tables {
        let mut tables = Tables::default();
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
                    "active" => Answer::Active,
                    "immediate" => Answer::Immediate,
                    "park" => Answer::Park,
                    _ => Answer::Reject,
                };
                tables.cells.insert((session, column), answer);
            } else if let Some(name) = row.text("name") {
                let permits = Permits {
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
    pub fn go_together(&self, tif: TimeInForce, column: &str) -> bool {
        self.types.get(&(tif.name().to_owned(), column.to_owned())).copied().unwrap_or(false)
    }

    /// The cells of a session: by time in force, and by type.
    pub fn cells(&self, phase: Phase, tif: TimeInForce, column: &str) -> (Answer, Answer) {
        let cell = |column: &str| self.cells.get(&(phase.name().to_owned(), column.to_owned())).copied();
        (cell(tif.name()).unwrap_or(Answer::Reject), cell(column).unwrap_or(Answer::Reject))
    }

    /// Closed is as post close; deleted permits nothing.
    pub fn permits(&self, phase: Phase) -> &Permits {
        static NOTHING: OnceLock<Permits> = OnceLock::new();
        let phase = if phase == Phase::Closed { Phase::PostClose } else { phase };
        self.sessions.get(phase.name()).unwrap_or_else(|| NOTHING.get_or_init(Permits::default))
    }

    pub fn injects(&self, phase: Phase, tif: TimeInForce) -> bool {
        self.permits(phase).inject.contains(tif.name())
    }

    pub fn expires(&self, phase: Phase, what: &str) -> bool {
        self.permits(phase).expire.contains(what)
    }
}

/// One line that is a table in braces.
struct Row<'a>(&'a str);

fn rows(text: &str) -> impl Iterator<Item = Row<'_>> {
    text.lines().map(str::trim).filter(|line| line.starts_with('{')).map(Row)
}

impl<'a> Row<'a> {
    /// What stands after `key =`.
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
    fn both_tables_are_whole() {
        let tables = tables();
        assert_eq!((tables.types.len(), tables.cells.len(), tables.sessions.len()), (11 * 6, 14 * 17, 14));
        assert!(tables.sessions.keys().all(|name| Phase::named(name).is_some()));
    }

    #[test]
    fn cells_that_the_page_names() {
        let (tables, price) = (tables(), pitwire_model::Ticks(1));
        let (day, gfa) = (TimeInForce::Day, TimeInForce::AnyCall);
        assert!(!tables.go_together(TimeInForce::GoodTillCancel, column(OrderType::Market, false)));
        assert!(tables.go_together(gfa, column(OrderType::Limit { price }, true)));
        assert_eq!(tables.cells(Phase::Continuous, gfa, "limit"), (Answer::Park, Answer::Active));
        assert_eq!(tables.cells(Phase::OpeningCall, day, "hidden"), (Answer::Active, Answer::Reject));
        assert_eq!(tables.cells(Phase::Closed, day, "limit"), (Answer::Reject, Answer::Reject));
        assert!(tables.permits(Phase::Pause).amend_hidden && !tables.permits(Phase::OpeningCall).amend_hidden);
        assert!(
            tables.injects(Phase::ClosingCall, TimeInForce::ClosingCall) && !tables.injects(Phase::Continuous, gfa)
        );
        assert!(tables.expires(Phase::Pause, "market") && !tables.expires(Phase::Halted, "market"));
    }
}
