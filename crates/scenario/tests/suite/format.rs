//! Which scenario files are accepted, and the error for those that are not.

use pitwire_model::{Phase, SelfMatch};
use pitwire_scenario::{Expires, Scenario, Step, read};

fn refused(text: &str) -> String {
    read("file.json", text).expect_err(text).to_string()
}

fn one(text: &str) -> Scenario {
    read("file.json", text).unwrap_or_else(|malformed| panic!("{malformed}")).remove(0)
}

/// Returns the text of a scenario with this single step.
fn stepping(step: &str) -> String {
    format!("{{\"name\": \"A\",\n \"steps\": [\n  {step}\n]}}")
}

const LIMIT: &str = r#"{"op": "enter", "id": "B1", "side": "buy", "type": "limit", "qty": 10, "price": 100}"#;

#[test]
fn file_holds_an_object_an_array_or_a_sequence() {
    let named = |name: &str| format!("{{\"name\": \"{name}\", \"steps\": []}}");
    let names = |text: &str| read("f", text).expect(text).into_iter().map(|scenario| scenario.name).collect::<Vec<_>>();
    assert_eq!(names(&named("A")), ["A"]);
    assert_eq!(names(&format!("[{}, {}]", named("A"), named("B"))), ["A", "B"]);
    assert_eq!(names(&format!("{}\n{}\n\n{}\n", named("A"), named("B"), named("C"))), ["A", "B", "C"]);
    assert_eq!(names("[]"), Vec::<String>::new());
}

#[test]
fn absent_keys_get_the_documented_defaults() {
    let setup = one(r#"{"name": "A", "steps": []}"#).setup;
    assert_eq!((setup.tick, setup.lot, setup.improvement, setup.date), (1, 1, 1, 20_458));
    assert_eq!(
        (setup.mrs, setup.last_price, setup.static_reference, setup.remaining_sessions),
        (None, None, None, None)
    );
    assert_eq!(setup.self_match, SelfMatch::Allow);
    let Step::Enter(entry) = &one(&stepping(LIMIT)).steps[0] else { panic!("an entry") };
    assert_eq!((entry.tif, entry.display, entry.account.as_deref()), ("day", None, None));
}

#[test]
fn words_and_numbers_are_read_as_written() {
    let hidden = r#"{"op": "enter", "id": "S1", "side": "sell", "type": "hidden", "qty": 700, "price": 9, "tif": "GTD",
        "expires": "2026-02-01", "smp_key": 7, "account": null}"#;
    let Step::Enter(entry) = &one(&stepping(hidden)).steps[0] else { panic!("an entry") };
    assert_eq!((entry.mes, entry.tif, entry.expires), (700, "gtd", Some(Expires::Day(20_485))));
    assert_eq!(entry.smp_key.as_deref(), Some("7"));
    let steps = one(r#"{"name": "A", "steps": [{"op": "session", "to": "halt"}, {"op": "clock", "to": "09:30:05"},
        {"op": "end_of_day"}, {"op": "timer"}, {"op": "cancel", "id": "X"}]}"#);
    assert_eq!(steps.steps[0], Step::Session { to: Phase::Halted });
    assert_eq!(steps.steps[1], Step::Clock { to: 34_205 });
    assert_eq!(steps.steps[2..4], [Step::EndOfDay, Step::Timer]);
}

