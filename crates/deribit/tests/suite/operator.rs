//! Operator methods, which members may not call.

use crate::common::World;
use pitwire_deribit::{Credential, CredentialStore, Session};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;

fn order(instrument: &str, amount: f64, price: f64) -> Value {
    json!({"instrument_name": instrument, "amount": amount, "price": price})
}

/// Returns the code of an order's refusal; 0 if it was accepted.
fn buys(world: &mut World, session: &mut Session, instrument: &str, amount: f64, price: f64) -> i64 {
    world.call(session, "private/buy", order(instrument, amount, price)).code()
}

#[test]
fn operator_methods_are_refused_to_members() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    let commands = world.venue.commands;
    let methods: Vec<_> = pitwire_deribit::method_names().filter(|name| name.starts_with("private/pitwire_")).collect();
    assert!(methods.len() > 15);
    // Members may advance the clock of a test venue, ask for an explanation of an order that they
    // entered, and use trade reports. Simulations are left out: the venue decides which members may
    // run them.
    let members = ["advance", "explain", "report_trade", "confirm_report", "decline_report", "get_reports"];
    let members = members.map(|name| format!("private/pitwire_{name}"));
    let is_open = |method: &str| method.contains("_simulation") || members.iter().any(|name| name == method);
    for method in methods.into_iter().filter(|method| !is_open(method)) {
        assert_eq!(world.call(&mut alice, method, json!({})).code(), 13021, "{method}");
        assert_eq!(world.call(&mut Session::new(), method, json!({})).code(), 10000, "{method}");
    }
    assert_eq!(world.venue.commands, commands, "nothing reached the venue");
}

/// A member may ask about its own orders, an operator about any. This venue has no journal on disk,
/// so it refuses their requests with another code.
#[test]
fn an_order_is_explained_to_its_owner_and_to_operators() {
    let mut world = World::new();
    let [mut operator, mut alice, mut bob] = ["operator", "alice", "bob"].map(|name| world.login(name));
    let id = world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 3000.0);
    let mut code = |session: &mut Session| {
        let answer = world.call(session, "private/pitwire_explain", json!({"order_id": id}));
        answer.code()
    };
    assert_eq!([code(&mut alice), code(&mut operator)], [-32602, -32602], "allowed, but there is no log");
    assert_eq!(code(&mut bob), 10004, "not his order");
    assert_eq!(code(&mut Session::new()), 10000);
}

#[test]
fn halt_blocks_entries_and_allows_cancels() {
    let mut world = World::new();
    let (mut operator, mut alice) = (world.login("operator"), world.login("alice"));
    let id = world.limit(&mut alice, "buy", "NPN_ZAR", 1.0, 3000.0);
    world.ok(&mut operator, "private/pitwire_halt", json!({"instrument_name": "NPN_ZAR"}));
    assert_eq!(buys(&mut world, &mut alice, "NPN_ZAR", 1.0, 3000.0), 10012);
    assert_eq!(buys(&mut world, &mut alice, "AGL_ZAR", 1.0, 500.0), 0, "other instruments trade on");
    world.ok(&mut alice, "private/cancel", json!({"order_id": id}));
    world.ok(&mut operator, "private/pitwire_resume", json!({"instrument_name": "NPN_ZAR"}));
    assert_eq!(buys(&mut world, &mut alice, "NPN_ZAR", 1.0, 3000.0), 0);
}

