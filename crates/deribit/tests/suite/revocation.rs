//! Logins end when an operator or a logout revokes them, when an account is killed or closed, and
//! when a refresh token is used twice. Failed logins slow down.

use crate::common::{World, credentials};
use pitwire_deribit::{Dispatcher, FailedLogin, Session};
use serde_json::{Value, json};

const REVOKED: i64 = 13009;
const WRONG: i64 = 13004;
const KILLED: i64 = 10019;
const SLOWED: i64 = 10028;

fn secret_login(world: &mut World, session: &mut Session, client_id: &str, secret: &str) -> i64 {
    let grant = json!({"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret});
    world.call(session, "public/auth", grant).code()
}

fn named_login(world: &mut World, session: &mut Session, name: &str) -> Value {
    let grant = json!({"grant_type": "client_credentials", "client_id": "alice", "client_secret": "alice-secret",
        "scope": format!("session:{name}")});
    world.ok(session, "public/auth", grant).result().clone()
}

fn by_token(world: &mut World, granted: &Value) -> i64 {
    let params = json!({"access_token": granted["access_token"]});
    world.call(&mut Session::new(), "private/get_open_orders", params).code()
}

fn refresh(world: &mut World, session: &mut Session, granted: &Value) -> Result<Value, i64> {
    let grant = json!({"grant_type": "refresh_token", "refresh_token": granted["refresh_token"]});
    let reply = world.call(session, "public/auth", grant);
    if reply.is_error { Err(reply.code()) } else { Ok(reply.result().clone()) }
}

/// Whether the server closes each connection, now.
fn closes<const N: usize>(world: &mut World, sessions: [&Session; N]) -> [bool; N] {
    let ended = world.dispatcher.take_ended_logins();
    sessions.map(|session| session.has_ended_login(&ended))
}

#[test]
fn rotated_and_removed_credentials_end_their_logins_only() {
    let mut world = World::new();
    let mut operator = world.login("operator");
    let more = world.ok(&mut operator, "private/pitwire_create_credential", json!({"name": "alice"}));
    let (second, secret) = (more.result()["client_id"].clone(), more.result()["client_secret"].clone());
    assert_eq!(second, "alice.2");
    let (mut first, mut other) = (world.connect(), world.connect());
    let granted = world.grant(&mut first, "alice");
    assert_eq!(secret_login(&mut world, &mut other, "alice.2", secret.as_str().unwrap()), 0);
    let listed = world.ok(&mut operator, "private/pitwire_get_credentials", json!({"name": "alice"}));
    assert_eq!(listed.each("client_id"), ["alice", "alice.2"]);
    assert!(!listed.text.contains("secret"));

    let rotated = world.ok(&mut operator, "private/pitwire_rotate_credential", json!({"client_id": "alice"}));
    let renewed = rotated.result()["client_secret"].as_str().unwrap().to_owned();
    assert_eq!(closes(&mut world, [&first, &other, &operator]), [true, false, false]);
    assert_eq!(by_token(&mut world, &granted), REVOKED);
    assert_eq!(refresh(&mut world, &mut Session::new(), &granted), Err(REVOKED));
    assert_eq!(secret_login(&mut world, &mut Session::new(), "alice", "alice-secret"), WRONG);
    assert_eq!(secret_login(&mut world, &mut Session::new(), "alice", &renewed), 0);

    world.ok(&mut operator, "private/pitwire_remove_credential", json!({"client_id": "alice.2"}));
    assert_eq!(closes(&mut world, [&first, &other, &operator]), [false, true, false]);
    assert_eq!(secret_login(&mut world, &mut Session::new(), "alice.2", secret.as_str().unwrap()), WRONG);
    let third = world.ok(&mut operator, "private/pitwire_create_credential", json!({"name": "alice"}));
    assert_eq!(third.result()["client_id"], "alice.3", "a removed client id is not used again");
    for (method, client_id) in [("rotate", "alice.2"), ("remove", "unknown"), ("remove", "operator")] {
        let refused =
            world.call(&mut operator, &format!("private/pitwire_{method}_credential"), json!({"client_id": client_id}));
        assert_eq!((refused.code(), &refused.value["error"]["data"]["param"]), (-32602, &json!("client_id")));
    }
    let mut alice = world.connect();
    assert_eq!(secret_login(&mut world, &mut alice, "alice", &renewed), 0);
    for method in ["get_credentials", "rotate_credential", "remove_credential"] {
        let params = json!({"client_id": "bob"});
        assert_eq!(world.call(&mut alice, &format!("private/pitwire_{method}"), params).code(), 13021, "{method}");
    }
}

#[test]
fn killed_and_closed_accounts_have_no_logins_after_a_restart_either() {
    let mut world = World::new();
    let mut operator = world.login("operator");
    let (mut alice, mut bob) = (world.connect(), world.connect());
    let granted = world.grant(&mut alice, "alice");
    let bobs = world.grant(&mut bob, "bob");
    // A private channel that was opened with another account's token depends on that account.
    let mut guest = world.login("bob");
    let channel = json!({"access_token": granted["access_token"], "channels": ["user.orders.any.any.raw"]});
    world.ok(&mut guest, "private/subscribe", channel);
    let own = json!({"scope": "account", "name": "operator", "reason": "x"});
    assert_eq!(world.call(&mut operator, "private/pitwire_kill", own).code(), -32602);
    let kill = json!({"scope": "account", "name": "alice", "reason": "drill"});
    world.ok(&mut operator, "private/pitwire_kill", kill);
    assert_eq!(closes(&mut world, [&alice, &bob, &guest, &operator]), [true, false, true, false]);
    assert_eq!((by_token(&mut world, &granted), by_token(&mut world, &bobs)), (REVOKED, 0));
    world.ok(&mut operator, "private/pitwire_delete_account", json!({"name": "bob"}));
    assert_eq!(closes(&mut world, [&bob, &operator]), [true, false]);
    assert_eq!(by_token(&mut world, &bobs), REVOKED);
    assert_eq!(secret_login(&mut world, &mut Session::new(), "bob", "bob-secret"), WRONG, "its credentials are gone");
    assert_eq!(secret_login(&mut world, &mut Session::new(), "alice", "alice-secret"), KILLED);

    // A restart keeps the engine's state and, here, the preset's credentials.
    world.dispatcher = Dispatcher::new(credentials(), || [9; 32]);
    assert_eq!(secret_login(&mut world, &mut Session::new(), "alice", "alice-secret"), KILLED);
    assert_eq!(secret_login(&mut world, &mut Session::new(), "bob", "bob-secret"), KILLED);
    let mut operator = world.login("operator");
    world.ok(&mut operator, "private/pitwire_lift", json!({"scope": "account", "name": "alice"}));
    assert_eq!(secret_login(&mut world, &mut Session::new(), "alice", "alice-secret"), 0);
}

#[test]
fn logout_ends_the_other_connections_of_the_session() {
    let mut world = World::new();
    let (mut one, mut two, mut other) = (world.connect(), world.connect(), world.connect());
    named_login(&mut world, &mut one, "a");
    named_login(&mut world, &mut two, "a");
    named_login(&mut world, &mut other, "b");
    world.ok(&mut one, "private/logout", json!({"invalidate_token": false}));
    assert_eq!(closes(&mut world, [&two, &other]), [false, false]);
    let mut again = world.connect();
    named_login(&mut world, &mut again, "a");
    world.ok(&mut again, "private/logout", json!({}));
    assert_eq!(closes(&mut world, [&two, &other]), [true, false]);
}

#[test]
fn refresh_token_that_is_used_twice_ends_its_family() {
    let mut world = World::new();
    let (mut member, mut thief, mut bystander) = (world.connect(), world.connect(), world.connect());
    let stolen = named_login(&mut world, &mut member, "a");
    let unrelated = named_login(&mut world, &mut bystander, "a");
    let renewed = refresh(&mut world, &mut member, &stolen).unwrap();
    assert_eq!(by_token(&mut world, &renewed), 0);
    assert_eq!(refresh(&mut world, &mut thief, &stolen), Err(REVOKED));
    assert_eq!(closes(&mut world, [&member, &thief, &bystander]), [true, false, false]);
    assert_eq!((by_token(&mut world, &stolen), by_token(&mut world, &renewed)), (REVOKED, REVOKED));
    assert_eq!(refresh(&mut world, &mut member, &renewed), Err(REVOKED));
    assert_eq!(by_token(&mut world, &unrelated), 0, "another login of the same session");
}

#[test]
fn failed_logins_are_slowed_counted_and_reported() {
    let mut world = World::new();
    let from = "10.0.0.1".parse().ok();
    let mut session = world.connect().coming_from(from);
    let mut guess = |world: &mut World, secret: &str| {
        let grant = json!({"grant_type": "client_credentials", "client_id": "alice", "client_secret": secret});
        world.call(&mut session, "public/auth", grant)
    };
    for n in 0..50 {
        assert_eq!(guess(&mut world, &format!("wrong-{n}")).code(), WRONG, "{n}");
    }
    let failed = FailedLogin { client_id: "alice".into(), address: from };
    assert_eq!(world.dispatcher.take_failed_login(), Some(failed));
    assert_eq!(world.dispatcher.take_failed_login(), None);
    let slowed = guess(&mut world, "alice-secret");
    assert_eq!((slowed.code(), &slowed.value["error"]["data"]["retry_after_ms"]), (SLOWED, &json!(1_000)));
    let counts = world.dispatcher.login_failures();
    assert_eq!((counts.failed, counts.slowed), (50, 1));
    world.steady_ns += 1_000_000_000;
    assert_eq!(guess(&mut world, "alice-secret").code(), 0);
    assert_eq!(guess(&mut world, "wrong again").code(), WRONG, "this address has a separate budget now");
}
