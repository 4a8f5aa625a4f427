//! Logins, tokens and headers, and connections that change their login.

use crate::common;
use crate::common::World;
use pitwire_deribit::Session;
use serde_json::{Value, json};

const NOT_LOGGED_IN: i64 = 10000;
const BAD_TOKEN: i64 = 13009;

/// Returns the name of the account for which a call is made.
fn who(world: &mut World, session: &mut Session, params: Value) -> String {
    let reply = world.call(session, "private/get_account_summaries", params);
    match reply.code() {
        0 => reply.result()["username"].as_str().unwrap().into(),
        code => code.to_string(),
    }
}

#[test]
fn a_token_in_the_parameters_decides_its_one_call() {
    let mut world = World::new();
    let (alice, bob) = (world.token("alice"), world.token("bob"));
    let mut session = Session::new();
    for (token, expected) in [
        (Some(alice.as_str()), "alice"),
        (None, "10000"),
        (Some(bob.as_str()), "bob"),
        (Some("stale"), "13009"),
        (Some(""), "13009"),
        (Some(alice.as_str()), "alice"),
    ] {
        let params = token.map_or(json!({}), |token| json!({"access_token": token}));
        assert_eq!(who(&mut world, &mut session, params), expected, "{token:?} without a login");
    }
    world.grant(&mut session, "alice");
    for (token, expected) in [(Some(bob.as_str()), "bob"), (Some("stale"), "13009"), (None, "alice")] {
        let params = token.map_or(json!({}), |token| json!({"access_token": token}));
        assert_eq!(who(&mut world, &mut session, params), expected, "{token:?} on alice's connection");
    }
    let nested = json!({"access_token": {"a": 1}});
    assert_eq!(world.call(&mut session, "private/get_open_orders", nested).code(), -32602);
}

#[test]
fn an_order_goes_to_the_account_of_its_token() {
    let mut world = World::new();
    let (alice, bob) = (world.token("alice"), world.token("bob"));
    let mut session = Session::new();
    for (token, user) in [(&alice, 1), (&bob, 2)] {
        let params = json!({"instrument_name": "NPN_ZAR", "amount": 1, "price": 3000, "access_token": token});
        let reply = world.ok(&mut session, "private/buy", params);
        assert_eq!(reply.result()["order"]["user_id"], user);
    }
}

#[test]
fn expired_token_does_not_block_public_methods() {
    let mut world = World::new();
    let mut session = Session::new();
    for (method, params) in [
        ("public/get_time", json!({"access_token": "stale"})),
        ("public/subscribe", json!({"access_token": "stale", "channels": ["ticker.NPN_ZAR.100ms"]})),
    ] {
        world.ok(&mut session, method, params);
    }
    for channel in ["ticker.NPN_ZAR.raw", "user.orders.any.any.raw"] {
        let params = json!({"access_token": "stale", "channels": [channel]});
        assert_eq!(world.call(&mut session, "public/subscribe", params).code(), BAD_TOKEN, "{channel}");
    }
}

#[test]
fn expired_header_is_reported_only_by_private_methods() {
    let mut world = World::new();
    let mut first = Session::new();
    let granted = world.grant(&mut first, "alice");
    let refresh = granted["refresh_token"].as_str().unwrap().to_owned();
    for (text, code) in [("Bearer stale", BAD_TOKEN), ("Basic YTp4", 13004), ("Magic x", 13004)] {
        let mut session = world.by_header(text);
        assert_eq!(world.get(&mut session, "private/get_open_orders", "").code(), code, "{text}");
        assert_eq!(world.get(&mut session, "public/get_time", "").code(), 0, "{text}");
    }
    let good = format!("Bearer {}", granted["access_token"].as_str().unwrap());
    let mut of_another_venue = World::new().by_header(&good);
    assert_eq!(who(&mut world, &mut of_another_venue, json!({})), BAD_TOKEN.to_string());
    let mut session = world.by_header(&good);
    assert_eq!(who(&mut world, &mut session, json!({})), "alice");
    let token = world.token("bob");
    let mut stale = world.by_header("Bearer stale");
    assert_eq!(who(&mut world, &mut stale, json!({"access_token": token})), "bob", "the token decides");

    // The client sends its expired token in the header of the request for a new one.
    let query = format!("grant_type=refresh_token&refresh_token={refresh}");
    let reply = world.get(&mut stale, "public/auth", &query);
    let fresh = reply.result()["access_token"].as_str().unwrap().to_owned();
    let mut session = world.by_header(&format!("Bearer {fresh}"));
    assert_eq!(who(&mut world, &mut session, json!({})), "alice");
}

