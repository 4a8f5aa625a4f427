//! Answers that are continued in parts: lists of many orders and mass cancels.

mod common;

use common::World;
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