#[test]
fn operator_creates_limits_and_deletes_instrument() {
    let mut world = World::new();
    let (mut operator, mut alice) = (world.login("operator"), world.login("alice"));
    let made = json!({"base_currency": "XYZ", "quote_currency": "ZAR", "tick_size": 0.05, "lot_size": 0.2,
        "start_price": 12.5, "max_amount": 100, "collar_percent": 10});
    let instrument = world.ok(&mut operator, "private/pitwire_create_instrument", made.clone());
    assert_eq!(instrument.result()["instrument_name"], "XYZ_ZAR");
    assert_eq!((&instrument.result()["tick_size"], &instrument.result()["state"]), (&json!(0.05), &json!("open")));
    assert_eq!(buys(&mut world, &mut alice, "XYZ_ZAR", 100.0, 12.5), 0);
    assert_eq!(buys(&mut world, &mut alice, "XYZ_ZAR", 100.2, 12.5), 11022);
    assert_eq!(buys(&mut world, &mut alice, "XYZ_ZAR", 2.0, 13.75), 0, "exactly ten percent above");
    assert_eq!(buys(&mut world, &mut alice, "XYZ_ZAR", 2.0, 13.8), 10007);
    let lifted = json!({"instrument_name": "XYZ_ZAR", "collar_percent": 0, "max_notional": 100});
    world.ok(&mut operator, "private/pitwire_change_instrument", lifted);
    assert_eq!(buys(&mut world, &mut alice, "XYZ_ZAR", 2.0, 50.0), 0);
    assert_eq!(buys(&mut world, &mut alice, "XYZ_ZAR", 2.0, 50.05), 10015);
    assert!(world.call(&mut operator, "private/pitwire_create_instrument", made.clone()).is_error);
    for (key, bad) in [
        ("tick_size", json!(0)),
        ("start_price", json!(12.51)),
        ("quote_currency", json!("NONE")),
        ("collar_percent", json!(-1)),
        ("max_amount", json!(0.05)),
        ("base_currency", json!("a b")),
    ] {
        let mut wrong = made.clone();
        wrong["instrument_name"] = json!("OTHER_ZAR");
        wrong[key] = bad;
        assert!(world.call(&mut operator, "private/pitwire_create_instrument", wrong).is_error, "{key}");
    }
    world.ok(&mut operator, "private/pitwire_delete_instrument", json!({"instrument_name": "XYZ_ZAR"}));
    assert_eq!(world.ok(&mut alice, "private/get_open_orders", json!({})).result(), &json!([]));
    assert_eq!(buys(&mut world, &mut alice, "XYZ_ZAR", 2.0, 12.5), 13019);
    assert!(world.call(&mut operator, "private/pitwire_resume", json!({"instrument_name": "XYZ_ZAR"})).is_error);
}

/// A credential store that a test can inspect and break.
#[derive(Clone, Default)]
struct TestStore {
    /// Client ids of the stored credentials.
    client_ids: Rc<RefCell<Vec<String>>>,
    /// A test sets it, so that changes fail.
    is_full: Rc<Cell<bool>>,
}

impl CredentialStore for TestStore {
    fn keep(&mut self, credentials: &[Credential], _: &BTreeSet<String>) -> io::Result<()> {
        if self.is_full.get() {
            return Err(io::Error::other("the disk is full"));
        }
        *self.client_ids.borrow_mut() = credentials.iter().map(|credential| credential.client_id.clone()).collect();
        Ok(())
    }
}

/// Returns a world, and the credential store that its dispatcher uses.
fn world_with_credential_store() -> (World, TestStore) {
    let store = TestStore::default();
    let mut world = World::new();
    world.dispatcher = world.dispatcher.with_credential_store(Box::new(store.clone()));
    (world, store)
}

