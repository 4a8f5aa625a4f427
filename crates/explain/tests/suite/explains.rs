//! Explanations in scripted markets: refusals, expiries, uncrosses, breaches, resting and waiting
//! orders.

use pitwire_engine::EngineImage;
use pitwire_explain::{Explainer, Note, Question, TextStyle, Viewer};
use pitwire_model::{Command, Event, OrderId, Seq, SequencedCommand, VenueNanos};
use pitwire_random::SplitMix64;
use pitwire_reference_engine::ReferenceEngine;
use pitwire_scenario::{Machine, Witness, play_watched, read};
use serde_json::{Value, json};

/// Records the commands of a scenario. A question names an order by its entry, or a command by its
/// number.
#[derive(Default)]
struct CommandLog {
    image: EngineImage,
    begins: Seq,
    log: Vec<(SequencedCommand, Vec<Event>)>,
}

impl Witness for CommandLog {
    fn begins(&mut self, image: &EngineImage, seq: Seq, _: VenueNanos) {
        (self.image, self.begins) = (image.clone(), seq);
    }

    fn saw(&mut self, stamped: &SequencedCommand, events: &[Event]) {
        self.log.push((stamped.clone(), events.to_vec()));
    }
}

impl CommandLog {
    fn ask(&self, question: Question) -> Vec<Note> {
        self.explain(question, Viewer::Operator)
    }

    fn explain(&self, question: Question, viewer: Viewer) -> Vec<Note> {
        let mut explainer = Explainer::resume(question, viewer, &self.image, self.begins);
        for (stamped, events) in &self.log {
            explainer.observe(stamped, events);
        }
        explainer.finish()
    }

    /// Returns the order of the n-th entry, counted from 0.
    fn order(&self, n: usize) -> OrderId {
        let entries = self.log.iter().filter_map(|(stamped, _)| match &stamped.command {
            Command::Enter(order) => Some(order.id),
            _ => None,
        });
        entries.into_iter().nth(n).expect("so many entries")
    }
}

fn watch(setup: &Value, steps: &Value) -> CommandLog {
    let text = json!({"name": "A", "setup": setup, "steps": steps}).to_string();
    let scenario = read("test", &text).expect("a scenario").remove(0);
    let mut looker = CommandLog::default();
    let mut machine = ReferenceEngine::new();
    play_watched(&mut machine, &scenario, &mut looker).expect("a market");
    // The image before the first step must suffice. The rest comes from the log.
    let _ = Machine::image(&machine);
    looker
}

/// Returns the kinds of the notes about the order of the n-th entry, and the last note.
fn of_order(setup: &Value, steps: &Value, n: usize) -> (Vec<&'static str>, Note) {
    let looker = watch(setup, steps);
    let notes = looker.ask(Question::Order(looker.order(n)));
    (notes.iter().map(|note| note.what).collect(), notes.last().expect("a note").clone())
}

fn limit(id: &str, side: &str, qty: u64, price: i64) -> Value {
    json!({"op": "enter", "id": id, "side": side, "type": "limit", "qty": qty, "price": price})
}

fn with(mut step: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().expect("an object") {
        step[key] = value.clone();
    }
    step
}

fn session(to: &str) -> Value {
    json!({"op": "session", "to": to})
}

#[test]
fn refusal_by_a_table_names_its_cell() {
    let gtc = json!({"op": "enter", "id": "B1", "side": "buy", "type": "market", "qty": 1, "tif": "gtc"});
    let (kinds, note) = of_order(&json!({}), &json!([gtc]), 0);
    assert_eq!(kinds, ["rejected"]);
    assert_eq!(note.rule, "market-does-not-wait");
    assert_eq!((&note.numbers["reason"], &note.numbers["tif"]), (&json!("tif_not_allowed_for_type"), &json!("gtc")));

    let hidden = json!({"op": "enter", "id": "B1", "side": "buy", "type": "hidden", "qty": 1, "price": 5});
    let (_, note) = of_order(&json!({}), &json!([session("opening_auction"), hidden]), 0);
    assert_eq!((note.rule.as_str(), &note.numbers["session"]), ("hidden-continuous-only", &json!("opening_auction")));

    let (_, note) = of_order(&json!({}), &json!([session("post_close"), limit("B1", "buy", 1, 5)]), 0);
    assert_eq!((note.rule.as_str(), &note.numbers["reason"]), ("no-entry", &json!("not_open")));
}

