//! The end of connections: missed heartbeats, cancel on disconnect, and state that outlives a
//! connection.

use crate::common;
use crate::common::{World, parsed};
use pitwire_deribit::{AnswerProgress, Effect, Session};
use serde_json::{Value, json};

const SECOND: u64 = 1_000_000_000;

/// Runs the heartbeat and returns the messages it sends, or the reason for closing.
fn beat(world: &World, session: &mut Session) -> Result<Vec<Value>, String> {
    let mut sent = Vec::new();
    session.beat(world.steady_ns, &mut |text| sent.push(parsed(text))).map(|()| sent)
}

fn open(world: &mut World, name: &str) -> Vec<String> {
    let mut session = world.login(name);
    let reply = world.ok(&mut session, "private/get_open_orders", json!({}));
    reply.each("order_id").into_iter().map(String::from).collect()
}

fn disconnect(world: &mut World, session: &mut Session) {
    for mut cancel in world.dispatcher.disconnected(session, &world.venue.views) {
        world.finish(&mut cancel);
    }
}

// --- heartbeats ---

#[test]
fn connection_without_heartbeat_answer_is_closed() {
    let mut world = World::new();
    let mut session = world.connect();
    assert_eq!(session.beat_due_ns(), None, "no heartbeat without a request");
    world.ok(&mut session, "public/set_heartbeat", json!({"interval": 10}));
    assert_eq!(session.beat_due_ns(), Some(10 * SECOND));
    let heartbeat = |kind: &str| json!({"jsonrpc": "2.0", "method": "heartbeat", "params": {"type": kind}});
    for turn in 1..5 {
        world.steady_ns = turn * 10 * SECOND;
        assert_eq!(beat(&world, &mut session), Ok(vec![heartbeat("heartbeat"), heartbeat("test_request")]));
        assert_eq!(beat(&world, &mut session), Ok(vec![]), "once in an interval");
        world.ok(&mut session, "public/test", json!({}));
    }
    world.steady_ns = 50 * SECOND;
    assert_eq!(beat(&world, &mut session).unwrap().len(), 2);
    world.ok(&mut session, "public/get_time", json!({}));
    world.steady_ns = 60 * SECOND;
    let why = beat(&world, &mut session).unwrap_err();
    assert!(why.contains("public/test") && why.contains("10 s"), "{why}");
}

#[test]
fn a_heartbeat_can_be_changed_and_switched_off() {
    let mut world = World::new();
    let mut session = world.connect();
    world.ok(&mut session, "public/set_heartbeat", json!({"interval": "60"}));
    world.ok(&mut session, "public/set_heartbeat", json!({"interval": 30}));
    assert_eq!(session.beat_due_ns(), Some(30 * SECOND));
    world.ok(&mut session, "public/disable_heartbeat", json!({}));
    world.steady_ns = 1_000 * SECOND;
    assert_eq!((session.beat_due_ns(), beat(&world, &mut session)), (None, Ok(vec![])));
}

/// The wall clock may step by an hour without closing a connection.
#[test]
fn wall_clock_change_closes_no_connection() {
    let mut world = World::new();
    let mut session = world.connect();
    world.ok(&mut session, "public/set_heartbeat", json!({"interval": 10}));
    for wall_us in [common::WALL_US + 3_600_000_000, common::WALL_US - 3_600_000_000] {
        world.wall_us = wall_us;
        assert_eq!(beat(&world, &mut session), Ok(vec![]));
    }
}

// --- cancel on disconnect ---

#[test]
fn disconnect_cancels_only_own_orders() {
    let mut world = World::new();
    let (mut alice, mut elsewhere, mut bob) = (world.login("alice"), world.login("alice"), world.login("bob"));
    let mut http = Session::new();
    world.grant(&mut http, "alice");
    world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 2000.0);
    assert_eq!(*world.ok(&mut alice, "private/enable_cancel_on_disconnect", json!({})).result(), "ok");
    world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 2001.0);
    let kept = [
        world.limit(&mut elsewhere, "buy", "NPN_ZAR", 1.0, 2002.0),
        world.limit(&mut http, "buy", "NPN_ZAR", 1.0, 2003.0),
    ];
    let bobs = world.limit(&mut bob, "buy", "NPN_ZAR", 1.0, 2004.0);
    disconnect(&mut world, &mut alice);
    assert_eq!(open(&mut world, "alice"), kept);
    assert_eq!(open(&mut world, "bob"), std::slice::from_ref(&bobs));
    let past = json!({"instrument_name": "NPN_ZAR", "include_unfilled": true});
    let reply = world.ok(&mut elsewhere, "private/get_order_history_by_instrument", past);
    assert_eq!(reply.each("cancel_reason"), ["cancel_on_disconnect"; 2]);
    // Bob did not enable it.
    disconnect(&mut world, &mut bob);
    assert_eq!(open(&mut world, "bob"), [bobs]);
}

