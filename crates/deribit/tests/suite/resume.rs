//! Resumption of private channels: from the replay buffer of this epoch, else from the account's
//! history.

use std::collections::BTreeMap;

use crate::common::{World, parsed};
use pitwire_deribit::codec::Interval;
use pitwire_deribit::{Effect, NoticeTexts, Session};
use pitwire_memory_venue::MemoryVenue;
use pitwire_model::VenueNanos;
use serde_json::{Value, json};

const FILLS: &str = "user.trades.any.any.raw";
const ORDERS: &str = "user.orders.NPN_ZAR.raw";
const SLOW_FILLS: &str = "user.trades.NPN_ZAR.100ms";

/// Subscribes with a token. Returns the replayed messages, and the notice that follows them.
#[track_caller]
fn come_back(world: &mut World, session: &mut Session, channel: &str, token: &Value) -> (Vec<Value>, Value) {
    let reply = world.ok(session, "private/subscribe", json!({"channels": [channel], "resume": {channel: token}}));
    let mut replayed: Vec<Value> = reply
        .effects
        .iter()
        .map(|effect| match effect {
            Effect::Send(text) => parsed(text)["params"].clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    let notice = replayed.pop().expect("a notice");
    (replayed, notice)
}

/// Records the events since the last call, and returns the messages that the session gets.
fn received(world: &mut World, session: &mut Session) -> Vec<Value> {
    let events = world.events();
    world.dispatcher.record(&world.venue.engine, &events);
    let received = received_of_recorded(world, session);
    world.venue.changes.clear();
    received
}

/// Returns the messages that the session gets for events that are recorded already. The events
/// stay, so that a second session can get its messages for them.
fn received_of_recorded(world: &World, session: &mut Session) -> Vec<Value> {
    let mut received = Vec::new();
    let MemoryVenue { engine, views, .. } = &world.venue;
    let mut send = |text: &[u8]| received.push(parsed(text)["params"].clone());
    session.notify((engine, views), &world.events(), &mut NoticeTexts::for_sessions(1), &mut send);
    world.dispatcher.send_resumable(session, engine, views, &mut send);
    received
}

fn window(world: &World, session: &mut Session) -> Vec<Value> {
    let mut received = Vec::new();
    let MemoryVenue { engine, views, .. } = &world.venue;
    session.send_window(Interval::Ms100, engine, views, &mut { usize::MAX }, &mut |text| {
        received.push(parsed(text)["params"].clone())
    });
    received
}

/// One account buys a lot from the other, and venue time advances by one nanosecond.
fn trade(world: &mut World, buyer: &mut Session, seller: &mut Session) {
    world.limit(buyer, "buy", "NPN_ZAR", 1.0, 3200.0);
    world.limit(seller, "sell", "NPN_ZAR", 1.0, 3200.0);
    world.venue.now = VenueNanos(world.venue.now.0 + 1);
}

fn fills(replayed: &[Value]) -> Vec<u64> {
    let fills = replayed.iter().flat_map(|params| params["data"].as_array().expect("a list").clone());
    fills.map(|fill| fill["trade_seq"].as_u64().expect("a number")).collect()
}

fn market() -> (World, Session, Session) {
    let mut world = World::new();
    world.dispatcher.begin_epoch(4, true);
    let (alice, bob) = (world.login("alice"), world.login("bob"));
    (world, alice, bob)
}

#[test]
fn each_message_carries_its_resume_token() {
    let (mut world, mut alice, mut bob) = market();
    let mut reader = world.login("alice");
    let start = world.venue.now.0;
    let (replayed, notice) = come_back(&mut world, &mut reader, ORDERS, &Value::Null);
    assert_eq!((replayed, &notice["by"], &notice["reason"]), (vec![], &json!("nothing"), &json!("new")));
    assert_eq!(notice["token"], format!("4:{start}"));
    trade(&mut world, &mut alice, &mut bob);
    trade(&mut world, &mut alice, &mut bob);
    // Each trade gives Alice three messages: entered, filled, and the fill. Two of them belong to
    // this channel.
    let replayed = received(&mut world, &mut reader);
    let tokens: Vec<&str> = replayed.iter().map(|params| params["token"].as_str().expect("a token")).collect();
    assert_eq!(tokens.len(), 4);
    for at in 0..4 {
        let mut back = world.login("alice");
        let (missed, notice) = come_back(&mut world, &mut back, ORDERS, &json!(tokens[at]));
        assert_eq!((&missed[..], &notice["resumed"]), (&replayed[at + 1..], &json!(true)));
        // The replay contained all messages up to now, so none is sent again.
        assert_eq!(received(&mut world, &mut back), Vec::<Value>::new());
    }
    // A token of another account is a position in time only: the reader gets its own messages.
    let mut other = world.login("bob");
    let (missed, notice) = come_back(&mut world, &mut other, ORDERS, &json!(tokens[0]));
    assert_eq!((missed.len(), &notice["by"], &notice["reason"]), (2, &json!("history"), &json!("too_old")));
    assert!(missed.iter().all(|params| params["data"]["direction"] == "sell"), "{missed:?}");
}

#[test]
fn merged_channel_sends_missed_changes_at_next_window() {
    let (mut world, mut alice, mut bob) = market();
    let mut reader = world.login("alice");
    let (_, begun) = come_back(&mut world, &mut reader, SLOW_FILLS, &Value::Null);
    trade(&mut world, &mut alice, &mut bob);
    assert_eq!(received(&mut world, &mut reader), Vec::<Value>::new());
    // Twice, the subscriber leaves before the window ends.
    let mut token = begun["token"].clone();
    for _ in 0..2 {
        let mut back = world.login("alice");
        let (missed, notice) = come_back(&mut world, &mut back, SLOW_FILLS, &token);
        assert_eq!((missed, &notice["resumed"]), (vec![], &json!(true)));
        token = notice["token"].clone();
        assert_eq!(token, begun["token"], "nothing of it is sent yet");
        trade(&mut world, &mut alice, &mut bob);
        received(&mut world, &mut back);
        reader = back;
    }
    let replayed = window(&world, &mut reader);
    assert_eq!(fills(&replayed), [1, 2, 3]);
    let mut back = world.login("alice");
    let (missed, notice) = come_back(&mut world, &mut back, SLOW_FILLS, &replayed[0]["token"]);
    assert_eq!((missed, &notice["token"]), (vec![], &replayed[0]["token"]));
    assert_eq!(window(&world, &mut back), Vec::<Value>::new());
}

#[test]
fn history_resumption_reports_its_end() {
    let (mut world, mut alice, mut bob) = market();
    let start = world.venue.now.0;
    for n in 0..1_005 {
        // The accounts alternate sides, because neither can sell a thousand.
        let (buyer, seller) = if n % 2 == 0 { (&mut alice, &mut bob) } else { (&mut bob, &mut alice) };
        trade(&mut world, buyer, seller);
    }
    // The first token is from the start, the last from 1,004 trades later.
    for (token, by, reason, expected) in [
        (format!("3:{}", start + 900), "history", "other_epoch", 901..1_006),
        (format!("4:{}", start + 900), "history", "too_old", 901..1_006),
        (format!("3:{}", start + 5), "history", "other_epoch", 6..1_006),
        (format!("3:{}", start + 4), "history", "too_much", 6..1_006),
        (format!("3:{}", start + 1_005), "history", "other_epoch", 0..0),
        (format!("5:{start}"), "nothing", "other_epoch", 0..0),
        (format!("4:{}", start + 1_006), "nothing", "unknown", 0..0),
    ] {
        let mut back = world.login("alice");
        let (replayed, notice) = come_back(&mut world, &mut back, FILLS, &json!(token));
        assert_eq!((&notice["by"], &notice["reason"]), (&json!(by), &json!(reason)), "{token}");
        assert_eq!(fills(&replayed), expected.collect::<Vec<u64>>(), "{token}");
        assert!(
            replayed
                .iter()
                .all(|params| params.get("token").is_none() && params["data"].as_array().unwrap().len() <= 100)
        );
    }
    // Orders in their current state, each once.
    let mut back = world.login("alice");
    let (replayed, notice) = come_back(&mut world, &mut back, ORDERS, &json!(format!("3:{}", start + 1_003)));
    assert_eq!(notice["reason"], "other_epoch");
    assert_eq!(
        replayed.iter().map(|params| params["data"]["order_state"].clone()).collect::<Vec<_>>(),
        ["filled", "filled"]
    );
    world.dispatcher.begin_epoch(4, false);
    let mut back = world.login("alice");
    let (replayed, notice) = come_back(&mut world, &mut back, FILLS, &json!(format!("3:{start}")));
    assert_eq!((replayed, &notice["by"]), (vec![], &json!("nothing")), "that start is not in the log");
}

/// Returns the fills of `user.changes` messages by number, and the last state of each order.
fn changes(replayed: &[Value]) -> (Vec<u64>, BTreeMap<String, String>) {
    let mut orders = BTreeMap::new();
    let mut fills = Vec::new();
    for params in replayed {
        let data = &params["data"];
        fills.extend(data["trades"].as_array().expect("a list").iter().map(|fill| fill["trade_seq"].as_u64().unwrap()));
        for order in data["orders"].as_array().expect("a list") {
            let text = |name: &str| order[name].as_str().expect("a text").to_owned();
            orders.insert(text("order_id"), text("order_state"));
        }
    }
    (fills, orders)
}

#[test]
fn user_changes_token_is_on_last_instrument() {
    let (mut world, mut alice, mut bob) = market();
    for channel in ["user.changes.any.any.raw", "user.changes.any.any.100ms"] {
        let mut reader = world.login("alice");
        let (_, begun) = come_back(&mut world, &mut reader, channel, &Value::Null);
        trade(&mut world, &mut alice, &mut bob);
        world.limit(&mut alice, "buy", "BTC_USDC", 0.001, 20_000.0);
        let is_merged = channel.ends_with("100ms");
        let replayed = received(&mut world, &mut reader);
        let replayed = if is_merged { window(&world, &mut reader) } else { replayed };
        assert_eq!(replayed.len(), 2, "{replayed:?}");
        assert!(replayed[0].get("token").is_none(), "a client that is cut off between the two has received neither");
        let token = &replayed[1]["token"];

        // A token from before the events replays all of them.
        let mut back = world.login("alice");
        let (missed, notice) = come_back(&mut world, &mut back, channel, &begun["token"]);
        assert_eq!((&notice["resumed"], &notice["by"]), (&json!(true), &json!("messages")));
        let missed = if is_merged { window(&world, &mut back) } else { missed };
        assert_eq!(missed, replayed);
        // A token from after the events replays none of them, and new events arrive once.
        let mut back = world.login("alice");
        let (missed, notice) = come_back(&mut world, &mut back, channel, token);
        assert_eq!((missed, &notice["token"]), (vec![], token));
        trade(&mut world, &mut alice, &mut bob);
        let replayed = received(&mut world, &mut back);
        let replayed = if is_merged { window(&world, &mut back) } else { replayed };
        let (fills, orders) = changes(&replayed);
        assert_eq!((fills.len(), orders.len()), (1, 1), "{replayed:?}");
        assert!(received(&mut world, &mut back).is_empty() && window(&world, &mut back).is_empty());
    }
}

#[test]
fn fills_precede_orders_next_to_resumable_channel() {
    let (mut world, mut alice, mut bob) = market();
    let (changes, slow) = ("user.changes.any.any.raw", "user.orders.any.any.100ms");
    let plain = json!({"channels": [ORDERS, FILLS, changes, slow]});
    let mut reference = world.login("alice");
    world.ok(&mut reference, "private/subscribe", plain.clone());
    for with_token in [FILLS, ORDERS, changes] {
        let mut reader = world.login("alice");
        world.ok(&mut reader, "private/subscribe", plain.clone());
        world.ok(&mut reader, "private/unsubscribe", json!({"channels": [with_token]}));
        come_back(&mut world, &mut reader, with_token, &Value::Null);
        for _ in 0..3 {
            trade(&mut world, &mut alice, &mut bob);
            world.limit(&mut alice, "buy", "BTC_USDC", 0.001, 20_000.0);
            let expected = received_of_recorded(&world, &mut reference);
            let mut replayed = received(&mut world, &mut reader);
            for params in &mut replayed {
                let token = params.as_object_mut().unwrap().remove("token");
                assert_eq!(
                    token.is_some(),
                    params["channel"] == with_token && !is_first_of_changes(params),
                    "{params}"
                );
            }
            // A subscriber without tokens gets the same messages in the same order.
            assert_eq!(replayed, expected, "{with_token}");
            let slow_of = |replayed: &[Value]| replayed.iter().map(|params| params["data"].clone()).collect::<Vec<_>>();
            assert_eq!(slow_of(&window(&world, &mut reader)), slow_of(&window(&world, &mut reference)));
        }
    }
}

/// Returns whether another message of `user.changes` follows this one.
fn is_first_of_changes(params: &Value) -> bool {
    params["data"]["instrument_name"] == "NPN_ZAR" && params["data"].get("trades").is_some()
}

#[test]
fn history_sends_fills_then_orders_per_instrument() {
    for channel in ["user.changes.any.any.raw", "user.changes.any.any.100ms"] {
        let (mut world, mut alice, mut bob) = market();
        let start = world.venue.now.0;
        for n in 0..150 {
            let (buyer, seller) = if n % 2 == 0 { (&mut alice, &mut bob) } else { (&mut bob, &mut alice) };
            trade(&mut world, buyer, seller);
        }
        world.limit(&mut alice, "buy", "BTC_USDC", 0.001, 20_000.0);
        world.venue.changes.clear();
        let mut back = world.login("alice");
        let (replayed, notice) = come_back(&mut world, &mut back, channel, &json!(format!("3:{}", start + 10)));
        assert_eq!((&notice["by"], &notice["reason"]), (&json!("history"), &json!("other_epoch")));
        let (fills, orders) = changes(&replayed);
        assert_eq!(fills, (11..151).collect::<Vec<u64>>());
        let open = orders.values().filter(|state| *state == "open").count();
        assert_eq!((orders.len(), open), (141, 1));
        assert!(replayed.iter().all(|params| {
            let of = |name: &str| params["data"][name].as_array().unwrap().len();
            params.get("token").is_none() && of("trades") <= 100 && of("orders") <= 100
        }));
        // After the history, the subscription sends the next events with tokens again.
        trade(&mut world, &mut alice, &mut bob);
        let replayed = received(&mut world, &mut back);
        let replayed = if channel.ends_with("100ms") { window(&world, &mut back) } else { replayed };
        assert_eq!(changes(&replayed).0, [151]);
        assert!(replayed[0]["token"].is_string());
    }
}

#[test]
fn connected_subscriber_gets_all_of_one_large_command() {
    let (mut world, mut alice, _bob) = market();
    for n in 0..1_200 {
        world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 100.0 + f64::from(n % 50));
    }
    world.venue.changes.clear();
    let mut back = world.login("alice");
    come_back(&mut world, &mut back, ORDERS, &Value::Null);
    world.ok(&mut alice, "private/cancel_all", json!({}));
    // The replay buffer keeps fewer messages than this.
    assert_eq!(received(&mut world, &mut back).len(), 1_200);
    assert!(received(&mut world, &mut back).is_empty());
}
