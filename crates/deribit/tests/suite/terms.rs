//! Order parameters: time in force, post-only, icebergs, reduce-only, `client_order_id` and
//! `valid_until`, and the answers that repeat them.

use crate::common;
use crate::common::World;
use pitwire_deribit::Session;
use pitwire_model::{Command, InstrumentId, InstrumentLimits, Lots, OrderId, Phase};
use pitwire_projections::Views;
use serde_json::{Value, json};

/// An order for five shares at 3000.00 with additional parameters.
fn five(more: Value) -> Value {
    let mut params = json!({"instrument_name": "NPN_ZAR", "amount": 5, "type": "limit", "price": 3000});
    for (name, value) in more.as_object().expect("an object") {
        params[name] = value.clone();
    }
    params
}

fn buy(world: &mut World, session: &mut Session, more: Value) -> common::Reply {
    world.call(session, "private/buy", five(more))
}

#[track_caller]
fn id_of(reply: &common::Reply) -> String {
    reply.result()["order"]["order_id"].as_str().expect("a text").into()
}

// --- parameters as the engine receives them ---

#[test]
fn order_parameters_round_trip_through_engine() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    let reply = buy(
        &mut world,
        &mut alice,
        json!({"post_only": true, "max_show": 2, "label": "l",
        "client_order_id": "c-1", "time_in_force": "good_til_day"}),
    );
    let order = &reply.result()["order"];
    for (field, expected) in [
        ("post_only", json!(true)),
        ("reject_post_only", json!(false)),
        ("max_show", json!(2.0)),
        ("display_amount", json!(2.0)),
        ("client_order_id", json!("c-1")),
        ("time_in_force", json!("good_til_day")),
        ("queue_ahead", json!(0.0)),
        ("label", json!("l")),
        ("reduce_only", json!(false)),
    ] {
        assert_eq!(order[field], expected, "{field}");
    }
    let plain = buy(&mut world, &mut alice, json!({})).result()["order"].clone();
    for absent in ["reject_post_only", "display_amount", "client_order_id", "cancel_reason"] {
        assert_eq!(plain.get(absent), None, "{absent} of an order that never said so");
    }
    assert_eq!((&plain["post_only"], &plain["max_show"]), (&json!(false), &json!(5.0)));
    let shown_whole = buy(&mut world, &mut alice, json!({"display_amount": 5})).result()["order"].clone();
    assert_eq!(shown_whole.get("display_amount"), None, "an order that shows all of itself is no iceberg");
}

#[test]
fn queue_ahead_counts_lots_that_trade_first() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    world.limit(&mut bob, "buy", "NPN_ZAR", 7.0, 3000.0);
    let second = id_of(&buy(&mut world, &mut alice, json!({})));
    let third = buy(&mut world, &mut alice, json!({}));
    assert_eq!(third.result()["order"]["queue_ahead"], 12.0, "seven of bob's and five of her own");
    let state = world.ok(&mut alice, "private/get_order_state", json!({"order_id": second}));
    assert_eq!(state.result()["queue_ahead"], 7.0);
    let mut third_party = world.login("operator");
    world.limit(&mut third_party, "sell", "NPN_ZAR", 4.0, 3000.0);
    let open = world.ok(&mut alice, "private/get_open_orders", json!({}));
    let ahead: Vec<&Value> = open.result().as_array().unwrap().iter().map(|order| &order["queue_ahead"]).collect();
    assert_eq!(ahead, [&json!(3.0), &json!(8.0)]);
    let gone = world.ok(&mut alice, "private/cancel", json!({"order_id": second}));
    assert_eq!(gone.result().get("queue_ahead"), None, "a finished order has no queue");
}

// --- time in force, post-only, icebergs: by the order rules ---

