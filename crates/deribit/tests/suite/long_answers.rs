//! Answers that are continued in parts: lists of many orders and mass cancels.

use crate::common;
use crate::common::World;
use pitwire_deribit::Session;
use serde_json::{Value, json};

const ORDERS: usize = 1_000;

/// Returns a venue where alice has `count` orders, and her session. Every tenth order has a label.
fn crowded(count: usize) -> (World, Session, Vec<String>) {
    let mut world = World::new();
    let mut alice = world.login("alice");
    let mut enter = |number: usize| {
        let label = if number.is_multiple_of(10) { "tenth" } else { "other" };
        let (instrument, amount) = if number.is_multiple_of(2) { ("NPN_ZAR", 1.0) } else { ("BTC_USDC", 0.001) };
        let params =
            json!({"instrument_name": instrument, "amount": amount, "type": "limit", "price": 10.0, "label": label});
        let entered = world.ok(&mut alice, "private/buy", params);
        entered.result()["order"]["order_id"].as_str().expect("a text").to_owned()
    };
    let ids = (0..count).map(&mut enter).collect();
    (world, alice, ids)
}

#[test]
fn list_of_many_orders_is_the_same_in_parts_of_any_size() {
    let (mut world, mut alice, ids) = crowded(ORDERS);
    world.records_per_part = usize::MAX;
    let whole = world.ok(&mut alice, "private/get_open_orders", json!({}));
    assert_eq!((whole.each("order_id"), world.parts), (ids.iter().map(String::as_str).collect(), 0));
    world.records_per_part = 7;
    let parts = world.ok(&mut alice, "private/get_open_orders", json!({}));
    assert_eq!(parts.text, whole.text);
    assert!(world.parts >= (ORDERS - 256) / 7, "{} parts", world.parts);
}

#[test]
fn search_by_label_visits_a_bounded_number_of_orders_in_each_part() {
    let (mut world, mut alice, _) = crowded(5_000);
    world.records_per_part = 1;
    for method in ["private/get_open_orders_by_label", "private/get_order_state_by_label"] {
        world.parts = 0;
        assert_eq!(world.ok(&mut alice, method, json!({"label": "nowhere"})).result(), &json!([]), "{method}");
        // The request visits 16 orders for each of its 256 records, and each part 16 orders.
        assert_eq!(world.parts, (5_000 - 256 * 16) / 16, "{method}");
        let tenth = world.ok(&mut alice, method, json!({"label": "tenth"}));
        assert_eq!(tenth.result().as_array().map(Vec::len), Some(500), "{method}");
    }
}

#[test]
fn list_describes_the_moment_of_its_request() {
    let (mut world, mut alice, ids) = crowded(ORDERS);
    let (text, mut answer) = world.begin(&mut alice, "private/get_open_orders", json!({}));
    assert_eq!(text, "");
    let mut bob = world.login("alice");
    world.ok(&mut bob, "private/cancel", json!({"order_id": ids[ORDERS - 1]}));
    world.ok(&mut bob, "private/edit", json!({"order_id": ids[ORDERS - 2], "amount": 2.0, "price": 11.0}));
    world.limit(&mut bob, "buy", "NPN_ZAR", 1.0, 10.0);
    let list = world.finish(&mut answer)["result"].clone();
    let last: Vec<(&Value, &Value)> =
        list.as_array().expect("a list").iter().skip(ORDERS - 2).map(|o| (&o["order_state"], &o["amount"])).collect();
    assert_eq!(last, [(&json!("open"), &json!(1.0)), (&json!("open"), &json!(0.001))]);
}