#[test]
fn operator_creates_funds_limits_and_deletes_account() {
    let (mut world, store) = world_with_credential_store();
    let mut operator = world.login("operator");
    let made = world.ok(&mut operator, "private/pitwire_create_account", json!({"name": "carol"}));
    let secret = made.result()["client_secret"].as_str().expect("a secret").to_owned();
    assert_eq!(secret.len(), 64);
    assert!(store.client_ids.borrow().contains(&"carol".to_owned()));
    let grant = json!({"grant_type": "client_credentials", "client_id": "carol", "client_secret": secret});
    let mut carol = Session::new();
    world.ok(&mut carol, "public/auth", grant);
    assert_eq!(buys(&mut world, &mut carol, "NPN_ZAR", 1.0, 3000.0), 10009);
    let endowed = json!({"name": "carol", "currency": "ZAR", "amount": 10_000.5});
    world.ok(&mut operator, "private/pitwire_deposit", endowed);
    for wrong in [json!(-1), json!("-0.01")] {
        let below = json!({"name": "carol", "currency": "ZAR", "amount": wrong});
        let refused = world.call(&mut operator, "private/pitwire_set_credit_line", below);
        assert_eq!((refused.code(), &refused.value["error"]["data"]["param"]), (-32602, &json!("amount")));
    }
    let limits = json!({"name": "carol", "max_open_orders": 2});
    world.ok(&mut operator, "private/pitwire_change_account", limits);
    assert_eq!(buys(&mut world, &mut carol, "NPN_ZAR", 1.0, 3000.0), 0);
    assert_eq!(buys(&mut world, &mut carol, "NPN_ZAR", 1.0, 3000.0), 0);
    assert_eq!(buys(&mut world, &mut carol, "NPN_ZAR", 1.0, 3000.0), 10013);
    let listed = world.ok(&mut operator, "private/pitwire_get_accounts", json!({}));
    let is_carol = |account: &&Value| account["name"] == "carol";
    let shown = listed.result().as_array().and_then(|all| all.iter().find(is_carol)).expect("carol").clone();
    assert_eq!((&shown["open_orders"], &shown["limits"]["max_open_orders"]), (&json!(2), &json!(2)));
    world.ok(&mut operator, "private/pitwire_delete_account", json!({"name": "carol"}));
    assert_eq!(buys(&mut world, &mut carol, "NPN_ZAR", 1.0, 3000.0), 10019);
    assert!(world.call(&mut operator, "private/pitwire_delete_account", json!({"name": "operator"})).is_error);
    assert!(world.call(&mut operator, "private/pitwire_create_account", json!({"name": "carol"})).is_error);
    assert!(world.call(&mut operator, "private/pitwire_create_account", json!({"name": "a/b"})).is_error);
}

#[test]
fn secret_that_was_not_stored_is_never_valid() {
    let (mut world, store) = world_with_credential_store();
    let mut operator = world.login("operator");
    store.is_full.set(true);
    let refused = world.call(&mut operator, "private/pitwire_create_account", json!({"name": "dave"}));
    assert_eq!(refused.code(), 11094);
    let listed = world.ok(&mut operator, "private/pitwire_get_accounts", json!({}));
    assert!(!listed.each("name").contains(&"dave"), "an account without a credential");
    store.is_full.set(false);
    let again = world.ok(&mut operator, "private/pitwire_create_account", json!({"name": "dave"}));
    assert_eq!(again.result()["client_id"], "dave");
    let second = world.ok(&mut operator, "private/pitwire_create_credential", json!({"name": "dave"}));
    assert_eq!(second.result()["client_id"], "dave.2");
}

/// A crash must not leave an open account without credentials.
#[test]
fn credentials_of_a_closed_account_are_removed_after_the_commit() {
    let (mut world, store) = world_with_credential_store();
    let mut operator = world.login("operator");
    let has = |name: &str| store.client_ids.borrow().iter().any(|stored| stored == name);
    world.ok(&mut operator, "private/pitwire_create_account", json!({"name": "dave"}));
    assert!(has("dave"));

    world.ok(&mut operator, "private/pitwire_create_account", json!({"name": "erin"}));
    world.ok(&mut operator, "private/pitwire_delete_account", json!({"name": "dave"}));
    assert!(has("dave"), "before the commit");
    store.is_full.set(true);
    assert!(world.dispatcher.remove_surplus_credentials().is_err());
    store.is_full.set(false);
    world.ok(&mut operator, "private/pitwire_create_credential", json!({"name": "erin"}));
    assert!(!has("dave") && has("erin.2"), "the next change stores the whole list");
    world.ok(&mut operator, "private/pitwire_delete_account", json!({"name": "erin"}));
    world.dispatcher.remove_surplus_credentials().unwrap();
    assert!(!has("erin") && !has("erin.2"));
}

