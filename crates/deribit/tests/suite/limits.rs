//! Rate limits, where the venue has them.

use crate::common::World;
use pitwire_deribit::{DialectLimits, Dispatcher, Effect, Session};
use pitwire_model::Event;
use pitwire_projections::Views;
use serde_json::json;

const TOO_MANY: i64 = 10028;

fn limited() -> World {
    let mut world = World::new();
    let dispatcher = std::mem::replace(&mut world.dispatcher, Dispatcher::new(Vec::new(), || [0; 32]));
    world.dispatcher = dispatcher.with_limits(DialectLimits::default());
    world
}

/// Returns how many of `tries` calls pass at one instant.
fn passes(world: &mut World, session: &mut Session, method: &str, params: &str, tries: u32) -> u32 {
    let params: serde_json::Value = serde_json::from_str(params).unwrap();
    (0..tries).map(|_| u32::from(world.call(session, method, params.clone()).code() != TOO_MANY)).sum()
}

const ORDER: &str = r#"{"instrument_name":"NPN_ZAR","amount":1,"price":2000}"#;

#[test]
fn each_request_class_has_its_burst() {
    for (method, params, burst) in [
        ("private/buy", ORDER, 20),
        ("private/cancel", r#"{"order_id":"1"}"#, 20),
        // The login used one of a hundred.
        ("private/get_open_orders", "{}", 100),
        ("public/subscribe", r#"{"channels":["ticker.NPN_ZAR.100ms"]}"#, 10),
        ("public/get_instruments", "{}", 50),
    ] {
        let mut world = limited();
        let mut alice = world.login("alice");
        assert_eq!(passes(&mut world, &mut alice, method, params, 90 + burst), burst, "{method}");
    }
}

#[test]
fn rate_refusal_names_retry_time_and_has_no_effect() {
    let mut world = limited();
    let mut alice = world.login("alice");
    passes(&mut world, &mut alice, "private/buy", ORDER, 20);
    let commands = world.venue.commands;
    let order: serde_json::Value = serde_json::from_str(ORDER).unwrap();
    let reply = world.call(&mut alice, "private/buy", order.clone());
    let error = &reply.value["error"];
    assert_eq!((&error["code"], &error["message"]), (&json!(TOO_MANY), &json!("too_many_requests")));
    assert_eq!(error["data"]["retry_after_ms"], 200);
    assert_eq!(reply.value["id"], 7, "the request's own id");
    assert!(reply.effects.is_empty());
    assert_eq!(world.venue.commands, commands);
    // Only the steady clock refills an allowance; the wall clock and venue time do not.
    world.wall_us += 3_600_000_000;
    world.venue.now.0 += 3_600_000_000_000;
    assert_eq!(world.call(&mut alice, "private/buy", order.clone()).code(), TOO_MANY);
    world.steady_ns += 200_000_000;
    assert_eq!(world.call(&mut alice, "private/buy", order).code(), 0);
}

#[test]
fn exhausted_order_limit_leaves_cancels_available() {
    let mut world = limited();
    let mut alice = world.login("alice");
    assert_eq!(passes(&mut world, &mut alice, "private/buy", ORDER, 30), 20);
    assert_eq!(*world.ok(&mut alice, "private/cancel_all", json!({})).result(), json!(20));
}

#[test]
fn account_has_one_allowance_across_connections() {
    let mut world = limited();
    let (mut alice, mut elsewhere, mut bob) = (world.login("alice"), world.login("alice"), world.login("bob"));
    assert_eq!(passes(&mut world, &mut alice, "private/buy", ORDER, 15), 15);
    assert_eq!(passes(&mut world, &mut elsewhere, "private/buy", ORDER, 15), 5);
    assert_eq!(passes(&mut world, &mut bob, "private/buy", ORDER, 15), 15, "another's is untouched");
    // Without a login each connection has its own allowance.
    let (mut one, mut two) = (world.connect(), world.connect());
    assert_eq!(passes(&mut world, &mut one, "public/get_time", "{}", 150), 100);
    assert_eq!(passes(&mut world, &mut two, "public/get_time", "{}", 100), 100);
}

/// The dialect's tiers by seven-day volume. Volume in other currencies than dollars does not count.
#[test]
fn seven_day_volume_raises_order_rate() {
    const DAY_NS: u64 = 86_400_000_000_000;
    let mut world = limited();
    world.venue.now.0 = 100 * DAY_NS + DAY_NS / 2;
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    let allowed = |world: &mut World, session: &mut Session| {
        let params = json!({"currency": "ZAR", "extended": true});
        let limits = world.ok(session, "private/get_account_summary", params).result()["limits"].clone();
        assert_eq!(limits["matching_engine"], limits["cancels"]);
        let (rate, burst) = (limits["matching_engine"]["rate"].clone(), limits["matching_engine"]["burst"].clone());
        (rate.as_u64().unwrap(), burst.as_u64().unwrap())
    };
    let trade = |world: &mut World, [seller, buyer]: [&mut Session; 2], instrument: &str, amount: f64, price: f64| {
        world.limit(seller, "sell", instrument, amount, price);
        world.limit(buyer, "buy", instrument, amount, price);
    };
    trade(&mut world, [&mut bob, &mut alice], "NPN_ZAR", 10.0, 3_250.0);
    trade(&mut world, [&mut bob, &mut alice], "BTC-PERPETUAL", 1_000_000.0, 60_000.0);
    assert_eq!(allowed(&mut world, &mut alice), (5, 20), "not above a million, and rands are no dollars");
    // A few more dollars on the next day, as the other side of the book.
    world.venue.now.0 += DAY_NS;
    trade(&mut world, [&mut alice, &mut bob], "BTC_USDC", 0.0001, 60_000.0);
    for session in [&mut alice, &mut bob] {
        assert_eq!(allowed(&mut world, session), (10, 30));
        world.steady_ns += 60_000_000_000;
        assert_eq!(passes(&mut world, session, "private/buy", ORDER, 60), 30);
        assert_eq!(passes(&mut world, session, "private/cancel", r#"{"order_id":"1"}"#, 60), 30);
        world.steady_ns += 1_000_000_000;
        assert_eq!(passes(&mut world, session, "private/buy", ORDER, 60), 10);
    }
    // The day of the million is the seventh and still counts; a day later it does not.
    world.venue.now.0 += 5 * DAY_NS;
    assert_eq!(allowed(&mut world, &mut alice), (10, 30));
    world.venue.now.0 += DAY_NS;
    assert_eq!(allowed(&mut world, &mut alice), (5, 20));
    world.steady_ns += 60_000_000_000;
    assert_eq!(passes(&mut world, &mut alice, "private/buy", ORDER, 60), 20);
}

/// An HTTP request without a login is counted by its address.
#[test]
fn requests_without_login_are_counted_by_address() {
    let mut world = limited();
    let mut passes = |address: &str| {
        let from = Some(address.parse().unwrap());
        let tries = (0..150).filter(|_| {
            let mut session = Session::new().coming_from(from);
            world.get(&mut session, "public/get_time", "").code() != TOO_MANY
        });
        tries.count()
    };
    assert_eq!((passes("10.0.0.1"), passes("::ffff:10.0.0.1"), passes("10.0.0.2")), (100, 0, 100));
}

#[test]
fn nonsense_counts_too() {
    let mut world = limited();
    let mut session = world.connect();
    let refused = (0..150).filter(|_| world.text(&mut session, "{").code() == TOO_MANY).count();
    assert_eq!(refused, 50);
    assert_eq!(world.text(&mut session, "{").code(), TOO_MANY);
}

#[test]
fn sustained_abuse_ends_the_connection_after_its_error() {
    let mut world = limited();
    let mut session = world.connect();
    for n in 0..200 {
        let reply = world.call(&mut session, "public/get_time", json!({}));
        assert!(reply.effects.is_empty(), "request {n}");
    }
    let reply = world.call(&mut session, "public/get_time", json!({}));
    assert_eq!(reply.code(), TOO_MANY, "answered all the same");
    assert!(matches!(&reply.effects[..], [Effect::Expel(why)] if why.contains("too many")), "{:?}", reply.effects);
}

#[test]
fn limits_are_reported_but_enforced_only_if_enabled() {
    for (mut world, enforced) in [(World::new(), false), (limited(), true)] {
        let mut alice = world.login("alice");
        let params = json!({"currency": "ZAR", "extended": true});
        let limits = world.ok(&mut alice, "private/get_account_summary", params).result()["limits"].clone();
        assert_eq!(limits["enforced"], enforced);
        assert_eq!(limits["matching_engine"], json!({"rate": 5, "burst": 20}));
        assert_eq!(limits["non_matching_engine"], json!({"rate": 20, "burst": 100}));
        let passed = passes(&mut world, &mut alice, "private/get_open_orders", "{}", 300);
        assert_eq!(passed == 300, !enforced);
    }
}

#[test]
fn account_without_own_limit_has_the_default_limit_of_open_orders() {
    let mut world = World::new();
    world.dispatcher = world.dispatcher.with_max_open_orders(2);
    let (mut alice, mut operator) = (world.login("alice"), world.login("operator"));
    let order = json!({"instrument_name": "NPN_ZAR", "amount": 1.0, "type": "limit", "price": 3000.0});
    let first = world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 3000.0);
    world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 3000.0);
    let refused = world.call(&mut alice, "private/buy", order.clone());
    assert_eq!((refused.code(), &refused.value["error"]["data"]["limit"]), (10013, &json!(2.0)), "{}", refused.text);
    world.ok(&mut alice, "private/cancel", json!({"order_id": first}));
    world.ok(&mut alice, "private/buy", order.clone());
    // An operator raises the limit of one account.
    world.ok(&mut operator, "private/pitwire_change_account", json!({"name": "alice", "max_open_orders": 3}));
    world.ok(&mut alice, "private/buy", order.clone());
    assert_eq!(world.call(&mut alice, "private/buy", order).code(), 10013);
}

/// One command trades at most once with each part, so this limit bounds what one command can do.
#[test]
fn iceberg_counts_as_its_parts_against_the_limit_of_open_orders() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    let order = |amount: f64, display_amount: f64| {
        let (instrument_name, price) = ("NPN_ZAR", 10.0);
        json!({"instrument_name": instrument_name, "price": price, "amount": amount, "display_amount": display_amount})
    };
    let small = world.call(&mut alice, "private/buy", order(1_000.0, 1.0));
    assert_eq!(small.value["error"]["data"]["name"], "display_out_of_range", "{}", small.text);
    world.dispatcher = world.dispatcher.with_max_open_orders(25);
    for _ in 0..2 {
        world.ok(&mut alice, "private/buy", order(10.0, 1.0));
    }
    let refused = world.call(&mut alice, "private/buy", order(10.0, 1.0));
    assert_eq!((refused.code(), &refused.value["error"]["data"]["limit"]), (10013, &json!(25.0)), "{}", refused.text);
    let third = world.ok(&mut alice, "private/buy", order(10.0, 2.0)).value["result"]["order"]["order_id"].clone();
    assert_eq!(world.call(&mut alice, "private/buy", order(1.0, 1.0)).code(), 10013, "all 25 parts are used");
    let larger = json!({"order_id": third, "amount": 11.0, "price": 10.0});
    assert_eq!(world.call(&mut alice, "private/edit", larger).code(), 10013, "an edit to six parts");
    let smaller = json!({"order_id": third, "amount": 8.0, "price": 10.0});
    world.ok(&mut alice, "private/edit", smaller);
    world.ok(&mut alice, "private/buy", order(1.0, 1.0));
    let everything = json!({"instrument_name": "NPN_ZAR", "type": "limit", "price": 10.0, "amount": 29.0});
    world.ok(&mut bob, "private/sell", everything);
    let trades = world.venue.events.iter().filter(|event| matches!(event, Event::Trade { .. })).count();
    assert_eq!(trades, 25);
    assert_eq!(world.ok(&mut alice, "private/get_open_orders", json!({})).value["result"], json!([]));
    world.ok(&mut alice, "private/buy", order(10.0, 1.0));
}

#[test]
fn waiting_stop_orders_have_a_default_limit() {
    let mut world = World::new();
    world.dispatcher = world.dispatcher.with_max_stop_orders(2);
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    let mut operator = world.login("operator");
    let stop = |trigger: f64| {
        json!({"instrument_name": "NPN_ZAR", "amount": 1.0, "type": "stop_limit", "trigger_price": trigger,
            "price": trigger, "trigger": "last_price"})
    };
    let far = world.ok(&mut alice, "private/buy", stop(3500.0)).value["result"]["order"]["order_id"].clone();
    world.ok(&mut alice, "private/buy", stop(3300.0));
    let refused = world.call(&mut alice, "private/buy", stop(3300.0));
    let error = &refused.value["error"];
    assert_eq!((refused.code(), &error["message"]), (11035, &json!("no_more_triggers")), "{}", refused.text);
    assert_eq!((&error["data"]["name"], &error["data"]["limit"]), (&json!("too_many_stop_orders"), &json!(2.0)));
    assert!(refused.text.contains("Cancel some; data.limit has how many are allowed."), "{}", refused.text);
    // Other orders and other accounts have their own limits, and a stop may be moved.
    world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 3000.0);
    let own = world.ok(&mut bob, "private/buy", stop(3600.0)).value["result"]["order"]["order_id"].clone();
    world.ok(&mut bob, "private/cancel", json!({"order_id": own}));
    let moved = json!({"order_id": far, "amount": 1.0, "price": 3400.0, "trigger_price": 3400.0});
    world.ok(&mut alice, "private/edit", moved);
    // A cancel frees one place.
    world.ok(&mut alice, "private/cancel", json!({"order_id": far}));
    world.ok(&mut alice, "private/buy", stop(3400.0));
    assert_eq!(world.call(&mut alice, "private/buy", stop(3400.0)).code(), 11035);
    // A trade at 3300 elects one stop, which then rests, and its later end frees no second place.
    world.limit(&mut bob, "sell", "NPN_ZAR", 1.0, 3300.0);
    world.limit(&mut operator, "buy", "NPN_ZAR", 1.0, 3300.0);
    world.ok(&mut alice, "private/buy", stop(3400.0));
    assert_eq!(world.call(&mut alice, "private/buy", stop(3400.0)).code(), 11035);
    world.limit(&mut bob, "sell", "NPN_ZAR", 1.0, 3300.0);
    assert_eq!(world.call(&mut alice, "private/buy", stop(3400.0)).code(), 11035, "the elected one traded");
    // The views of a snapshot count the same stops.
    let image = world.venue.views.image();
    world.venue.views = Views::from_image(image);
    assert_eq!(world.call(&mut alice, "private/buy", stop(3400.0)).code(), 11035, "after a restart");
    // The limit that an operator sets for the account replaces both defaults.
    world.ok(&mut operator, "private/pitwire_change_account", json!({"name": "alice", "max_open_orders": 4}));
    world.ok(&mut alice, "private/buy", stop(3400.0));
    assert_eq!(world.call(&mut alice, "private/buy", stop(3400.0)).code(), 10013);
}