#[test]
fn mass_cancel_in_parts_cancels_what_was_open_at_its_request() {
    for (method, params, covered) in [
        ("private/cancel_all", json!({}), ORDERS),
        ("private/cancel_all_by_instrument", json!({"instrument_name": "NPN_ZAR"}), ORDERS / 2),
        ("private/cancel_all_by_segment", json!({"segment": "ZA01"}), ORDERS / 2),
        ("private/cancel_by_label", json!({"label": "tenth"}), ORDERS / 10),
        ("private/cancel_all", json!({"pitwire_scope": "client"}), ORDERS),
    ] {
        let (mut world, mut alice, ids) = crowded(ORDERS);
        let (text, mut answer) = world.begin(&mut alice, method, params);
        assert_eq!(text, "");
        // Nothing is cancelled before the first part, and a later order is not covered.
        let mut other = world.login("alice");
        let later = world.limit(&mut other, "buy", "NPN_ZAR", 1.0, 10.0);
        let part = world.venue.engine.account(common::ALICE).expect("alice").open_orders() as usize;
        assert_eq!(part, ids.len() + 1, "{method}");
        assert_eq!(world.finish(&mut answer)["result"], covered, "{method}");
        let left = world.venue.engine.account(common::ALICE).expect("alice").open_orders() as usize;
        assert_eq!(left, ORDERS - covered + 1, "{method}");
        assert_eq!(
            world.ok(&mut other, "private/get_order_state", json!({"order_id": later})).result()["order_state"],
            "open"
        );
    }
}

#[test]
fn details_of_a_mass_cancel_in_parts_have_each_order_once_by_instrument() {
    let (mut world, mut alice, ids) = crowded(ORDERS);
    world.records_per_part = 30;
    let answer = world.ok(&mut alice, "private/cancel_all", json!({"detailed": true}));
    let groups = answer.result().as_array().expect("a list");
    let names: Vec<&Value> = groups.iter().map(|group| &group["instrument_name"]).collect();
    assert_eq!(names, ["NPN_ZAR", "BTC_USDC"]);
    let mut found: Vec<&str> = groups
        .iter()
        .flat_map(|group| group["result"].as_array().expect("a list"))
        .map(|order| order["order_id"].as_str().expect("a text"))
        .collect();
    found.sort_unstable_by_key(|id| id.parse::<u64>().expect("a number"));
    assert_eq!(found, ids);
}

/// Returns a venue where one sell order of bob has traded with `count` orders of alice, the
/// sessions, and the orders. Bob's answer came in parts of `records`.
fn filled(count: usize, records: usize) -> (World, [Session; 2], Vec<String>, Value) {
    let mut world = World::new();
    world.records_per_part = records;
    let [mut alice, mut bob] = ["alice", "bob"].map(|name| world.login(name));
    let bought = (0..count).map(|_| world.limit(&mut alice, "buy", "BTC_USDC", 0.001, 10.0)).collect();
    let amount = count as f64 / 1_000.0;
    let params = json!({"instrument_name": "BTC_USDC", "amount": amount, "price": 10.0, "client_order_id": "big"});
    let sold = world.ok(&mut bob, "private/sell", params);
    (world, [alice, bob], bought, sold.value["result"].clone())
}

#[test]
fn order_with_many_fills_is_answered_in_parts_with_each_fill_once() {
    let (world, _, _, whole) = filled(600, usize::MAX);
    assert_eq!(world.parts, 0);
    let (mut world, [_, mut bob], _, parts) = filled(600, 7);
    assert_eq!(world.parts, (600 - 256) / 7);
    assert_eq!(parts, whole);
    let trades = parts["trades"].as_array().expect("a list");
    let numbers: Vec<u64> = trades.iter().map(|trade| trade["trade_seq"].as_u64().expect("a number")).collect();
    assert_eq!(numbers, (numbers[0]..numbers[0] + 600).collect::<Vec<_>>());
    assert_eq!((&parts["order"]["order_state"], &parts["order"]["filled_amount"]), (&json!("filled"), &json!(0.6)));
    // A repeated number enters nothing. Its answer comes in parts as well.
    world.parts = 0;
    let params = json!({"instrument_name": "BTC_USDC", "amount": 1.0, "price": 10.0, "client_order_id": "big"});
    assert_eq!(world.ok(&mut bob, "private/sell", params).result(), &whole);
    assert_eq!(world.parts, (600 - 256) / 7);
}