/// Checks a refusal that compares numbers.
#[test]
fn refusal_by_a_limit_gives_both_numbers() {
    let hidden = |qty: u64, mes: u64| json!([{"op": "enter", "id": "B1", "side": "buy", "type": "hidden", "qty": qty, "price": 5, "mes": mes}]);
    let gtt = |at: &str| json!([with(limit("B1", "buy", 1, 5), &json!({"tif": "gtt", "expires": at}))]);
    let gtd = |day: &str| json!([with(limit("B1", "buy", 1, 5), &json!({"tif": "gtd", "expires": day}))]);
    let gfx = json!([with(limit("B1", "buy", 1, 5), &json!({"tif": "gfx"}))]);
    for (setup, steps, expected) in [
        (json!({"mrs": 700}), hidden(699, 699), json!({"reason": "quantity_below_reserve", "lots": 699, "mrs": 700})),
        (
            json!({"mrs": 700}),
            hidden(800, 650),
            json!({"reason": "minimum_execution_out_of_range", "mes": 650, "mrs": 700, "open": 800}),
        ),
        (
            json!({"static_reference": 100, "price_band_pct": 90}),
            json!([limit("B1", "buy", 1, 191)]),
            json!({"reason": "price_outside_band", "price": 191, "static_reference": 100, "band_pct": 90}),
        ),
        (json!({}), gtt("08:59:59"), json!({"reason": "expiry_passed", "now_ns": 1_767_603_600_000_000_000_u64})),
        (
            json!({}),
            gtd("2026-04-06"),
            json!({"reason": "expiry_too_far", "today": "2026-01-05", "latest": "2026-04-05"}),
        ),
        (
            json!({"remaining_sessions": ["closing_auction"]}),
            gfx,
            json!({"reason": "no_auction_scheduled", "waits_for": "intraday_auction", "remaining": 0}),
        ),
        (json!({}), json!([limit("B1", "buy", 0, 5)]), json!({"reason": "quantity_out_of_range", "lots": 0})),
        (json!({}), json!([limit("B1", "buy", 1, 0)]), json!({"reason": "price_out_of_range", "price": 0})),
    ] {
        let (kinds, note) = of_order(&setup, &steps, 0);
        assert_eq!(kinds, ["rejected"], "{expected}");
        for (key, value) in expected.as_object().expect("an object") {
            assert_eq!(&note.numbers[key], value, "{key} of {note:?}");
        }
        assert!(!note.rule.is_empty() && note.text.starts_with(note.numbers["reason"].as_str().expect("a name")));
    }
}

#[test]
fn refused_amend_is_explained_for_its_order() {
    let steps = json!([limit("S1", "sell", 4, 5), limit("B2", "buy", 10, 5), {"op": "amend", "id": "B2", "qty": 4}]);
    let (kinds, _) = of_order(&json!({}), &steps, 1);
    assert_eq!(kinds, ["accepted", "trade", "amend refused", "rests"]);
    let looker = watch(&json!({}), &steps);
    let note = &looker.ask(Question::Order(looker.order(1)))[2];
    assert_eq!((&note.numbers["reason"], &note.numbers["executed"]), (&json!("amount_already_filled"), &json!(4)));
}

