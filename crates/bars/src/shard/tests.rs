//! The bars of a shard.

use super::*;
use crate::number::Nano;
use pitwire_random::SplitMix64;

/// Half past nine, on a boundary of every length.
const START_MS: i64 = 1_767_605_400_000;

fn trade(symbol: &str, at_ms: i64, price: &str, size: u32, more: &str) -> String {
    format!(r#"{{"ev":"T","sym":"{symbol}","x":11,"p":{price},"s":{size},"t":{}{more}}}"#, START_MS + at_ms)
}

fn shard_of(rules: &str, buckets_s: &[u32]) -> BarShard {
    BarShard::new(Arc::new(BarRules::parse(rules, "rules").unwrap()), buckets_s)
}

/// Returns all rows of some records, including those at the end.
fn rows(shard: &mut BarShard, records: &[String]) -> Vec<BarRow> {
    for record in records {
        shard.take(record.as_bytes());
    }
    shard.finish();
    shard.finished().collect()
}

/// Symbol, length, seconds since the start, open, high, low, close, shares, trades, incomplete.
fn brief(row: &BarRow) -> String {
    let price = |price: Option<Nano>| price.map_or("-".to_string(), |price| price.to_string());
    let bar = &row.bar;
    format!(
        "{} {} {} {} {} {} {} {} {} {}",
        row.symbol,
        row.bucket_s,
        (row.start_ns() / 1_000_000 - START_MS) / 1000,
        price(bar.open),
        price(bar.high),
        price(bar.low),
        price(bar.close),
        bar.volume / 1_000_000_000,
        bar.trades,
        if row.is_incomplete { "part" } else { "whole" }
    )
}

fn briefs(shard: &mut BarShard, records: &[String]) -> Vec<String> {
    rows(shard, records).iter().map(brief).collect()
}

#[test]
fn trades_fall_into_buckets_by_their_own_time() {
    let mut shard = shard_of("", &[30, 90]);
    let emitted = briefs(
        &mut shard,
        &[
            trade("A", 0, "10", 1, ""),
            trade("A", 29_999, "12", 2, ""),
            trade("A", 30_000, "11", 4, ""),
            trade("A", 89_999, "9", 8, ""),
            trade("A", 90_000, "10.5", 16, ""),
            trade("A", 122_000, "10", 32, ""),
        ],
    );
    assert_eq!(
        emitted,
        [
            "A 30 0 10 12 10 12 3 2 part", // the time before the first trade counts as a gap
            "A 30 30 11 11 11 11 4 1 whole",
            "A 30 60 9 9 9 9 8 1 whole",
            "A 30 90 10.5 10.5 10.5 10.5 16 1 whole",
            "A 90 0 10 12 9 9 15 4 part",
            "A 30 120 10 10 10 10 32 1 part", // the shard ended first
            "A 90 90 10.5 10.5 10 10 48 2 part",
        ]
    );
    assert_eq!(shard.totals().trades, 6);
}

#[test]
fn buckets_of_a_quiet_symbol_are_closed_by_other_symbols() {
    let mut shard = shard_of("", &[30]);
    for record in [trade("A", 0, "10", 1, ""), trade("B", 31_999, "5", 1, "")] {
        shard.take(record.as_bytes());
    }
    assert_eq!(shard.pending(), 0, "the grace of two seconds is not over");
    shard.take(trade("B", 32_000, "5", 1, "").as_bytes());
    assert_eq!(shard.finished().map(|row| brief(&row)).collect::<Vec<_>>(), ["A 30 0 10 10 10 10 1 1 part"]);
}

#[test]
fn trades_within_the_grace_count_and_later_ones_are_late() {
    let mut shard = shard_of("", &[30]);
    let rows = rows(
        &mut shard,
        &[
            trade("A", 1_000, "10", 1, ""),
            trade("A", 31_000, "20", 1, ""),
            trade("A", 29_000, "7", 1, ""), // its bucket is open until 32 s
            trade("A", 32_000, "21", 1, ""),
            trade("A", 28_000, "1", 500, ""), // too late
            trade("A", 65_000, "22", 1, ""),
        ],
    );
    assert_eq!(
        rows.iter().map(brief).collect::<Vec<_>>(),
        ["A 30 0 10 10 7 7 2 2 part", "A 30 30 20 21 20 21 2 2 whole", "A 30 60 22 22 22 22 1 1 part"]
    );
    let late: Vec<_> = rows.iter().map(|row| (row.bar.late_trades, row.bar.late_volume)).collect();
    assert_eq!(late, [(0, 0), (1, 500_000_000_000), (0, 0)]);
    assert_eq!(shard.totals().late, 1);
}

/// A late trade without its own bar is counted in the open bar.
#[test]
fn a_late_trade_of_a_quiet_symbol_is_counted() {
    let mut shard = shard_of("", &[30]);
    let rows =
        rows(&mut shard, &[trade("A", 0, "10", 1, ""), trade("A", 70_000, "10", 1, ""), trade("B", 5_000, "3", 9, "")]);
    let quiet = rows.iter().find(|row| &*row.symbol == "B").unwrap();
    assert_eq!(brief(quiet), "B 30 60 - - - - 0 0 part");
    assert_eq!((quiet.bar.late_trades, quiet.bar.late_volume), (1, 9_000_000_000));
    assert!(quiet.bar.vwap().is_none());
}

#[test]
fn conditions_determine_what_a_trade_changes() {
    let mut shard = shard_of("", &[30]);
    let emitted = rows(
        &mut shard,
        &[
            trade("A", 0, "10", 100, ""),
            trade("A", 1, "99", 5, r#","c":[37]"#),      // odd lot: volume alone
            trade("A", 2, "12", 100, r#","c":[14,33]"#), // out of sequence: not the close
            trade("A", 3, "50", 1_000, r#","c":[15]"#),  // official close of one exchange: nothing
            trade("A", 4, "11", 100, r#","c":[14]"#),
        ],
    );
    assert_eq!(brief(&emitted[0]), "A 30 0 10 12 10 11 305 4 part");
    // (10·100 + 99·5 + 12·100 + 11·100) / 305 = 3795 / 305 = 12.44262295081…
    assert_eq!(emitted[0].bar.vwap().unwrap().to_string(), "12.44262295");
    assert_eq!(format!("{:#}", emitted[0].bar.notional()), "3795");
}

#[test]
fn off_exchange_shares_are_part_of_the_volume() {
    let mut shard = shard_of("", &[30]);
    let dark = r#"{"ev":"T","sym":"A","x":4,"p":10,"s":70,"t":1767605400001,"trfi":202}"#.to_string();
    let emitted = rows(&mut shard, &[trade("A", 0, "10", 30, ""), dark]);
    let bar = &emitted[0].bar;
    assert_eq!((bar.volume, bar.off_exchange_volume), (100_000_000_000, 70_000_000_000));
    assert_eq!((bar.trades, bar.off_exchange_trades), (2, 1));
}

#[test]
fn a_gap_marks_every_bucket_it_may_affect() {
    let mut shard = shard_of("", &[30]);
    let gap = r#"{"ev":"gap","sym":"","conn":1,"at_ns":1}"#.to_string();
    let emitted = briefs(
        &mut shard,
        &[
            trade("A", -5_000, "10", 1, ""),
            trade("A", 5_000, "10", 1, ""),
            trade("A", 35_000, "10", 1, ""),
            gap.clone(),
            gap,
            trade("B", 95_000, "10", 1, ""), // trades of A until here may be missing
            trade("A", 100_000, "10", 1, ""),
            trade("A", 125_000, "10", 1, ""),
            trade("A", 155_000, "10", 1, ""),
        ],
    );
    assert_eq!(
        emitted,
        [
            "A 30 -30 10 10 10 10 1 1 part",
            "A 30 0 10 10 10 10 1 1 whole",
            "A 30 30 10 10 10 10 1 1 part",
            "A 30 90 10 10 10 10 1 1 part",
            "B 30 90 10 10 10 10 1 1 part",
            "A 30 120 10 10 10 10 1 1 whole",
            "A 30 150 10 10 10 10 1 1 part",
        ]
    );
    assert_eq!(shard.totals().gaps, 2);
}

#[test]
fn one_wrong_time_does_not_move_the_clock() {
    let mut shard = shard_of("", &[30]);
    let years = 50 * 365 * 86_400_000;
    let emitted = briefs(
        &mut shard,
        &[
            trade("A", 0, "10", 1, ""),
            trade("A", 1_000, "10", 1, ""),
            trade("A", years, "666", 1, ""),
            trade("A", 2_000, "10", 1, ""),
            trade("A", 2 * years, "666", 1, ""),
        ],
    );
    assert_eq!(emitted, ["A 30 0 10 10 10 10 3 3 part"]);
    assert_eq!((shard.totals().strays, shard.totals().late), (2, 0));
}

#[test]
fn a_night_without_trades_is_not_a_wrong_time() {
    let mut shard = shard_of("", &[30]);
    let night = 16 * 3_600_000;
    let emitted = briefs(
        &mut shard,
        &[
            trade("A", 0, "10", 1, ""),
            trade("A", 1, "10", 1, ""),
            trade("A", night, "11", 1, ""),
            trade("B", night + 1, "12", 1, ""),
        ],
    );
    assert_eq!(
        emitted,
        ["A 30 0 10 10 10 10 2 2 part", "A 30 57600 11 11 11 11 1 1 part", "B 30 57600 12 12 12 12 1 1 part"]
    );
    assert_eq!((shard.totals().strays, shard.totals().trades), (0, 4));
}

#[test]
fn a_first_trade_with_a_wrong_time_does_not_set_the_clock() {
    let mut shard = shard_of("", &[30]);
    let year = 365 * 86_400_000;
    let emitted =
        briefs(&mut shard, &[trade("A", year, "9", 1, ""), trade("A", 0, "10", 1, ""), trade("A", 1, "10", 1, "")]);
    assert_eq!(emitted, ["A 30 0 10 10 10 10 2 2 part"]);
    let mut alone = shard_of("", &[30]);
    assert_eq!(briefs(&mut alone, &[trade("A", 0, "10", 1, "")]), ["A 30 0 10 10 10 10 1 1 part"]);
}

#[test]
fn conflated_records_count_as_their_trades() {
    let mut shard = shard_of("", &[30]);
    let merged = format!(
        r#"{{"ev":"T","sym":"A","conflated":true,"count":3,"p":11,"s":1,"t":{},"first":9,"high":13,"low":8,"volume":30,"notional":330.5}}"#,
        START_MS + 5
    );
    let emitted = rows(&mut shard, &[merged, trade("A", 6, "12", 10, "")]);
    assert_eq!(brief(&emitted[0]), "A 30 0 9 13 8 12 40 4 part");
    assert_eq!(format!("{:#}", emitted[0].bar.notional()), "450.5");
    assert_eq!((emitted[0].bar.merged_trades, shard.totals().merged), (3, 1));
}

#[test]
fn sums_above_the_file_limit_are_refused() {
    let mut shard = shard_of("", &[30]);
    let huge = |at: i64| format!(r#"{{"ev":"T","sym":"A","p":9223372036,"s":9223372036,"t":{}}}"#, START_MS + at);
    // 8.5e19 each, and DECIMAL(38, 18) ends at 1e20.
    let emitted = rows(&mut shard, &[huge(0), huge(1), huge(2)]);
    assert_eq!(emitted[0].bar.trades, 1);
    assert_eq!(shard.totals().unreadable, 2);
}

#[test]
fn symbols_above_the_limit_are_refused() {
    let mut shard = shard_of("", &[30]);
    shard.take(trade("A", 0, "1", 1, "").as_bytes());
    shard.take(trade(&"N".repeat(LONGEST_SYMBOL + 1), 1, "1", 1, "").as_bytes());
    for number in 0..MOST_SYMBOLS {
        shard.take(trade(&format!("S{number}"), 2, "1", 1, "").as_bytes());
    }
    assert_eq!((shard.totals().symbols, shard.totals().refused), (MOST_SYMBOLS as u64, 2));
}

#[test]
fn open_bars_are_shown_when_they_change() {
    let mut shard = shard_of("", &[30, 90]);
    shard.watch_changes();
    let shown = |shard: &mut BarShard| {
        let mut emitted = Vec::new();
        shard.changed(|row| emitted.push(brief(&row)));
        emitted
    };
    shard.take(trade("A", 0, "1", 1, "").as_bytes());
    shard.take(trade("B", 1, "2", 1, "").as_bytes());
    assert_eq!(shown(&mut shard).len(), 4);
    assert!(shown(&mut shard).is_empty());
    shard.take(trade("B", 2, "3", 1, "").as_bytes());
    assert_eq!(shown(&mut shard), ["B 30 0 2 3 2 3 2 2 part", "B 90 0 2 3 2 3 2 2 part"]);
}

/// In whatever order trades arrive within the grace, none is lost and none is counted twice.
#[test]
fn every_trade_is_in_exactly_one_bar_of_each_length() {
    let mut source = SplitMix64::new(1);
    let mut random = move |below: u64| source.below(below);
    let mut shard = shard_of("", &[1, 7, 30]);
    shard.rules = Arc::new(BarRules::parse("[late]\ngrace_ms = 900\n", "rules").unwrap());
    let mut now = 0;
    let mut all = Vec::new();
    for _ in 0..20_000 {
        now += i64::try_from(random(200)).unwrap();
        let late = i64::try_from(random(3_000)).unwrap() * i64::from(random(20) == 0);
        let symbol = format!("S{}", random(5));
        shard.take(trade(&symbol, now - late, "10", 1, "").as_bytes());
        all.extend(shard.finished());
    }
    shard.finish();
    all.extend(shard.finished());
    let mut seen = std::collections::HashSet::new();
    for length in [1, 7, 30] {
        let of_length = all.iter().filter(|row| row.bucket_s == length);
        let sum = of_length.clone().map(|row| row.bar.trades + row.bar.late_trades).sum::<u64>();
        assert_eq!(sum, 20_000, "length {length}");
        for row in of_length {
            assert!(seen.insert((row.symbol.clone(), length, row.bar.number)), "{} twice", brief(row));
        }
    }
    assert!(shard.totals().late > 100);
}
