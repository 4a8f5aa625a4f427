//! `user.changes` and `user.portfolio`: changes by instrument, and account summaries.

use crate::common::{World, parsed};
use pitwire_deribit::Session;
use pitwire_deribit::codec::Interval;
use serde_json::{Value, json};

fn subscribe(world: &mut World, session: &mut Session, channels: &[&str]) {
    let reply = world.ok(session, "private/subscribe", json!({"channels": channels}));
    assert_eq!(*reply.result(), json!(channels));
    world.venue.changes.clear();
}

/// Returns the messages at the end of a window.
fn window(world: &World, session: &mut Session) -> Vec<Value> {
    let mut received = Vec::new();
    session.send_window(Interval::Ms100, &world.venue.engine, &world.venue.views, &mut { usize::MAX }, &mut |text| {
        received.push(parsed(text));
    });
    received
}

fn data(message: &Value) -> &Value {
    &message["params"]["data"]
}

#[test]
fn user_changes_groups_by_instrument() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    subscribe(&mut world, &mut alice, &["user.changes.any.any.raw", "user.changes.BTC-PERPETUAL.100ms"]);
    world.limit(&mut alice, "buy", "BTC-PERPETUAL", 100.0, 60_000.0);
    let received = world.received(&mut alice);
    assert_eq!(received.len(), 1);
    let first = data(&received[0]);
    assert_eq!(first["instrument_name"], "BTC-PERPETUAL");
    assert_eq!((first["orders"].as_array().map(Vec::len), &first["trades"]), (Some(1), &json!([])));
    assert_eq!(first["positions"], json!([]), "an order that rests is no position");
    world.venue.changes.clear();

    world.limit(&mut bob, "sell", "BTC-PERPETUAL", 40.0, 60_000.0);
    let received = world.received(&mut alice);
    let filled = data(&received[0]);
    assert_eq!(filled["trades"][0]["amount"], json!(40.0));
    assert_eq!(filled["orders"][0]["filled_amount"], json!(40.0));
    assert_eq!(filled["positions"][0]["size"], json!(40.0));
    world.venue.changes.clear();

    // The merged channel sends all of it once.
    let received = window(&world, &mut alice);
    assert_eq!(received.len(), 1);
    assert_eq!(data(&received[0])["trades"].as_array().map(Vec::len), Some(1));
    assert_eq!(data(&received[0])["orders"].as_array().map(Vec::len), Some(1));
    assert_eq!(window(&world, &mut alice), Vec::<Value>::new());
}

#[test]
fn portfolio_is_sent_at_once_and_on_change() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    subscribe(&mut world, &mut alice, &["user.portfolio.any", "user.portfolio.SOL", "user.portfolio.zar"]);
    assert!(alice.has_pending_window());
    let received = window(&world, &mut alice);
    let of = |received: &[Value], channel: &str| -> Vec<Value> {
        received
            .iter()
            .filter(|message| message["params"]["channel"] == channel)
            .map(|message| data(message).clone())
            .collect()
    };
    assert_eq!(of(&received, "user.portfolio.any").len(), 7, "one message per currency");
    assert_eq!(of(&received, "user.portfolio.SOL"), Vec::<Value>::new());
    assert_eq!(of(&received, "user.portfolio.zar")[0]["available_funds"], json!(1_000_000.0));
    assert!(!alice.has_pending_window());

    world.limit(&mut alice, "buy", "NPN_ZAR", 10.0, 3_000.0);
    world.received(&mut alice);
    world.venue.changes.clear();
    let received = window(&world, &mut alice);
    let any = of(&received, "user.portfolio.any");
    assert_eq!(any.len(), 1, "only the currency that moved");
    let zar = (&any[0]["currency"], &any[0]["available_funds"], &any[0]["spot_reserve"]);
    assert_eq!(zar, (&json!("ZAR"), &json!(970_000.0), &json!(30_000.0)));

    // Events of other accounts are not sent.
    let mut bob = world.login("bob");
    world.limit(&mut bob, "buy", "NPN_ZAR", 10.0, 2_000.0);
    world.received(&mut alice);
    assert_eq!(window(&world, &mut alice), Vec::<Value>::new());
}

#[test]
fn a_drop_copy_is_for_operators() {
    let mut world = World::new();
    let channels = json!({"channels": ["drop_copy.any"]});
    assert_eq!(world.call(&mut Session::new(), "public/subscribe", channels.clone()).code(), 10000);
    let mut alice = world.login("alice");
    assert_eq!(world.call(&mut alice, "private/subscribe", channels.clone()).code(), 13021);
    let mut operator = world.login("operator");
    assert_eq!(world.ok(&mut operator, "private/subscribe", channels).effects.len(), 1);
    let unknown = json!({"channels": ["drop_copy.unknown"]});
    assert_eq!(*world.ok(&mut operator, "private/subscribe", unknown).result(), json!([]));
}
