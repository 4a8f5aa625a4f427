//! Subscriptions and the messages of private channels.

use crate::common;
use crate::common::World;
use pitwire_deribit::codec::Interval;
use pitwire_deribit::{Effect, Session};
use serde_json::{Value, json};

fn subscribe(world: &mut World, session: &mut Session, channels: &[&str]) {
    let reply = world.ok(session, "private/subscribe", json!({"channels": channels}));
    assert_eq!(*reply.result(), json!(channels));
}

#[test]
fn failed_request_has_no_effect() {
    let mut world = World::new();
    let mut stranger = Session::new();
    for (channels, code) in [
        (json!(["ticker.NPN_ZAR.100ms", "user.orders.any.any.raw"]), 10000),
        (json!(["ticker.NPN_ZAR.100ms", "book.NPN_ZAR.raw"]), 13778),
        (json!(["user.orders.any.any.raw"]), 10000),
        (json!(["nonsense"]), -32602),
        (json!({"a": 1}), -32602),
    ] {
        let reply = world.call(&mut stranger, "public/subscribe", json!({"channels": channels}));
        assert_eq!((reply.code(), reply.effects), (code, vec![]), "{channels}");
    }
    // The failed request subscribed nothing, so the name is new now.
    let reply = world.ok(&mut stranger, "public/subscribe", json!({"channels": ["ticker.NPN_ZAR.100ms"]}));
    assert!(matches!(reply.effects[..], [Effect::Subscribe(..)]));

    // The names are valid, but too many. The refused request opens none of the channels.
    let mut alice = world.login("alice");
    let names: Vec<String> = (0..2_000).map(|n| format!("user.orders.any.X{n}.raw")).collect();
    assert_eq!(world.call(&mut alice, "private/subscribe", json!({"channels": names})).code(), 10028);
    assert!(!alice.has_private_channels());
}

#[test]
fn unknown_instruments_are_left_out_and_malformed_names_refused() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    for (channels, answer) in [
        (json!(["ticker.NO_ZAR.100ms"]), Ok(json!([]))),
        (json!(["quote.NPN_ZAR", "user.portfolio.any"]), Ok(json!(["quote.NPN_ZAR", "user.portfolio.any"]))),
        (json!(["incremental_ticker.NPN_ZAR", "perpetual.BTC-PERPETUAL.50ms"]), Ok(json!([]))),
        (json!(["trades.any.UNKNOWN.raw", "trades.spot.ZAR.raw"]), Ok(json!(["trades.spot.ZAR.raw"]))),
        (json!(["trades.share.ZAR.raw"]), Err(-32602)),
        (json!(["book.NPN_ZAR.none.10.raw"]), Err(-32602)),
        (json!(["book.NPN_ZAR.none.10.100ms"]), Ok(json!(["book.NPN_ZAR.none.10.100ms"]))),
        (json!(["ticker.NPN_ZAR.100ms", "ticker.NPN_ZAR.50ms"]), Ok(json!(["ticker.NPN_ZAR.100ms"]))),
        (json!(["ticker.AGL_ZAR.100ms", "ticker.AGL_ZAR.100ms"]), Ok(json!(["ticker.AGL_ZAR.100ms"]))),
        (json!("ticker.BTC_USDC.100ms"), Ok(json!(["ticker.BTC_USDC.100ms"]))),
        (json!(["user.orders.spot.ZAR.raw"]), Ok(json!(["user.orders.spot.ZAR.raw"]))),
        (json!(["user.trades.future_combo.SOL.100ms"]), Ok(json!(["user.trades.future_combo.SOL.100ms"]))),
        (json!(["user.orders.NO_ZAR.raw"]), Ok(json!([]))),
        (json!(["user.orders.share.any.raw"]), Err(-32602)),
        (json!(["user.orders.any.Z-R.raw"]), Err(-32602)),
        (json!(["user.orders.any.ABCDEFGHIJKLMNOPQ.raw"]), Err(-32602)),
        (json!(["user.trades.x y.any.agg2"]), Err(-32602)),
        (json!(["user.trades.any.any.50ms"]), Err(-32602)),
        (json!([""]), Err(-32602)),
    ] {
        let reply = world.call(&mut alice, "private/subscribe", json!({"channels": channels}));
        match answer {
            Ok(expected) => assert_eq!(*reply.result(), expected, "{channels}"),
            Err(code) => assert_eq!(reply.code(), code, "{channels}"),
        }
    }
}

