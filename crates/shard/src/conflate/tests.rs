//! Sums that were computed by hand, and a table that never loses a symbol.

use super::*;
use pitwire_random::SplitMix64;

fn records(conflation: &mut Conflation) -> Vec<String> {
    let mut found = Vec::new();
    let mut text = String::new();
    while conflation.front(&mut text) {
        found.push(std::mem::take(&mut text));
        conflation.pop();
    }
    found
}

#[test]
fn one_record_summarises_all_trades_of_a_symbol() {
    let mut conflation = Conflation::new(16);
    for trade in [
        r#"{"ev":"T","sym":"AAPL","i":"000000000001","x":4,"p":114.125,"s":100,"c":[37],"t":10,"z":3}"#,
        r#"{"ev":"T","sym":"F","i":"000000000007","x":9,"p":9.5,"s":1,"t":10}"#,
        r#"{"ev":"T","sym":"AAPL","i":"000000000002","x":11,"p":114.5,"s":3,"t":12}"#,
        r#"{"ev":"T","sym":"AAPL","i":"000000000003","x":12,"p":114.1,"s":0.5,"t":13}"#,
    ] {
        assert!(conflation.add(trade.as_bytes()), "{trade}");
    }
    assert_eq!(conflation.trades(), 4);
    // 114.125 * 100 + 114.5 * 3 + 114.1 * 0.5 = 11412.5 + 343.5 + 57.05 = 11813.05
    assert_eq!(
        records(&mut conflation),
        [
            concat!(
                r#"{"ev":"T","sym":"AAPL","conflated":true,"count":3,"i":"000000000003","x":12,"p":114.1,"s":0.5,"t":13,"#,
                r#""first_t":10,"first":114.125,"high":114.5,"low":114.1,"volume":103.5,"notional":11813.05}"#
            ),
            concat!(
                r#"{"ev":"T","sym":"F","conflated":true,"count":1,"i":"000000000007","x":9,"p":9.5,"s":1,"t":10,"#,
                r#""first_t":10,"first":9.5,"high":9.5,"low":9.5,"volume":1,"notional":9.5}"#
            ),
        ]
    );
    assert_eq!(conflation.trades(), 0);
}

#[test]
fn objects_that_are_not_trades_are_refused() {
    let mut conflation = Conflation::new(16);
    for object in [
        r#"{"ev":"Q","sym":"A","p":1,"s":1}"#,
        r#"{"ev":"T","sym":"A","p":1}"#,
        r#"{"ev":"T","sym":"A","s":1}"#,
        r#"{"ev":"T","p":1,"s":1}"#,
        r#"{"ev":"T","sym":"A","p":"x","s":1}"#,
        r#"{"ev":"T","sym":"A","p":1e30,"s":1}"#,
        r#"{"ev":"T","sym":17,"p":1,"s":1}"#,
        r#"{"ev":"T","sym":"A name of more than thirty-two bytes","p":1,"s":1}"#,
        "",
        "{}",
        "{",
    ] {
        assert!(!conflation.add(object.as_bytes()), "{object}");
    }
    assert!(conflation.is_empty());
}

#[test]
fn a_sum_beyond_128_bits_is_refused_and_the_summary_is_unchanged() {
    let mut conflation = Conflation::new(16);
    // 10^19 * 10^9 billionths times one is 10^37, of 1.7 * 10^38: seventeen of them fit.
    let trade = r#"{"sym":"A","p":10000000000000000000,"s":1}"#;
    let fitting = (0..40).filter(|_| conflation.add(trade.as_bytes())).count();
    assert_eq!((fitting, conflation.trades()), (17, 17));
    assert!(records(&mut conflation)[0].contains("\"count\":17"));
}

/// Compares thousands of rounds of adding and removing with a plain list.
#[test]
fn the_table_never_loses_a_symbol() {
    let mut conflation = Conflation::new(64);
    let mut expected: Vec<(u64, u64)> = Vec::new();
    let mut random = SplitMix64::new(1);
    let mut refused = 0;
    for _ in 0..50_000 {
        let symbol = random.below(97);
        if !random.one_in(4) {
            let trade = format!("{{\"sym\":\"S{symbol}\",\"p\":1,\"s\":1}}");
            let room = expected.len() < 64;
            let known = expected.iter_mut().find(|(name, _)| *name == symbol);
            let fits = known.is_some() || room;
            match known {
                Some((_, count)) => *count += 1,
                None if fits => expected.push((symbol, 1)),
                None => refused += 1,
            }
            assert_eq!(conflation.add(trade.as_bytes()), fits);
        } else if !expected.is_empty() {
            let (symbol, count) = expected.remove(0);
            let mut text = String::new();
            assert!(conflation.front(&mut text));
            let start = format!("{{\"ev\":\"T\",\"sym\":\"S{symbol}\",\"conflated\":true,\"count\":{count},");
            assert!(text.starts_with(&start), "{text} {start}");
            assert_eq!(conflation.pop(), count);
        }
        assert_eq!(conflation.trades(), expected.iter().map(|(_, count)| count).sum::<u64>());
    }
    assert!(refused > 100, "the table was never full");
}