#[test]
fn expiry_names_its_cause() {
    let market = json!({"op": "enter", "id": "B1", "side": "buy", "type": "market", "qty": 5});
    let fok = with(limit("B2", "buy", 30, 101), &json!({"tif": "fok"}));
    let gtt = with(limit("B1", "buy", 1, 5), &json!({"tif": "gtt", "expires": "09:30:00"}));
    let opg = with(limit("B1", "buy", 7, 5), &json!({"tif": "opg"}));
    let hidden = json!({"op": "enter", "id": "S1", "side": "sell", "type": "hidden", "qty": 10, "price": 5, "mes": 6});
    let tight = json!({"last_price": 100, "dynamic_tolerance_pct": 3});
    let ioc = with(limit("B2", "buy", 1, 103), &json!({"tif": "ioc"}));
    for (setup, steps, n, rule, expected) in [
        (json!({}), json!([limit("S0", "sell", 2, 9), market]), 1, "rulebook: 7.2", json!({"open": 3, "best": null})),
        (
            json!({}),
            json!([limit("S1", "sell", 20, 101), fok]),
            1,
            "rulebook: 7.4",
            json!({"wanted": 30, "within_reach": 20}),
        ),
        (
            json!({}),
            json!([gtt, {"op": "clock", "to": "09:31:00"}]),
            0,
            "rulebook: 6",
            json!({"reason": "time_reached", "expires_ns": 1_767_605_400_000_000_000_u64}),
        ),
        (
            json!({}),
            json!([session("opening_auction"), opg, session("continuous")]),
            0,
            "rulebook: 5.2, step 5",
            json!({"reason": "auction_ended", "session": "opening_auction", "open": 7}),
        ),
        (
            json!({}),
            json!([hidden, limit("B2", "buy", 6, 5)]),
            0,
            "rulebook: 7.2, step 7",
            json!({"reason": "below_minimum_execution", "mes": 6, "open": 4}),
        ),
        (
            tight,
            json!([limit("S1", "sell", 5, 103), ioc]),
            1,
            "rulebook: 10.3",
            json!({"reason": "breaker", "price": 103}),
        ),
        (
            json!({}),
            json!([limit("B1", "buy", 3, 5), {"op": "end_of_day"}]),
            0,
            "rulebook: 6",
            json!({"reason": "day_ended", "open": 3}),
        ),
    ] {
        let looker = watch(&setup, &steps);
        let notes = looker.ask(Question::Order(looker.order(n)));
        let note = notes.iter().find(|note| note.what == "expired").unwrap_or_else(|| panic!("{notes:?}"));
        assert_eq!(note.rule, rule);
        for (key, value) in expected.as_object().expect("an object") {
            assert_eq!(&note.numbers[key], value, "{key} of {note:?}");
        }
    }
}

/// Case U4 of the specification. The note has the quantities at each candidate price and the step
/// that decided.
#[test]
fn uncross_gives_candidates_and_deciding_step() {
    let steps = json!([
        session("opening_auction"),
        limit("B1", "buy", 50, 101),
        limit("B2", "buy", 30, 100),
        limit("S1", "sell", 40, 99),
        limit("S2", "sell", 20, 101),
        session("continuous")
    ]);
    let looker = watch(&json!({"last_price": 100}), &steps);
    // Buys and sells are 80 and 40 at 99, 80 and 40 at 100, and 50 and 60 at 101. The largest
    // volume is 50, at 101 only.
    let last = looker.log.last().expect("a log").0.seq;
    let notes = looker.ask(Question::At { seq: last, instrument: None });
    let note = notes.iter().find(|note| note.what == "uncross").expect("an uncross");
    assert_eq!((note.rule.as_str(), &note.numbers["price"]), ("rulebook: 11.2, step 2", &json!(101)));
    assert_eq!(
        note.numbers["candidates"],
        json!([
            {"price": 99, "buy": 80, "sell": 40, "volume": 40, "surplus": 40},
            {"price": 100, "buy": 80, "sell": 40, "volume": 40, "surplus": 40},
            {"price": 101, "buy": 50, "sell": 60, "volume": 50, "surplus": -10}
        ])
    );
    assert_eq!(note.numbers["reference"], json!(100));
    // An order that did not trade has a note about the uncross as well.
    let notes = looker.ask(Question::Order(looker.order(1)));
    assert_eq!(notes.iter().map(|note| note.what).collect::<Vec<_>>(), ["accepted", "uncross", "rests"]);
    assert!(notes[1].text.ends_with("this order's limit does not reach 101"), "{}", notes[1].text);
}

#[test]
fn call_without_a_price_gives_the_reason() {
    let steps = json!([
        session("closing_auction"),
        limit("B1", "buy", 5, 99),
        limit("S1", "sell", 5, 100),
        session("halt"),
        session("reopening_auction"),
        session("continuous")
    ]);
    let looker = watch(&json!({}), &steps);
    let notes = looker.ask(Question::Order(looker.order(0)));
    let uncross: Vec<&Note> = notes.iter().filter(|note| note.what == "uncross").collect();
    assert_eq!(notes[1].text, "closing_auction was interrupted by halt: nothing uncrosses, the orders stay");
    assert_eq!(uncross.len(), 1);
    assert_eq!((uncross[0].rule.as_str(), &uncross[0].numbers["price"]), ("rulebook: 11.2, step 2", &Value::Null));
}

