//! Explanations of off-book trades (rulebook 23): the course of a report, its refusals, and its
//! viewers.

use pitwire_engine::EngineImage;
use pitwire_explain::{Explainer, Note, Question, Viewer};
use pitwire_fixtures::share;
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Command, Credit, Currency, CurrencyId, Decimal, Event, InstrumentId,
    InstrumentSpec, KillScope, Label, Lots, OrderId, Phase, Seq, SequencedCommand, SessionReason, Side, Ticks,
    TradeReport, VenueNanos,
};
use pitwire_reference_engine::ReferenceEngine;
use serde_json::{Value, json};

const ANNA: AccountId = AccountId(0);
const BEN: AccountId = AccountId(1);
const CARL: AccountId = AccountId(2);
const MARKET: InstrumentId = InstrumentId(0);
/// 17:15 of the first day.
const ENDS: VenueNanos = VenueNanos(62_100 * 1_000_000_000);

#[derive(Default)]
struct Log {
    engine: ReferenceEngine,
    log: Vec<(SequencedCommand, Vec<Event>)>,
}

impl Log {
    /// Three house accounts and one share in continuous trading.
    fn new() -> Log {
        let mut log = Log::default();
        for (id, name) in [(0, "SHARE"), (1, "MONEY")] {
            log.apply(Command::AddCurrency(Currency { id: CurrencyId(id), name: name.to_owned(), decimals: 0 }));
        }
        for (id, name) in [(ANNA, "anna"), (BEN, "ben"), (CARL, "carl")] {
            let (name, settings) = (name.to_owned(), AccountSettings::default());
            let credit = if id == CARL { Credit::Limited } else { Credit::Unlimited };
            log.apply(Command::AddAccount(AccountSpec { id, name, credit, settings }));
        }
        log.apply(Command::AddInstrument(Box::new(InstrumentSpec {
            id: MARKET,
            name: "SHARE_MONEY".to_owned(),
            tick: Decimal::new(1, 0),
            max_resting_orders: 100,
            ..share()
        })));
        log
    }

    fn open() -> Log {
        let mut log = Log::new();
        log.hours(true);
        log
    }

    fn hours(&mut self, open: bool) -> Seq {
        let (reason, due, ends) = (SessionReason::Scheduled, VenueNanos(0), Some(ENDS));
        self.apply(Command::SetReporting { instrument: MARKET, open, reason, due, ends })
    }

    fn apply(&mut self, command: Command) -> Seq {
        let seq = Seq(self.log.len() as u64 + 1);
        let stamped = SequencedCommand { seq, at: VenueNanos(seq.0), command };
        let mut events = Vec::new();
        self.engine.apply(&stamped, &mut events);
        self.log.push((stamped, events));
        seq
    }

    fn report(&mut self, account: AccountId, counterparty: AccountId, lots: u64, price: i64) -> Seq {
        let (instrument, side, label) = (MARKET, Side::Sell, Label::default());
        let (lots, price) = (Lots(lots), Ticks(price));
        let report = TradeReport { instrument, account, counterparty, side, price, lots, label };
        self.apply(Command::ReportTrade(Box::new(report)))
    }

    fn answer(&mut self, account: AccountId, report: Seq, confirm: bool) -> Seq {
        self.apply(Command::AnswerReport { account, report, confirm })
    }

    fn explain(&self, question: Question, viewer: Viewer) -> Vec<Note> {
        let mut explainer = Explainer::new(question, viewer);
        self.log.iter().for_each(|(stamped, events)| explainer.observe(stamped, events));
        explainer.finish()
    }

    fn of(&self, report: Seq) -> Vec<Note> {
        self.explain(Question::Order(OrderId(report.0)), Viewer::Operator)
    }

    fn at(&self, seq: Seq) -> Vec<Note> {
        self.explain(Question::At { seq, instrument: None }, Viewer::Operator)
    }
}

fn kinds(notes: &[Note]) -> Vec<(&'static str, &str)> {
    notes.iter().map(|note| (note.what, note.rule.as_str())).collect()
}

/// Checks that the note contains these numbers.
fn has(note: &Note, numbers: &Value) {
    for (key, value) in numbers.as_object().expect("an object") {
        assert_eq!(note.numbers.get(key), Some(value), "{key} of {note:?}");
    }
}

#[test]
fn report_waits_refuses_own_confirmation_then_trades() {
    let mut log = Log::open();
    let report = log.report(ANNA, BEN, 5, 90);
    let notes = log.of(report);
    assert_eq!(kinds(&notes), [("reported", "rulebook: 23.2"), ("waits", "rulebook: 23.2")]);
    has(&notes[0], &json!({"report": report.0, "price": 90, "lots": 5, "buyer": "ben", "seller": "anna"}));
    has(&notes[1], &json!({"waits_for": "ben", "ends_ns": ENDS.0}));

    let own = log.answer(ANNA, report, true);
    log.answer(BEN, report, true);
    let notes = log.of(report);
    assert_eq!(kinds(&notes)[1..], [("answer refused", "rulebook: 23.4"), ("confirmed", "rulebook: 23.5")]);
    has(&notes[1], &json!({"reason": "own_report", "by": "anna", "answer": "confirm", "lots": 5}));
    has(&notes[2], &json!({"price": 90, "lots": 5, "off_book_seq": 1, "last": null}));
    assert_eq!(log.at(own), &notes[1..2], "the command alone says the same, once");

    // The report no longer waits.
    log.answer(BEN, report, true);
    let last = log.of(report).pop().expect("a note");
    assert_eq!((last.what, last.numbers.get("price")), ("answer refused", None));
    has(&last, &json!({"reason": "unknown_report", "by": "ben"}));
}

