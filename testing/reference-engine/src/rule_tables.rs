//! The two tables of `contracts/rules`, read as text: the valid order types, and the actions that
//! a session permits.

use std::sync::LazyLock;

use pitwire_model::{Phase, TimeInForce};

use crate::order::ReferenceOrderKind;

const ORDER_TYPES: &str = include_str!("../../../contracts/rules/order-types.toml");

const SESSIONS: &str = include_str!("../../../contracts/rules/sessions.toml");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryAnswer {
    Reject,
    Park,
    Immediate,
    Active,
}

#[derive(Debug)]
pub struct SessionRow {
    pub name: String,
    pub enter: bool,
    pub amend: bool,
    pub amend_hidden: bool,
    pub inject: Vec<String>,
    pub expire: Vec<String>,
}

#[derive(Debug)]
pub struct TableCell {
    pub session: String,
    pub kind: String,
    pub column: String,
    pub answer: EntryAnswer,
}

pub struct RuleTableRows {
    pub sessions: Vec<SessionRow>,
    pub cells: Vec<TableCell>,
    /// Time in force, order type, and whether this pair may be entered.
    pub types: Vec<(String, String, bool)>,
}

static TABLES: LazyLock<RuleTableRows> = LazyLock::new(|| RuleTableRows {
    sessions: rows(SESSIONS, "session").map(session).collect(),
    cells: rows(SESSIONS, "cell").map(cell).collect(),
    types: rows(ORDER_TYPES, "cell")
        .map(|row| (text(row, "tif"), text(row, "type"), text(row, "answer") == "accept"))
        .collect(),
});

/// Returns the lines of one list of tables.
fn rows<'a>(toml: &'a str, list: &str) -> impl Iterator<Item = &'a str> {
    let head = format!("{list} = [");
    let from = toml.lines().skip_while(move |line| *line != head).skip(1);
    from.take_while(|line| *line != "]").filter(|line| line.contains('{'))
}

/// Returns the text after `key = ` to the end of the row.
pub fn value<'a>(row: &'a str, key: &str) -> &'a str {
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

pub fn session(row: &str) -> SessionRow {
    SessionRow {
        name: text(row, "name"),
        enter: truth(row, "enter"),
        amend: truth(row, "amend"),
        amend_hidden: truth(row, "amend_hidden"),
        inject: list(row, "inject"),
        expire: list(row, "expire"),
    }
}

fn cell(row: &str) -> TableCell {
    let answer = match text(row, "answer").as_str() {
        "reject" | "carried" => EntryAnswer::Reject,
        "park" => EntryAnswer::Park,
        "immediate" => EntryAnswer::Immediate,
        "active" => EntryAnswer::Active,
        other => panic!("{other} is no answer"),
    };
    TableCell { session: text(row, "session"), kind: text(row, "kind"), column: text(row, "column"), answer }
}

fn session_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Closed | Phase::Deleted => Phase::PostClose.name(),
        other => other.name(),
    }
}

/// Returns the table column of an order type. An iceberg is a limit order with a display.
pub fn column(kind: ReferenceOrderKind, has_display: bool) -> &'static str {
    match kind {
        ReferenceOrderKind::Market => "market",
        ReferenceOrderKind::Limit if has_display => "iceberg",
        ReferenceOrderKind::Limit => "limit",
        ReferenceOrderKind::Hidden => "hidden",
        ReferenceOrderKind::Stop => "stop",
        ReferenceOrderKind::StopLimit => "stop_limit",
    }
}

pub fn permits(phase: Phase) -> &'static SessionRow {
    let name = session_name(phase);
    TABLES.sessions.iter().find(|session| session.name == name).expect("every session has its row")
}

pub fn type_takes(tif: TimeInForce, column: &str) -> bool {
    let row = TABLES.types.iter().find(|(row, of, _)| row == tif.name() && of == column);
    row.expect("every pair has its cell").2
}

pub fn table_answer(phase: Phase, kind: &str, column: &str) -> EntryAnswer {
    let name = session_name(phase);
    let cell = TABLES.cells.iter().find(|cell| cell.session == name && cell.kind == kind && cell.column == column);
    cell.expect("every pair has its cell").answer
}

pub fn answer_to_tif(phase: Phase, tif: TimeInForce) -> EntryAnswer {
    table_answer(phase, "tif", tif.name())
}

pub fn answer_to_type(phase: Phase, column: &str) -> EntryAnswer {
    table_answer(phase, "type", column)
}
