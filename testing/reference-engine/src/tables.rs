//! The two tables of `contracts/rules`, read as text: what may be entered, and what a session permits.

use std::sync::LazyLock;

use pitwire_model::{Phase, TimeInForce};

use super::Kind;

const ORDER_TYPES: &str = include_str!("../../../contracts/rules/order-types.toml");
const SESSIONS: &str = include_str!("../../../contracts/rules/sessions.toml");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Reject,
    Park,
    Immediate,
    Active,
}

#[derive(Debug)]
pub(super) struct Session {
    name: String,
    pub enter: bool,
    pub amend: bool,
    pub amend_hidden: bool,
    pub inject: Vec<String>,
    pub expire: Vec<String>,
}

#[derive(Debug)]
struct Cell {
    session: String,
    kind: String,
    column: String,
    answer: Answer,
}

struct Tables {
    sessions: Vec<Session>,
    cells: Vec<Cell>,
    /// Time in force, type, whether it may be entered at all.
    types: Vec<(String, String, bool)>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| Tables {
    sessions: rows(SESSIONS, "session").map(session).collect(),
    cells: rows(SESSIONS, "cell").map(cell).collect(),
    types: rows(ORDER_TYPES, "cell")
        .map(|row| (text(row, "tif"), text(row, "type"), text(row, "answer") == "accept"))
        .collect(),
});

/// The lines of one list of tables.
fn rows<'a>(toml: &'a str, list: &str) -> impl Iterator<Item = &'a str> {
    let head = format!("{list} = [");
    let from = toml.lines().skip_while(move |line| *line != head).skip(1);
    from.take_while(|line| *line != "]").filter(|line| line.contains('{'))
}

/// What stands behind `key = `, up to the end of the row.
fn value<'a>(row: &'a str, key: &str) -> &'a str {
    let found = row.find(&format!(" {key} = ")).unwrap_or_else(|| panic!("no {key} in {row}"));
    &row[found + key.len() + 4..]
}

fn text(row: &str, key: &str) -> String {
    value(row, key).split('"').nth(1).unwrap_or_else(|| panic!("{key} is no text in {row}")).to_owned()
}

fn truth(row: &str, key: &str) -> bool {
    value(row, key).starts_with("true")
}

fn list(row: &str, key: &str) -> Vec<String> {
    let inside = value(row, key).split(['[', ']']).nth(1).unwrap_or_else(|| panic!("{key} is no list in {row}"));
    inside.split(',').map(|word| word.trim().trim_matches('"').to_owned()).filter(|word| !word.is_empty()).collect()
}

fn session(row: &str) -> Session {
    Session {
        name: text(row, "name"),
        enter: truth(row, "enter"),
        amend: truth(row, "amend"),
        amend_hidden: truth(row, "amend_hidden"),
        inject: list(row, "inject"),
        expire: list(row, "expire"),
    }
}

fn cell(row: &str) -> Cell {
    let answer = match text(row, "answer").as_str() {
        "reject" | "carried" => Answer::Reject,
        "park" => Answer::Park,
        "immediate" => Answer::Immediate,
        "active" => Answer::Active,
        other => panic!("{other} is no answer"),
    };
    Cell { session: text(row, "session"), kind: text(row, "kind"), column: text(row, "column"), answer }
}

fn session_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Closed | Phase::Deleted => Phase::PostClose.name(),
        other => other.name(),
    }
}

/// The column of an order type; a limit order with a display is an iceberg.
pub(super) fn column(kind: Kind, has_display: bool) -> &'static str {
    match kind {
        Kind::Market => "market",
        Kind::Limit if has_display => "iceberg",
        Kind::Limit => "limit",
        Kind::Hidden => "hidden",
        Kind::Stop => "stop",
        Kind::StopLimit => "stop_limit",
    }
}

pub(super) fn permits(phase: Phase) -> &'static Session {
    let name = session_name(phase);
    TABLES.sessions.iter().find(|session| session.name == name).expect("every session has its row")
}

pub(super) fn type_takes(tif: TimeInForce, column: &str) -> bool {
    let row = TABLES.types.iter().find(|(row, of, _)| row == tif.name() && of == column);
    row.expect("every pair has its cell").2
}

fn answer(phase: Phase, kind: &str, column: &str) -> Answer {
    let name = session_name(phase);
    let cell = TABLES.cells.iter().find(|cell| cell.session == name && cell.kind == kind && cell.column == column);
    cell.expect("every pair has its cell").answer
}

pub(super) fn answer_to_tif(phase: Phase, tif: TimeInForce) -> Answer {
    answer(phase, "tif", tif.name())
}

pub(super) fn answer_to_type(phase: Phase, column: &str) -> Answer {
    answer(phase, "type", column)
}
