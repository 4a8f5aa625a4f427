//! Which worker a symbol belongs to.
//!
//! The table was computed in Python from the definition of FNV-1a, and checked there with its
//! published hashes of "", "a" and "foobar". AAPL, MSFT, SPY, BRK.A and F among 4 workers also
//! match the original program.

use crate::support::*;
use pitwire_feed::{MissingSymbol, worker_of};
use pitwire_random::SplitMix64;
use pitwire_reference_feed::FeedEvent;

const WORKERS: [u32; 6] = [1, 4, 7, 8, 64, 1000];

const TABLE: &[(&str, [u32; 6])] = &[
    ("AAPL", [0, 3, 1, 3, 11, 699]),
    ("MSFT", [0, 3, 4, 7, 47, 127]),
    ("SPY", [0, 1, 6, 1, 25, 113]),
    ("BRK.A", [0, 0, 2, 0, 56, 256]),
    ("F", [0, 0, 4, 4, 12, 196]),
    ("TSLA", [0, 2, 3, 2, 58, 242]),
    ("GOOGL", [0, 0, 1, 0, 40, 584]),
    ("", [0, 0, 6, 4, 36, 724]),
    ("A", [0, 0, 1, 4, 12, 452]),
    ("SEVENTY", [0, 3, 3, 7, 7, 599]),
    ("EIGHTEEN", [0, 0, 3, 4, 52, 668]),
    ("X:BTCUSD", [0, 1, 0, 5, 61, 437]),
    ("O:SPY251219C00650000", [0, 3, 1, 3, 43, 419]),
    ("ÜBER", [0, 2, 1, 6, 22, 790]),
    ("苹果", [0, 1, 1, 1, 33, 577]),
    ("😀", [0, 0, 1, 0, 56, 392]),
    ("A\"B", [0, 1, 6, 1, 25, 857]),
];

fn workers_of(stream: &[u8], workers: u32) -> Vec<u32> {
    let outcomes: Vec<Vec<u32>> = all_simd_levels()
        .into_iter()
        .map(|simd| {
            let worker = |event: &FeedEvent| match event {
                FeedEvent::Object { worker, .. } => Some(*worker),
                _ => None,
            };
            cut(simd, stream, &[], workers, MissingSymbol::Drop).events.iter().filter_map(worker).collect()
        })
        .collect();
    assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]));
    outcomes[0].clone()
}

#[test]
fn symbols_map_to_the_documented_workers() {
    for (symbol, workers) in TABLE {
        for (count, worker) in WORKERS.into_iter().zip(*workers) {
            assert_eq!(worker_of(symbol.as_bytes(), count), worker, "{symbol} among {count}");
        }
    }
}

#[test]
fn the_decoded_symbol_determines_the_worker() {
    for (symbol, workers) in TABLE {
        let plain = symbol.replace('"', "\\\"");
        let escaped: String = symbol.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let object = |symbol: &str| format!(r#"{{"ev":"T","sym":"{symbol}","p":1,"more":"to be long enough"}}"#);
        let message = text(&format!("[{}]", [object(&plain), object(&escaped), object(&plain)].join(",")));
        // Twice: the second time the symbol is in the table.
        let stream = [message.clone(), message].concat();
        for (count, worker) in WORKERS.into_iter().zip(*workers) {
            assert_eq!(workers_of(&stream, count), [worker; 6], "{symbol} among {count}");
        }
    }
}

/// Symbols that share a table entry do not share a worker.
#[test]
fn a_hundred_thousand_symbols_match_the_hash() {
    let symbols: Vec<String> = (0..100_000_u32).map(|number| format!("{:X}", number.wrapping_mul(2_654_435))).collect();
    let objects: Vec<String> = symbols.iter().map(|symbol| format!(r#"{{"ev":"T","sym":"{symbol}"}}"#)).collect();
    let stream = text(&format!("[{}]", objects.join(",")));
    let expected: Vec<u32> = symbols.iter().map(|symbol| worker_of(symbol.as_bytes(), 64)).collect();
    assert_eq!(workers_of(&[&stream[..], &stream].concat(), 64), [&expected[..], &expected].concat());
}

#[test]
fn zero_workers_count_as_one() {
    assert_eq!(worker_of(b"AAPL", 0), 0);
}

/// Symbols of each length, in objects long enough for the batch scan, with every number of workers.
#[test]
fn remainders_are_exact_for_every_number_of_workers() {
    let mut random = SplitMix64::new(test_seed());
    let symbols: Vec<String> = (0..400)
        .map(|index| (0..index % 11).map(|_| char::from(random.pick(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ.-"))).collect())
        .collect();
    let filler = "x".repeat(60);
    let trades: Vec<String> =
        symbols.iter().map(|symbol| format!(r#"{{"ev":"T","sym":"{symbol}","f":"{filler}"}}"#)).collect();
    let stream = text(&format!("[{}]", trades.join(",")));
    let odd = (0..200).map(|_| u32::try_from(random.next() >> (32 + random.index(32))).unwrap());
    let some = [1, 2, 3, 7, 8, 64, 1000, 8192, 65_535, 65_536, (1 << 20) + 7, 1 << 31, u32::MAX];
    for workers in some.into_iter().chain(odd).map(|workers| workers.max(1)) {
        let expected: Vec<u32> = symbols.iter().map(|symbol| worker_of(symbol.as_bytes(), workers)).collect();
        assert_eq!(workers_of(&stream, workers), expected, "{workers} workers");
    }
}