#[test]
fn kills_cancel_and_block_until_they_are_lifted() {
    let mut world = World::new();
    let (mut operator, mut alice, mut bob) = (world.login("operator"), world.login("alice"), world.login("bob"));
    let mut enter_all = |world: &mut World| {
        [buys(world, &mut alice, "NPN_ZAR", 1.0, 3000.0), buys(world, &mut bob, "NPN_ZAR", 1.0, 3000.0)]
    };
    assert_eq!(enter_all(&mut world), [0, 0]);
    let kill = |world: &mut World, operator: &mut Session, what: Value| {
        world.ok(operator, "private/pitwire_kill", what).result()["cancelled"].clone()
    };
    let alice_only = json!({"scope": "account", "name": "alice", "reason": "fat finger"});
    assert_eq!(kill(&mut world, &mut operator, alice_only), json!(1));
    assert_eq!(enter_all(&mut world), [10019, 0]);
    let status = |world: &mut World, operator: &mut Session| {
        let status = world.ok(operator, "private/pitwire_status", json!({})).result().clone();
        let locked = world.ok(operator, "public/status", json!({})).result()["locked"].clone();
        json!([status["venue_killed"], status["killed_accounts"], status["killed_sessions"], locked])
    };
    assert_eq!(status(&mut world, &mut operator), json!([false, ["alice"], [], "false"]));
    assert_eq!(
        kill(&mut world, &mut operator, json!({"scope": "session", "session": 77, "reason": "drill"})),
        json!(0)
    );
    assert_eq!(status(&mut world, &mut operator), json!([false, ["alice"], [77], "false"]));
    assert_eq!(kill(&mut world, &mut operator, json!({"scope": "venue", "reason": "drill"})), json!(2));
    assert_eq!(status(&mut world, &mut operator), json!([true, ["alice"], [77], "true"]));
    world.ok(&mut operator, "private/pitwire_lift", json!({"scope": "account", "name": "alice"}));
    assert_eq!(enter_all(&mut world), [10019, 10019], "the venue is still killed");
    world.ok(&mut operator, "private/pitwire_lift", json!({"scope": "venue"}));
    assert_eq!(enter_all(&mut world), [0, 0]);
    let orders = world.ok(&mut operator, "private/pitwire_get_orders", json!({"name": "bob"}));
    let id = orders.each("order_id")[0].to_owned();
    assert_eq!(kill(&mut world, &mut operator, json!({"scope": "order", "order_id": id, "reason": "x"})), json!(1));
    for bad in [
        json!({"scope": "venue"}),
        json!({"scope": "all", "reason": "x"}),
        json!({"reason": "x"}),
        json!({"scope": "session", "session": 0, "reason": "x"}),
        json!({"scope": "account", "name": "?", "reason": "x"}),
        json!({"scope": "order", "order_id": id, "reason": "x"}),
    ] {
        assert!(world.call(&mut operator, "private/pitwire_kill", bad.clone()).is_error, "{bad}");
    }
}

