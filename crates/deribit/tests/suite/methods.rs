//! Every method: one good request with the shape of its answer, its main refusals by code, and the
//! refusal without a login.

use std::collections::BTreeSet;

use crate::common::requests::{ROWS, Stage};
use crate::common::shape::misfits;
use crate::common::{VENUE_MS, World};
use pitwire_deribit::{Effect, Session, method_names};
use serde_json::{Value, json};

const INVALID: i64 = -32602;
const NOT_FOUND: i64 = 13020;
const NO_ORDER: i64 = 10004;
/// Parameters that are not an object: the one mistake that a method without parameters can meet.
const LIST: &str = "[1]";

const REFUSALS: &[(&str, &str, i64)] = &[
    ("public/auth", r#"{"grant_type":"client_credentials","client_id":"alice","client_secret":"no"}"#, 13004),
    ("public/auth", r#"{"grant_type":"refresh_token","refresh_token":"invented"}"#, 13009),
    ("public/auth", r#"{"grant_type":"password"}"#, INVALID),
    ("public/auth", "{}", INVALID),
    ("public/test", r#"{"expected_result":"exception"}"#, 11094),
    ("public/set_heartbeat", r#"{"interval":9}"#, INVALID),
    ("public/set_heartbeat", r#"{"interval":3601}"#, INVALID),
    ("public/set_heartbeat", r#"{"interval":10.5}"#, INVALID),
    ("public/set_heartbeat", r#"{"interval":-10}"#, INVALID),
    ("public/set_heartbeat", "{}", INVALID),
    ("public/disable_heartbeat", LIST, INVALID),
    ("public/hello", LIST, INVALID),
    ("public/get_time", LIST, INVALID),
    ("public/status", LIST, INVALID),
    ("public/subscribe", "{}", INVALID),
    ("public/subscribe", r#"{"channels":["no such channel!"]}"#, INVALID),
    ("public/unsubscribe", "{}", INVALID),
    ("public/unsubscribe_all", LIST, INVALID),
    ("private/subscribe", r#"{"channels":{}}"#, INVALID),
    ("private/unsubscribe", "{}", INVALID),
    ("private/unsubscribe_all", LIST, INVALID),
    ("private/logout", r#"{"invalidate_token":"perhaps"}"#, INVALID),
    ("private/enable_cancel_on_disconnect", r#"{"scope":"venue"}"#, INVALID),
    ("private/disable_cancel_on_disconnect", r#"{"scope":"venue"}"#, INVALID),
    ("private/get_cancel_on_disconnect", r#"{"scope":{}}"#, INVALID),
    ("public/get_currencies", LIST, INVALID),
    ("public/get_instruments", r#"{"kind":"share"}"#, INVALID),
    ("public/get_instrument", r#"{"instrument_name":"NO_ZAR"}"#, NOT_FOUND),
    ("public/get_instrument", r#"{"instrument_name":"not/a name"}"#, INVALID),
    ("public/ticker", r#"{"instrument_name":"NO_ZAR"}"#, NOT_FOUND),
    ("public/ticker", "{}", INVALID),
    ("public/get_order_book", r#"{"instrument_name":"NO_ZAR"}"#, NOT_FOUND),
    ("public/get_order_book", r#"{"instrument_name":"NPN_ZAR","depth":"deep"}"#, INVALID),
    ("public/get_last_trades_by_instrument", r#"{"instrument_name":"NO_ZAR"}"#, NOT_FOUND),
    ("public/get_last_trades_by_instrument", r#"{"instrument_name":"NPN_ZAR","count":1001}"#, INVALID),
    ("public/get_last_trades_by_instrument_and_time", "{}", INVALID),
    ("public/get_last_trades_by_currency", r#"{"sorting":"up"}"#, INVALID),
    ("public/get_last_trades_by_currency_and_time", r#"{"start_timestamp":"noon"}"#, INVALID),
    ("public/get_tradingview_chart_data", r#"{"instrument_name":"NPN_ZAR","resolution":"7"}"#, INVALID),
    ("public/get_book_summary_by_currency", r#"{"currency":"ZAR","kind":"share"}"#, INVALID),
    ("public/get_book_summary_by_instrument", r#"{"instrument_name":"NO_ZAR"}"#, NOT_FOUND),
    ("public/get_index_price", r#"{"index_name":"moon"}"#, INVALID),
    ("public/get_index_price_names", LIST, INVALID),
    ("public/get_supported_index_names", LIST, INVALID),
    ("public/get_contract_size", r#"{"instrument_name":"NO_ZAR"}"#, NOT_FOUND),
    ("public/get_order_book_by_instrument_id", r#"{"instrument_id":0}"#, NOT_FOUND),
    ("public/get_order_book_by_instrument_id", r#"{"instrument_id":99}"#, NOT_FOUND),
    ("public/get_order_book_by_instrument_id", "{}", INVALID),
    ("public/pitwire_get_rules", LIST, INVALID),
    ("public/pitwire_get_session", r#"{"instrument_name":"NO_ZAR"}"#, NOT_FOUND),
    ("public/pitwire_get_auction", r#"{"instrument_name":"NO_ZAR"}"#, NOT_FOUND),
    ("public/pitwire_get_auction", r#"{"instrument_name":"NPN_ZAR","depth":"all"}"#, INVALID),
    ("public/pitwire_get_statistics", "{}", INVALID),
    ("public/pitwire_get_off_book", r#"{"instrument_name":"NPN_ZAR","count":0}"#, INVALID),
    ("public/get_announcements", LIST, INVALID),
    ("public/get_historical_volatility", LIST, INVALID),
    ("public/get_last_settlements_by_currency", LIST, INVALID),
    ("public/get_last_settlements_by_instrument", LIST, INVALID),
    ("public/get_delivery_prices", LIST, INVALID),
    ("public/get_volatility_index_data", LIST, INVALID),
    ("public/get_funding_chart_data", r#"{"instrument_name":"NO_ZAR"}"#, NOT_FOUND),
    ("public/get_combos", LIST, INVALID),
    ("public/get_expirations", LIST, INVALID),
    ("public/get_funding_rate_history", LIST, INVALID),
    ("public/get_funding_rate_value", LIST, INVALID),
    ("private/buy", r#"{"instrument_name":"NO_ZAR","amount":1,"price":1}"#, NOT_FOUND),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","price":3000}"#, INVALID),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1}"#, INVALID),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":"NaN","type":"market"}"#, INVALID),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"type":"lottery"}"#, INVALID),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"time_in_force":"soon"}"#, INVALID),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"contracts":2,"price":1}"#, INVALID),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":0,"price":1}"#, 10021),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":-1,"price":1}"#, 10021),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1.5,"price":1}"#, 10027),
    ("private/buy", r#"{"instrument_name":"BTC-PERPETUAL","amount":15,"price":50000}"#, 10027),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":3100.057}"#, 10043),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":-1}"#, 10023),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1000,"price":3000}"#, 10009),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"reject_post_only":true}"#, 11047),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"post_only":"perhaps"}"#, INVALID),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"display_amount":0.5}"#, 10036),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"max_show":-1}"#, 10024),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":9,"price":1,"max_show":2,"display_amount":3}"#, INVALID),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"reduce_only":true}"#, 11047),
    ("private/buy", r#"{"instrument_name":"BTC-PERPETUAL","amount":10,"price":60000,"reduce_only":true}"#, 11030),
    ("private/buy", r#"{"instrument_name":"BTC-PERPETUAL","amount":10,"type":"market","reduce_only":true}"#, 11030),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"mmp":true}"#, 11047),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"advanced":"usd"}"#, 11047),
    (
        "private/buy",
        r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"linked_order_type":"one_cancels_other"}"#,
        11047,
    ),
    (
        "private/buy",
        r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"trigger_fill_condition":"first_hit"}"#,
        11047,
    ),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"otoco_config":[]}"#, 11047),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"trigger_price":5}"#, 11047),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"trigger":"last_price"}"#, 11047),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"type":"stop_market"}"#, INVALID),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"type":"stop_limit","trigger_price":5}"#, INVALID),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"type":"stop_market","trigger_price":5.001}"#, 10044),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"type":"stop_market","trigger_price":-5}"#, 10023),
    (
        "private/buy",
        r#"{"instrument_name":"NPN_ZAR","amount":1,"type":"stop_market","trigger_price":5,"trigger":"mark_price"}"#,
        10033,
    ),
    (
        "private/buy",
        r#"{"instrument_name":"NPN_ZAR","amount":1,"type":"stop_market","trigger_price":5,"trigger":"moon"}"#,
        INVALID,
    ),
    (
        "private/buy",
        r#"{"instrument_name":"NPN_ZAR","amount":1,"type":"stop_market","trigger_price":5,"trigger_offset":1}"#,
        10033,
    ),
    (
        "private/buy",
        r#"{"instrument_name":"BTC-PERPETUAL","amount":20,"price":50000,"reduce_only":true,"display_amount":10}"#,
        11030,
    ),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"type":"market","hidden":true}"#, 11047),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"min_execution":1}"#, 11047),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"hidden":"perhaps"}"#, INVALID),
    (
        "private/buy",
        r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"hidden":true,"pitwire_hidden":false}"#,
        INVALID,
    ),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"hidden":true,"min_execution":0.5}"#, 10027),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"hidden":true,"min_execution":-1}"#, 10021),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"tif_ext":"soon"}"#, INVALID),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"tif_ext":"gtd"}"#, INVALID),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"tif_ext":"gtd","expires_at":5}"#, INVALID),
    (
        "private/buy",
        r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"tif_ext":"gtt","expires_at":"2026-02-30"}"#,
        INVALID,
    ),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"expires_at":"2026-01-31"}"#, 11047),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"type":"take_limit","price":1}"#, 10033),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"type":"trailing_stop"}"#, 10033),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"type":"market_limit"}"#, 10033),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"valid_until":1795219359705}"#, 13888),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"valid_until":-5}"#, 13888),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"price":1,"valid_until":"noon"}"#, INVALID),
    ("private/edit", r#"{"order_id":"$OPEN","amount":3,"valid_until":1795219359705}"#, 13888),
    ("private/edit", r#"{"order_id":"$OPEN","amount":3,"reduce_only":true}"#, 11047),
    ("private/edit", r#"{"order_id":"$OPEN","amount":3,"trigger_price":5}"#, 11030),
    ("private/edit", r#"{"order_id":"$OPEN","amount":3,"min_execution":1}"#, 11030),
    ("private/edit", r#"{"order_id":"$OPEN","amount":3,"expires_at":"2026-11-30"}"#, 11030),
    ("private/edit", r#"{"order_id":"$OPEN","amount":3,"type":"market"}"#, 11030),
    ("private/edit", r#"{"order_id":"$OPEN","amount":3,"direction":"buy_more"}"#, 11030),
    ("private/edit", r#"{"order_id":"$OPEN","amount":3,"instrument_name":"AGL_ZAR"}"#, 11030),
    ("private/edit", r#"{"order_id":"$OPEN","amount":3,"time_in_force":"good_til_day"}"#, 11030),
    ("private/edit", r#"{"order_id":"$OPEN","amount":3,"tif_ext":"gfa"}"#, 11030),
    ("private/edit", r#"{"order_id":"$OPEN","amount":3,"hidden":true}"#, 11030),
    ("private/sell", r#"{"instrument_name":"NPN_ZAR","amount":105,"price":3300}"#, 10009),
    ("private/edit", r#"{"order_id":"999999999","amount":1,"price":1}"#, NO_ORDER),
    ("private/edit", r#"{"order_id":"$FILLED","amount":9,"price":3100}"#, 11008),
    ("private/edit", r#"{"order_id":"x","amount":1}"#, 10025),
    ("private/edit", r#"{"order_id":"$OPEN","price":3100.057}"#, 10043),
    ("private/edit_by_label", r#"{"label":"other","instrument_name":"NPN_ZAR","amount":1}"#, NO_ORDER),
    ("private/close_position", r#"{"instrument_name":"NPN_ZAR","type":"market"}"#, 11047),
    ("private/close_position", r#"{"instrument_name":"BTC-PERPETUAL","type":"stop"}"#, INVALID),
    ("private/cancel", r#"{"order_id":"999999999"}"#, NO_ORDER),
    ("private/cancel", r#"{"order_id":"$FILLED"}"#, 10010),
    ("private/cancel", "{}", INVALID),
    ("private/cancel_all", r#"{"type":"market"}"#, INVALID),
    ("private/cancel_all", r#"{"detailed":"perhaps"}"#, INVALID),
    ("private/cancel_all_by_instrument", r#"{"instrument_name":"NO_ZAR"}"#, NOT_FOUND),
    ("private/cancel_all_by_instrument", r#"{"instrument_name":"NPN_ZAR","type":"every"}"#, INVALID),
    ("private/cancel_all", r#"{"pitwire_scope":"mine"}"#, INVALID),
    ("private/cancel_all_by_segment", "{}", INVALID),
    ("private/cancel_all_by_segment", r#"{"segment":"ZA99"}"#, NOT_FOUND),
    ("private/cancel_all_by_currency", "{}", INVALID),
    ("private/cancel_all_by_currency", r#"{"currency":""}"#, INVALID),
    ("private/cancel_all_by_currency", r#"{"currency":[]}"#, INVALID),
    ("private/cancel_all_by_currency", r#"{"currency":"ZAR","kind":"share"}"#, INVALID),
    ("private/cancel_all_by_currency", r#"{"currency":"ZAR","type":"share"}"#, INVALID),
    ("private/cancel_all_by_currency_pair", "{}", INVALID),
    ("private/cancel_all_by_currency_pair", r#"{"currency_pair":"npn_usd"}"#, INVALID),
    ("private/cancel_all_by_kind_or_type", r#"{"currency":"any"}"#, INVALID),
    ("private/cancel_all_by_kind_or_type", r#"{"kind":"any","currency":[]}"#, INVALID),
    ("private/cancel_by_label", "{}", INVALID),
    ("private/get_order_state", r#"{"order_id":"999999999"}"#, NO_ORDER),
    ("private/get_order_state", r#"{"order_id":"-5"}"#, 10025),
    ("private/get_order_state_by_label", "{}", INVALID),
    ("private/get_open_orders", r#"{"kind":"share"}"#, INVALID),
    ("private/get_open_orders", r#"{"type":"share"}"#, INVALID),
    ("private/get_open_orders_by_currency", r#"{"currency":{}}"#, INVALID),
    ("private/get_open_orders_by_instrument", r#"{"instrument_name":"NO_ZAR"}"#, NOT_FOUND),
    ("private/get_open_orders_by_label", "{}", INVALID),
    ("private/get_order_history_by_instrument", "{}", INVALID),
    ("private/get_order_history_by_currency", r#"{"currency":"ZAR","count":0}"#, INVALID),
    ("private/get_user_trades_by_instrument", "{}", INVALID),
    ("private/get_user_trades_by_instrument_and_time", r#"{"instrument_name":"NO_ZAR"}"#, NOT_FOUND),
    ("private/get_user_trades_by_currency", r#"{"sorting":"up"}"#, INVALID),
    ("private/get_user_trades_by_currency_and_time", r#"{"count":1.5}"#, INVALID),
    ("private/get_user_trades_by_order", r#"{"order_id":"1-2"}"#, 10025),
    ("private/get_account_summary", r#"{"currency":"DOGE"}"#, 11043),
    ("private/get_account_summary", "{}", INVALID),
    ("private/get_account_summaries", LIST, INVALID),
    ("private/get_position", r#"{"instrument_name":"NO_ZAR"}"#, NOT_FOUND),
    ("private/get_positions", r#"{"currency":{}}"#, INVALID),
    ("private/get_subaccounts", LIST, INVALID),
];

/// The methods of the dialect. This venue's own methods have separate tests.
fn of_the_dialect() -> impl Iterator<Item = &'static str> {
    method_names().filter(|name| !name.starts_with("private/pitwire_"))
}

#[test]
fn every_method_has_its_rows() {
    let served: BTreeSet<&str> = of_the_dialect().collect();
    assert_eq!(served.len(), of_the_dialect().count(), "a method stands in the table twice");
    assert_eq!(ROWS.iter().map(|row| row.0).collect::<BTreeSet<_>>(), served, "good requests");
    assert_eq!(REFUSALS.iter().map(|row| row.0).collect::<BTreeSet<_>>(), served, "refusals");
}

#[test]
fn every_method_answers_in_the_dialects_shape() {
    for (method, params, shape) in ROWS {
        let mut stage = Stage::set();
        let params = stage.params(params);
        let reply = stage.world.ok(&mut stage.alice, method, params);
        assert_eq!(misfits(reply.result(), *shape), Vec::<String>::new(), "{method}: {}", reply.text);
    }
}

#[test]
fn every_method_returns_its_error_codes() {
    for (method, params, code) in REFUSALS {
        let mut stage = Stage::set();
        let params = stage.params(params);
        let commands = stage.world.venue.commands;
        let reply = stage.world.call(&mut stage.alice, method, params.clone());
        assert_eq!(reply.code(), *code, "{method} {params}: {}", reply.text);
        let data = &reply.value["error"]["data"];
        assert!(data["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{}", reply.text);
        assert!(data["remedy"].is_string() && (*code != INVALID || data["param"].is_string() || params == json!([1])));
        assert!(reply.is_error && reply.effects.is_empty());
        // Rejects of the engine consume a command number; a refusal by the dialect must not.
        let reached = [10009, 10004, 10010].contains(code);
        assert!(reached || stage.world.venue.commands == commands, "{method} {params} reached the log");
    }
}

#[test]
fn no_private_method_works_without_a_login() {
    let good = |method: &str| ROWS.iter().find(|row| row.0 == method).expect("a row").1;
    for method in of_the_dialect().filter(|name| name.starts_with("private/")).chain(["private/no_such_method"]) {
        let mut stage = Stage::set();
        let params = if method.ends_with("no_such_method") { json!({}) } else { stage.params(good(method)) };
        let commands = stage.world.venue.commands;
        for params in [params, json!({}), json!({"instrument_name": 5})] {
            let reply = stage.world.call(&mut Session::new(), method, params);
            assert_eq!(reply.code(), 10000, "{method}: {}", reply.text);
            assert!(reply.effects.is_empty());
        }
        assert_eq!(stage.world.get(&mut Session::new(), method, "").code(), 10000, "{method} over HTTP");
        assert_eq!(stage.world.venue.commands, commands);
    }
}

#[test]
fn connection_methods_are_refused_over_http() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    for method in [
        "public/subscribe",
        "public/unsubscribe",
        "public/unsubscribe_all",
        "private/subscribe",
        "private/unsubscribe",
        "private/unsubscribe_all",
        "private/logout",
        "public/set_heartbeat",
        "public/disable_heartbeat",
        "private/enable_cancel_on_disconnect",
        "private/disable_cancel_on_disconnect",
        "private/get_cancel_on_disconnect",
    ] {
        let reply = world.get(&mut alice, method, "channels=ticker.NPN_ZAR.100ms&interval=30");
        assert_eq!(reply.code(), 10030, "{method}");
        assert!(reply.effects.is_empty());
    }
}

#[test]
fn unserved_dialect_methods_are_refused_by_name() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    for (method, code) in [
        ("private/mass_quote", 10033),
        ("private/withdraw", 10033),
        ("private/set_mmp_config", 10033),
        ("private/create_block_rfq", 10033),
        ("private/change_margin_model", 10033),
        ("private/pme/simulate", 10033),
        ("public/fork_token", 10033),
        ("public/no_such_method", -32601),
        ("private/no_such_method", -32601),
        ("", -32601),
    ] {
        assert_eq!(world.call(&mut alice, method, json!({})).code(), code, "{method}");
    }
}

/// The order of section 7.1 of the dialect's documentation, field by field.
#[test]
fn an_order_reads_as_in_the_dialects_text() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    let asked = json!({"instrument_name": "NPN_ZAR", "amount": 7, "type": "limit", "price": 3199.99, "label": "abc"});
    let reply = world.ok(&mut alice, "private/buy", asked);
    let golden = json!({"order_state": "open", "order_type": "limit", "time_in_force": "good_til_cancelled",
        "instrument_name": "NPN_ZAR", "direction": "buy", "price": 3199.99, "amount": 7.0, "filled_amount": 0.0,
        "average_price": 0.0, "contracts": 7.0, "creation_timestamp": 1795219359707_u64,
        "last_update_timestamp": 1795219359707_u64, "label": "abc", "post_only": false, "api": true, "web": false,
        "replaced": false, "user_id": 1, "max_show": 7.0});
    let order = &reply.result()["order"];
    for (field, expected) in golden.as_object().unwrap() {
        assert_eq!(&order[field], expected, "{field}");
    }
    let numbers = json!({"usIn": 1795219359706101_u64, "usOut": 1795219359707003_u64, "usDiff": 902, "testnet": true,
        "jsonrpc": "2.0", "id": 7});
    for (field, expected) in numbers.as_object().unwrap() {
        assert_eq!(&reply.value[field], expected, "{field}");
    }
    for exact in [r#""price":3199.99,"#, r#""amount":7.0,"#, r#""filled_amount":0.0,"#, r#""contracts":7.0,"#] {
        assert!(reply.text.contains(exact), "{exact} in {}", reply.text);
    }
}

#[test]
fn fill_names_both_sides_amounts() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    let maker = world.limit(&mut bob, "sell", "NPN_ZAR", 5.0, 3199.99);
    let asked = json!({"instrument_name": "NPN_ZAR", "amount": 4, "type": "market"});
    let reply = world.ok(&mut alice, "private/buy", asked);
    let (order, fill) = (&reply.result()["order"], &reply.result()["trades"][0]);
    for (field, expected) in [
        ("order_state", json!("filled")),
        ("filled_amount", json!(4.0)),
        ("average_price", json!(3199.99)),
        ("order_type", json!("market")),
        // The dialect's default: strict clients drop an order that says otherwise.
        ("time_in_force", json!("good_til_cancelled")),
    ] {
        assert_eq!(order[field], expected, "{field}");
    }
    for (field, expected) in [
        ("price", json!(3199.99)),
        ("amount", json!(4.0)),
        ("direction", json!("buy")),
        ("liquidity", json!("T")),
        ("trade_seq", json!(1)),
        ("fee", json!(0.0)),
        ("fee_currency", json!("ZAR")),
        ("state", json!("filled")),
        ("matching_id", Value::Null),
        ("self_trade", json!(false)),
        ("timestamp", json!(VENUE_MS)),
    ] {
        assert_eq!(fill[field], expected, "{field}");
    }
    let mine = world.ok(&mut bob, "private/get_user_trades_by_order", json!({"order_id": maker}));
    let other_side = &mine.result()[0];
    assert_eq!(other_side["trade_id"], fill["trade_id"], "one fill has one id for both sides");
    assert_eq!((&other_side["liquidity"], &other_side["direction"]), (&json!("M"), &json!("sell")));
    assert_eq!(other_side["state"], "open", "one lot still rests");
}

#[test]
fn stopping_venue_accepts_only_cancels() {
    let mut stage = Stage::set();
    stage.world.venue.takes_orders = false;
    for method in ["private/buy", "private/edit"] {
        let params = json!({"order_id": stage.open, "instrument_name": "NPN_ZAR", "amount": 1, "price": 1});
        assert_eq!(stage.world.call(&mut stage.alice, method, params).code(), 11051, "{method}");
    }
    assert_eq!(stage.world.ok(&mut stage.alice, "public/status", json!({})).result()["locked"], "true");
    assert_eq!(*stage.world.ok(&mut stage.alice, "private/cancel_all", json!({})).result(), json!(1));
}

#[test]
fn journal_failure_is_reported_to_server() {
    let mut stage = Stage::set();
    stage.world.venue.log_fails = true;
    let params = json!({"instrument_name": "NPN_ZAR", "amount": 1, "price": 1});
    let reply = stage.world.call(&mut stage.alice, "private/buy", params);
    assert!(reply.log_failed && reply.code() == 11094);
}

#[test]
fn logging_out_closes_the_connection() {
    let mut stage = Stage::set();
    let reply = stage.world.ok(&mut stage.alice, "private/logout", json!({}));
    assert_eq!(reply.effects, [Effect::Close]);
    assert_eq!(stage.world.call(&mut stage.alice, "private/get_open_orders", json!({})).code(), 10000);
}

/// Two trades of 300 and 600 dollars at one price of 60,000: 0.015 BTC. The dialect counts the
/// volume of an inverse contract in its base currency and the cost in dollars.
#[test]
fn volume_of_an_inverse_contract_is_in_base_currency() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    for amount in [300.0, 600.0] {
        world.limit(&mut bob, "sell", "BTC-PERPETUAL", amount, 60_000.0);
        let buy = json!({"instrument_name": "BTC-PERPETUAL", "amount": amount, "type": "limit", "price": 60_000});
        assert_eq!(world.ok(&mut alice, "private/buy", buy).result()["order"]["order_state"], "filled");
    }
    let asked = json!({"instrument_name": "BTC-PERPETUAL", "resolution": "1",
        "start_timestamp": VENUE_MS - 600_000, "end_timestamp": VENUE_MS + 600_000});
    let chart = world.ok(&mut alice, "public/get_tradingview_chart_data", asked);
    assert_eq!(chart.result()["volume"], json!([0.015]));
    assert_eq!(chart.result()["cost"], json!([900.0]));
    let name = json!({"instrument_name": "BTC-PERPETUAL"});
    let summary = world.ok(&mut alice, "public/get_book_summary_by_instrument", name.clone());
    for (field, expected) in [
        ("volume", json!(0.015)),
        ("volume_usd", json!(900.0)),
        ("volume_notional", json!(900.0)),
        ("price_change", json!(0.0)),
        ("current_funding", json!(0.0)),
        ("funding_8h", json!(0.0)),
    ] {
        assert_eq!(summary.result()[0][field], expected, "{field}");
    }
    assert!(summary.result()[0]["estimated_delivery_price"].is_number());
    let ticker = world.ok(&mut alice, "public/ticker", name);
    assert_eq!(ticker.result()["stats"]["volume"], json!(0.015));
    // Strict clients demand a number where no limit exists; that of the engine is not a price.
    let most = ticker.result()["max_price"].as_f64().expect("max_price");
    assert!((100_000.0..100_000_000.0).contains(&most), "{most}");
}

/// 3,000 dollars at 50,000 and 3,000 at 60,000 are 0.06 + 0.05 BTC. Divided by the average price of
/// 55,000 they would be 0.10909091.
#[test]
fn volume_of_an_inverse_contract_is_summed_trade_by_trade() {
    let mut world = World::new();
    let (mut alice, mut bob) = (world.login("alice"), world.login("bob"));
    for price in [60_000.0, 50_000.0] {
        world.limit(&mut bob, "sell", "BTC-PERPETUAL", 3_000.0, price);
        world.limit(&mut alice, "buy", "BTC-PERPETUAL", 3_000.0, price);
    }
    let asked = json!({"instrument_name": "BTC-PERPETUAL", "resolution": "1",
        "start_timestamp": VENUE_MS - 600_000, "end_timestamp": VENUE_MS + 600_000});
    let chart = world.ok(&mut alice, "public/get_tradingview_chart_data", asked);
    assert_eq!((&chart.result()["volume"], &chart.result()["cost"]), (&json!([0.11]), &json!([6000.0])));
    let name = json!({"instrument_name": "BTC-PERPETUAL"});
    let summary = world.ok(&mut alice, "public/get_book_summary_by_instrument", name.clone());
    assert_eq!(summary.result()[0]["volume"], json!(0.11));
    assert_eq!(world.ok(&mut alice, "public/ticker", name).result()["stats"]["volume"], json!(0.11));
}

/// A limit order with another exchange's word for a stop would trade at once without it.
#[test]
fn foreign_words_for_a_trigger_are_refused_by_name() {
    let mut world = World::new();
    let mut alice = world.login("alice");
    for (name, instead) in [
        ("triggerPrice", "trigger_price"),
        ("stopPrice", "trigger_price"),
        ("stop_price", "trigger_price"),
        ("stopLossPrice", "trigger_price"),
        ("stopLoss", "stop_market"),
        ("takeProfit", "limit"),
        ("postOnly", "post_only"),
        ("reduceOnly", "reduce_only"),
        ("timeInForce", "time_in_force"),
    ] {
        let mut params = json!({"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 3200});
        params[name] = json!(3100);
        for method in ["private/buy", "private/sell"] {
            let reply = world.call(&mut alice, method, params.clone());
            let data = &reply.value["error"]["data"];
            assert_eq!(data["param"], name, "{}", reply.text);
            assert!(data["reason"].as_str().unwrap().contains(instead), "{}", reply.text);
        }
    }
    let open = world.ok(&mut alice, "private/get_open_orders", json!({}));
    assert_eq!(open.result(), &json!([]));
}
