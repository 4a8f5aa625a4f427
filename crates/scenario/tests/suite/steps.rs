//! Steps and setups that both engines must play alike.

use pitwire_engine::Engine;
use pitwire_reference_engine::ReferenceEngine;
use pitwire_scenario::{Outcome, play, read};
use serde_json::{Value, json};

/// Plays a scenario on both engines and returns the outcome, which has to be the same.
fn played(setup: &Value, steps: &Value) -> Outcome {
    let text = json!({"name": "A", "setup": setup, "steps": steps}).to_string();
    let scenario = read("test", &text).unwrap_or_else(|malformed| panic!("{malformed}")).remove(0);
    let outcome = play(&mut Engine::new(), &scenario).expect("a market");
    let reference = play(&mut ReferenceEngine::new(), &scenario).expect("a market");
    assert_eq!(json!(outcome), json!(reference));
    outcome
}

fn trades(outcome: &Outcome) -> Vec<(&str, &str, u64, i64)> {
    outcome.trades.iter().map(|trade| (trade.buy.as_str(), trade.sell.as_str(), trade.qty, trade.price)).collect()
}

/// D stands before H, so H cannot get its minimum execution size from S. D expires at 10:00, and
/// then H trades, before it would expire itself at 10:30.
#[test]
fn clock_passes_time_at_each_expiry_on_the_way() {
    let hidden = |id: &str, side: &str| json!({"op": "enter", "id": id, "side": side, "type": "hidden", "qty": 10, "price": 100, "mes": 10});
    let gtt = |mut step: Value, at: &str| {
        (step["tif"], step["expires"]) = (json!("gtt"), json!(at));
        step
    };
    let displayed = json!({"op": "enter", "id": "D", "side": "buy", "type": "limit", "qty": 5, "price": 100});
    let steps = json!([
        gtt(displayed, "10:00:00"),
        gtt(hidden("H", "buy"), "10:30:00"),
        hidden("S", "sell"),
        {"op": "clock", "to": "10:30:00"}
    ]);
    let outcome = played(&json!({}), &steps);
    assert_eq!(trades(&outcome), [("H", "S", 10, 100)]);
}

#[test]
fn end_of_day_in_start_of_trading_refuses_nothing() {
    let steps = json!([{"op": "session", "to": "start_of_trading"}, {"op": "end_of_day"}]);
    let outcome = json!(played(&json!({}), &steps));
    assert_eq!(outcome["steps"][1]["events"], json!([]));
}

/// An immediate order of a batch is live until the batch ends, and ends with the day.
#[test]
fn end_of_day_expires_immediate_orders_of_a_batch() {
    let order = json!({"op": "enter", "id": "B", "side": "buy", "type": "limit", "qty": 5, "price": 100, "tif": "ioc"});
    let outcome = json!(played(&json!({"allocation": "frequent_batch"}), &json!([order, {"op": "end_of_day"}])));
    let expired = json!({"type": "expired", "id": "B", "qty": 5, "reason": "day_ended"});
    let events = outcome["steps"][1]["events"].as_array().expect("events");
    assert!(events.contains(&expired), "{events:?}");
}

#[test]
fn post_only_entries_and_amends_are_refused_or_moved() {
    let limit = |id: &str, side: &str, price: i64| json!({"op": "enter", "id": id, "side": side, "type": "limit", "qty": 5, "price": price});
    let post_only = |mut step: Value, how: &str| {
        step["post_only"] = json!(how);
        step
    };
    let steps = json!([
        limit("S", "sell", 100),
        post_only(limit("R", "buy", 100), "reject"),
        post_only(limit("M", "buy", 101), "reprice"),
        limit("T", "sell", 102),
        post_only(json!({"op": "amend", "id": "T", "price": 98}), "reprice")
    ]);
    let outcome = played(&json!({}), &steps);
    let shown = json!(outcome);
    assert_eq!(outcome.rejected, ["R"]);
    assert_eq!(shown["steps"][1]["events"][0]["reason"], "post_only_would_trade");
    let rows = |side: &str| -> Vec<(Value, Value)> {
        let rows = shown["book"][side].as_array().expect("rows").iter();
        rows.map(|row| (row["id"].clone(), row["price"].clone())).collect()
    };
    assert_eq!(rows("bids"), [(json!("M"), json!(99))]);
    // T may not trade with M at 99 either, so it moves to 100, behind S.
    assert_eq!(rows("offers"), [(json!("S"), json!(100)), (json!("T"), json!(100))]);
}

#[test]
fn each_account_has_its_own_self_match_mode() {
    let order = |id: &str, side: &str, account: &str| json!({"op": "enter", "id": id, "side": side, "type": "limit", "qty": 5, "price": 100, "account": account});
    let setup = json!({"smp": "cancel_incoming", "accounts": [{"account": "A", "smp": "cancel_resting"}, {"account": "N", "smp": "none"}]});
    let pair = |account: &str| json!([order("S", "sell", account), order("B", "buy", account)]);
    let left = |account: &str| {
        let outcome = json!(played(&setup, &pair(account)));
        (outcome["book"]["bids"].as_array().map(Vec::len), outcome["book"]["offers"].as_array().map(Vec::len))
    };
    assert_eq!(left("A"), (Some(1), Some(0)), "the resting sell is cancelled");
    assert_eq!(left("other"), (Some(0), Some(1)), "the incoming buy is cancelled");
    assert_eq!(trades(&played(&setup, &pair("N"))), [("B", "S", 5, 100)]);
}

/// 10 % around 100 allows buys up to 110 and sells down to 90.
#[test]
fn collar_refuses_prices_outside_of_it() {
    let limit = |id: &str, side: &str, price: i64| json!({"op": "enter", "id": id, "side": side, "type": "limit", "qty": 1, "price": price});
    let steps =
        json!([limit("B1", "buy", 110), limit("B2", "buy", 111), limit("S1", "sell", 111), limit("S2", "sell", 89)]);
    let outcome = played(&json!({"last_price": 100, "collar_pct": 10}), &steps);
    assert_eq!(outcome.rejected, ["B2", "S2"]);
    let shown = json!(outcome);
    assert_eq!(shown["steps"][1]["events"][0]["reason"], "price_above_collar");
    assert_eq!(shown["steps"][3]["events"][0]["reason"], "price_below_collar");
}