#[test]
fn ended_report_explains_its_end() {
    let mut log = Log::open();
    let [declined, withdrawn, late] = [1, 2, 3].map(|lots| log.report(ANNA, BEN, lots, 90));
    log.answer(BEN, declined, false);
    log.answer(ANNA, withdrawn, false);
    let end = log.hours(false);
    for (report, what, rule, numbers) in [
        (declined, "declined", "rulebook: 23.2", json!({"reason": "declined", "lots": 1})),
        (withdrawn, "withdrawn", "rulebook: 23.2", json!({"reason": "withdrawn", "lots": 2})),
        (
            late,
            "not confirmed",
            "rulebook: 23.1",
            json!({"reason": "hours_ended", "hours_ended_by": "scheduled", "lots": 3, "price": 90}),
        ),
    ] {
        let notes = log.of(report);
        assert_eq!(kinds(&notes)[1..], [(what, rule)]);
        has(&notes[1], &numbers);
    }
    let notes = log.at(end);
    assert_eq!(kinds(&notes), [("not confirmed", "rulebook: 23.1"), ("trade reporting", "rulebook: 23.1")]);
    has(&notes[1], &json!({"open": false, "reason": "scheduled", "ends_ns": null}));
    let elsewhere = Question::At { seq: end, instrument: Some("OTHER".to_owned()) };
    assert!(log.explain(elsewhere, Viewer::Operator).is_empty());
}

#[test]
fn refused_report_names_the_compared_values() {
    let mut log = Log::new();
    let mut refused =
        vec![(log.report(ANNA, BEN, 5, 90), json!({"reason": "reporting_closed", "trade_reporting": false}))];
    log.hours(true);
    refused.push((log.report(ANNA, BEN, 0, 90), json!({"reason": "quantity_out_of_range", "lots": 0})));
    refused.push((log.report(ANNA, BEN, 5, 0), json!({"reason": "price_out_of_range", "price": 0})));
    refused
        .push((log.report(ANNA, ANNA, 5, 90), json!({"reason": "bad_definition", "buyer": "anna", "seller": "anna"})));
    refused.push((log.report(ANNA, AccountId(9), 5, 90), json!({"reason": "unknown_account"})));
    (0..16).for_each(|_| _ = log.report(ANNA, BEN, 5, 90));
    refused.push((log.report(ANNA, BEN, 5, 90), json!({"reason": "too_many_reports", "waiting": 16, "most": 16})));
    log.apply(Command::Kill { scope: KillScope::Account(ANNA), reason: Label::default() });
    refused.push((log.report(ANNA, BEN, 5, 90), json!({"reason": "killed", "buyer": "ben", "seller": "anna"})));
    for (seq, numbers) in refused {
        let notes = log.of(seq);
        assert_eq!(kinds(&notes), [("report refused", "rulebook: 23.3")], "{numbers}");
        has(&notes[0], &numbers);
        assert!(notes[0].text.starts_with(numbers["reason"].as_str().expect("a name")), "{:?}", notes[0]);
        assert_eq!(log.at(seq), notes);
    }
}

/// Carl's account is limited and empty, and 5 lots at 90 need 450.
#[test]
fn confirmation_without_funds_leaves_the_report_waiting() {
    let mut log = Log::open();
    let report = log.report(ANNA, CARL, 5, 90);
    log.answer(CARL, report, true);
    let notes = log.of(report);
    assert_eq!(kinds(&notes)[1..], [("answer refused", "rulebook: 23.4"), ("waits", "rulebook: 23.2")]);
    has(&notes[1], &json!({"reason": "not_enough_funds", "by": "carl", "buyer": "carl", "price": 90, "lots": 5}));
}

#[test]
fn only_the_two_parties_get_an_explanation() {
    let mut log = Log::open();
    let report = log.report(ANNA, BEN, 5, 90);
    log.answer(CARL, report, true);
    log.answer(ANNA, report, true);
    let explained = |who| {
        kinds(&log.explain(Question::Order(OrderId(report.0)), Viewer::Member(who)))
            .iter()
            .map(|k| k.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(explained(ANNA), ["reported", "answer refused", "waits"]);
    assert_eq!(explained(BEN), ["reported", "waits"], "another's answer is its own");
    assert!(explained(CARL).is_empty());
    // The other party must not learn of a refused report.
    let refused = log.report(ANNA, BEN, 0, 90);
    let explained = |who| log.explain(Question::Order(OrderId(refused.0)), Viewer::Member(who)).len();
    assert_eq!([explained(ANNA), explained(BEN), explained(CARL)], [1, 0, 0]);
}

#[test]
fn report_from_a_snapshot_is_explained() {
    let mut log = Log::open();
    let report = log.report(ANNA, BEN, 5, 90);
    let (image, seq): (EngineImage, _) = (log.engine.image(), Seq(log.log.len() as u64));
    for (viewer, explained) in [(Viewer::Operator, 1), (Viewer::Member(BEN), 1), (Viewer::Member(CARL), 0)] {
        let notes = Explainer::resume(Question::Order(OrderId(report.0)), viewer, &image, seq).finish();
        assert_eq!(notes.len(), explained);
        for note in notes {
            assert_eq!(note.what, "waits");
            has(&note, &json!({"waits_for": "ben", "ends_ns": ENDS.0, "seller": "anna"}));
        }
    }
    assert_eq!(image.markets[0].phase, Phase::Closed, "whatever the session");
}
