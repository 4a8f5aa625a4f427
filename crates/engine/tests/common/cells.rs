//! The cells of the rule tables that a run of commands has covered, with their answers.
//!
//! Does        read `contracts/rules`, examine every entry and its first event, and list the cells
//!             that no command covered.
//! Holds       a cell is covered when the engine's answer equals the answer of the table.
//!             [`Cells::observe`] reports a different answer.

use std::collections::{BTreeMap, BTreeSet};

use pitwire_model::{Command, Event, InstrumentId, NewOrder, OrderType, Phase, Reject, TimeInForce};

const ORDER_TYPES: &str = include_str!("../../../../contracts/rules/order-types.toml");
const SESSIONS: &str = include_str!("../../../../contracts/rules/sessions.toml");

/// The table of times in force by type, and of sessions by either.
type Cell = (String, String);

#[derive(Debug)]
pub struct Cells {
    answers: BTreeMap<Cell, String>,
    closed: BTreeSet<String>,
    met: BTreeMap<Cell, u64>,
    phases: BTreeMap<InstrumentId, Phase>,
    /// The published session changes, from and to.
    changes: BTreeSet<(Phase, Phase)>,
}

fn word(row: &str, key: &str) -> Option<String> {
    let (_, rest) = row.split_once(&format!(" {key} = "))?;
    let rest = rest.trim_start();
    let end = rest.find([',', ' ', '}'])?;
    Some(rest[..end].trim_matches('"').to_owned())
}

fn column(order: &NewOrder) -> &'static str {
    match order.order_type {
        OrderType::Market => "market",
        OrderType::Limit { .. } if order.display.is_some() => "iceberg",
        OrderType::Limit { .. } => "limit",
        OrderType::Hidden { .. } => "hidden",
        OrderType::Stop { .. } => "stop",
        OrderType::StopLimit { .. } => "stop_limit",
    }
}

impl Default for Cells {
    fn default() -> Self {
        let mut answers = BTreeMap::new();
        for row in ORDER_TYPES.lines() {
            if let (Some(tif), Some(kind), Some(answer)) = (word(row, "tif"), word(row, "type"), word(row, "answer")) {
                answers.insert((tif, kind), answer);
            }
        }
        let mut closed = BTreeSet::new();
        for row in SESSIONS.lines() {
            if let (Some(session), Some(of), Some(answer)) =
                (word(row, "session"), word(row, "column"), word(row, "answer"))
            {
                answers.insert((session, of), answer);
            } else if let (Some(name), Some("false")) = (word(row, "name"), word(row, "enter").as_deref()) {
                closed.insert(name);
            }
        }
        assert_eq!(answers.len(), 66 + 14 * 17, "cells of both tables");
        Cells { answers, closed, met: BTreeMap::new(), phases: BTreeMap::new(), changes: BTreeSet::new() }
    }
}

impl Cells {
    /// Starts a new world.
    pub fn forget(&mut self) {
        self.phases.clear();
    }

    pub fn observe(&mut self, command: &Command, events: &[Event]) {
        if let Command::Enter(order) = command
            && let Some(phase) = self.phases.get(&order.instrument).copied()
            && !matches!(phase, Phase::Closed | Phase::Deleted)
        {
            self.hear_entry(order, phase.name(), events);
        }
        for event in events {
            match *event {
                Event::SessionChanged { instrument, to, from, .. } => {
                    self.changes.insert((from, to));
                    self.phases.insert(instrument, to);
                }
                Event::PhaseChanged { instrument, phase } => _ = self.phases.insert(instrument, phase),
                _ => {}
            }
        }
    }

    fn hear_entry(&mut self, order: &NewOrder, session: &str, events: &[Event]) {
        let cell = |row: &str, of: &str| (row.to_owned(), of.to_owned());
        let by_type = cell(order.tif.name(), column(order));
        let (tif_here, type_here) = (cell(session, order.tif.name()), cell(session, column(order)));
        let refused = match events.first() {
            Some(Event::Rejected { reason, .. }) => Some(*reason),
            Some(Event::Accepted { .. }) => None,
            other => panic!("an entry is answered with {other:?}"),
        };
        let is_closed = self.closed.contains(session);
        match refused {
            Some(Reject::NotOpen) => {
                assert!(is_closed, "{session} takes orders, and said it does not");
                self.meet(tif_here, &["reject", "carried"]);
                self.meet(type_here, &["reject", "carried"]);
            }
            Some(Reject::TifNotAllowedForType) => self.meet(by_type, &["reject"]),
            Some(Reject::DisplayOutOfRange) if column(order) == "iceberg" && !order.tif.rests() => {
                self.meet(by_type, &["reject"]);
            }
            // A frequent batch refuses some orders that the table accepts.
            Some(Reject::TifNotAllowedInSession) if order.tif == TimeInForce::FillOrKill && session == "continuous" => {
            }
            Some(Reject::TypeNotAllowedInSession) if column(order) == "hidden" && session == "continuous" => {}
            Some(Reject::TifNotAllowedInSession) => self.meet(tif_here, &["reject"]),
            Some(Reject::TypeNotAllowedInSession) => self.meet(type_here, &["reject"]),
            Some(_) => {}
            None => self.hear_accepted(order, by_type, tif_here, type_here, events),
        }
    }

    fn hear_accepted(&mut self, order: &NewOrder, by_type: Cell, tif: Cell, kind: Cell, events: &[Event]) {
        self.meet(by_type, &["accept"]);
        let is_stop = matches!(order.order_type, OrderType::Stop { .. } | OrderType::StopLimit { .. });
        let parks = [&tif, &kind].into_iter().any(|cell| self.answers[cell] == "park");
        let parked = matches!(events.get(1), Some(Event::Parked { order: id, .. }) if *id == order.id);
        assert_eq!(parked, parks && !is_stop, "{order:?} in {tif:?}: {events:?}");
        self.meet(tif, &["active", "park", "immediate"]);
        self.meet(kind, &["active", "park", "immediate"]);
    }

    fn meet(&mut self, cell: Cell, may_be: &[&str]) {
        let answer = self.answers.get(&cell).unwrap_or_else(|| panic!("there is no cell {cell:?}"));
        assert!(may_be.contains(&answer.as_str()), "{cell:?} is {answer}, and the engine did otherwise");
        *self.met.entry(cell).or_default() += 1;
    }

    /// Returns the number of cells and the list of uncovered ones.
    pub fn unmet(&self) -> (usize, Vec<Cell>) {
        let unmet = self.answers.keys().filter(|cell| !self.met.contains_key(*cell)).cloned();
        (self.answers.len(), unmet.collect())
    }

    pub fn rarest(&self) -> Option<(&Cell, u64)> {
        self.met.iter().map(|(cell, times)| (cell, *times)).min_by_key(|(_, times)| *times)
    }

    /// Returns the possible session changes that no event published.
    pub fn changes_unseen(&self) -> Vec<(Phase, Phase)> {
        let sessions = || Phase::ALL.into_iter().filter(|phase| *phase != Phase::Deleted);
        let all = sessions().flat_map(|from| sessions().map(move |to| (from, to)));
        all.filter(|(from, to)| from != to && !self.changes.contains(&(*from, *to))).collect()
    }
}
