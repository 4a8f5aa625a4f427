//! Scopes, sessions, addresses and token life, and signatures that are used twice.

use std::net::IpAddr;

use crate::common::World;
use pitwire_deribit::{Authorization, Dispatcher, Session, SignedRequest};
use serde_json::{Value, json};

const BAD_TOKEN: i64 = 13009;
const SCOPE_EXCEEDED: i64 = 13403;
const FORBIDDEN: i64 = 13021;

fn grant(world: &mut World, session: &mut Session, name: &str, scope: &str) -> Value {
    let params = json!({"grant_type": "client_credentials", "client_id": name,
        "client_secret": format!("{name}-secret"), "scope": scope});
    world.ok(session, "public/auth", params).result().clone()
}

fn with_scope(world: &mut World, scope: &str) -> Session {
    let mut session = world.connect();
    grant(world, &mut session, "alice", scope);
    session
}

/// Returns the code of a call with this token on a new connection.
fn by_token(world: &mut World, granted: &Value) -> i64 {
    let params = json!({"access_token": granted["access_token"]});
    world.call(&mut Session::new(), "private/get_open_orders", params).code()
}

#[test]
fn a_call_outside_the_scope_is_refused() {
    let order = json!({"instrument_name": "NPN_ZAR", "amount": 1, "price": 2000});
    let channels = |name: &str| json!({"channels": [name]});
    for (scope, method, params, refused) in [
        ("trade:read", "private/buy", order.clone(), true),
        ("trade:read", "private/cancel_all", json!({}), true),
        ("trade:read", "private/get_open_orders", json!({}), false),
        ("trade:read", "private/get_account_summaries", json!({}), false),
        ("trade:none", "private/get_open_orders", json!({}), true),
        ("trade:none", "private/subscribe", channels("user.orders.any.any.raw"), true),
        ("trade:none", "private/subscribe", channels("user.portfolio.any"), false),
        ("account:none", "private/subscribe", channels("user.portfolio.any"), true),
        ("account:none", "private/get_account_summaries", json!({}), true),
        ("account:none", "private/buy", order.clone(), false),
        ("account:read", "private/enable_cancel_on_disconnect", json!({}), true),
        ("account:read", "private/get_cancel_on_disconnect", json!({}), false),
        ("", "private/buy", order.clone(), false),
        ("trade:none account:none", "private/logout", json!({}), false),
    ] {
        let mut world = World::new();
        let mut session = with_scope(&mut world, scope);
        let commands = world.venue.commands;
        let reply = world.call(&mut session, method, params);
        assert_eq!(reply.code(), if refused { SCOPE_EXCEEDED } else { 0 }, "{scope}: {method} {}", reply.text);
        assert!(!refused || world.venue.commands == commands);
    }
    let mut world = World::new();
    let granted = grant(&mut world, &mut Session::new(), "alice", "trade:read");
    let header = format!("Bearer {}", granted["access_token"].as_str().unwrap());
    let mut session = world.by_header(&header);
    let reply = world.get(&mut session, "private/buy", "instrument_name=NPN_ZAR&amount=1&price=2000");
    assert_eq!(reply.code(), FORBIDDEN, "the number that HTTP clients know");
    assert!(reply.value["error"]["data"]["reason"].as_str().unwrap().contains("trade:read_write"));
}

#[test]
fn login_and_refresh_never_widen_access() {
    let mut world = World::new();
    let granted = grant(&mut world, &mut Session::new(), "alice", "operator:read_write wallet:read_write trade:read");
    assert_eq!(granted["scope"], "connection account:read_write trade:read wallet:read");
    let mut session = world.connect();
    let params = json!({"grant_type": "refresh_token", "refresh_token": granted["refresh_token"],
        "scope": "trade:read_write"});
    let again = world.ok(&mut session, "public/auth", params).result().clone();
    assert_eq!(again["scope"], "connection account:read_write trade:read wallet:read");
    let operator = grant(&mut world, &mut Session::new(), "operator", "operator:none");
    assert!(!operator["scope"].as_str().unwrap().contains("operator"));
    let mut session = world.connect();
    grant(&mut world, &mut session, "operator", "operator:none");
    assert_eq!(world.call(&mut session, "private/pitwire_status", json!({})).code(), FORBIDDEN);
}

