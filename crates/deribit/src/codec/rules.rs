//! The rulebook's two tables from `contracts/rules`, for answers and error texts.
//!
//! Leaves out  decisions: the engine has its own copy of the tables.

use std::sync::LazyLock;

use pitwire_model::{OrderType, Phase, TimeInForce};
use serde::Deserialize;

use crate::codec::json::Json;

/// A rule, by the id that the tables cite.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Rule {
    pub id: String,
    pub text: String,
    pub source: String,
}

/// Order type by time in force.
#[derive(Debug, Deserialize)]
pub struct TypeCell {
    pub tif: String,
    #[serde(rename = "type")]
    pub order_type: String,
    pub answer: String,
    pub rule: String,
}

/// Session by time in force, or by order type.
#[derive(Debug, Deserialize)]
pub struct SessionCell {
    pub session: String,
    /// `tif` or `type`.
    pub kind: String,
    pub column: String,
    pub answer: String,
    pub rule: String,
}

#[derive(Debug, Deserialize)]
pub struct SessionRow {
    pub name: String,
    pub enter: bool,
    pub amend: bool,
    pub amend_hidden: bool,
    pub cancel: bool,
    pub park: bool,
    #[serde(rename = "match")]
    pub matching: String,
    pub publish: String,
    pub breaker: bool,
    pub self_match: bool,
}

#[derive(Debug, Default, Deserialize)]
pub struct OrderTypeTable {
    pub rule: Vec<Rule>,
    pub cell: Vec<TypeCell>,
}

#[derive(Debug, Default, Deserialize)]
pub struct Sessions {
    pub rule: Vec<Rule>,
    pub session: Vec<SessionRow>,
    pub cell: Vec<SessionCell>,
}

// The files are compiled in and a test parses them, so unreadable ones cannot ship.
static TYPES: LazyLock<OrderTypeTable> =
    LazyLock::new(|| toml::from_str(include_str!("../../../../contracts/rules/order-types.toml")).unwrap_or_default());
static SESSIONS: LazyLock<Sessions> =
    LazyLock::new(|| toml::from_str(include_str!("../../../../contracts/rules/sessions.toml")).unwrap_or_default());

pub fn types() -> &'static OrderTypeTable {
    &TYPES
}

pub fn sessions() -> &'static Sessions {
    &SESSIONS
}

/// The column of an order type. An iceberg is a limit order with a display quantity.
pub const fn type_word(order_type: OrderType, is_iceberg: bool) -> &'static str {
    match order_type {
        OrderType::Limit { .. } if is_iceberg => "iceberg",
        OrderType::Limit { .. } => "limit",
        OrderType::Market => "market",
        OrderType::Hidden { .. } => "hidden",
        OrderType::Stop { .. } => "stop",
        OrderType::StopLimit { .. } => "stop_limit",
    }
}

/// The row of a session. `closed` shares the row of post close.
fn row_of(phase: Phase) -> &'static str {
    if phase == Phase::Closed { Phase::PostClose.name() } else { phase.name() }
}

/// Returns the permissions of a session.
pub fn session(phase: Phase) -> Option<&'static SessionRow> {
    let name = row_of(phase);
    sessions().session.iter().find(|row| row.name == name)
}

/// Returns the rule for an order type with a time in force.
pub fn type_rule(order_type: OrderType, is_iceberg: bool, tif: TimeInForce) -> Option<&'static Rule> {
    let word = type_word(order_type, is_iceberg);
    let cell = types().cell.iter().find(|cell| cell.tif == tif.name() && cell.order_type == word)?;
    types().rule.iter().find(|rule| rule.id == cell.rule)
}

/// Returns the rule for a time in force in a session.
pub fn session_tif_rule(phase: Phase, tif: TimeInForce) -> Option<&'static Rule> {
    session_rule(phase, "tif", tif.name())
}