#[test]
fn fill_or_kill_fills_completely_or_not_at_all() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    world.limit(&mut bob, "sell", "NPN_ZAR", 4.0, 3000.0);
    let reply = buy(&mut world, &mut alice, json!({"time_in_force": "fill_or_kill"}));
    let order = &reply.result()["order"];
    let order_fields =
        [&order["order_state"], &order["filled_amount"], &order["cancel_reason"], &order["time_in_force"]];
    assert_eq!(order_fields, [&json!("cancelled"), &json!(0.0), &json!("fill_or_kill"), &json!("fill_or_kill")]);
    assert_eq!(reply.result()["trades"], json!([]));
    world.limit(&mut bob, "sell", "NPN_ZAR", 1.0, 2999.0);
    let reply = buy(&mut world, &mut alice, json!({"time_in_force": "fill_or_kill"}));
    assert_eq!(reply.result()["order"]["order_state"], "filled");
    assert_eq!(reply.result()["trades"].as_array().unwrap().len(), 2);
}

#[test]
fn post_only_order_never_takes() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    world.limit(&mut bob, "sell", "NPN_ZAR", 4.0, 2999.5);
    let moved = buy(&mut world, &mut alice, json!({"post_only": true}));
    assert_eq!(moved.result()["order"]["price"], 2999.49, "one tick short of the best");
    let state = world.ok(&mut alice, "private/get_order_state", json!({"order_id": id_of(&moved)}));
    assert_eq!(state.result()["price"], 2999.49);
    let refused = buy(&mut world, &mut alice, json!({"post_only": true, "reject_post_only": true}));
    assert_eq!((refused.code(), &refused.value["error"]["data"]["param"]), (11054, &json!("post_only")));
    assert_eq!(refused.value["error"]["data"]["rule"], "order-rules: post-only");
    for tif in ["immediate_or_cancel", "fill_or_kill"] {
        let reply = buy(&mut world, &mut alice, json!({"post_only": true, "time_in_force": tif}));
        assert_eq!(reply.code(), 11055, "{tif}");
    }
    let market = json!({"instrument_name": "NPN_ZAR", "amount": 1, "type": "market", "post_only": true});
    assert_eq!(world.call(&mut alice, "private/buy", market).code(), 11055);
    let fills = world.ok(&mut alice, "private/get_user_trades_by_currency", json!({"currency": "ZAR"}));
    assert_eq!(fills.result()["trades"], json!([]));
}

#[test]
fn edit_keeps_post_only_and_display() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    world.limit(&mut bob, "sell", "NPN_ZAR", 4.0, 3010.0);
    let terms = json!({"post_only": true, "reject_post_only": true, "display_amount": 2});
    let id = id_of(&buy(&mut world, &mut alice, terms));
    let mut edit = |more: Value| {
        let mut params = more;
        params["order_id"] = json!(id);
        world.call(&mut alice, "private/edit", params)
    };
    assert_eq!(edit(json!({"price": 3010})).code(), 11054, "still post-only, still refused");
    let order = edit(json!({"amount": 6})).result()["order"].clone();
    assert_eq!((&order["post_only"], &order["max_show"]), (&json!(true), &json!(2.0)));
    let order = edit(json!({"display_amount": 3})).result()["order"].clone();
    assert_eq!((&order["max_show"], &order["replaced"]), (&json!(3.0), &json!(true)));
    assert_eq!(edit(json!({"display_amount": 7})).code(), 10024);
    assert_eq!(edit(json!({"display_amount": 0})).code(), 10024);
    let order = edit(json!({"price": 3010, "post_only": false})).result()["order"].clone();
    assert_eq!((&order["post_only"], &order["filled_amount"]), (&json!(false), &json!(4.0)));
}