#[test]
fn connection_tokens_end_with_it_named_session_tokens_stay() {
    let mut world = World::new();
    let (mut first, mut second) = (world.connect(), world.connect());
    let bound = grant(&mut world, &mut first, "alice", "");
    let named = grant(&mut world, &mut second, "alice", "session:bot");
    assert_eq!(named["scope"], "session:bot account:read_write trade:read_write wallet:read");
    assert_eq!((by_token(&mut world, &bound), by_token(&mut world, &named)), (0, 0));
    for session in [&mut first, &mut second] {
        world.dispatcher.disconnected(session, &world.venue.views);
    }
    assert_eq!((by_token(&mut world, &bound), by_token(&mut world, &named)), (BAD_TOKEN, 0));
    let refresh = json!({"grant_type": "refresh_token", "refresh_token": bound["refresh_token"]});
    assert_eq!(world.call(&mut Session::new(), "public/auth", refresh).code(), BAD_TOKEN);
    // A refreshed login stays in its session, over any connection.
    let refresh = json!({"grant_type": "refresh_token", "refresh_token": named["refresh_token"]});
    let mut third = world.connect();
    let refreshed = world.ok(&mut third, "public/auth", refresh).result().clone();
    assert!(refreshed["scope"].as_str().unwrap().starts_with("session:bot "));
    world.dispatcher.disconnected(&mut third, &world.venue.views);
    assert_eq!(by_token(&mut world, &refreshed), 0);
    // A logout from the session ends it for every connection.
    let mut fourth = world.connect();
    grant(&mut world, &mut fourth, "alice", "session:bot");
    world.ok(&mut fourth, "private/logout", json!({}));
    assert_eq!((by_token(&mut world, &named), by_token(&mut world, &refreshed)), (BAD_TOKEN, BAD_TOKEN));
}

#[test]
fn logout_with_invalidate_false_keeps_tokens() {
    let mut world = World::new();
    let mut alice = world.connect();
    let granted = grant(&mut world, &mut alice, "alice", "");
    world.ok(&mut alice, "private/logout", json!({"invalidate_token": false}));
    world.dispatcher.disconnected(&mut alice, &world.venue.views);
    assert_eq!(by_token(&mut world, &granted), 0);
}

#[test]
fn key_keeps_sixteen_named_sessions() {
    let mut world = World::new();
    let mut grants: Vec<Value> =
        (0..16).map(|n| grant(&mut world, &mut Session::new(), "alice", &format!("session:s{n}"))).collect();
    grant(&mut world, &mut Session::new(), "alice", "session:s0");
    grants.push(grant(&mut world, &mut Session::new(), "alice", "session:s16"));
    let codes: Vec<i64> = grants.iter().map(|granted| by_token(&mut world, granted)).collect();
    let expected: Vec<i64> = (0..17).map(|n| if n == 1 { BAD_TOKEN } else { 0 }).collect();
    assert_eq!(codes, expected);
    let bobs = grant(&mut world, &mut Session::new(), "bob", "session:s1");
    assert_eq!(by_token(&mut world, &bobs), 0, "another key's names are its own");
}

#[test]
fn token_life_is_at_most_one_week() {
    let mut world = World::new();
    let short = grant(&mut world, &mut Session::new(), "alice", "expires:60");
    assert_eq!(short["expires_in"], 60);
    assert!(short["scope"].as_str().unwrap().ends_with(" expires:60"));
    let long = grant(&mut world, &mut Session::new(), "alice", "expires:99999999");
    assert_eq!(long["expires_in"], 604_800);
    world.steady_ns += 59_000_000_000;
    assert_eq!(by_token(&mut world, &short), 0);
    world.steady_ns += 2_000_000_000;
    assert_eq!((by_token(&mut world, &short), by_token(&mut world, &long)), (BAD_TOKEN, 0));
}