#[test]
fn breach_gives_price_reference_and_tolerance() {
    let steps = json!([limit("S1", "sell", 5, 103), limit("B2", "buy", 5, 103)]);
    let looker = watch(&json!({"last_price": 100, "dynamic_tolerance_pct": 3}), &steps);
    let notes = looker.ask(Question::At { seq: looker.log[1].0.seq, instrument: Some("SCENARIO".into()) });
    let note = notes.iter().find(|note| note.what == "breaker").unwrap_or_else(|| panic!("{notes:?}"));
    let expected = json!({"price": 103, "reference": 100, "against": "dynamic", "tolerance_bps": 300});
    assert_eq!(Value::Object(note.numbers.clone()), expected);
}

#[test]
fn unfilled_order_gives_its_queue_position_or_its_session() {
    let hidden = json!({"op": "enter", "id": "B3", "side": "buy", "type": "hidden", "qty": 5, "price": 100, "mes": 5});
    let book = json!([
        limit("B1", "buy", 5, 101),
        limit("B2", "buy", 7, 100),
        hidden,
        limit("B4", "buy", 2, 100),
        limit("S5", "sell", 1, 105)
    ]);
    let (kinds, note) = of_order(&json!({}), &book, 2);
    assert_eq!(kinds, ["accepted", "rests"]);
    for (key, value) in [("before", 3), ("before_lots", 14), ("before_at_better_prices", 1), ("best", 105)] {
        assert_eq!(note.numbers[key], json!(value), "{key}");
    }
    let stop = json!([{"op": "enter", "id": "B1", "side": "buy", "type": "stop", "qty": 5, "stop": 110}]);
    let (_, note) = of_order(&json!({"last_price": 100}), &stop, 0);
    assert_eq!((note.what, &note.numbers["last"], &note.numbers["stop"]), ("waits", &json!(100), &json!(110)));
    let parked = json!([with(limit("B1", "buy", 5, 9), &json!({"tif": "atc"}))]);
    let (kinds, note) = of_order(&json!({}), &parked, 0);
    assert_eq!(kinds, ["accepted", "parked", "waits"]);
    assert_eq!((&note.numbers["waits_for"], &note.numbers["remaining"]), (&json!("closing_auction"), &json!(1)));
}

#[test]
fn skipped_hidden_order_gives_minimum_and_available_lots() {
    let hidden =
        json!({"op": "enter", "id": "S1", "side": "sell", "type": "hidden", "qty": 500, "price": 100, "mes": 300});
    let (kinds, _) = of_order(&json!({}), &json!([hidden, limit("B2", "buy", 200, 100)]), 0);
    assert_eq!(kinds, ["accepted", "passed over", "rests"]);
    let looker = watch(&json!({}), &json!([hidden, limit("B2", "buy", 200, 100)]));
    let note = &looker.ask(Question::Order(looker.order(0)))[1];
    assert_eq!((&note.numbers["mes"], &note.numbers["available"]), (&json!(300), &json!(200)));
    assert_eq!(note.rule, "rulebook: 7.2, step 2");
}

#[test]
fn elected_stop_gives_stop_and_last_price() {
    let stop = json!({"op": "enter", "id": "B1", "side": "buy", "type": "stop", "qty": 5, "stop": 101});
    let steps = json!([stop, limit("S2", "sell", 9, 102), limit("B3", "buy", 1, 102)]);
    let (kinds, note) = of_order(&json!({"last_price": 100}), &steps, 0);
    assert_eq!(kinds, ["accepted", "triggered", "filled"]);
    assert_eq!(note.numbers["price"], json!(102));
}

