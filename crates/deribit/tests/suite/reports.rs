//! Off-book trades over the API: who may report and confirm, and what both parties receive.

use crate::common::World;
use pitwire_deribit::Session;
use pitwire_model::{Command, InstrumentId, SessionReason};
use serde_json::{Value, json};

fn open(world: &mut World) {
    let (reason, due, ends) = (SessionReason::Scheduled, world.venue.now, None);
    world.venue.must(Command::SetReporting { instrument: InstrumentId(0), open: true, reason, due, ends });
}

fn block() -> Value {
    json!({"instrument_name": "NPN_ZAR", "direction": "buy", "amount": 40, "price": 3210.5, "counterparty": "bob",
        "label": "block 7"})
}

fn with(key: &str, value: Value) -> Value {
    let mut params = block();
    params[key] = value;
    params
}

fn state(report: &Value) -> (&str, &str, &str) {
    let text = |key: &str| report[key].as_str().unwrap_or("");
    (text("reported_by"), text("direction"), text("report_state"))
}

#[test]
fn report_and_confirmation_notify_both_parties() {
    let mut world = World::new();
    open(&mut world);
    let [mut alice, mut bob] = ["alice", "bob"].map(|name| world.login(name));
    for session in [&mut alice, &mut bob] {
        world.ok(session, "private/subscribe", json!({"channels": ["user.reports.any.any", "user.reports.NPN_ZAR"]}));
    }
    world.venue.changes.clear();
    let made = world.ok(&mut alice, "private/pitwire_report_trade", block()).result().clone();
    assert_eq!(state(&made), ("self", "buy", "waiting"));
    assert_eq!(made["price"], 3210.5);
    assert_eq!(
        (made["amount"].to_string(), &made["label"], &made["counterparty"]),
        ("40.0".into(), &json!("block 7"), &json!("bob"))
    );
    let received = world.received(&mut bob);
    assert_eq!(received.len(), 2, "both channels");
    let block = &received[0]["params"]["data"];
    assert_eq!((state(block), &block["counterparty"]), (("counterparty", "sell", "waiting"), &json!("alice")));
    assert!(block.get("label").is_none(), "a label is the reporter's own");

    let id = made["report_id"].clone();
    let waiting = world.ok(&mut bob, "private/pitwire_get_reports", json!({"waiting": true}));
    assert_eq!(waiting.each("report_id"), [id.as_str().expect("a text")]);
    world.venue.changes.clear();
    let done = world.ok(&mut bob, "private/pitwire_confirm_report", json!({"report_id": id})).result().clone();
    assert_eq!((state(&done), &done["off_book_seq"]), (("counterparty", "sell", "confirmed"), &json!(1)));
    assert_eq!(state(&world.received(&mut alice)[0]["params"]["data"]), ("self", "buy", "confirmed"));
    assert_eq!(world.ok(&mut bob, "private/pitwire_get_reports", json!({"waiting": true})).result(), &json!([]));
    // An off-book trade is neither a fill, nor an order, nor a trade of the book.
    let fills = world.ok(&mut alice, "private/get_user_trades_by_instrument", json!({"instrument_name": "NPN_ZAR"}));
    assert_eq!(fills.result()["trades"], json!([]));
    let trades = world.ok(&mut alice, "public/get_last_trades_by_instrument", json!({"instrument_name": "NPN_ZAR"}));
    assert_eq!(trades.result()["trades"], json!([]));
}