#[test]
fn bust_reverses_balances() {
    let mut world = World::new();
    let (mut operator, mut alice, mut bob) = (world.login("operator"), world.login("alice"), world.login("bob"));
    world.limit(&mut alice, "sell", "NPN_ZAR", 10.0, 3000.0);
    let bought = world.ok(&mut bob, "private/buy", order("NPN_ZAR", 10.0, 3000.0));
    let trade_id = bought.result()["trades"][0]["trade_id"].clone();
    let balance = |world: &mut World, session: &mut Session, currency: &str| {
        let summary = world.ok(session, "private/get_account_summary", json!({"currency": currency}));
        summary.result()["balance"].clone()
    };
    assert_eq!(balance(&mut world, &mut bob, "ZAR"), json!(970_000.0));
    world.ok(&mut operator, "private/pitwire_bust", json!({"trade_id": trade_id, "reason": "wrong price"}));
    for session in [&mut alice, &mut bob] {
        assert_eq!(balance(&mut world, session, "ZAR"), json!(1_000_000.0));
        assert_eq!(balance(&mut world, session, "NPN"), json!(100.0));
    }
    // Private and public lists mark the busted trade, and no other trade.
    world.limit(&mut alice, "sell", "NPN_ZAR", 1.0, 3000.0);
    world.ok(&mut bob, "private/buy", order("NPN_ZAR", 1.0, 3000.0));
    let of_npn = json!({"instrument_name": "NPN_ZAR", "sorting": "asc"});
    for (session, method) in [
        (&mut alice, "private/get_user_trades_by_instrument"),
        (&mut bob, "private/get_user_trades_by_instrument"),
        (&mut operator, "public/get_last_trades_by_instrument"),
    ] {
        let listed = world.ok(session, method, of_npn.clone()).result()["trades"].clone();
        let marks: Vec<_> = listed.as_array().unwrap().iter().map(|trade| trade.get("busted").cloned()).collect();
        assert_eq!(marks, [Some(json!(true)), None], "{method}");
    }
    let again = json!({"trade_id": trade_id, "reason": "twice"});
    assert_eq!(world.call(&mut operator, "private/pitwire_bust", again).code(), 11044);
    for bad in ["1000000000099", "7", "nonsense", "99000000000001"] {
        let wrong = json!({"trade_id": bad, "reason": "x"});
        assert_eq!(world.call(&mut operator, "private/pitwire_bust", wrong).code(), 13020, "{bad}");
    }
    let silent = json!({"trade_id": trade_id});
    assert_eq!(world.call(&mut operator, "private/pitwire_bust", silent).code(), -32602);
}

#[test]
fn flow_is_set_by_command_only_on_change() {
    let mut world = World::new();
    let mut operator = world.login("operator");
    let before = world.venue.commands;
    let flow_state = world.ok(&mut operator, "private/pitwire_flow", json!({"action": "status"}));
    assert_eq!((flow_state.result(), world.venue.commands), (&json!({"running": true, "rate_percent": 100}), before));
    let slow = world.ok(&mut operator, "private/pitwire_flow", json!({"action": "stop", "rate_percent": 25}));
    assert_eq!(slow.result(), &json!({"running": false, "rate_percent": 25}));
    let status = world.ok(&mut operator, "private/pitwire_status", json!({}));
    assert_eq!(status.result()["flow"], json!({"running": false, "rate_percent": 25}));
    assert_eq!(world.venue.commands, before + 1);
    for bad in [json!({"rate_percent": 0}), json!({"rate_percent": 100_001}), json!({"action": "pause"})] {
        assert_eq!(world.call(&mut operator, "private/pitwire_flow", bad).code(), -32602);
    }
}

#[test]
fn flow_of_one_instrument_leaves_the_others() {
    let mut world = World::new();
    let (mut operator, before) = (world.login("operator"), world.venue.commands);
    let stop = json!({"action": "stop", "instrument_name": "NPN_ZAR", "rate_percent": 25});
    let one = json!({"instrument_name": "NPN_ZAR", "running": false, "rate_percent": 25});
    assert_eq!(world.ok(&mut operator, "private/pitwire_flow", stop).result(), &one);
    let whole = json!({"running": true, "rate_percent": 100, "instruments": [one]});
    assert_eq!(world.ok(&mut operator, "private/pitwire_flow", json!({})).result(), &whole);
    assert_eq!(world.ok(&mut operator, "private/pitwire_status", json!({})).result()["flow"], whole);
    let default = json!({"action": "start", "instrument_name": "NPN_ZAR", "rate_percent": 100});
    world.ok(&mut operator, "private/pitwire_flow", default);
    assert!(world.ok(&mut operator, "private/pitwire_flow", json!({})).result().get("instruments").is_none());
    assert_eq!(world.venue.commands, before, "the setting is not journaled");
    for (bad, code) in [
        (json!({"instrument_name": "NO_ZAR", "action": "stop"}), 13020),
        (json!({"instrument_name": "NPN_ZAR", "rate_percent": 0}), -32602),
        (json!({"instrument_name": "NPN_ZAR", "action": "pause"}), -32602),
    ] {
        assert_eq!(world.call(&mut operator, "private/pitwire_flow", bad).code(), code);
    }
    let mut member = world.login("alice");
    let stop = json!({"action": "stop", "instrument_name": "NPN_ZAR"});
    assert_eq!(world.call(&mut member, "private/pitwire_flow", stop).code(), 13021);
}