/// A client that subscribes to a name in the wrong case gets no error and no messages. The answer
/// says so.
#[test]
fn channels_that_are_left_out_are_named_with_the_reason() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    for (channel, reason) in [
        ("ticker.npn_zar.100ms", "names are case-sensitive: ticker.NPN_ZAR.100ms"),
        ("book.Npn_Zar.none.10.100ms", "names are case-sensitive: book.NPN_ZAR.none.10.100ms"),
        ("trades.any.zar.raw", "names are case-sensitive: trades.any.ZAR.raw"),
        ("ticker.NO_ZAR.100ms", "no instrument is named \"NO_ZAR\"; public/get_instruments lists them"),
        ("incremental_ticker.NPN_ZAR", "this version does not serve this channel"),
        ("estimated_expiration_price.btc_usd", "this version does not serve this channel"),
        ("deribit_price_statistics.btc_usd", "this version does not serve this channel"),
        ("trades.any.UNKNOWN.raw", "the kind, currency, index or account"),
        ("ticker.NPN_ZAR.50ms", "no channel has this form"),
    ] {
        let reply = world.ok(&mut alice, "private/subscribe", json!({"channels": ["quote.NPN_ZAR", channel]}));
        assert_eq!(*reply.result(), json!(["quote.NPN_ZAR"]), "{channel}");
        let ignored = &reply.value["data"]["ignored"];
        assert_eq!((ignored.as_array().map(Vec::len), &ignored[0]["channel"]), (Some(1), &json!(channel)));
        assert!(ignored[0]["reason"].as_str().unwrap().starts_with(reason), "{}", reply.text);
    }
    // Alone, a name in the wrong case is a success without a channel, and a malformed one an error.
    let reply = world.ok(&mut alice, "private/subscribe", json!({"channels": ["ticker.npn_zar.100ms"]}));
    assert_eq!(
        (reply.result(), &reply.value["data"]["ignored"][0]["channel"]),
        (&json!([]), &json!("ticker.npn_zar.100ms"))
    );
    let reply = world.call(&mut alice, "private/subscribe", json!({"channels": ["Ticker.NPN_ZAR.100MS"]}));
    assert!(reply.text.contains("ticker.NPN_ZAR.100ms"), "{}", reply.text);
    // An answer that leaves nothing out has no such field, and a long list is cut.
    let reply = world.ok(&mut alice, "private/subscribe", json!({"channels": ["quote.NPN_ZAR"]}));
    assert_eq!(reply.value.get("data"), None);
    let many: Vec<String> = (0..100).map(|number| format!("ticker.X{number}.100ms")).collect();
    let reply = world.ok(&mut alice, "private/subscribe", json!({"channels": many}));
    assert_eq!(reply.value["data"]["ignored"].as_array().map(Vec::len), Some(20));
}

#[test]
fn connection_has_at_most_1000_channels() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    let names: Vec<String> = (0..999).map(|n| format!("user.orders.any.X{n}.raw")).collect();
    world.ok(&mut alice, "private/subscribe", json!({"channels": names}));
    world.ok(&mut alice, "private/subscribe", json!({"channels": ["ticker.NPN_ZAR.100ms"]}));
    let one_more = json!({"channels": ["ticker.AGL_ZAR.100ms"]});
    assert_eq!(world.call(&mut alice, "public/subscribe", one_more.clone()).code(), 10028);
    world.ok(&mut alice, "private/subscribe", json!({"channels": names}));
    world.ok(&mut alice, "public/unsubscribe", json!({"channels": ["user.orders.any.X5.raw"]}));
    assert_eq!(world.ok(&mut alice, "public/subscribe", one_more.clone()).effects.len(), 1);
    assert_eq!(world.ok(&mut alice, "public/subscribe", one_more.clone()).effects.len(), 0, "it is open already");
    let gone = world.ok(&mut alice, "public/unsubscribe", one_more.clone());
    assert_eq!(gone.effects, [Effect::Unsubscribe("ticker.AGL_ZAR.100ms".into())]);
    assert_eq!(world.ok(&mut alice, "public/subscribe", one_more).effects.len(), 1, "and here it is new again");
    let all = world.ok(&mut alice, "public/unsubscribe_all", json!({}));
    assert_eq!(all.effects, [Effect::UnsubscribeAll]);
    assert!(!alice.has_private_channels());
    world.ok(&mut alice, "private/subscribe", json!({"channels": names}));
}

/// Returns the channel and the main facts of each datum: a fill's liquidity, an order's state and
/// filled amount.
fn lines(received: &[Value]) -> Vec<String> {
    let datum = |item: &Value| match item["liquidity"].as_str() {
        Some(liquidity) => format!("{liquidity} {}@{}", item["amount"], item["price"]),
        None => format!("{} {}", item["order_state"].as_str().unwrap(), item["filled_amount"]),
    };
    let line = |message: &Value| {
        assert_eq!((&message["jsonrpc"], &message["method"]), (&json!("2.0"), &json!("subscription")));
        assert!(message.get("id").is_none(), "a notification has no id");
        let (channel, data) = (&message["params"]["channel"], &message["params"]["data"]);
        let data = match data.as_array() {
            Some(items) => format!("[{}]", items.iter().map(datum).collect::<Vec<_>>().join(", ")),
            None => datum(data),
        };
        format!("{} {data}", channel.as_str().unwrap())
    };
    received.iter().map(line).collect()
}