#[test]
fn logout_does_not_trigger_cancel_on_disconnect() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    world.ok(&mut alice, "private/enable_cancel_on_disconnect", json!({}));
    let id = world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 2000.0);
    assert_eq!(world.ok(&mut alice, "private/logout", json!({})).effects, [Effect::Close]);
    disconnect(&mut world, &mut alice);
    assert_eq!(open(&mut world, "alice"), [id]);
}

#[test]
fn disabled_cancel_on_disconnect_does_not_fire() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    world.ok(&mut alice, "private/enable_cancel_on_disconnect", json!({"scope": "connection"}));
    world.ok(&mut alice, "private/disable_cancel_on_disconnect", json!({"scope": "connection"}));
    let id = world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 2000.0);
    disconnect(&mut world, &mut alice);
    assert_eq!(open(&mut world, "alice"), [id]);
}

#[test]
fn account_default_applies_to_future_connections() {
    let mut world = World::new();
    let mut before = world.login("alice");
    world.ok(&mut before, "private/enable_cancel_on_disconnect", json!({"scope": "account"}));
    let is_enabled = |world: &mut World, session: &mut Session, scope: &str| {
        let reply = world.ok(session, "private/get_cancel_on_disconnect", json!({"scope": scope}));
        assert_eq!(reply.result()["scope"], scope);
        reply.result()["enabled"].as_bool().unwrap()
    };
    assert_eq!(
        (is_enabled(&mut world, &mut before, "connection"), is_enabled(&mut world, &mut before, "account")),
        (false, true)
    );
    let mut after = world.login("alice");
    assert!(is_enabled(&mut world, &mut after, "connection"));
    let kept = world.limit(&mut before, "buy", "NPN_ZAR", 1.0, 2000.0);
    world.limit(&mut after, "buy", "NPN_ZAR", 1.0, 2001.0);
    let mut bob = world.login("bob");
    assert!(!is_enabled(&mut world, &mut bob, "connection"), "bob's default is his own");
    disconnect(&mut world, &mut before);
    disconnect(&mut world, &mut after);
    assert_eq!(open(&mut world, "alice"), [kept]);
    let mut third = world.login("alice");
    world.ok(&mut third, "private/disable_cancel_on_disconnect", json!({"scope": "account"}));
    assert!(is_enabled(&mut world, &mut third, "connection"), "which it was when this one began");
    let mut fourth = world.login("alice");
    assert!(!is_enabled(&mut world, &mut fourth, "connection"));
}

#[test]
fn cancel_on_disconnect_is_per_account() {
    let mut world = World::new();
    let (alice, bob) = (world.token("alice"), world.token("bob"));
    let mut session = world.connect();
    world.ok(&mut session, "private/enable_cancel_on_disconnect", json!({"access_token": alice}));
    for token in [&alice, &bob] {
        let order = json!({"instrument_name": "NPN_ZAR", "amount": 1, "price": 2000, "access_token": token});
        world.ok(&mut session, "private/buy", order);
    }
    disconnect(&mut world, &mut session);
    assert_eq!((open(&mut world, "alice").len(), open(&mut world, "bob").len()), (0, 1));
}

/// A restart cancels the same orders, because no connection outlives it.
#[test]
fn orders_keep_cancel_on_disconnect_of_their_entry() {
    use pitwire_model::{Command, Epoch};
    let mut world = World::new();
    let mut alice = world.login("alice");
    let kept = world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 2000.0);
    world.ok(&mut alice, "private/enable_cancel_on_disconnect", json!({}));
    world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 2001.0);
    world.venue.must(Command::StartEpoch { epoch: Epoch(2) });
    assert_eq!(open(&mut world, "alice"), [kept]);
}

#[test]
fn journal_failure_on_disconnect_is_reported() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    world.ok(&mut alice, "private/enable_cancel_on_disconnect", json!({}));
    world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 2000.0);
    let mut cancels = world.dispatcher.disconnected(&mut alice, &world.venue.views);
    world.venue.log_fails = true;
    assert!(cancels[0].advance(&mut world.venue, 1, || 0).is_err());
}

#[test]
fn disconnect_cancels_many_orders_in_parts_and_no_later_one() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    world.ok(&mut alice, "private/enable_cancel_on_disconnect", json!({}));
    for _ in 0..40 {
        world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 2000.0);
    }
    let mut cancels = world.dispatcher.disconnected(&mut alice, &world.venue.views);
    let [cancel] = &mut cancels[..] else { panic!("one account, not {}", cancels.len()) };
    assert!(cancel.is_cancel() && cancel.is_outcome());
    let mut other = world.login("alice");
    let later = world.limit(&mut other, "buy", "NPN_ZAR", 1.0, 2000.0);
    let progress = cancel.advance(&mut world.venue, 15, || 0).expect("a log that works");
    assert!(matches!(progress, AnswerProgress::Unfinished));
    assert_eq!(open(&mut world, "alice").len(), 40 - 15 + 1);
    assert_eq!(world.finish(cancel)["result"], 40);
    assert_eq!(open(&mut world, "alice"), [later]);
}
