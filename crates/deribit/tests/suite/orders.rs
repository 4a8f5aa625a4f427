//! Orders by id and label, mass cancels, and lists by currency.

use crate::common::{Reply, World};
use pitwire_deribit::Session;
use serde_json::{Value, json};

/// Enters an order in each instrument, of this many shares in those of shares.
fn enter_in_each(world: &mut World, session: &mut Session, side: &str, shares: f64) {
    for (instrument, amount, price) in [
        ("NPN_ZAR", shares, 3000.0),
        ("AGL_ZAR", shares, 500.0),
        ("BTC_USDC", 0.01, 50_000.0),
        ("BTC-PERPETUAL", 100.0, 50_000.0),
    ] {
        world.limit(session, side, instrument, amount, price);
    }
}

/// Enters one resting order in each instrument.
fn one_in_each() -> (World, Session) {
    let mut world = World::new();
    let mut alice = world.login("alice");
    enter_in_each(&mut world, &mut alice, "buy", 5.0);
    (world, alice)
}

const ALL: [&str; 4] = ["NPN_ZAR", "AGL_ZAR", "BTC_USDC", "BTC-PERPETUAL"];
const SHARES: [&str; 2] = ["NPN_ZAR", "AGL_ZAR"];
const SPOT: [&str; 3] = ["NPN_ZAR", "AGL_ZAR", "BTC_USDC"];