/// Random calls with market and hidden orders. Each explained price must equal the price of the
/// reference engine.
#[test]
fn explained_uncross_price_equals_the_engines() {
    let mut random = SplitMix64::new(7);
    let mut below = |bound: u64| random.below(bound);
    let mut uncrossed = [0, 0];
    for _ in 0..400 {
        let mut steps = Vec::new();
        for n in 0..below(4) {
            let (side, qty) = (["buy", "sell"][usize::try_from(n % 2).expect("0 or 1")], 5 + below(20));
            let price = if side == "buy" { 95 + below(4) } else { 102 + below(4) };
            steps.push(json!({"op": "enter", "id": format!("H{n}"), "side": side, "type": "hidden", "qty": qty,
                "price": price, "mes": 1 + below(qty)}));
        }
        steps.push(session("intraday_auction"));
        for n in 0..2 + below(8) {
            let side = ["buy", "sell"][usize::try_from(below(2)).expect("0 or 1")];
            let id = format!("O{n}");
            let qty = 1 + below(20);
            steps.push(match below(5) {
                0 => json!({"op": "enter", "id": id, "side": side, "type": "market", "qty": qty}),
                _ => {
                    json!({"op": "enter", "id": id, "side": side, "type": "limit", "qty": qty, "price": 94 + below(12)})
                }
            });
        }
        steps.push(session("continuous"));
        let setup = if below(2) == 0 { json!({"last_price": 94 + below(12)}) } else { json!({}) };
        let looker = watch(&setup, &json!(steps));
        let last = looker.log.last().expect("a log").0.seq;
        let notes = looker.ask(Question::At { seq: last, instrument: None });
        let uncross = notes.iter().find(|note| note.what == "uncross").unwrap_or_else(|| panic!("{notes:?}"));
        assert_eq!(uncross.numbers["price"], uncross.numbers["computed"], "{steps:?}");
        uncrossed[usize::from(uncross.numbers["price"].is_null())] += 1;
    }
    assert!(uncrossed[0] > 200 && uncrossed[1] > 10, "{uncrossed:?}");
}

impl CommandLog {
    /// Returns the notes that the owner of the n-th entry's order gets.
    fn notes_for_owner(&self, n: usize) -> Vec<Note> {
        let id = self.order(n);
        let entered = self.log.iter().find_map(|(stamped, _)| match &stamped.command {
            Command::Enter(order) if order.id == id => Some(order.account),
            _ => None,
        });
        self.explain(Question::Order(id), Viewer::Member(entered.expect("an entry")))
    }

    /// Returns the public events about prices.
    fn tape(&self) -> Vec<&Event> {
        let events = self.log.iter().flat_map(|(_, events)| events);
        events.filter(|event| matches!(event, Event::Trade { .. } | Event::Uncrossed { .. })).collect()
    }
}

fn stranger(id: &str, side: &str, qty: u64, price: i64, mes: u64) -> Value {
    json!({"op": "enter", "id": id, "side": side, "type": "hidden", "qty": qty, "price": price, "mes": mes})
}

/// Returns the scenario with hidden orders of others that are refused. The orders keep their
/// numbers.
fn without(steps: &[Value]) -> Vec<Value> {
    let is_stranger = |step: &Value| step["id"].as_str().is_some_and(|id| id.starts_with('X'));
    steps
        .iter()
        .map(|step| if is_stranger(step) { with(step.clone(), &json!({"qty": 0, "mes": 0})) } else { step.clone() })
        .collect()
}

/// Hidden orders of others that do not trade must not change a member's notes.
#[test]
fn hidden_orders_of_others_do_not_change_an_explanation() {
    let fok = with(limit("B1", "buy", 30, 101), &json!({"tif": "fok"}));
    let own = json!({"op": "enter", "id": "S1", "side": "sell", "type": "hidden", "qty": 50, "price": 100, "mes": 30});
    let call = |first: Value| {
        json!([
            first,
            stranger("X1", "sell", 40, 100, 40),
            session("intraday_auction"),
            limit("B1", "buy", 9, 101),
            limit("B2", "buy", 5, 100),
            limit("S2", "sell", 9, 100),
            session("continuous")
        ])
    };
    let cases = [
        ("what stands before it", json!([stranger("X1", "buy", 70, 100, 70), limit("B1", "buy", 1, 99)]), 1, "rests"),
        (
            "what was within reach",
            json!([limit("S1", "sell", 5, 101), stranger("X1", "sell", 9, 101, 9), fok]),
            2,
            "expired",
        ),
        ("what passed it over", json!([own, stranger("X1", "buy", 20, 100, 20)]), 0, "passed over"),
        ("who was passed over in a call", call(limit("S9", "sell", 1, 200)), 4, "uncross"),
        ("what was available in a call", call(own.clone()), 0, "uncross"),
    ];
    for (what, steps, n, kind) in cases {
        let steps = steps.as_array().expect("steps").clone();
        let [hiding, plain] = [steps.clone(), without(&steps)].map(|steps| watch(&json!({}), &json!(steps)));
        assert_eq!(hiding.tape(), plain.tape(), "{what}: the hidden order meets no order");
        let of = |looker: &CommandLog| looker.ask(Question::Order(looker.order(n)));
        assert!(of(&hiding).iter().any(|note| note.what == kind), "{what}: {:?}", of(&hiding));
        assert_ne!(of(&hiding), of(&plain), "{what}: an operator sees it");
        assert_eq!(hiding.notes_for_owner(n), plain.notes_for_owner(n), "{what}");
    }
}