/// Wrong values never reach the process of a simulation. This venue runs no simulations, so it
/// refuses a correct request too, with another code.
#[test]
fn parameters_of_a_simulation_are_checked() {
    let mut world = World::new();
    let mut operator = world.login("operator");
    let mut code = |params: Value| {
        let answer = world.call(&mut operator, "private/pitwire_start_simulation", params);
        (answer.code(), answer.value["error"]["data"]["param"].as_str().unwrap_or_default().to_owned())
    };
    let refused = |param: &str| (-32602, param.to_owned());
    let correct = json!({"preset": "jse", "seed": 7, "seconds": 60, "flow": "bacry-muzy", "instruments": ["NPN_ZAR"],
        "clients": 8, "speed": 60});
    assert_eq!(code(correct), (13025, String::new()));
    assert_eq!(code(json!({})), refused("seconds"));
    assert_eq!(code(json!({"seconds": 60, "events": 60})), refused("seconds"));
    for (param, value) in [
        ("seed", json!(-1)),
        ("seed", json!("NaN")),
        ("seed", json!(1.5)),
        ("seconds", json!(0)),
        ("seconds", json!(86_401)),
        ("clients", json!(7)),
        ("clients", json!(1e300)),
        ("speed", json!(0)),
        ("speed", json!(1_000_001)),
        ("preset", json!("--out")),
        ("flow", json!("../../etc/passwd")),
        ("flow", json!("-f")),
        ("flow_file", json!(" ")),
        ("flow_file", json!("x".repeat(32_769))),
        ("instruments", json!(["NPN_ZAR,--out"])),
        ("instruments", json!(vec!["A"; 101])),
    ] {
        let mut params = json!({"seconds": 60});
        params[param] = value.clone();
        assert_eq!(code(params), refused(param), "{value}");
    }
    assert_eq!(code(json!({"seconds": 60, "flow": "demo", "flow_file": "x"})), refused("flow_file"));
    let export = json!({"simulation_id": 1, "format": "xlsx"});
    assert_eq!(world.call(&mut operator, "private/pitwire_export_simulation", export).code(), -32602);
}

/// This venue runs no simulations, so a request that reaches it has the code 13025.
#[test]
fn simulations_need_a_login_and_a_member_needs_the_scope_to_start_them() {
    let mut world = World::new();
    let (list, start) = ("private/pitwire_get_simulations", "private/pitwire_start_simulation");
    let params = json!({"seconds": 60});
    assert_eq!(world.call(&mut Session::new(), start, params.clone()).code(), 10000);
    let mut alice = world.login("alice");
    assert_eq!(world.call(&mut alice, start, params.clone()).code(), 13025);
    let mut reader = Session::new();
    let login = json!({"grant_type": "client_credentials", "client_id": "alice", "client_secret": "alice-secret",
        "scope": "trade:read"});
    assert_eq!(world.call(&mut reader, "public/auth", login).code(), 0);
    assert_eq!(world.call(&mut reader, list, json!({})).code(), 13025);
    assert_eq!(world.call(&mut reader, start, params).code(), 13403);
}