#[test]
fn a_refresh_token_is_spent_when_used() {
    let mut world = World::new();
    let mut session = Session::new();
    let first = world.grant(&mut session, "alice");
    let grant = json!({"grant_type": "refresh_token", "refresh_token": first["refresh_token"]});
    let second = world.ok(&mut session, "public/auth", grant.clone()).result().clone();
    let first_again = grant;
    assert_ne!(second["refresh_token"], first["refresh_token"]);
    let grant = json!({"grant_type": "refresh_token", "refresh_token": second["refresh_token"]});
    world.ok(&mut session, "public/auth", grant);
    let grant = json!({"grant_type": "refresh_token", "refresh_token": second["access_token"]});
    assert_eq!(world.call(&mut session, "public/auth", grant).code(), BAD_TOKEN, "an access token refreshes nothing");
    assert_eq!(world.call(&mut session, "public/auth", first_again).code(), BAD_TOKEN);
}

#[test]
fn failed_auth_spends_nothing() {
    let mut world = World::new();
    let refresh = world.grant(&mut Session::new(), "alice")["refresh_token"].clone();
    let mut session = Session::new();
    let grant = json!({"grant_type": "refresh_token", "refresh_token": refresh, "scope": {}});
    assert_eq!(world.call(&mut session, "public/auth", grant).code(), -32602);
    assert_eq!(world.call(&mut session, "private/get_open_orders", json!({})).code(), NOT_LOGGED_IN);
    let grant = json!({"grant_type": "refresh_token", "refresh_token": refresh});
    world.ok(&mut session, "public/auth", grant);
}

#[test]
fn tokens_live_for_900_seconds() {
    let mut world = World::new();
    let granted = world.grant(&mut Session::new(), "alice");
    assert_eq!(granted["expires_in"], 900);
    for (seconds, expected) in [(899, "alice"), (901, "13009")] {
        world.steady_ns = seconds * 1_000_000_000;
        // The lifetime follows the steady clock. The wall clock is set back by as much.
        world.wall_us = common::WALL_US - seconds * 1_000_000;
        let params = json!({"access_token": granted["access_token"]});
        assert_eq!(who(&mut world, &mut Session::new(), params), expected, "after {seconds} s");
    }
    world.steady_ns = 3_600_000_000_000;
    let grant = json!({"grant_type": "refresh_token", "refresh_token": granted["refresh_token"]});
    world.ok(&mut Session::new(), "public/auth", grant);
}

#[test]
fn logout_revokes_tokens_by_default() {
    for (params, expected) in [
        (json!({}), "13009"),
        (json!({"invalidate_token": true}), "13009"),
        (json!({"invalidate_token": "false"}), "alice"),
    ] {
        let mut world = World::new();
        let elsewhere = world.token("alice");
        let mut session = Session::new();
        let first = world.grant(&mut session, "alice");
        let second = world.grant(&mut session, "alice");
        world.ok(&mut session, "private/logout", params.clone());
        for granted in [&first, &second] {
            let token = json!({"access_token": granted["access_token"]});
            assert_eq!(who(&mut world, &mut Session::new(), token), expected, "{params}");
        }
        let refresh = json!({"grant_type": "refresh_token", "refresh_token": first["refresh_token"]});
        let refreshed = world.call(&mut Session::new(), "public/auth", refresh).code();
        assert_eq!(refreshed == 0, expected == "alice", "{params}");
        let token = json!({"access_token": elsewhere});
        assert_eq!(who(&mut world, &mut Session::new(), token), "alice", "another connection's token lives on");
    }
}

#[test]
fn failed_logout_keeps_login() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    assert_eq!(world.call(&mut alice, "private/logout", json!({"invalidate_token": "x"})).code(), -32602);
    assert_eq!(who(&mut world, &mut alice, json!({})), "alice");
}

#[test]
fn the_answer_to_a_login_names_its_scope() {
    let mut world = World::new();
    for (name, scope, starts, operates) in
        [("alice", "session:test", "session:test ", false), ("operator", "", "connection ", true)]
    {
        let grant = json!({"grant_type": "client_credentials", "client_id": name,
            "client_secret": format!("{name}-secret"), "scope": scope, "timestamp": 5, "nonce": "x"});
        let reply = world.ok(&mut Session::new(), "public/auth", grant);
        let scope = reply.result()["scope"].as_str().unwrap();
        assert!(scope.starts_with(starts) && scope.contains("trade:read_write"), "{scope}");
        assert_eq!(scope.contains("operator:"), operates, "{scope}");
    }
}