#[test]
fn an_iceberg_shows_its_peak() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    buy(&mut world, &mut alice, json!({"display_amount": 2})).result();
    let bids = |world: &mut World| {
        let book = world.ok(&mut Session::new(), "public/get_order_book", json!({"instrument_name": "NPN_ZAR"}));
        book.result()["bids"].clone()
    };
    assert_eq!(bids(&mut world), json!([[3000.0, 2.0]]));
    world.limit(&mut bob, "sell", "NPN_ZAR", 2.0, 3000.0);
    assert_eq!(bids(&mut world), json!([[3000.0, 2.0]]), "the next part");
    world.limit(&mut bob, "sell", "NPN_ZAR", 2.0, 3000.0);
    assert_eq!(bids(&mut world), json!([[3000.0, 1.0]]), "what is left");
    for (shown, code) in [(0, 10024), (6, 10024)] {
        assert_eq!(buy(&mut world, &mut alice, json!({"display_amount": shown})).code(), code, "{shown}");
    }
    let immediate = json!({"display_amount": 2, "time_in_force": "immediate_or_cancel"});
    assert_eq!(buy(&mut world, &mut alice, immediate).code(), 10024);
}

// --- reduce-only ---

/// Alice is long 100, and Bob quotes both sides.
fn long_alice() -> (World, Session) {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    world.limit(&mut bob, "sell", "BTC-PERPETUAL", 500.0, 60_000.0);
    world.limit(&mut alice, "buy", "BTC-PERPETUAL", 100.0, 60_000.0);
    world.limit(&mut bob, "buy", "BTC-PERPETUAL", 500.0, 59_000.0);
    (world, alice)
}

#[test]
fn reduce_only_order_never_opens_position() {
    let (mut world, mut alice) = long_alice();
    let order = |more: Value| {
        let mut params = json!({"instrument_name": "BTC-PERPETUAL", "amount": 300, "reduce_only": true});
        for (name, value) in more.as_object().unwrap() {
            params[name] = value.clone();
        }
        params
    };
    let wrong_side = world.call(&mut alice, "private/buy", order(json!({"type": "market"})));
    assert_eq!((wrong_side.code(), &wrong_side.value["error"]["data"]["param"]), (11030, &json!("reduce_only")));
    let resting = world.ok(&mut alice, "private/sell", order(json!({"price": 61_000})));
    let order_fields = &resting.result()["order"];
    assert_eq!(
        [&order_fields["amount"], &order_fields["reduce_only"], &order_fields["order_state"]],
        [&json!(100.0), &json!(true), &json!("open")]
    );
    let id = order_fields["order_id"].clone();
    let edited = world.call(&mut alice, "private/edit", json!({"order_id": id, "amount": 50, "reduce_only": false}));
    assert_eq!((edited.code(), &edited.value["error"]["data"]["param"]), (11047, &json!("reduce_only")));
    world.ok(&mut alice, "private/cancel", json!({"order_id": id}));
    let tif = json!({"price": 59_000, "time_in_force": "immediate_or_cancel"});
    let reply = world.ok(&mut alice, "private/sell", order(tif));
    let order_fields = &reply.result()["order"];
    let expected = [&json!(100.0), &json!(100.0), &json!(true), &json!("filled")];
    assert_eq!(
        [
            &order_fields["amount"],
            &order_fields["filled_amount"],
            &order_fields["reduce_only"],
            &order_fields["order_state"]
        ],
        expected
    );
    // The history contains exactly what the private channels and the answer reported about the
    // order and its fill.
    let id = order_fields["order_id"].clone();
    let kept = world.ok(&mut alice, "private/get_order_state", json!({"order_id": id}));
    assert_eq!(kept.result()["reduce_only"], true);
    let by = json!({"instrument_name": "BTC-PERPETUAL"});
    let history = world.ok(&mut alice, "private/get_order_history_by_instrument", by.clone());
    let flags = |list: &Value| -> Vec<bool> {
        list.as_array().unwrap().iter().map(|one| one["reduce_only"].as_bool().unwrap()).collect()
    };
    assert_eq!(flags(history.result()), [true, false]);
    let fills = world.ok(&mut alice, "private/get_user_trades_by_instrument", by);
    assert_eq!(flags(&fills.result()["trades"]), [true, false]);
    assert_eq!(reply.result()["trades"][0]["reduce_only"], true);
    let flat = world.call(&mut alice, "private/sell", order(json!({"type": "market"})));
    assert_eq!(flat.code(), 11030);
}