/// Returns the rule for an order type in a session.
pub fn session_type_rule(phase: Phase, order_type: OrderType, is_iceberg: bool) -> Option<&'static Rule> {
    session_rule(phase, "type", type_word(order_type, is_iceberg))
}

fn session_rule(phase: Phase, kind: &str, column: &str) -> Option<&'static Rule> {
    let (sessions, name) = (sessions(), row_of(phase));
    let cell = sessions.cell.iter().find(|cell| cell.session == name && cell.kind == kind && cell.column == column)?;
    sessions.rule.iter().find(|rule| rule.id == cell.rule)
}

/// Writes both tables, as `public/pitwire_get_rules` answers them.
pub fn write(j: &mut Json<'_>) {
    let (types, sessions) = (types(), sessions());
    j.object(|j| {
        j.key("order_types").array(|j| {
            for cell in &types.cell {
                j.object(|j| {
                    j.key("type").string(&cell.order_type).key("time_in_force").string(&cell.tif);
                    j.key("answer").string(&cell.answer).key("rule").string(&cell.rule);
                });
            }
        });
        j.key("sessions").array(|j| {
            for row in &sessions.session {
                j.object(|j| write_session(j, row, sessions));
            }
        });
        j.key("rules").array(|j| {
            // Some rules stand in both files.
            let also = sessions.rule.iter().filter(|rule| types.rule.iter().all(|known| known.id != rule.id));
            for rule in types.rule.iter().chain(also) {
                j.object(|j| {
                    j.key("id").string(&rule.id).key("text").string(&rule.text).key("source").string(&rule.source);
                });
            }
        });
    });
}

fn write_session(j: &mut Json<'_>, row: &SessionRow, sessions: &Sessions) {
    j.key("session").string(&row.name);
    for (name, permits) in [
        ("enter", row.enter),
        ("amend", row.amend),
        ("amend_hidden", row.amend_hidden),
        ("cancel", row.cancel),
        ("park", row.park),
        ("breaker", row.breaker),
        ("self_match", row.self_match),
    ] {
        j.key(name).bool(permits);
    }
    j.key("match").string(&row.matching).key("publish").string(&row.publish);
    for (key, kind) in [("time_in_force", "tif"), ("order_types", "type")] {
        j.key(key).object(|j| {
            for cell in sessions.cell.iter().filter(|cell| cell.session == row.name && cell.kind == kind) {
                j.key(&cell.column).string(&cell.answer);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pitwire_model::{Lots, Ticks};

    #[test]
    fn both_tables_are_whole() {
        assert_eq!(types().cell.len(), 11 * 6);
        assert_eq!(sessions().session.len(), 14);
        assert_eq!(sessions().cell.len(), 14 * (11 + 6));
        for cell in &types().cell {
            assert!(types().rule.iter().any(|rule| rule.id == cell.rule), "{}", cell.rule);
        }
        for cell in &sessions().cell {
            assert!(sessions().rule.iter().any(|rule| rule.id == cell.rule), "{}", cell.rule);
        }
    }

    #[test]
    fn the_sentence_that_decides_is_found() {
        let hidden = OrderType::Hidden { price: Ticks(1), minimum_execution: Lots(1) };
        let rule = session_type_rule(Phase::OpeningCall, hidden, false).expect("a cell");
        assert_eq!(rule.id, "hidden-continuous-only");
        let rule = session_tif_rule(Phase::Continuous, TimeInForce::OpeningCall).expect("a cell");
        assert_eq!(rule.id, "opg-opening-only");
        let rule = type_rule(OrderType::Market, false, TimeInForce::GoodTillCancel).expect("a cell");
        assert_eq!(rule.id, "market-does-not-wait");
        let limit = OrderType::Limit { price: Ticks(1) };
        assert_eq!(type_rule(limit, true, TimeInForce::FillOrKill).expect("a cell").id, "iceberg-rests");
        assert_eq!(session(Phase::Closed).map(|row| row.enter), Some(false));
    }
}
