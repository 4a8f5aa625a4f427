//! Request texts as real clients send them: ids, strings for numbers, absent fields, and broken
//! texts.

use crate::common;
use pitwire_random::SplitMix64;
use std::collections::BTreeMap;

use crate::common::World;
use crate::common::requests::{ROWS, Stage};
use pitwire_deribit::Session;
use pitwire_deribit::codec::registry;
use serde_json::value::RawValue;
use serde_json::{Value, json};

#[test]
fn ids_come_back_byte_for_byte() {
    let mut world = World::new();
    for id in
        ["1", "0", "-3", "1.50", "1e2", "18446744073709551616", r#""x""#, r#""""#, r#""\u0041\/""#, r#"[1, 2]"#, "true"]
    {
        for method in ["public/get_time", "public/no_such_method"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#);
            let reply = world.text(&mut Session::new(), &text);
            assert!(reply.text.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"#)), "{}", reply.text);
        }
    }
    for text in [r#"{"method":"public/get_time"}"#, r#"{"method":"public/get_time","id":null}"#] {
        let reply = world.text(&mut Session::new(), text);
        assert!(reply.value.get("id").is_none(), "absent stays absent: {}", reply.text);
    }
    let same = r#"{"id":5275,"method":"public/get_time"}"#;
    let mut session = Session::new();
    assert!((0..3).all(|_| !world.text(&mut session, same).is_error), "ids repeat legally");
}

#[test]
fn broken_texts_return_error_codes() {
    let mut world = World::new();
    for (text, code) in [
        ("", -32700),
        ("{", -32700),
        ("nonsense", -32700),
        (r#"{"id":1,}"#, -32700),
        (r#"{"amount": NaN}"#, -32700),
        ("[]", -32600),
        ("7", -32600),
        (r#"{"id":1}"#, -32600),
        (r#"{"method":7}"#, -32600),
        (r#"{"id":1,"method":"public/test","params":[1]}"#, -32602),
        (r#"{"id":1,"method":"public/test","params":"x"}"#, -32602),
        (r#"{"id":1,"method":"Public/test"}"#, -32601),
    ] {
        assert_eq!(world.text(&mut Session::new(), text).code(), code, "{text}");
    }
}

/// Each row is a request of a real client.
#[test]
fn requests_of_real_clients_parse() {
    let rested = |reply: &common::Reply| reply.result()["order"]["order_state"] == "open";
    for params in [
        // ccxt always sends `type`, people often omit it: limit.
        r#"{"instrument_name":"NPN_ZAR","amount":1,"price":3000}"#,
        r#"{"instrument_name":"NPN_ZAR","amount":"1","price":"3000.00","type":"limit"}"#,
        r#"{"instrument_name":"NPN_ZAR","amount":1.0,"price":3e3,"type":""}"#,
        r#"{"instrument_name":"NPN_ZAR","contracts":1,"price":3000}"#,
        r#"{"instrument_name":"NPN_ZAR","amount":1,"contracts":"1.0","price":3000}"#,
        r#"{"instrument_name":"NPN_ZAR","amount":1,"price":3000,"post_only":"False","reduce_only":"0","mmp":0}"#,
        r#"{"instrument_name":"NPN_ZAR","amount":1,"price":3000,"label":null,"time_in_force":"","code":"ZAR"}"#,
        r#"{"instrument_name":"NPN_ZAR","amount":1,"price":3000,"label":12}"#,
        r#"{"instrument_name":"BTC-PERPETUAL","contracts":2,"price":50000}"#,
    ] {
        let mut world = World::new();
        let mut alice = world.login("alice");
        let reply = world.ok(&mut alice, "private/buy", serde_json::from_str(params).unwrap());
        assert!(rested(&reply), "{}", reply.text);
        assert_eq!(reply.result()["order"]["order_type"], "limit");
    }
    let mut world = World::new();
    let mut alice = world.login("alice");
    let query = "instrument_name=NPN_ZAR&amount=10.0&type=limit&price=3000&label=a+b%26c&post_only=false";
    let reply = world.get(&mut alice, "private/buy", query);
    assert!(rested(&reply));
    assert_eq!(reply.result()["order"]["label"], "a b&c");
    let reply = world.get(&mut alice, "private/cancel_all", "detailed=False&type=all");
    assert_eq!(*reply.result(), json!(1));
}

#[test]
fn parameters_parse_in_every_form() {
    let mut stage = Stage::set();
    for (method, params) in [
        ("public/test", "null"),
        ("public/get_time", "null"),
        ("public/get_instruments", r#"{"currency":"any","expired":"false","include_old":true}"#),
        ("public/get_order_book", r#"{"instrument_name":"NPN_ZAR","depth":0}"#),
        ("public/get_order_book", r#"{"instrument_name":"NPN_ZAR","depth":"7"}"#),
        ("public/get_order_book", r#"{"instrument_name":"NPN_ZAR","depth":1000000}"#),
        ("public/get_order_book", r#"{"instrument_name":"NPN_ZAR","depth":-5}"#),
        ("public/get_last_trades_by_instrument", r#"{"instrument_name":"NPN_ZAR","count":"10","sorting":"default"}"#),
        ("private/get_user_trades_by_currency", r#"{"currency":"any","start_timestamp":"0","historical":"True"}"#),
        ("private/get_positions", r#"{"currency":"any","kind":"any"}"#),
        ("private/get_open_orders", r#"{"kind":"any","type":"all"}"#),
        ("private/get_open_orders", r#"{"kind":"","type":""}"#),
    ] {
        stage.world.ok(&mut stage.alice, method, serde_json::from_str(params).unwrap());
    }
    let count = |world: &mut World, session: &mut Session, query: &str| {
        let reply = world.get(session, "private/get_user_trades_by_instrument", query);
        reply.result()["trades"].as_array().unwrap().len()
    };
    let (world, alice) = (&mut stage.world, &mut stage.alice);
    assert_eq!(count(world, alice, "instrument_name=NPN_ZAR&start_seq=1&end_seq=1"), 1);
    assert_eq!(count(world, alice, "instrument_name=NPN_ZAR&start_seq=2"), 0);
    assert_eq!(count(world, alice, "instrument_name=NPN_ZAR&end_timestamp=1795219359706"), 0);
    assert_eq!(
        count(world, alice, "instrument_name=NPN_ZAR&start_timestamp=1795219359707&end_timestamp=1795219359707"),
        1
    );
}

/// Checks one envelope: version, exactly one of result and error, integer times, a registered
/// error.
fn check_envelope(sent: &str, text: &str) {
    let fields: BTreeMap<String, &RawValue> =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}\n{sent}\n{text}"));
    let raw = |name: &str| fields.get(name).map(|value| value.get());
    assert_eq!(raw("jsonrpc"), Some(r#""2.0""#), "{sent}\n{text}");
    assert!(fields.contains_key("result") != fields.contains_key("error"), "{sent}\n{text}");
    for time in ["usIn", "usOut", "usDiff"] {
        assert!(raw(time).is_some_and(|value| value.parse::<u64>().is_ok()), "{sent}\n{text}");
    }
    assert_eq!(raw("testnet"), Some("true"), "{sent}\n{text}");
    let known = ["jsonrpc", "id", "result", "data", "error", "usIn", "usOut", "usDiff", "testnet"];
    assert!(fields.keys().all(|key| known.contains(&key.as_str())), "{sent}\n{text}");
    if let Some(data) = raw("data") {
        // A subscription that left channels out names them beside its result.
        let data: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}\n{sent}\n{text}"));
        let ignored = data["ignored"].as_array().filter(|ignored| (1..=20).contains(&ignored.len()));
        assert!(ignored.is_some() && fields.contains_key("result") && sent.contains("subscribe"), "{sent}\n{text}");
    }
    if let Some(error) = raw("error") {
        let error: Value = serde_json::from_str(error).unwrap_or_else(|error| panic!("{error}\n{sent}\n{text}"));
        let registered = registry().iter().any(|entry| error["code"] == entry.code && error["message"] == entry.wire);
        assert!(registered && error["data"]["reason"].is_string(), "{sent}\n{text}");
    }
}

const PIECES: &[&str] = &[
    "null",
    "true",
    "-1",
    "0",
    "1e400",
    "1e-400",
    "-0",
    "18446744073709551616",
    "9223372036854775807",
    "0.000000000000000001",
    "\"\\ud800\"",
    "\"\\u0000\"",
    "\"é\"",
    "\"\"",
    "{}",
    "[]",
    "[[[[[[[[[[[[[[[[[[",
    "]",
    "}",
    "\"",
    ",",
    ":",
    "{\"a\":",
    "any",
    "NPN_ZAR",
    "\"access_token\":\"x\",",
    "\"id\":7,",
    "\"method\":",
    "private/",
    "public/",
    "\"count\":1000,",
    "\"type\":",
    "\"detailed\":true,",
    "\u{0}",
    "\u{7f}",
    "𝄞",
    "99999999999999999999999999999999999",
    "4294967295",
    "4294967296",
    "-5",
];

fn mutate(random: &mut SplitMix64, seeds: &[String]) -> String {
    let mut text: Vec<char> = seeds[random.index(seeds.len())].chars().collect();
    for _ in 0..=random.index(4) {
        let at = random.index(text.len() + 1);
        let to = (at + random.index(12)).min(text.len());
        match random.index(6) {
            0 => drop(text.drain(at..to)),
            1 => drop(text.splice(at..at, PIECES[random.index(PIECES.len())].chars())),
            2 => drop(text.splice(at..to, PIECES[random.index(PIECES.len())].chars())),
            3 => {
                let again: Vec<char> = text[at..to].to_vec();
                drop(text.splice(at..at, again));
            }
            4 => {
                let other: Vec<char> = seeds[random.index(seeds.len())].chars().collect();
                let cut = random.index(other.len());
                text.truncate(at);
                text.extend(&other[cut..]);
            }
            // A value replaced anywhere in the text: most of the results are still JSON.
            _ => {
                let values: Vec<usize> = (1..text.len()).filter(|at| text[at - 1] == ':').collect();
                if !values.is_empty() {
                    let at = values[random.index(values.len())];
                    let end = (at..text.len()).find(|at| matches!(text[*at], ',' | '}')).unwrap_or(text.len());
                    drop(text.splice(at..end, PIECES[random.index(14)].chars()));
                }
            }
        }
    }
    text.into_iter().collect()
}

#[test]
fn mutated_texts_never_panic_and_get_one_envelope_each() {
    let mut stage = Stage::set();
    let params = |row: &str| stage.params(row).to_string();
    let mut seeds: Vec<String> = ROWS
        .iter()
        .filter(|row| row.0 != "private/logout")
        .map(|row| format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{}","params":{}}}"#, row.0, params(row.1)))
        .collect();
    let order = r#"{"instrument_name":"BTC-PERPETUAL","amount":10,"price":60000.5,"label":"x","time_in_force":"immediate_or_cancel"}"#;
    seeds.extend(["buy", "sell"].map(|side| format!(r#"{{"id":"y","method":"private/{side}","params":{order}}}"#)));
    let seed = std::env::var("TEST_SEED").map_or(0x5EED, |text| text.parse().expect("TEST_SEED is a number"));
    println!("TEST_SEED={seed}");
    let mut random = SplitMix64::new(seed);
    let (mut errors, mut results) = (0, 0);
    for n in 0..20_000 {
        let text = mutate(&mut random, &seeds);
        let reply = stage.world.text(&mut stage.alice, &text);
        check_envelope(&text, &reply.text);
        errors += u32::from(reply.is_error);
        results += u32::from(!reply.is_error);
        if n % 100 == 0 {
            // Reads the private channels that mutated requests have opened.
            stage.world.received(&mut stage.alice);
            stage.world.venue.changes.clear();
        }
    }
    assert!(
        errors > 5_000 && results > 1_000,
        "{errors} errors and {results} results: the mutations are too weak or too strong"
    );
}