#[test]
fn resting_reduce_only_order_shrinks_with_position_and_ends_with_it() {
    let (mut world, mut alice) = long_alice();
    let exit = json!({"instrument_name": "BTC-PERPETUAL", "amount": 100, "price": 61_000, "reduce_only": true});
    let exit = world.ok(&mut alice, "private/sell", exit);
    let id = exit.result()["order"]["order_id"].clone();
    let state = |world: &mut World, alice: &mut Session| {
        let state = world.ok(alice, "private/get_order_state", json!({"order_id": id}));
        let order = state.result();
        (order["amount"].clone(), order["order_state"].clone(), order["cancel_reason"].clone())
    };
    let sell = |amount: u32| json!({"instrument_name": "BTC-PERPETUAL", "amount": amount, "type": "market"});
    world.ok(&mut alice, "private/sell", sell(70));
    assert_eq!(state(&mut world, &mut alice), (json!(30.0), json!("open"), Value::Null));
    world.ok(&mut alice, "private/sell", sell(30));
    assert_eq!(state(&mut world, &mut alice), (json!(30.0), json!("cancelled"), json!("reduce_only")));
}

// --- client_order_id ---

#[test]
fn resent_client_order_id_returns_first_order() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    let numbered = || json!({"client_order_id": "k-1"});
    let id = id_of(&buy(&mut world, &mut alice, numbered()));
    let commands = world.venue.commands;
    let again = buy(&mut world, &mut alice, numbered());
    assert_eq!((id_of(&again), &again.result()["trades"]), (id.clone(), &json!([])));
    world.limit(&mut bob, "sell", "NPN_ZAR", 2.0, 3000.0);
    world.limit(&mut bob, "sell", "NPN_ZAR", 1.0, 3000.0);
    // Only the id counts: a second order with it returns the first one, also over another
    // connection and with other parameters.
    let mut elsewhere = world.login("alice");
    for more in [numbered(), json!({"client_order_id": "k-1", "amount": 9, "valid_until": 1})] {
        let again = buy(&mut world, &mut elsewhere, more);
        assert_eq!(id_of(&again), id);
        assert_eq!(again.result()["order"]["filled_amount"], 3.0, "as it stands now");
        let amounts: Vec<_> = again.result()["trades"].as_array().unwrap().iter().map(|fill| &fill["amount"]).collect();
        assert_eq!(amounts, [&json!(2.0), &json!(1.0)], "with all its fills");
    }
    let sold = world.call(&mut alice, "private/sell", five(numbered()));
    assert_eq!(sold.result()["order"]["direction"], "buy");
    assert_eq!(world.venue.commands, commands + 2, "bob's two orders and nothing else");
    assert_ne!(id_of(&buy(&mut world, &mut bob, numbered())), id, "bob's numbers are his own");
    world.ok(&mut alice, "private/cancel_all", json!({}));
    assert_eq!(buy(&mut world, &mut alice, numbered()).result()["order"]["order_state"], "cancelled");
    // After a restart the venue finds the order in its projections.
    world.venue.views = Views::from_image(world.venue.views.image());
    let commands = world.venue.commands;
    assert_eq!(id_of(&buy(&mut world, &mut alice, numbered())), id);
    world.venue.takes_orders = false;
    assert_eq!(id_of(&buy(&mut world, &mut alice, numbered())), id, "an answer needs no market");
    assert_eq!(world.venue.commands, commands);
}

