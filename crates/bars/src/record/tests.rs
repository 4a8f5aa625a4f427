//! Parsing of records.

use super::*;

const USUAL: &str =
    r#"{"ev":"T","sym":"BRK.A","i":"52983525029461","x":4,"p":187.21,"s":100,"c":[14,37],"t":1700000000123,"z":1}"#;

fn trade(text: &str) -> TradeRecord<'_> {
    match read(text.as_bytes(), &BarRules::default()) {
        ShardRecord::Trade(trade) => trade,
        other => panic!("{text} is {other:?}"),
    }
}

#[test]
fn the_usual_form_of_a_trade_is_parsed() {
    let trade = trade(USUAL);
    assert_eq!(trade.symbol, &b"BRK.A"[..]);
    assert!(matches!(trade.symbol, Cow::Borrowed(_)));
    assert_eq!((trade.price, trade.size), (Nano(187_210_000_000), Nano(100_000_000_000)));
    assert_eq!(trade.time_ns, 1_700_000_000_123_000_000);
    assert_eq!(trade.counts, TradeEffects { last: false, high_low: false, volume: true });
    assert!(trade.is_off_exchange && trade.merged.is_none());
    assert!(parse_fast(USUAL.as_bytes(), &BarRules::default()).is_some());
}

/// All ways to write a trade give the same trade.
#[test]
fn unusual_forms_give_the_same_trade() {
    let usual = trade(USUAL);
    for text in [
        r#" { "ev" : "T", "sym":"BRK.A","x":4,"p":187.21,"s":100,"c":[14, 37],"t":1700000000123,"z":1 } "#,
        r#"{"ev":"T","sym":"BRK\u002eA","x":4,"p":187.21,"s":100,"c":[14,37],"t":1700000000123,"z":1}"#,
        r#"{"t":1700000000123,"c":[37,14],"s":1e2,"p":18721e-2,"x":4,"sym":"BRK.A","ev":"T"}"#,
        r#"{"ev":"T","sym":"BRK.A","deep":{"a":[{"p":1}]},"x":4,"p":187.21,"s":100,"c":[37],"t":1700000000123}"#,
        r#"{"ev":"T","sym":"BRK.A","a":true,"b":null,"d":-1.5e9,"x":4,"p":187.210,"s":100.0,"c":[37],"t":1700000000123}"#,
        r#"{"ev":"T","sym":"BRK.A","a":false,"b":null,"x":4,"p":"187.21","s":100,"c":[37],"t":1700000000123}"#,
        r#"{"ev":"T","sym":"BRK.A","note":"a } in a \" text","x":4,"p":187.21,"s":100,"c":[37],"t":1700000000123}"#,
    ] {
        assert_eq!(trade(text), usual, "{text}");
    }
}

#[test]
fn a_conflated_record_has_its_sums() {
    let text = r#"{"ev":"T","sym":"AAPL","conflated":true,"count":3,"p":187.2,"s":100,"x":11,"t":1700000000123,"first":187.1,"high":187.3,"low":187,"volume":300,"notional":56160.5,"first_t":1700000000001}"#;
    let merged = trade(text).merged.unwrap();
    assert_eq!(trade(text).size, Nano(300_000_000_000));
    assert_eq!((merged.trades, merged.first), (3, Nano(187_100_000_000)));
    assert_eq!((merged.high, merged.low), (Nano(187_300_000_000), Nano(187_000_000_000)));
    assert_eq!(merged.notional, 56_160_500_000_000_000_000_000);
}

#[test]
fn records_that_are_not_trades_are_distinguished() {
    fn parsed(text: &str) -> ShardRecord<'_> {
        read(text.as_bytes(), &BarRules::default())
    }
    assert_eq!(parsed(r#"{"ev":"gap","sym":"","conn":3,"at_ns":1700000000123456789}"#), ShardRecord::Gap);
    assert_eq!(parsed(r#"{"ev":"gap","sym":"", "conn":3,"at_ns":17,"dropped":9}"#), ShardRecord::Gap);
    assert_eq!(
        parsed(r#"{"ev":"status","status":"connected","message":"Connected Successfully"}"#),
        ShardRecord::Other
    );
    assert_eq!(parsed(r#"{"ev":"Q","sym":"AAPL","bp":1.5}"#), ShardRecord::Other);
    assert_eq!(parsed("{}"), ShardRecord::Other);
    for text in [
        r#"{"ev":"T","sym":"AAPL","p":187.2,"s":100}"#,
        r#"{"ev":"T","sym":"AAPL","s":100,"t":1}"#,
        r#"{"ev":"T","sym":"","p":187.2,"s":100,"t":1}"#,
        r#"{"ev":"T","sym":"AAPL","p":-1,"s":100,"t":1}"#,
        r#"{"ev":"T","sym":"AAPL","p":0,"s":100,"t":1}"#,
        r#"{"ev":"T","sym":"AAPL","p":1,"s":-100,"t":1}"#,
        r#"{"ev":"T","sym":"AAPL","p":1.0000000001,"s":1,"t":1}"#,
        r#"{"ev":"T","sym":"AAPL","p":1,"s":1,"t":9223372036854775807}"#,
        r#"{"ev":"T","sym":"AAPL","p":1,"s":1,"t":-5}"#,
        r#"{"ev":"T","sym":"AAPL","p":1,"s":1,"t":1.5}"#,
        r#"{"ev":"T","sym":"AAPL","p":1,"s":1,"t":1"#,
        r#"{"ev":"T","sym":"AAPL","p":1,"s":1,"t":1}}"#,
        r#"{"ev":"T","sym":"AAPL","conflated":true,"p":1,"s":1,"t":1,"count":1,"volume":1,"notional":1,"first":2,"high":1,"low":1}"#,
        r#"{"ev":"T","sym":"AAPL","conflated":true,"p":1,"s":1,"t":1,"count":1}"#,
        "",
        "{",
        "[]",
        "\u{0}\u{1}\u{2}",
    ] {
        assert_eq!(parsed(text), ShardRecord::Unreadable, "{text}");
    }
}

/// For every prefix and every change of one byte: no panic, and the fast parser never contradicts
/// the JSON parser.
#[test]
fn the_fast_parser_agrees_with_the_json_parser_on_damaged_text() {
    let rules = BarRules::default();
    let mut agreed = 0;
    for at in 0..USUAL.len() {
        for byte in 0..=255_u8 {
            let mut text = USUAL.as_bytes().to_vec();
            text[at] = byte;
            let parse_fast = parse_fast(&text, &rules).map(|fields| fields.classify(&rules));
            // Invalid JSON, such as a repeated key or leading zeros, may be read by either.
            if let (Some(parse_fast), true) = (parse_fast, serde_json::from_slice::<JsonRecord<'_>>(&text).is_ok()) {
                assert_eq!(parse_fast, parse_json(&text, &rules), "{}", String::from_utf8_lossy(&text));
                agreed += 1;
            }
            read(&text, &rules);
        }
        read(&USUAL.as_bytes()[..at], &rules);
    }
    assert!(agreed > 2_000);
}
