//! Nanoseconds per trade, from memory into bars: `cargo run --release -p pitwire-bars --example
//! throughput [-- TRADES]`.
//!
//! Trades of about 99 bytes over 6,000 symbols with a skewed distribution; time advances as at a
//! million trades per second. One thread, buckets of 30, 90 and 180 s, finished bars dropped.

use pitwire_random::SplitMix64;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use pitwire_bars::{BarRules, BarShard};

const SYMBOLS: u64 = 6_000;
/// Records in memory, used repeatedly with different times.
const DISTINCT: u64 = 1 << 18;
const START_MS: u64 = 1_767_605_400_000;
const TRADES_PER_MS: u64 = 1_000;

fn main() {
    let asked = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let trades: u64 = asked.unwrap_or(10_000_000);
    let (mut text, mut ends) = (Vec::new(), Vec::new());
    let mut random = SplitMix64::new(1);
    for number in 0..DISTINCT {
        let chance = random.next() >> 33;
        // The square of a uniform number: half of the trades are of a quarter of the symbols.
        let part = chance % SYMBOLS;
        let symbol = part * part / SYMBOLS;
        let (cents, size) = (10_000 + chance % 500, 1 + chance % 300);
        let time = START_MS + number / TRADES_PER_MS;
        let conditions = if chance.is_multiple_of(3) { "14,37" } else { "14" };
        let written = write!(
            text,
            r#"{{"ev":"T","sym":"S{symbol}","i":"{number:012}","x":{},"p":{}.{:02},"s":{size},"c":[{conditions}],"t":{time},"z":3}}"#,
            chance % 16,
            cents / 100,
            cents % 100,
        );
        written.expect("memory takes everything");
        ends.push(text.len());
    }
    // Offset of the time's digits in every record, which are advanced each round.
    let time_at: Vec<usize> = ends.iter().map(|end| end - r#","z":3}"#.len() - 13).collect();
    let mut shard = BarShard::new(Arc::new(BarRules::default()), &[30, 90, 180]);
    let (mut taken, mut spent_ns, mut bars) = (0_u64, 0_u128, 0_usize);
    while taken < trades {
        let since = Instant::now();
        let mut start = 0;
        for &end in &ends {
            shard.take(&text[start..end]);
            start = end;
        }
        bars += shard.finished().count();
        spent_ns += since.elapsed().as_nanos();
        taken += DISTINCT;
        for (&at, number) in time_at.iter().zip(taken..) {
            let time = START_MS + number / TRADES_PER_MS;
            text[at..at + 13].copy_from_slice(time.to_string().as_bytes());
        }
    }
    let totals = shard.totals();
    assert_eq!((totals.unreadable, totals.strays, totals.late), (0, 0, 0), "every trade is a good one");
    let (bytes, trades) = (text.len() as u64 / DISTINCT, u128::from(taken));
    println!(
        "{{\"trades\":{taken},\"bytes_per_trade\":{bytes},\"symbols\":{},\"bars\":{bars},\"ns_per_trade\":{}.{},\"trades_per_s\":{}}}",
        totals.symbols,
        spent_ns / trades,
        spent_ns * 10 / trades % 10,
        trades * 1_000_000_000 / spent_ns.max(1),
    );
}
