//! The counts for correct and incorrect streams.

use super::*;

fn trade(symbol: &str, number: u64) -> String {
    format!("{{\"ev\":\"T\",\"sym\":\"{symbol}\",\"i\":\"{number:012}\",\"x\":4,\"p\":1,\"s\":1,\"t\":1}}")
}

fn count(records: &[String]) -> StreamCounts {
    let mut tally = StreamChecker::new(1);
    records.iter().for_each(|record| tally.record(record.as_bytes()));
    tally.counted()
}

const GAP: &str = r#"{"ev":"gap","sym":"","conn":1,"at_ns":5,"dropped":3}"#;

#[test]
fn a_correct_stream_is_counted() {
    let counted = count(&[trade("A", 1), trade("BRK.A", 1), trade("A", 2)]);
    // fnv1a64 of "A" three times, of "BRK.A" once, computed with Python.
    let checksum = 0xAF63_FC4C_8602_22EC_u64.wrapping_mul(3).wrapping_add(0x8B33_AB78_0296_BCE7);
    let bytes = 3 * trade("A", 1).len() as u64 + 4;
    let expected =
        StreamCounts { records: 3, trades: 3, bytes, checksum, symbols: 2, consecutive: 1, ..StreamCounts::default() };
    assert_eq!(counted, expected);
}

#[test]
fn losses_duplicates_and_disorder_are_counted_separately() {
    assert_eq!(count(&[trade("A", 1), trade("A", 4)]).lost, 2);
    assert_eq!(count(&[trade("A", 3)]).before_first, 2);
    assert_eq!(count(&[trade("A", 1), trade("A", 1)]).duplicated, 1);
    let counted = count(&[trade("A", 1), trade("A", 3), trade("A", 2), trade("A", 4)]);
    assert_eq!((counted.reordered, counted.lost), (1, 1));
    let counted = count(&[trade("A", 1), trade("B", 1), GAP.into(), trade("A", 4), trade("A", 6), trade("B", 2)]);
    assert_eq!((counted.lost_declared, counted.lost, counted.gaps, counted.dropped_declared), (2, 1, 1, 3));
    assert_eq!(count(&["{\"sym\":\"A\"}".into(), "nonsense".into()]).unnumbered, 2);
}

#[test]
fn a_feed_is_numbered_if_numbers_rise_by_one_by_symbol() {
    assert!(count(&[]).is_numbered() && count(&[trade("A", 7)]).is_numbered());
    let steady: Vec<String> = (1..=10).filter(|number| *number != 5).map(|number| trade("A", number)).collect();
    assert!(count(&steady).is_numbered() && count(&steady).lost == 1);
    // A slow worker loses most trades, and gap records declare them.
    let gaps = (1..=10).flat_map(|number| [GAP.into(), trade("A", 100 * number)]).collect::<Vec<String>>();
    assert!(count(&gaps).is_numbered());
    // Random ids, ids that all symbols share, and no ids.
    let random = [503_u64, 17, 9_120, 4_411, 88_000, 23].map(|number| trade("A", number));
    assert!(!count(&random).is_numbered());
    let shared: Vec<String> =
        ["A", "B", "C"].iter().cycle().zip(1..=9).map(|(name, number)| trade(name, number)).collect();
    assert!(!count(&shared).is_numbered());
    assert!(!count(&["{\"sym\":\"A\"}".into(), "{\"sym\":\"A\"}".into()]).is_numbered());
}

#[test]
fn a_conflated_record_counts_as_its_trades() {
    let conflated = r#"{"ev":"T","sym":"A","conflated":true,"count":4,"i":"000000000005","x":4,"p":1}"#;
    let counted = count(&[trade("A", 1), conflated.into(), trade("A", 6)]);
    assert_eq!((counted.trades, counted.lost, counted.conflated, counted.conflated_trades), (6, 0, 1, 4));
}

#[test]
fn unusual_forms_are_counted_too() {
    let counted = count(&[
        "{ \"i\": \"000000000001\", \"sym\": \"A\" }".into(),
        trade("A", 2),
        "{\"sym\":\"A\",\"i\":3}".into(),
        trade("A name of more than sixteen bytes", 1),
        trade("A name of more than sixteen bytes", 2),
    ]);
    assert_eq!((counted.trades, counted.symbols, counted.lost, counted.unnumbered), (5, 2, 0, 0));
}

#[test]
fn many_symbols_grow_the_table() {
    let mut tally = StreamChecker::new(1);
    for number in 1..=3 {
        for symbol in 0..5_000 {
            tally.record(trade(&format!("S{symbol}"), number).as_bytes());
        }
    }
    let counted = tally.counted();
    assert_eq!((counted.symbols, counted.lost, counted.trades, counted.before_first), (5_000, 0, 15_000, 0));
}

#[test]
fn fast_digits_agree_with_slow_ones() {
    for number in (0..1_000_000_000_000).step_by(7_919_000_321) {
        let text = format!("{number:012}");
        assert_eq!(twelve_digits(text.as_bytes().try_into().unwrap()), Some(number));
        for place in 0..12 {
            for wrong in [b'/', b':', b' ', 0, 0xB0, b'a'] {
                let mut bytes: [u8; 12] = text.as_bytes().try_into().unwrap();
                bytes[place] = wrong;
                assert_eq!(twelve_digits(&bytes), None, "{place} {wrong}");
            }
        }
    }
}

#[test]
fn the_first_quote_is_found() {
    for place in 0..8 {
        for filler in [b'A', 0, 0x21, 0x23, 0x22 | 0x80, 0xFF] {
            let mut bytes = [filler; 8];
            assert_eq!(quote_in(u64::from_le_bytes(bytes)), None);
            bytes[place..].fill(b'"');
            assert_eq!(quote_in(u64::from_le_bytes(bytes)), Some(place), "{filler}");
        }
    }
}

/// A feed with new symbols without end: those beyond the limit are counted and cost no memory.
#[test]
fn unlimited_symbols_take_bounded_memory() {
    let mut tally = StreamChecker::new(1 << 20);
    let symbols = 3 * super::SYMBOLS_FLOOR as u64;
    for number in [1, 2, 4] {
        (0..symbols).for_each(|symbol| tally.record(trade(&format!("S{symbol}"), number).as_bytes()));
    }
    let counted = tally.counted();
    assert_eq!((counted.symbols, counted.trades), (symbols / 3, 3 * symbols));
    // Two thirds of the symbols, three times each; the others skip their third.
    assert_eq!((counted.unchecked, counted.lost, counted.faults), (2 * symbols, symbols / 3, 0));
    let all = (0..symbols).fold(0_u64, |sum, symbol| sum.wrapping_add(fnv(format!("S{symbol}").as_bytes())));
    assert_eq!(counted.checksum, all.wrapping_mul(7));
    assert_eq!(tally.symbols.len(), 2 * super::SYMBOLS_FLOOR);
}