/// Random markets have visible, iceberg, hidden and immediate orders of the member, and calls.
#[test]
fn random_markets_reveal_no_hidden_orders() {
    let mut random = SplitMix64::new(11);
    let mut below = |bound: u64| random.below(bound);
    let (mut compared, mut differed) = (0, 0);
    for _ in 0..400 {
        let mut steps = Vec::new();
        for n in 0..4 + below(8) {
            let side = ["buy", "sell"][usize::try_from(below(2)).expect("0 or 1")];
            let (qty, price) = (5 + below(20), 96 + i64::try_from(below(9)).expect("small"));
            let order = limit(&format!("O{n}"), side, qty, price);
            steps.push(match below(10) {
                0..3 => stranger(&format!("X{n}"), side, qty, price, 1 + below(qty)),
                3 => stranger(&format!("H{n}"), side, qty, price, 1 + below(qty)),
                4 => with(order, &json!({"tif": "fok"})),
                5 => with(order, &json!({"type": "iceberg", "display": 1 + below(qty)})),
                6 => with(order, &json!({"tif": "ioc"})),
                _ => order,
            });
        }
        if below(3) == 0 {
            steps.push(session("intraday_auction"));
            for n in 20..20 + below(6) {
                let side = ["buy", "sell"][usize::try_from(below(2)).expect("0 or 1")];
                steps.push(limit(&format!("O{n}"), side, 5 + below(20), 96 + i64::try_from(below(9)).expect("small")));
            }
            steps.push(session("continuous"));
        }
        let [hiding, plain] = [steps.clone(), without(&steps)].map(|steps| watch(&json!({}), &json!(steps)));
        if hiding.tape() != plain.tape() {
            continue;
        }
        let entries = steps.iter().filter(|step| step["op"] == "enter");
        for (n, _) in entries.enumerate().filter(|(_, step)| !step["id"].as_str().is_some_and(|id| id.starts_with('X')))
        {
            assert_eq!(hiding.notes_for_owner(n), plain.notes_for_owner(n), "of entry {n} of {steps:?}");
            let of = |looker: &CommandLog| looker.ask(Question::Order(looker.order(n)));
            (compared, differed) = (compared + 1, differed + u32::from(of(&hiding) != of(&plain)));
        }
    }
    assert!(compared > 300 && differed > 50, "{compared} notes compared, of which {differed} differ for an operator");
}

#[test]
fn member_sees_only_own_orders_and_no_foreign_sizes() {
    let iceberg = with(limit("S1", "sell", 20, 100), &json!({"type": "iceberg", "display": 4}));
    let looker = watch(&json!({}), &json!([iceberg, limit("B2", "buy", 5, 100), limit("S3", "sell", 1, 100)]));
    let [taker, behind] = [1, 2].map(|n| looker.notes_for_owner(n));
    let filled = taker.last().expect("a note");
    assert_eq!((filled.what, filled.numbers.get("with")), ("filled", None));
    assert!(!filled.text.contains("with order"), "{}", filled.text);
    // The iceberg has 15 open lots. Three of them are left of its second part of four.
    assert_eq!(behind.last().expect("a note").numbers["before_lots"], json!(3));
    let whole = looker.ask(Question::Order(looker.order(2)));
    assert_eq!(whole.last().expect("a note").numbers["before_lots"], json!(15));
    // A stranger gets no notes, neither about an order nor about a command.
    let stranger = Viewer::Member(pitwire_model::AccountId(u32::MAX));
    for question in [Question::Order(looker.order(1)), Question::At { seq: looker.log[1].0.seq, instrument: None }] {
        assert_eq!(looker.explain(question, stranger), []);
    }
}