const BOTH: [&str; 2] = ["user.orders.any.any.raw", "user.trades.any.any.raw"];

#[test]
fn fills_are_sent_oldest_first_and_before_order_state() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    subscribe(&mut world, &mut alice, &BOTH);
    subscribe(&mut world, &mut bob, &BOTH);
    world.limit(&mut bob, "sell", "NPN_ZAR", 2.0, 3200.0);
    world.limit(&mut bob, "sell", "NPN_ZAR", 3.0, 3200.5);
    assert_eq!(lines(&world.received(&mut bob)), ["user.orders.any.any.raw open 0.0"; 2]);
    world.venue.changes.clear();
    world.limit(&mut alice, "buy", "NPN_ZAR", 4.0, 3200.5);
    // A second command in the same turn of the loop. Its fill is the newest in the book.
    world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 3200.5);
    assert_eq!(
        lines(&world.received(&mut alice)),
        [
            "user.trades.any.any.raw [T 2.0@3200.0]",
            "user.trades.any.any.raw [T 2.0@3200.5]",
            "user.orders.any.any.raw filled 4.0",
            "user.trades.any.any.raw [T 1.0@3200.5]",
            "user.orders.any.any.raw filled 1.0",
        ]
    );
    let maker = lines(&world.received(&mut bob));
    assert_eq!(maker[0], "user.trades.any.any.raw [M 2.0@3200.0]");
    assert_eq!(maker[1], "user.orders.any.any.raw filled 2.0");
    assert_eq!(maker[2], "user.trades.any.any.raw [M 2.0@3200.5]");
    assert_eq!(maker.last().unwrap(), "user.orders.any.any.raw filled 3.0");
    assert_eq!(maker.iter().filter(|line| line.contains('M')).count(), 3);
}

#[test]
fn private_channel_reaches_only_its_account() {
    let mut world = World::new();
    let (mut alice, mut bob, mut operator) = (world.login("alice"), world.login("bob"), world.login("operator"));
    subscribe(&mut world, &mut operator, &BOTH);
    subscribe(
        &mut world,
        &mut bob,
        &["user.orders.AGL_ZAR.raw", "user.trades.future.any.raw", "user.orders.spot.NPN.raw"],
    );
    world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 3000.0);
    world.limit(&mut bob, "buy", "NPN_ZAR", 1.0, 3000.0);
    assert_eq!(lines(&world.received(&mut operator)), Vec::<String>::new());
    assert_eq!(lines(&world.received(&mut alice)), Vec::<String>::new(), "who subscribes to nothing hears nothing");
    assert_eq!(lines(&world.received(&mut bob)), ["user.orders.spot.NPN.raw open 0.0"], "by its base, as lists do");
}

#[test]
fn self_trade_notifies_both_sides() {
    let mut world = World::new();
    let (mut alice, mut operator) = (world.login("alice"), world.login("operator"));
    world.ok(&mut operator, "private/pitwire_change_account", json!({"name": "alice", "self_match": "none"}));
    subscribe(&mut world, &mut alice, &BOTH);
    let maker = world.limit(&mut alice, "sell", "NPN_ZAR", 1.0, 3200.0);
    world.received(&mut alice);
    world.venue.changes.clear();
    let taker = world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 3200.0);
    let received = world.received(&mut alice);
    let fills: Vec<&Value> =
        received.iter().map(|message| &message["params"]["data"][0]).filter(|fill| !fill.is_null()).collect();
    let sides: Vec<[&str; 3]> = fills
        .iter()
        .map(|fill| ["liquidity", "direction", "order_id"].map(|key| fill[key].as_str().unwrap()))
        .collect();
    assert_eq!(sides, [["T", "buy", &taker], ["M", "sell", &maker]]);
    assert!(fills.iter().all(|fill| fill["self_trade"] == true && fill["trade_id"] == fills[0]["trade_id"]));
    assert_eq!(received.len(), 4, "two fills, two orders");
}