#[test]
fn token_bound_to_address_works_only_there() {
    let mut world = World::new();
    let (here, there): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
    let mut session = Session::new().coming_from(Some(here));
    let granted = grant(&mut world, &mut session, "alice", "ip:10.0.0.1");
    assert!(granted["scope"].as_str().unwrap().ends_with(" ip:10.0.0.1"));
    let mut from = |session: Session| {
        let params = json!({"access_token": granted["access_token"]});
        let mut session = session;
        world.call(&mut session, "private/get_open_orders", params).code()
    };
    let mapped = "::ffff:10.0.0.1".parse().unwrap();
    assert_eq!((from(Session::new().coming_from(Some(here))), from(Session::new().coming_from(Some(mapped)))), (0, 0));
    assert_eq!((from(Session::new().coming_from(Some(there))), from(Session::new())), (BAD_TOKEN, BAD_TOKEN));
    for scope in ["ip:10.0.0.2", "ip:nowhere"] {
        let params = json!({"grant_type": "client_credentials", "client_id": "alice",
            "client_secret": "alice-secret", "scope": scope});
        let mut session = Session::new().coming_from(Some(here));
        assert!(world.call(&mut session, "public/auth", params).is_error, "{scope}");
    }
    let refresh = json!({"grant_type": "refresh_token", "refresh_token": granted["refresh_token"]});
    assert_eq!(world.call(&mut Session::new(), "public/auth", refresh.clone()).code(), BAD_TOKEN);
    let mut session = Session::new().coming_from(Some(here));
    world.ok(&mut session, "public/auth", refresh);
}

// --- a signature that is used twice ---

const ENTER: &str = "/api/v2/private/buy?instrument_name=NPN_ZAR&amount=1&price=2000";

/// Sends a signed GET whose signature was computed by another program.
fn get_signed(world: &mut World, header: &str, uri: &str) -> i64 {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let request = SignedRequest { method: "GET", uri, body: "" };
    let clock = world.clock();
    let mut session = world.dispatcher.session_of(Authorization(header), request, None, clock);
    world.get(&mut session, path.strip_prefix("/api/v2/").unwrap(), query).code()
}

/// HMAC of timestamp, nonce `n`, GET and the URI with `alice-secret`, computed with Python's hmac.
const ENTER_SIG: &str = "e187e4f6410a595dc1fb4fdbd7412439f298f445c37beda862cbb4df63c5e030";
const OPEN_SIG: &str = "af917ce3b9a0be3e787bb994d4f38eb4b9562287a57222f1538b9a70550047ab";

#[test]
fn signed_request_enters_at_most_one_order() {
    let header = |sig: &str| format!("deri-hmac-sha256 id=alice,ts=1795219359706,sig={sig},nonce=n");
    let mut world = World::new();
    assert_eq!(get_signed(&mut world, &header(ENTER_SIG), ENTER), 0);
    let commands = world.venue.commands;
    for again in [ENTER_SIG.to_owned(), ENTER_SIG.to_uppercase()] {
        assert_eq!(get_signed(&mut world, &header(&again), ENTER), 13004, "a replay");
    }
    assert_eq!(world.venue.commands, commands);
    // Queries may repeat a signature: some clients sign several in one millisecond.
    for _ in 0..3 {
        assert_eq!(get_signed(&mut world, &header(OPEN_SIG), "/api/v2/private/get_open_orders"), 0);
    }
    // Later its timestamp is too old, and a wall clock that steps back does not revive it.
    world.steady_ns += 100_000_000_000;
    assert_eq!(get_signed(&mut world, &header(ENTER_SIG), ENTER), 13004);
    let mut lenient = World::new();
    let dispatcher = std::mem::replace(&mut lenient.dispatcher, Dispatcher::new(Vec::new(), || [0; 32]));
    lenient.dispatcher = dispatcher.allowing_replays();
    for _ in 0..2 {
        assert_eq!(get_signed(&mut lenient, &header(ENTER_SIG), ENTER), 0, "where replays are allowed");
    }
}