/// Returns the notes about the order of the n-th entry, in the units of members.
fn notes_of(setup: &Value, steps: &Value, n: usize) -> Vec<Note> {
    let looker = watch(setup, steps);
    looker.ask(Question::Order(looker.order(n)))
}

#[test]
fn accepted_order_that_waits_or_trades_at_once_names_that_rule() {
    let market =
        |id: &str, tif: &str| json!({"op": "enter", "id": id, "side": "buy", "type": "market", "qty": 5, "tif": tif});
    let priced = |tif: &str| json!([with(limit("B1", "buy", 5, 9), &json!({"tif": tif}))]);
    let in_cross = json!([session("closing_price_cross"), market("B1", "cpx")]);
    for (setup, steps, rule, part) in [
        (json!({}), priced("atc"), "waits-for-its-session", "parked until its session begins"),
        (json!({}), priced("cpx"), "waits-for-its-session", "parked until its session begins"),
        (json!({}), priced("gfa"), "waits-for-its-session", "parked until its session begins"),
        (json!({}), priced("ioc"), "immediate-needs-execution", "trades at once; what does not trade expires"),
        (json!({}), json!([market("B1", "fok")]), "market-at-once", "trades at once; what does not trade expires"),
        (json!({"closing_price": 100}), in_cross, "in-its-session", "active at once"),
        (json!({}), priced("day"), "limit-rests", "active at once"),
        (
            json!({"allocation": "frequent_batch"}),
            priced("ioc"),
            "immediate-needs-execution",
            "takes part in the batch that runs",
        ),
    ] {
        let note = notes_of(&setup, &steps, 0).remove(0);
        assert_eq!((note.what, note.rule.as_str()), ("accepted", rule), "{note:?}");
        assert!(note.text.contains(part), "{note:?}");
    }
}

#[test]
fn post_only_order_is_refused_because_of_the_session_and_says_when_it_moved() {
    let post_only = |how: &str| with(limit("B1", "buy", 5, 101), &json!({"post_only": how}));
    let note = notes_of(&json!({}), &json!([session("opening_auction"), post_only("reject")]), 0).remove(0);
    assert_eq!(note.text, "post_only_not_allowed: opening_auction takes no post-only orders; continuous trading does");
    let ioc = with(post_only("reject"), &json!({"tif": "ioc"}));
    let note = notes_of(&json!({}), &json!([ioc]), 0).remove(0);
    assert!(note.text.ends_with("only a displayed limit order that may rest can be post-only"), "{note:?}");

    let book = [limit("S0", "sell", 1, 100), post_only("reprice")];
    let note = notes_of(&json!({}), &json!(book), 1).remove(0);
    let moved = "rests by its time in force. Post-only moved its price from 101 to 99, one tick short of the other \
                 side's best, 100.";
    assert!(note.text.ends_with(moved), "{note:?}");
    assert_eq!((&note.numbers["asked_price"], &note.numbers["price"]), (&json!(101), &json!(99)));
    let unmoved = with(limit("B1", "buy", 5, 99), &json!({"post_only": "reprice"}));
    let note = notes_of(&json!({}), &json!([limit("S0", "sell", 1, 100), unmoved]), 1).remove(0);
    assert!(!note.text.contains("moved"), "{note:?}");
}

#[test]
fn self_match_names_the_other_order_and_the_mode() {
    let of = |step: Value, account: &str| with(step, &json!({"account": account}));
    let modes = json!({"accounts": [{"account": "A", "smp": "cancel_incoming"}, {"account": "B", "smp": "cancel_both"},
        {"account": "C", "smp": "cancel_resting"}]});
    let crossing = |account: &str| {
        let resting = of(limit("S1", "sell", 5, 100), account);
        json!([resting, of(limit("B1", "buy", 5, 100), account)])
    };
    // Each row has the account, the entry that is cancelled, and the entry that it would have met.
    for (account, n, other, mode) in [
        ("A", 1, 0, "cancel_incoming"),
        ("B", 0, 1, "cancel_both"),
        ("B", 1, 0, "cancel_both"),
        ("C", 0, 1, "cancel_resting"),
    ] {
        let looker = watch(&modes, &crossing(account));
        let notes = looker.notes_for_owner(n);
        let note = notes.iter().find(|note| note.what == "cancelled").unwrap_or_else(|| panic!("{notes:?}"));
        let other = looker.order(other).0;
        assert_eq!((&note.numbers["mode"], &note.numbers["with"]), (&json!(mode), &json!(other)), "{account} {n}");
        assert!(note.text.contains(&format!("order {other}")) && note.text.contains(mode), "{note:?}");
    }
    // Two accounts share a self-match key. The note does not name the order of the other account.
    let keyed = |step: Value, account: &str| with(of(step, account), &json!({"smp_key": "7"}));
    let steps = json!([keyed(limit("S1", "sell", 5, 100), "A"), keyed(limit("B1", "buy", 5, 100), "C")]);
    let notes = watch(&modes, &steps).notes_for_owner(0);
    let note = notes.iter().find(|note| note.what == "cancelled").unwrap_or_else(|| panic!("{notes:?}"));
    assert_eq!((&note.numbers["with"], &note.numbers["mode"]), (&Value::Null, &json!("cancel_resting")));
}

