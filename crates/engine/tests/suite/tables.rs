//! The tables in the engine are those of `contracts/rules`, cell by cell and both ways; they are
//! parsed here by other means.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use pitwire_engine::rule_tables::{
    MatchingMode, OrderKind, SessionPermissions, TableAnswer, Tif, kind_cell, session_permissions, tif_cell, type_cell,
};
use pitwire_model::{Phase, TimeInForce, VenueDay, VenueNanos};
use toml::{Table, Value};

fn read(text: &str) -> Table {
    text.parse().expect("a table of contracts/rules")
}

fn order_types() -> Table {
    read(include_str!("../../../../contracts/rules/order-types.toml"))
}

fn sessions() -> Table {
    read(include_str!("../../../../contracts/rules/sessions.toml"))
}

fn lines<'a>(table: &'a Table, of: &str) -> Vec<&'a Table> {
    table[of].as_array().expect("a list").iter().map(|line| line.as_table().expect("a line")).collect()
}

fn text<'a>(line: &'a Table, key: &str) -> &'a str {
    line[key].as_str().expect("a text")
}

fn answer(name: &str) -> TableAnswer {
    match name {
        "reject" | "carried" => TableAnswer::Reject,
        "park" => TableAnswer::Park,
        "immediate" => TableAnswer::Immediate,
        "active" | "accept" => TableAnswer::Active,
        other => panic!("unknown answer {other}"),
    }
}

/// The sessions that have a row: closed is as post close, deleted takes nothing.
fn with_rows() -> impl Iterator<Item = Phase> {
    Phase::ALL.into_iter().filter(|phase| !matches!(phase, Phase::Closed | Phase::Deleted))
}

#[test]
fn type_by_tif_cells_match_the_contract() {
    let table = order_types();
    let written: BTreeMap<(&str, &str), &Table> =
        lines(&table, "cell").into_iter().map(|line| ((text(line, "tif"), text(line, "type")), line)).collect();
    assert_eq!(written.len(), 66);
    for tif in Tif::ALL {
        for kind in OrderKind::ALL {
            let (line, cell) = (written[&(tif.name(), kind.name())], type_cell(kind, tif));
            let is = (cell.answer, cell.rule);
            assert_eq!(is, (answer(text(line, "answer")), text(line, "rule")), "{} {}", tif.name(), kind.name());
        }
    }
}

#[test]
fn session_cells_match_the_contract() {
    let table = sessions();
    let key = |line: &'_ Table| {
        (text(line, "session").to_owned(), text(line, "kind").to_owned(), text(line, "column").to_owned())
    };
    let written: BTreeMap<_, _> = lines(&table, "cell").into_iter().map(|line| (key(line), line)).collect();
    assert_eq!(written.len(), 14 * 17);
    for phase in with_rows() {
        let by_tif = Tif::ALL.map(|tif| ("tif", tif.name(), tif_cell(phase, tif)));
        let by_kind = OrderKind::ALL.map(|kind| ("type", kind.name(), kind_cell(phase, kind)));
        for (kind, column, cell) in by_tif.into_iter().chain(by_kind) {
            let line = written[&(phase.name().to_owned(), kind.to_owned(), column.to_owned())];
            let is = (cell.answer, cell.rule);
            assert_eq!(is, (answer(text(line, "answer")), text(line, "rule")), "{} {column}", phase.name());
        }
    }
}

#[test]
fn session_permissions_match_the_contract() {
    let table = sessions();
    let rows = lines(&table, "session");
    assert_eq!(rows.len(), 14);
    for row in rows {
        let name = text(row, "name");
        let is = session_permissions(Phase::named(name).expect("a session"));
        let flag = |key: &str| row[key].as_bool().expect("a flag");
        let list = |key: &str| -> BTreeSet<&str> {
            row[key].as_array().expect("a list").iter().filter_map(Value::as_str).collect()
        };
        let has = |kinds: pitwire_engine::rule_tables::TifSet| -> BTreeSet<&str> {
            let tifs = Tif::ALL.into_iter().filter(|tif| kinds.has(*tif)).map(Tif::name);
            tifs.chain(kinds.has_market().then_some("market")).collect()
        };
        let SessionPermissions { enter, amend, amend_hidden, park, breaker, self_match, matching, inject, expire } =
            *is;
        assert_eq!(
            [enter, amend, amend_hidden, park, breaker, self_match],
            ["enter", "amend", "amend_hidden", "park", "breaker", "self_match"].map(flag),
            "{name}"
        );
        let matching = match matching {
            MatchingMode::Nothing => "none",
            MatchingMode::Continuous => "continuous",
            MatchingMode::Uncross => "uncross",
            MatchingMode::ClosingPrice => "closing_price",
        };
        assert_eq!(matching, text(row, "match"), "{name}");
        assert_eq!((has(inject), has(expire)), (list("inject"), list("expire")), "{name}");
        assert!(flag("cancel"), "a cancel is taken in every session, so the engine does not ask");
    }
}

/// A rule that no cell names explains nothing; a cell that names none cannot be explained.
#[test]
fn every_rule_is_named_by_a_cell_and_every_cell_names_a_rule() {
    for table in [order_types(), sessions()] {
        let rules: BTreeSet<&str> = lines(&table, "rule").into_iter().map(|rule| text(rule, "id")).collect();
        let named: BTreeSet<&str> = lines(&table, "cell").into_iter().map(|cell| text(cell, "rule")).collect();
        assert_eq!(rules, named);
    }
}

#[test]
fn tif_codes_and_names_match_the_model() {
    let (day, at) = (VenueDay(1), VenueNanos(1));
    let all = [
        TimeInForce::Day,
        TimeInForce::GoodTillCancel,
        TimeInForce::ImmediateOrCancel,
        TimeInForce::FillOrKill,
        TimeInForce::GoodTillDate { day },
        TimeInForce::GoodTillTime { at },
        TimeInForce::OpeningCall,
        TimeInForce::AnyCall,
        TimeInForce::IntradayCall,
        TimeInForce::ClosingCall,
        TimeInForce::ClosingCross,
    ];
    for (tif, here) in all.into_iter().zip(Tif::ALL) {
        assert_eq!((Tif::of(tif), here as u8, here.name()), (here, tif.code(), tif.name()));
        assert_eq!(here.may_rest(), tif.rests());
    }
}