#[test]
fn merged_channel_sends_once_at_window_end() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    subscribe(
        &mut world,
        &mut alice,
        &["user.orders.any.any.100ms", "user.trades.any.any.100ms", "user.orders.any.any.agg2"],
    );
    let id = world.limit(&mut alice, "buy", "NPN_ZAR", 5.0, 3000.0);
    world.ok(&mut alice, "private/edit", json!({"order_id": id, "amount": 4}));
    world.limit(&mut bob, "sell", "NPN_ZAR", 1.0, 3000.0);
    world.limit(&mut bob, "sell", "NPN_ZAR", 2.0, 3000.0);
    assert_eq!(lines(&world.received(&mut alice)), Vec::<String>::new());
    let close = |world: &World, session: &mut Session, interval| {
        let mut received = Vec::new();
        session.send_window(interval, &world.venue.engine, &world.venue.views, &mut { usize::MAX }, &mut |text| {
            received.push(common::parsed(text))
        });
        lines(&received)
    };
    assert_eq!(
        close(&world, &mut alice, Interval::Ms100),
        ["user.trades.any.any.100ms [M 1.0@3000.0, M 2.0@3000.0]", "user.orders.any.any.100ms [open 3.0]"]
    );
    assert_eq!(close(&world, &mut alice, Interval::Ms100), Vec::<String>::new(), "nothing is sent twice");
    world.venue.changes.clear();
    world.ok(&mut alice, "private/cancel", json!({"order_id": id}));
    world.received(&mut alice);
    assert_eq!(close(&world, &mut alice, Interval::Agg2), ["user.orders.any.any.agg2 [cancelled 3.0]"]);
    assert_eq!(close(&world, &mut alice, Interval::Ms100), ["user.orders.any.any.100ms [cancelled 3.0]"]);
}

#[test]
fn changing_login_ends_private_channels_of_previous_account() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    let mut session = world.login("alice");
    subscribe(&mut world, &mut session, &["user.orders.any.any.raw", "user.orders.any.any.100ms"]);
    world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 3000.0);
    assert_eq!(world.received(&mut session).len(), 1);
    // A login of the same account keeps its channels, because that is how tokens are refreshed.
    world.grant(&mut session, "alice");
    assert!(session.has_private_channels());
    world.grant(&mut session, "bob");
    assert_eq!(world.received(&mut session), Vec::<Value>::new());
    let mut received = 0;
    session.send_window(Interval::Ms100, &world.venue.engine, &world.venue.views, &mut { usize::MAX }, &mut |_| {
        received += 1
    });
    assert_eq!(received, 0, "nor what a window had collected");
    subscribe(&mut world, &mut session, &["user.orders.any.any.raw"]);
    world.venue.changes.clear();
    world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 3000.0);
    assert_eq!(world.received(&mut session), Vec::<Value>::new());
    world.limit(&mut session, "buy", "NPN_ZAR", 1.0, 3000.0);
    assert_eq!(world.received(&mut session).len(), 1);
}

#[test]
fn channel_opened_with_token_belongs_to_token_account() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    let token = world.token("bob");
    let channels = json!(["user.orders.any.any.raw"]);
    world.ok(&mut alice, "private/subscribe", json!({"channels": channels, "access_token": token}));
    world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 3000.0);
    assert_eq!(world.received(&mut alice), Vec::<Value>::new());
    world.limit(&mut bob, "buy", "NPN_ZAR", 1.0, 3000.0);
    let received = world.received(&mut alice);
    assert_eq!((received.len(), &received[0]["params"]["data"]["user_id"]), (1, &json!(2)));
    world.ok(&mut alice, "private/unsubscribe", json!({"channels": channels}));
    assert!(!alice.has_private_channels());
}

#[test]
fn window_with_many_orders_is_sent_in_parts_of_bounded_size() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    subscribe(&mut world, &mut alice, &["user.orders.any.any.100ms", "user.changes.any.any.100ms"]);
    let entered: Vec<String> = (0..250).map(|_| world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 3000.0)).collect();
    world.received(&mut alice);
    let mut part = |world: &World, budget: usize| {
        let (mut left, mut ids, mut largest) = (budget, Vec::new(), 0);
        let mut send = |text: &[u8]| {
            let value = common::parsed(text);
            let data = &value["params"]["data"];
            let orders = data.as_array().or(data["orders"].as_array()).expect("a list of orders").clone();
            largest = largest.max(orders.len());
            ids.extend(orders.iter().map(|order| order["order_id"].as_str().expect("a text").to_owned()));
        };
        let is_done = alice.send_window(Interval::Ms100, &world.venue.engine, &world.venue.views, &mut left, &mut send);
        (is_done, ids, largest)
    };
    let (is_done, first, largest) = part(&world, 100);
    assert_eq!((is_done, first.len(), largest), (false, 100, 100), "a part ends with its budget");
    let (is_done, rest, largest) = part(&world, usize::MAX);
    assert_eq!((is_done, largest), (true, 100));
    let changes = [first, rest].concat();
    assert_eq!(changes, [entered.clone(), entered].concat(), "each channel gets each order once, in order");
    assert_eq!(part(&world, usize::MAX), (true, vec![], 0));
}