#[test]
fn client_order_id_of_refused_order_is_free() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    let refused = buy(&mut world, &mut alice, json!({"client_order_id": "k", "amount": 900}));
    assert_eq!(refused.code(), 10009);
    assert_eq!(buy(&mut world, &mut alice, json!({"client_order_id": "k"})).code(), 0);
    for (long, code) in [("é".repeat(32), 0), ("é".repeat(33), -32602), ("x".repeat(65), -32602)] {
        let reply = buy(&mut world, &mut alice, json!({"client_order_id": long}));
        assert_eq!(reply.code(), code, "{long}");
    }
}

// --- valid_until ---

#[test]
fn expired_valid_until_never_reaches_market() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    let id = world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 2000.0);
    let commands = world.venue.commands;
    let read_ms = common::WALL_US / 1000;
    // An order must arrive before `valid_until`. The same millisecond is too late.
    for late in [read_ms - 1, read_ms] {
        let reply = buy(&mut world, &mut alice, json!({"valid_until": late}));
        assert_eq!((reply.code(), &reply.value["error"]["message"]), (13888, &json!("timed_out")), "{late}");
        let edit = json!({"order_id": id, "amount": 2, "valid_until": late});
        assert_eq!(world.call(&mut alice, "private/edit", edit).code(), 13888);
    }
    assert_eq!(world.venue.commands, commands);
    assert_eq!(buy(&mut world, &mut alice, json!({"valid_until": read_ms + 1})).code(), 0);
    // `valid_until` is compared with the wall clock, not with venue time.
    world.wall_us += 3_600_000_000;
    assert_eq!(buy(&mut world, &mut alice, json!({"valid_until": read_ms + 1})).code(), 13888);
}

// --- refusals ---

#[test]
fn refusal_names_the_limit() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    let limits =
        InstrumentLimits { max_lots: Some(Lots(50)), max_notional_units: Some(1_000_000), collar_bps: Some(500) };
    world.venue.must(Command::SetInstrumentLimits { instrument: InstrumentId(0), limits });
    for (side, more, code, limit, rule) in [
        ("buy", json!({"amount": 51}), 11022, 50.0, "order-rules: limits"),
        ("buy", json!({"amount": 4}), 10015, 10_000.0, "order-rules: notional"),
        // 5 % above and below the start price of 3200.00.
        ("buy", json!({"amount": 1, "price": 3360.01}), 10007, 3360.0, "order-rules: collar"),
        ("sell", json!({"amount": 1, "price": 3039.99}), 10005, 3040.0, "order-rules: collar"),
    ] {
        let reply = world.call(&mut alice, &format!("private/{side}"), five(more.clone()));
        let data = &reply.value["error"]["data"];
        assert_eq!((reply.code(), &data["limit"], &data["rule"]), (code, &json!(limit), &json!(rule)), "{more}");
        assert!(data["remedy"].is_string() && data["param"].is_string());
    }
    world.venue.must(Command::SetPhase { instrument: InstrumentId(0), phase: Phase::Halted });
    let reply = buy(&mut world, &mut alice, json!({}));
    assert_eq!((reply.code(), &reply.value["error"]["data"]["rule"]), (10012, &json!("order-rules: phase")));
}

#[test]
fn an_order_carries_the_number_of_its_connection() {
    let mut world = World::new();
    let (mut first, mut second) = (world.login("alice"), world.login("alice"));
    let session = |world: &World, id: &str| world.venue.engine.order(OrderId(id.parse().unwrap())).unwrap().session;
    let one = world.limit(&mut first, "buy", "NPN_ZAR", 1.0, 2000.0);
    let two = world.limit(&mut second, "buy", "NPN_ZAR", 1.0, 2000.0);
    assert!(session(&world, &one) < session(&world, &two), "numbers grow");
    let mut http = Session::new();
    world.grant(&mut http, "alice");
    let params = five(json!({"price": 2000}));
    let three = id_of(&world.call(&mut http, "private/buy", params));
    assert_eq!(session(&world, &three).0, 0, "an HTTP order belongs to no connection");
    assert_eq!(world.venue.engine.last_session(), session(&world, &two));
}
