//! Looks up in the contract files which rule a refusal cites.
//!
//! Leaves out  deciding on orders: the engine derives its own tables from the same files.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

const ORDER_TYPES: &str = include_str!("../../../contracts/rules/order-types.toml");
const SESSIONS: &str = include_str!("../../../contracts/rules/sessions.toml");
const ERRORS: &str = include_str!("../../../contracts/errors.toml");

/// One cell of the order type table or of the session table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub answer: String,
    /// Id of the rule. `text` is its sentence.
    pub rule: String,
    pub text: String,
}

#[derive(Debug)]
pub struct Contracts {
    /// Cells of the order type table, by time in force and order type.
    types: BTreeMap<(String, String), Cell>,
    /// Cells of the session table, by session and column. A column is a time in force or an order
    /// type.
    sessions: BTreeMap<(String, String), Cell>,
    takes_entries: BTreeMap<String, bool>,
    reasons: BTreeMap<String, Reason>,
}

#[derive(Debug, Deserialize)]
struct Reason {
    name: String,
    #[serde(default)]
    meaning: String,
    #[serde(default)]
    remedy: String,
    #[serde(default)]
    rule: String,
}

#[derive(Deserialize)]
struct Reasons {
    #[serde(default)]
    error: Vec<Reason>,
}

#[derive(Deserialize)]
struct Table<C> {
    rule: Vec<Sentence>,
    #[serde(default)]
    session: Vec<SessionRule>,
    cell: Vec<C>,
}

#[derive(Deserialize)]
struct Sentence {
    id: String,
    text: String,
}

#[derive(Deserialize)]
struct SessionRule {
    name: String,
    enter: bool,
}

#[derive(Deserialize)]
struct TypeCell {
    tif: String,
    r#type: String,
    answer: String,
    rule: String,
}

#[derive(Deserialize)]
struct SessionCell {
    session: String,
    column: String,
    answer: String,
    rule: String,
}

impl Contracts {
    /// Returns the contracts that were compiled into the binary.
    pub fn get() -> &'static Contracts {
        static CONTRACTS: OnceLock<Contracts> = OnceLock::new();
        CONTRACTS.get_or_init(|| Contracts::parse().unwrap_or_else(|error| panic!("contracts: {error}")))
    }

    fn parse() -> Result<Contracts, toml::de::Error> {
        let types: Table<TypeCell> = toml::from_str(ORDER_TYPES)?;
        let sessions: Table<SessionCell> = toml::from_str(SESSIONS)?;
        let reasons: Reasons = toml::from_str(ERRORS)?;
        let cell = |rules: &[Sentence], answer: String, rule: String| {
            let text = rules.iter().find(|sentence| sentence.id == rule).map(|sentence| sentence.text.clone());
            Cell { answer, rule, text: text.unwrap_or_default() }
        };
        let by_type = types.cell.into_iter().map(|c| ((c.tif, c.r#type), cell(&types.rule, c.answer, c.rule)));
        let by_session =
            sessions.cell.into_iter().map(|c| ((c.session, c.column), cell(&sessions.rule, c.answer, c.rule)));
        Ok(Contracts {
            types: by_type.collect(),
            sessions: by_session.collect(),
            takes_entries: sessions.session.into_iter().map(|session| (session.name, session.enter)).collect(),
            reasons: reasons.error.into_iter().map(|reason| (reason.name.clone(), reason)).collect(),
        })
    }

    pub(crate) fn knows(&self, reason: &str) -> bool {
        self.reasons.contains_key(reason)
    }

    pub fn meaning(&self, reason: &str) -> &str {
        self.reasons.get(reason).map_or("", |reason| &reason.meaning)
    }

    pub fn remedy(&self, reason: &str) -> &str {
        self.reasons.get(reason).map_or("", |reason| &reason.remedy)
    }

    /// Returns the place of the rule behind a reason code, as the contracts state it.
    pub fn rule_of(&self, reason: &str) -> &str {
        self.reasons.get(reason).map_or("", |reason| &reason.rule)
    }

    pub fn type_cell(&self, tif: &str, order_type: &str) -> Option<&Cell> {
        self.types.get(&(tif.to_owned(), order_type.to_owned()))
    }

    pub fn session_cell(&self, session: &str, column: &str) -> Option<&Cell> {
        self.sessions.get(&(session.to_owned(), column.to_owned()))
    }

    /// Returns the cell that decides what an accepted order does: of two different answers the
    /// first of reject, park, immediate, active counts.
    pub fn deciding_cell(&self, session: &str, tif: &str, order_type: &str) -> Option<&Cell> {
        const ANSWERS: [&str; 3] = ["park", "immediate", "active"];
        let rank = |cell: &Cell| ANSWERS.iter().position(|answer| *answer == cell.answer);
        let (by_tif, by_type) = (self.session_cell(session, tif)?, self.session_cell(session, order_type)?);
        // A market CPX order is active in the closing price cross.
        let waits_in_cross = (session, tif, order_type) == ("closing_price_cross", "cpx", "market");
        Some(if waits_in_cross || rank(by_tif) < rank(by_type) { by_tif } else { by_type })
    }

    /// Returns the table cell that refused an entry, or `None` if no table cell caused the refusal.
    pub fn refusing_cell(&self, reason: &str, session: &str, tif: &str, order_type: &str) -> Option<&Cell> {
        let cell = match reason {
            "not_open" if self.takes_entries.get(session) == Some(&false) => self.session_cell(session, tif),
            "tif_not_allowed_for_type" => self.type_cell(tif, order_type),
            "display_out_of_range" => self.type_cell(tif, order_type),
            "tif_not_allowed_in_session" => self.session_cell(session, tif),
            "type_not_allowed_in_session" => self.session_cell(session, order_type),
            _ => None,
        };
        cell.filter(|cell| ["reject", "carried"].contains(&cell.answer.as_str()))
    }

    /// Returns the rule that a refused entry cites: the rule of the table cell if there is one,
    /// otherwise that of the reason.
    pub fn cited(&self, reason: &str, session: &str, tif: &str, order_type: &str) -> &str {
        match self.refusing_cell(reason, session, tif, order_type) {
            Some(cell) => &cell.rule,
            None => self.rule_of(reason),
        }
    }
}