/// 40 at 3210.50 are 128,420.00.
#[test]
fn public_off_book_trade_hides_the_parties() {
    let mut world = World::new();
    open(&mut world);
    let [mut alice, mut bob] = ["alice", "bob"].map(|name| world.login(name));
    let report = world.ok(&mut alice, "private/pitwire_report_trade", block()).result()["report_id"].clone();
    world.ok(&mut bob, "private/pitwire_confirm_report", json!({"report_id": report}));
    let mut stranger = Session::new();
    let block = world.ok(&mut stranger, "public/pitwire_get_off_book", json!({"instrument_name": "NPN_ZAR"}));
    let now = block.result()["timestamp"].clone();
    assert_eq!(
        *block.result(),
        json!({"timestamp": now, "instrument_name": "NPN_ZAR", "trade_reporting": "open",
            "day": {"volume": 40.0, "turnover": 128_420.0, "trades": 1},
            "trades": [{"off_book_seq": 1, "timestamp": now, "price": 3210.5, "amount": 40.0}]})
    );
    let figures = world.ok(&mut stranger, "public/pitwire_get_statistics", json!({"instrument_name": "NPN_ZAR"}));
    assert_eq!((&figures.result()["trades"], &figures.result()["off_book"]["trades"]), (&json!(0), &json!(1)));
    // An instrument without reporting hours has no such figures.
    let other = world.ok(&mut stranger, "public/pitwire_get_statistics", json!({"instrument_name": "AGL_ZAR"}));
    assert!(other.result().get("off_book").is_none());
    let other = world.ok(&mut stranger, "public/pitwire_get_off_book", json!({"instrument_name": "AGL_ZAR"}));
    assert_eq!(other.result()["trade_reporting"], "closed");
}

#[test]
fn wrong_report_is_refused_without_effect() {
    let mut world = World::new();
    let [mut alice, mut bob, mut operator] = ["alice", "bob", "operator"].map(|name| world.login(name));
    let refused = world.call(&mut alice, "private/pitwire_report_trade", block());
    assert_eq!((refused.code(), &refused.value["error"]["data"]["name"]), (11030, &json!("reporting_closed")));
    open(&mut world);
    for (params, code) in [
        (with("direction", json!("both")), -32602),
        (with("direction", Value::Null), -32602),
        (with("counterparty", json!("unknown")), 13004),
        (with("counterparty", Value::Null), -32602),
        (with("price", Value::Null), -32602),
        (with("price", json!(3210.505)), 10043),
        (with("amount", json!(0.5)), 10027),
        (with("amount", Value::Null), -32602),
        (with("instrument_name", json!("XYZ")), 13020),
        (with("label", json!("x".repeat(65))), -32602),
    ] {
        let commands = world.venue.commands;
        assert_eq!(world.call(&mut alice, "private/pitwire_report_trade", params.clone()).code(), code, "{params}");
        assert_eq!(world.venue.commands, commands, "nothing reached the venue: {params}");
    }
    let id = world.ok(&mut alice, "private/pitwire_report_trade", block()).result()["report_id"].clone();
    let mut code = |session: &mut Session, method: &str, id: &Value| {
        world.call(session, &format!("private/pitwire_{method}"), json!({"report_id": id})).code()
    };
    assert_eq!(code(&mut alice, "confirm_report", &id), 11030, "her own");
    assert_eq!(code(&mut operator, "confirm_report", &id), 13020, "not hers to see");
    for wrong in [json!("x"), json!("-1"), Value::Null] {
        assert_eq!(code(&mut bob, "confirm_report", &wrong), -32602, "{wrong}");
    }
    for unknown in [json!("999999"), json!("9".repeat(40))] {
        assert_eq!(code(&mut bob, "decline_report", &unknown), 13020, "{unknown}");
    }
    assert_eq!(code(&mut Session::new(), "confirm_report", &id), 10000, "not logged in");
    assert_eq!(code(&mut bob, "decline_report", &id), 0);
    assert_eq!(code(&mut bob, "confirm_report", &id), 13020, "declined");
}

/// A report is explained by its number, as an order is, to both parties. This venue has no journal
/// on disk.
#[test]
fn a_report_is_explained_to_its_parties() {
    let mut world = World::new();
    open(&mut world);
    let [mut alice, mut bob] = ["alice", "bob"].map(|name| world.login(name));
    let shared = world.ok(&mut alice, "private/pitwire_report_trade", block()).result()["report_id"].clone();
    let with_another = with("counterparty", json!("operator"));
    let other = world.ok(&mut alice, "private/pitwire_report_trade", with_another).result()["report_id"].clone();
    let mut code = |session: &mut Session, id: &Value| {
        world.call(session, "private/pitwire_explain", json!({"order_id": id})).code()
    };
    assert_eq!([code(&mut alice, &shared), code(&mut bob, &shared)], [-32602, -32602], "asked, and there is no log");
    assert_eq!([code(&mut alice, &other), code(&mut bob, &other)], [-32602, 10004], "bob is no party of it");
}