/// The instruments that a mass cancel with these parameters clears.
const CANCELS: &[(&str, &str, &[&str])] = &[
    ("cancel_all", "{}", &ALL),
    ("cancel_all", r#"{"type":"all"}"#, &ALL),
    ("cancel_all", r#"{"type":"limit"}"#, &ALL),
    ("cancel_all", r#"{"type":"trigger_all"}"#, &[]),
    ("cancel_all", r#"{"type":"stop"}"#, &[]),
    ("cancel_all_by_instrument", r#"{"instrument_name":"NPN_ZAR"}"#, &["NPN_ZAR"]),
    ("cancel_all_by_instrument", r#"{"instrument_name":"NPN_ZAR","type":"take"}"#, &[]),
    ("cancel_all_by_instrument", r#"{"instrument_name":"NPN_ZAR","type":"trailing_stop"}"#, &[]),
    // An instrument belongs to its settlement currency: a share's order does not belong to the
    // share itself, and a BTC order that pays USDC does not belong to BTC.
    ("cancel_all_by_currency", r#"{"currency":"ZAR"}"#, &SHARES),
    ("cancel_all_by_currency", r#"{"currency":"zar"}"#, &SHARES),
    ("cancel_all_by_currency", r#"{"currency":"NPN"}"#, &[]),
    ("cancel_all_by_currency", r#"{"currency":"BTC"}"#, &["BTC-PERPETUAL"]),
    ("cancel_all_by_currency", r#"{"currency":"USDC"}"#, &["BTC_USDC"]),
    ("cancel_all_by_currency", r#"{"currency":"any"}"#, &ALL),
    ("cancel_all_by_currency", r#"{"currency":"any","kind":"future"}"#, &["BTC-PERPETUAL"]),
    ("cancel_all_by_currency", r#"{"currency":"ZAR","kind":"future"}"#, &[]),
    ("cancel_all_by_currency", r#"{"currency":"any","type":"trigger_all"}"#, &[]),
    ("cancel_all_by_currency_pair", r#"{"currency_pair":"btc_usd"}"#, &["BTC-PERPETUAL"]),
    ("cancel_all_by_currency_pair", r#"{"currency_pair":"BTC_USDC","kind":"spot"}"#, &["BTC_USDC"]),
    ("cancel_all_by_currency_pair", r#"{"currency_pair":"btc_usdc","kind":"future"}"#, &[]),
    ("cancel_all_by_kind_or_type", r#"{"currency":"any","kind":"spot"}"#, &SPOT),
    ("cancel_all_by_kind_or_type", r#"{"currency":["BTC","USDC"],"kind":"any"}"#, &["BTC_USDC", "BTC-PERPETUAL"]),
    ("cancel_all_by_kind_or_type", r#"{"currency":"any","kind":"option"}"#, &[]),
    ("cancel_all_by_kind_or_type", r#"{"currency":"any","type":"limit"}"#, &ALL),
    ("cancel_all_by_kind_or_type", r#"{"kind":"any","type":"trigger_all"}"#, &[]),
];

fn still_open(world: &mut World, session: &mut Session) -> Vec<String> {
    let reply = world.ok(session, "private/get_open_orders", json!({}));
    reply.each("instrument_name").into_iter().map(str::to_owned).collect()
}

#[test]
fn mass_cancel_removes_exactly_the_requested_orders() {
    for (method, params, gone) in CANCELS {
        let (mut world, mut alice) = one_in_each();
        let mut bob = world.login("bob");
        world.limit(&mut bob, "buy", "NPN_ZAR", 1.0, 2999.0);
        let params: Value = serde_json::from_str(params).unwrap();
        let reply = world.ok(&mut alice, &format!("private/{method}"), params.clone());
        assert_eq!(*reply.result(), json!(gone.len()), "{method} {params}");
        let kept: Vec<&str> = ALL.into_iter().filter(|name| !gone.contains(name)).collect();
        assert_eq!(still_open(&mut world, &mut alice), kept, "{method} {params}");
        assert_eq!(still_open(&mut world, &mut bob), ["NPN_ZAR"], "another account's order");
    }
}

#[test]
fn a_detailed_mass_cancel_lists_the_orders_by_instrument() {
    for (method, params, gone) in CANCELS {
        let (mut world, mut alice) = one_in_each();
        let mut params: Value = serde_json::from_str(params).unwrap();
        params["detailed"] = json!(true);
        let reply = world.ok(&mut alice, &format!("private/{method}"), params.clone());
        assert_eq!(sorted(reply.each("instrument_name")), sorted(gone.to_vec()), "{method} {params}");
        for part in reply.result().as_array().unwrap() {
            assert_eq!(part["type"], "limit");
            let orders = part["result"].as_array().unwrap();
            assert_eq!(orders.len(), 1);
            assert_eq!(orders[0]["instrument_name"], part["instrument_name"]);
            assert_eq!(
                (&orders[0]["order_state"], &orders[0]["cancel_reason"]),
                (&json!("cancelled"), &json!("user_request"))
            );
        }
    }
}

fn sorted(mut names: Vec<&str>) -> Vec<&str> {
    names.sort_unstable();
    names
}

#[test]
fn a_mass_cancel_by_label_keeps_to_the_label_and_the_currency() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    for (instrument, price, label) in
        [("NPN_ZAR", 3000.0, "a"), ("NPN_ZAR", 3001.0, "b"), ("BTC_USDC", 50_000.0, "a"), ("NPN_ZAR", 3002.0, "a")]
    {
        let amount = if instrument == "NPN_ZAR" { 1.0 } else { 0.01 };
        let params = json!({"instrument_name": instrument, "amount": amount, "price": price, "label": label});
        world.ok(&mut alice, "private/buy", params);
    }
    for (params, count) in [
        (json!({"label": "c"}), 0),
        (json!({"label": "a", "type": "trigger_all"}), 0),
        (json!({"label": "a", "currency": "ZAR"}), 2),
        (json!({"label": "a"}), 1),
    ] {
        assert_eq!(*world.ok(&mut alice, "private/cancel_by_label", params).result(), json!(count));
    }
    assert_eq!(world.ok(&mut alice, "private/get_open_orders", json!({})).each("label"), ["b"]);
}

/// The lists per currency contain each open order, closed order and fill exactly once.
#[test]
fn lists_by_currency_never_overlap() {
    let expected: [(&str, &[&str]); 6] = [
        ("ZAR", &SHARES),
        ("USDC", &["BTC_USDC"]),
        ("BTC", &["BTC-PERPETUAL"]),
        ("NPN", &[]),
        ("USD", &[]),
        ("SOL", &[]),
    ];
    let (mut world, mut alice) = one_in_each();
    let mut bob = world.login("bob");
    enter_in_each(&mut world, &mut bob, "sell", 1.0);
    let names = |reply: &Reply| {
        let list = reply.result().get("trades").unwrap_or(reply.result()).as_array().unwrap();
        list.iter().map(|item| item["instrument_name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (currency, instruments) in expected {
        let params = json!({"currency": currency});
        // Alice's orders in BTC_USDC and the perpetual have filled, and so have all of Bob's.
        let open: Vec<&str> = instruments.iter().filter(|name| SHARES.contains(name)).copied().collect();
        let reply = world.ok(&mut alice, "private/get_open_orders_by_currency", params.clone());
        assert_eq!(names(&reply), open, "open {currency}");
        let mut newest_first = instruments.to_vec();
        newest_first.reverse();
        for method in ["get_order_history_by_currency", "get_user_trades_by_currency"] {
            let reply = world.ok(&mut bob, &format!("private/{method}"), params.clone());
            assert_eq!(names(&reply), newest_first, "{method} {currency}");
        }
    }
    let by_query = world.get(&mut alice, "private/get_open_orders_by_currency", "currency=ZAR");
    assert_eq!(names(&by_query), SHARES, "as ccxt asks");
    let reply = world.ok(&mut alice, "private/get_open_orders", json!({"type": "trigger_all"}));
    assert_eq!(names(&reply), Vec::<String>::new());
}

#[test]
fn public_lists_find_an_instrument_by_either_currency() {
    let mut world = World::new();
    for (params, expected) in [
        (json!({}), &["NPN_ZAR", "BTC_USDC", "AGL_ZAR", "BTC-PERPETUAL"][..]),
        (json!({"currency": "any"}), &["NPN_ZAR", "BTC_USDC", "AGL_ZAR", "BTC-PERPETUAL"]),
        (json!({"currency": "ZAR"}), &["NPN_ZAR", "AGL_ZAR"]),
        (json!({"currency": "NPN"}), &["NPN_ZAR"]),
        (json!({"currency": "BTC"}), &["BTC_USDC", "BTC-PERPETUAL"]),
        (json!({"currency": "BTC", "kind": "future"}), &["BTC-PERPETUAL"]),
        (json!({"currency": "USD"}), &["BTC-PERPETUAL"]),
        (json!({"currency": "BTC", "kind": "option"}), &[]),
        (json!({"currency": "SOL"}), &[]),
    ] {
        for method in ["public/get_instruments", "public/get_book_summary_by_currency"] {
            let reply = world.ok(&mut Session::new(), method, params.clone());
            assert_eq!(reply.each("instrument_name"), expected, "{method} {params}");
        }
    }
}

#[test]
fn order_ids_are_numbers_with_or_without_a_currency() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    let id = world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 3000.0);
    for good in [id.clone(), format!("ETH-{id}"), format!("USDC-{id}"), format!("eth-{id}")] {
        let reply = world.ok(&mut alice, "private/get_order_state", json!({"order_id": good}));
        assert_eq!(reply.result()["order_id"], id.as_str());
    }
    let number: Value = serde_json::from_str(&id).unwrap();
    world.ok(&mut alice, "private/get_order_state", json!({"order_id": number}));
    for (bad, code) in [
        (json!(format!("-{id}")), 10025),
        (json!(-5), 10025),
        (json!(format!("+{id}")), 10025),
        (json!(format!("ETH--{id}")), 10025),
        (json!(format!("1-{id}")), 10025),
        (json!("ETH-"), 10025),
        (json!("1e3"), 10025),
        (json!("12.0"), 10025),
        (json!("abc"), 10025),
        (json!("é-5"), 10025),
        (json!(" 5"), 10025),
        (json!("99999999999999999999999999"), 10004),
        (json!("999999999"), 10004),
        (json!(""), -32602),
        (Value::Null, -32602),
    ] {
        for method in ["cancel", "edit", "get_order_state", "get_user_trades_by_order"] {
            if method == "get_user_trades_by_order" && bad == json!("999999999") {
                continue; // No fills is an answer, not an error.
            }
            let params = json!({"order_id": bad, "amount": 1, "price": 1});
            let reply = world.call(&mut alice, &format!("private/{method}"), params);
            assert_eq!(reply.code(), code, "{method} {bad}");
        }
    }
    assert_eq!(still_open(&mut world, &mut alice), ["NPN_ZAR"]);
}

#[test]
fn foreign_order_looks_unknown() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    let open = world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 3000.0);
    let filled = world.limit(&mut alice, "buy", "AGL_ZAR", 1.0, 500.0);
    let mut operator = world.login("operator");
    world.limit(&mut operator, "sell", "AGL_ZAR", 1.0, 500.0);
    let unknown = "88";
    for id in [open, filled] {
        for method in ["cancel", "edit", "get_order_state", "get_user_trades_by_order"] {
            let mut ask = |id: &str| {
                let params = json!({"order_id": id, "amount": 2, "price": 3001});
                world.call(&mut bob, &format!("private/{method}"), params).text
            };
            assert_eq!(ask(&id), ask(unknown).replace(unknown, &id), "{method}");
        }
    }
    assert_eq!(still_open(&mut world, &mut alice), ["NPN_ZAR"]);
}

#[test]
fn closed_order_reports_its_final_state() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    let cancelled = world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 3000.0);
    world.ok(&mut alice, "private/cancel", json!({"order_id": cancelled}));
    let filled = world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 3000.0);
    world.limit(&mut bob, "sell", "NPN_ZAR", 1.0, 3000.0);
    for (method, id, code, message) in [
        ("edit", &filled, 11008, "already_filled"),
        ("edit", &cancelled, 10010, "already_closed"),
        ("cancel", &filled, 10010, "already_closed"),
        ("cancel", &cancelled, 10010, "already_closed"),
    ] {
        let params = json!({"order_id": id, "amount": 2, "price": 3000});
        let reply = world.call(&mut alice, &format!("private/{method}"), params);
        assert_eq!((reply.code(), &reply.value["error"]["message"]), (code, &json!(message)), "{method}");
    }
}

#[test]
fn labels_have_64_characters_that_fit_64_bytes() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    let mut reason = |label: &str| {
        let params = json!({"instrument_name": "NPN_ZAR", "amount": 1, "price": 3000, "label": label});
        let reply = world.call(&mut alice, "private/buy", params);
        match reply.code() {
            0 => {
                assert_eq!(reply.result()["order"]["label"], label, "echoed as it came");
                None
            }
            code => {
                assert_eq!((code, &reply.value["error"]["data"]["param"]), (-32602, &json!("label")));
                Some(reply.value["error"]["data"]["reason"].as_str().unwrap().to_owned())
            }
        }
    };
    for fine in ["", "abc", &"x".repeat(64), &"é".repeat(32)] {
        assert_eq!(reason(fine), None, "{fine}");
    }
    for (long, characters, bytes) in
        [("x".repeat(65), "65", "65"), ("é".repeat(33), "33", "66"), ("é".repeat(64), "64", "128")]
    {
        let reason = reason(&long).expect("a refusal");
        assert!(reason.contains("bytes") && reason.contains(characters) && reason.contains(bytes), "{reason}");
    }
    for method in ["cancel_by_label", "get_order_state_by_label", "get_open_orders_by_label"] {
        let reply = world.call(&mut alice, &format!("private/{method}"), json!({"label": "x".repeat(65)}));
        assert_eq!(reply.code(), -32602, "{method}");
    }
}

#[test]
fn an_edit_by_label_needs_one_order() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    let params = json!({"instrument_name": "NPN_ZAR", "amount": 5, "price": 3000, "label": "l"});
    world.ok(&mut alice, "private/buy", params.clone());
    let edit = json!({"instrument_name": "NPN_ZAR", "label": "l", "amount": 4});
    let reply = world.ok(&mut alice, "private/edit_by_label", edit.clone());
    let order = &reply.result()["order"];
    assert_eq!((&order["amount"], &order["price"], &order["replaced"]), (&json!(4.0), &json!(3000.0), &json!(false)));
    world.ok(&mut alice, "private/buy", params);
    assert_eq!(world.call(&mut alice, "private/edit_by_label", edit).code(), 13032);
}

#[test]
fn edit_keeps_unnamed_fields() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    let id = world.limit(&mut alice, "buy", "NPN_ZAR", 5.0, 3000.0);
    world.limit(&mut bob, "sell", "NPN_ZAR", 2.0, 3000.0);
    for (params, amount, price, replaced) in [
        (json!({"price": 3001}), 5.0, 3001.0, true),
        (json!({"amount": 4}), 4.0, 3001.0, true),
        (json!({"amount": "6", "price": "3001.00"}), 6.0, 3001.0, true),
    ] {
        let mut asked = params.clone();
        asked["order_id"] = json!(id);
        let reply = world.ok(&mut alice, "private/edit", asked);
        let order = &reply.result()["order"];
        // `amount` is the total including fills; the id never changes.
        let answered =
            [&order["amount"], &order["filled_amount"], &order["price"], &order["replaced"], &order["order_id"]];
        assert_eq!(answered, [&json!(amount), &json!(2.0), &json!(price), &json!(replaced), &json!(id)], "{params}");
    }
    let reply = world.call(&mut alice, "private/edit", json!({"order_id": id, "amount": 2}));
    assert_eq!(reply.code(), 10021, "no more than what has traded");
}

#[test]
fn past_orders_are_paged_and_without_fills_only_on_request() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    let filled: Vec<String> = (0..3).map(|_| world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 3000.0)).collect();
    world.limit(&mut bob, "sell", "NPN_ZAR", 3.0, 3000.0);
    let unfilled = world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 2000.0);
    world.ok(&mut alice, "private/cancel", json!({"order_id": unfilled}));
    for (more, expected) in [
        (json!({}), vec![&filled[2], &filled[1], &filled[0]]),
        (json!({"count": 2}), vec![&filled[2], &filled[1]]),
        (json!({"count": 2, "offset": 2}), vec![&filled[0]]),
        (json!({"count": 1, "include_unfilled": true}), vec![&unfilled]),
        (json!({"include_old": true, "offset": 9}), vec![]),
    ] {
        for (method, key, value) in [("instrument", "instrument_name", "NPN_ZAR"), ("currency", "currency", "ZAR")] {
            let mut params = more.clone();
            params[key] = json!(value);
            let reply = world.ok(&mut alice, &format!("private/get_order_history_by_{method}"), params);
            assert_eq!(reply.each("order_id"), expected, "{method} {more}");
        }
    }
}