#[test]
fn breaker_after_an_order_was_filled_does_not_concern_that_order() {
    let steps = json!([limit("S1", "sell", 5, 101), limit("S2", "sell", 5, 103), limit("B3", "buy", 10, 103)]);
    let setup = json!({"last_price": 100, "dynamic_tolerance_pct": 3});
    let (kinds, _) = of_order(&setup, &steps, 0);
    assert_eq!(kinds, ["accepted", "filled"]);
    let (kinds, _) = of_order(&setup, &steps, 1);
    assert_eq!(kinds, ["accepted", "breaker", "rests"]);
}

/// The scenario's tick is 5 units of money and its lot 10 units of goods.
#[test]
fn texts_give_prices_amounts_and_local_times() {
    let setup = json!({"tick": 5, "lot": 10});
    let gtt = with(limit("B1", "buy", 3, 20), &json!({"tif": "gtt", "expires": "09:30:00"}));
    let steps = json!([gtt, limit("S1", "sell", 1, 20), {"op": "clock", "to": "09:31:00"}]);
    let looker = watch(&setup, &steps);
    let ask = |raw: bool| {
        // Johannesburg is two hours ahead of UTC.
        let style = TextStyle { raw, utc_offset: Some(std::sync::Arc::new(|_| 7_200)) };
        let question = Question::Order(looker.order(0));
        let mut explainer =
            Explainer::resume(question, Viewer::Operator, &looker.image, looker.begins).with_style(style);
        for (stamped, events) in &looker.log {
            explainer.observe(stamped, events);
        }
        explainer.finish()
    };
    let notes = ask(false);
    assert!(notes[0].text.starts_with("30 GOODS, limit gtt in continuous"), "{}", notes[0].text);
    assert!(notes[1].text.starts_with("10 GOODS at 100 with order"), "{}", notes[1].text);
    assert!(notes[1].text.ends_with("20 GOODS left"), "{}", notes[1].text);
    assert_eq!(notes[1].numbers["price"], json!(20), "numbers stay in ticks");
    assert_eq!(notes[2].text, "good till 11:30:00, and venue time was 11:30:00");
    assert!(notes[2].line().starts_with("2026-01-05 11:30:00 command"), "{}", notes[2].line());
    let notes = ask(true);
    assert!(notes[1].text.starts_with("1 lot at 20 with order"), "{}", notes[1].text);
    assert!(notes[1].text.ends_with("2 lots left"), "{}", notes[1].text);
}

#[test]
fn counts_agree_with_their_nouns() {
    let parked = json!([with(limit("B1", "buy", 5, 9), &json!({"tif": "atc"}))]);
    let waits = |remaining: Value| {
        let notes = notes_of(&json!({"remaining_sessions": remaining}), &parked, 0);
        notes.last().expect("a note").text.clone()
    };
    assert_eq!(waits(json!(["closing_auction"])), "atc waits for closing_auction, which comes once more today");
    let twice = waits(json!(["closing_auction", "closing_auction"]));
    assert_eq!(twice, "atc waits for closing_auction, which comes 2 more times today");
    let queue = json!([limit("B1", "buy", 1, 9), limit("B2", "buy", 1, 9)]);
    let text = notes_of(&json!({}), &queue, 1).pop().expect("a note").text;
    assert!(text.starts_with("before it: 1 order with 1 GOODS ("), "{text}");
}