#[test]
fn outcome_has_only_the_fills_of_its_own_order_and_command() {
    let (mut world, [mut alice, mut bob], ..) = filled(300, 7);
    let rest = world.limit(&mut bob, "sell", "BTC_USDC", 0.002, 10.0);
    world.limit(&mut alice, "buy", "BTC_USDC", 0.001, 10.0);
    let edited = world.ok(&mut bob, "private/edit", json!({"order_id": rest, "amount": 0.005, "price": 10.0}));
    assert_eq!(edited.result()["trades"], json!([]));
    let bought = json!({"instrument_name": "BTC_USDC", "amount": 0.003, "price": 10.0});
    let bought = world.ok(&mut alice, "private/buy", bought);
    let fills: Vec<&Value> =
        bought.result()["trades"].as_array().expect("a list").iter().map(|fill| &fill["amount"]).collect();
    assert_eq!(fills, [&json!(0.003)]);
}

#[test]
fn lists_of_fills_and_closed_orders_are_the_same_in_parts_of_any_size() {
    let (mut world, [mut alice, mut bob], bought, sold) = filled(600, 100);
    let big = sold["order"]["order_id"].clone();
    let cases = [
        ("private/get_user_trades_by_order", json!({"order_id": big}), 600),
        ("private/get_user_trades_by_order", json!({"order_id": big, "sorting": "desc"}), 600),
        ("private/get_user_trades_by_instrument", json!({"instrument_name": "BTC_USDC", "count": 500}), 500),
        ("private/get_user_trades_by_currency", json!({"currency": "USDC", "count": 600, "sorting": "asc"}), 600),
        ("private/get_order_history_by_currency", json!({"currency": "USDC", "count": 500, "offset": 50}), 500),
        ("private/get_order_state_by_label", json!({"currency": "BTC", "label": ""}), 0),
    ];
    for (method, params, count) in cases {
        let session = if method.contains("order_history") || method.contains("label") { &mut alice } else { &mut bob };
        (world.parts, world.records_per_part) = (0, usize::MAX);
        let whole = world.call(session, method, params.clone());
        assert_eq!(world.parts, 0, "{method}");
        world.records_per_part = 7;
        let parts = world.call(session, method, params);
        assert_eq!(parts.text, whole.text, "{method}");
        if count == 0 {
            continue;
        }
        let list = parts.result().get("trades").unwrap_or(parts.result()).as_array().expect("a list").len();
        // 16 orders that the offset leaves out cost as much as a written one.
        let left_out = if method.contains("order_history") { 50 / 16 } else { 0 };
        assert_eq!((list, world.parts), (count, (count + left_out - 256) / 7), "{method}");
        if let Some(more) = parts.result().get("has_more") {
            assert_eq!(more, &json!(count < 600), "{method}");
        }
    }
    let newest = json!({"currency": "USDC", "count": 500, "offset": 50});
    let history = world.ok(&mut alice, "private/get_order_history_by_currency", newest);
    let expected: Vec<&str> = bought.iter().rev().skip(50).take(500).map(String::as_str).collect();
    assert_eq!(history.each("order_id"), expected);
}

#[test]
fn search_in_the_history_visits_a_bounded_number_of_records_in_each_part() {
    let (mut world, [mut alice, mut bob], ..) = filled(5_000, 1);
    let never = json!({"currency": "BTC", "start_timestamp": 1, "end_timestamp": 2});
    for (method, params) in [
        ("private/get_user_trades_by_currency", never),
        ("private/get_order_history_by_currency", json!({"currency": "ETH"})),
        ("private/get_order_state_by_label", json!({"currency": "BTC", "label": "nowhere"})),
        ("private/get_user_trades_by_order", json!({"order_id": "1"})),
    ] {
        let is_of_orders = method.contains("order_history") || method.contains("label");
        let session = if is_of_orders { &mut alice } else { &mut bob };
        world.parts = 0;
        let found = world.ok(session, method, params);
        assert_eq!(found.result().get("trades").unwrap_or(found.result()), &json!([]), "{method}");
        // The request visits 16 records for each of the 256 that it may write, and each part 16.
        assert_eq!(world.parts, (5_000_usize - 256 * 16) / 16, "{method}");
    }
}