/// Each case is a text, the line of its error and a part of the error message.
#[test]
fn a_malformed_scenario_is_refused_with_its_line_and_rule() {
    let limit_with = |more: &str| stepping(&LIMIT.replace('}', &format!(", {more}}}")));
    let enter = |what: &str| stepping(&format!("{{\"op\": \"enter\", \"id\": \"B1\", {what}}}"));
    let expecting = |what: &str| format!("{{\"name\": \"A\", \"steps\": [],\n\"expect\": {{{what}}}}}");
    let setting = |what: &str| format!("{{\"name\": \"A\", \"steps\": [],\n\"setup\": {{{what}}}}}");
    let expected_event = |event: &str| {
        format!("{{\"name\": \"A\", \"steps\": [{LIMIT}],\n\"expect\": {{\"steps\": [{{\"events\": [{event}]}}]}}}}")
    };
    let cases = [
        (String::new(), 1, "no scenario"),
        ("{\"name\": \"A\",\n \"steps\": [}".into(), 2, "not JSON"),
        ("[{\"name\": \"A\", \"steps\": []},\n3]".into(), 2, "object"),
        ("{\"steps\": []}".into(), 1, "no \"name\""),
        ("{\"name\": \"A\"}".into(), 1, "no \"steps\""),
        ("{\"name\": \"A\", \"steps\": {}}".into(), 1, "list"),
        ("{\"name\": \"A\", \"steps\": [],\n \"stepz\": []}".into(), 2, "unknown key \"stepz\""),
        ("{\"name\": \"A\", \"steps\": [], \"steps\": []}".into(), 1, "twice"),
        (stepping("{\"id\": \"B1\"}"), 3, "no \"op\""),
        (stepping("{\"op\": \"buy\"}"), 3, "unknown op \"buy\""),
        (stepping("{\"op\": \"timer\", \"to\": \"now\"}"), 3, "unknown key \"to\""),
        (stepping("{\"op\": \"session\", \"to\": \"lunch\"}"), 3, "unknown session \"lunch\""),
        (stepping("{\"op\": \"session\", \"to\": \"closed\"}"), 3, "unknown session"),
        (stepping("{\"op\": \"clock\", \"to\": \"9:00\"}"), 3, "no time of day"),
        (stepping("{\"op\": \"cancel\"}"), 3, "no \"id\""),
        (stepping("{\"op\": \"cancel\", \"id\": \"\"}"), 3, "empty id"),
        (stepping("{\"op\": \"cancel\", \"id\": 7}"), 3, "text in quotes"),
        (limit_with("\"stop\": 4"), 3, "\"stop\" on a limit order"),
        (limit_with("\"mes\": 4"), 3, "\"mes\" on a limit order"),
        (limit_with("\"display\": 4"), 3, "\"display\" on a limit order"),
        (limit_with("\"expires\": \"10:00:00\""), 3, "\"expires\" on a day order"),
        (limit_with("\"tif\": \"gtx\""), 3, "unknown tif \"gtx\""),
        (limit_with("\"tif\": \"gtt\""), 3, "without \"expires\""),
        (limit_with("\"tif\": \"gtt\", \"expires\": \"2026-01-05\""), 3, "no time of day"),
        (limit_with("\"tif\": \"gtd\", \"expires\": \"2026-02-30\""), 3, "no date"),
        (limit_with("\"colour\": 4"), 3, "unknown key \"colour\""),
        (enter("\"side\": \"long\", \"type\": \"limit\", \"qty\": 1, \"price\": 1"), 3, "unknown side"),
        (enter("\"side\": \"buy\", \"type\": \"Limit\", \"qty\": 1, \"price\": 1"), 3, "unknown type"),
        (enter("\"side\": \"buy\", \"type\": \"limit\", \"qty\": 1"), 3, "without \"price\""),
        (enter("\"side\": \"buy\", \"type\": \"stop\", \"qty\": 1"), 3, "without \"stop\""),
        (enter("\"side\": \"buy\", \"type\": \"iceberg\", \"qty\": 1, \"price\": 1"), 3, "without \"display\""),
        (enter("\"side\": \"buy\", \"type\": \"market\", \"qty\": 1.5"), 3, "whole number"),
        (enter("\"side\": \"buy\", \"type\": \"market\", \"qty\": -1"), 3, "whole number"),
        (enter("\"side\": \"buy\", \"type\": \"market\", \"qty\": \"1\""), 3, "whole number"),
        (setting("\"smp\": \"both\""), 2, "unknown smp"),
        (setting("\"allocation\": \"random\""), 2, "unknown allocation"),
        (setting("\"last_price\": 0"), 2, "whole number"),
        (setting("\"date\": \"tomorrow\""), 2, "no date"),
        (setting("\"date\": \"2149-06-07\""), 2, "2149-06-07 is after 2149-06-06"),
        (setting("\"date\": \"9999-12-31\""), 2, "9999-12-31 is after 2149-06-06"),
        (limit_with("\"tif\": \"gtd\", \"expires\": \"2149-06-07\""), 3, "2149-06-07 is after 2149-06-06"),
        (
            "{\"name\": \"A\", \"setup\": {\"date\": \"2149-06-05\"}, \"steps\": [\n{\"op\": \"end_of_day\"},\n{\"op\": \"end_of_day\"}]}".into(),
            3,
            "step 2: no day comes after 2149-06-06",
        ),
        (setting("\"remaining_sessions\": [\"lunch\"]"), 2, "unknown session"),
        (setting("\"price_band_pct\": 10001"), 2, "percentage"),
        (setting("\"mrz\": 4"), 2, "unknown key \"mrz\""),
        (expecting("\"trade\": []"), 2, "unknown key \"trade\""),
        (expecting("\"trades\": [{\"buyer\": \"B1\"}]"), 2, "unknown key \"buyer\""),
        (expecting("\"book\": {\"asks\": []}"), 2, "unknown key \"asks\""),
        (expecting("\"closing\": {\"price\": 1, \"derivation\": \"guess\"}"), 2, "unknown derivation"),
        (expecting("\"steps\": [{}]"), 2, "1 entries for 0 steps"),
        (expected_event("{\"id\": \"B1\"}"), 2, "no \"type\""),
        (expected_event("{\"type\": \"born\"}"), 2, "unknown event"),
        (expected_event("{\"type\": \"accepted\", \"qty\": 1}"), 2, "unknown key \"qty\""),
        (expected_event("{\"type\": \"rejected\", \"reason\": \"bad_mood\"}"), 2, "unknown reason"),
        (expected_event("{\"type\": \"expired\", \"reason\": \"not_open\"}"), 2, "unknown reason"),
        (expected_event("{\"type\": \"session\", \"to\": \"lunch\"}"), 2, "unknown session"),
        (expected_event("{\"type\": \"report_ended\", \"reason\": \"day_ended\"}"), 2, "unknown reason"),
        (expected_event("{\"type\": \"reported\", \"price\": 4}"), 2, "unknown key \"price\""),
        (stepping("{\"op\": \"reporting\", \"open\": 1}"), 3, "true or false"),
        (stepping("{\"op\": \"reporting\"}"), 3, "no \"open\""),
        (stepping("{\"op\": \"report\", \"id\": \"R1\", \"by\": \"A\"}"), 3, "no \"with\""),
        (stepping("{\"op\": \"answer\", \"id\": \"R1\", \"by\": \"A\"}"), 3, "no \"confirm\""),
        (stepping("{\"op\": \"timer\", \"open\": true}"), 3, "unknown key \"open\""),
        (limit_with("\"by\": \"A\""), 3, "unknown key \"by\""),
        (setting("\"funds\": [{\"account\": \"A\", \"money\": -1}]"), 2, "whole number"),
        (setting("\"funds\": [{\"account\": \"A\"}, {\"account\": \"A\"}]"), 2, "a second time"),
        (expecting("\"holdings\": {\"A\": {\"gold\": 1}}"), 2, "unknown key \"gold\""),
        (expecting("\"off_book\": [{\"maker\": \"A\"}]"), 2, "unknown key \"maker\""),
    ];
    for (text, line, word) in &cases {
        let message = refused(text);
        assert!(message.starts_with(&format!("file.json:{line}: ")), "{message}\n{text}");
        assert!(message.contains(word) && message.contains("(rulebook: 19"), "{message}\n{text}");
    }
}
