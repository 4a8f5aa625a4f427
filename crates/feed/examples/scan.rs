//! The cost of scanning, from memory: nanoseconds per trade, by instruction set and frame size,
//! beside a memchr for braces.
//!
//!     cargo run --release -p pitwire-feed --example scan [TRADES_PER_FRAME...]
//!
//! Trades of about 99 bytes of 6,000 symbols by Zipf's law, in pieces of 256 KiB that stay in the
//! second-level cache. Each figure is the shortest round, because everything else on the machine
//! only adds time.

#![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers of its own")]

use pitwire_random::SplitMix64;
use std::hint::black_box;
use std::time::Instant;

use pitwire_feed::{MissingSymbol, Object, ObjectReader, ObjectSink, SimdLevel};

const PIECE_BYTES: usize = 256 << 10;
const ROUNDS: usize = 40;
const FEEDS_A_ROUND: usize = 20;

#[derive(Default)]
struct ScanCount {
    objects: usize,
    sum: u64,
}

impl ObjectSink for ScanCount {
    fn objects(&mut self, _text: &[u8], objects: &[Object]) {
        self.objects += objects.len();
        // Uses every worker and offset, as a transport would.
        self.sum += objects.iter().map(|object| u64::from(object.worker + object.end - object.start)).sum::<u64>();
    }
    fn ping(&mut self, _body: &[u8]) {}
    fn pong(&mut self, _body: &[u8]) {}
    fn close(&mut self, _code: Option<u16>, _reason: &[u8]) {}
}

/// Makes a symbol of one to five letters.
fn name(mut number: usize) -> String {
    let mut name = String::new();
    loop {
        name.push(char::from(b'A' + (number % 26) as u8));
        number /= 26;
        if number == 0 {
            return name;
        }
        number -= 1;
    }
}

fn frame(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x81];
    match payload.len() {
        len @ 0..126 => frame.push(len as u8),
        len @ 126..0x1_0000 => {
            frame.push(126);
            frame.extend((len as u16).to_be_bytes());
        }
        len => {
            frame.push(127);
            frame.extend((len as u64).to_be_bytes());
        }
    }
    frame.extend(payload);
    frame
}

/// Makes whole frames that fit a piece, and counts their trades.
fn feed(trades_a_frame: usize) -> (Vec<u8>, usize) {
    let (mut bytes, mut trades, mut random) = (Vec::new(), 0, SplitMix64::new(1));
    loop {
        let mut text = String::from("[");
        for index in 0..trades_a_frame {
            let unit = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
            let symbol = name(6000_f64.powf(unit) as usize);
            let price = 1000 + random.below(90_000);
            let size = 1 + random.below(500);
            let comma = if index == 0 { "" } else { "," };
            text += &format!(
                r#"{comma}{{"ev":"T","sym":"{symbol}","i":"{}","x":{},"p":{}.{:02},"s":{size},"c":[{}],"t":1606487{:09},"z":3}}"#,
                52_983_525_000 + trades as u64,
                1 + random.below(19),
                price / 100,
                price % 100,
                12 + random.below(30),
                trades,
            );
        }
        let frame = frame((text + "]").as_bytes());
        if bytes.len() + frame.len() > PIECE_BYTES {
            return (bytes, trades);
        }
        trades += trades_a_frame;
        bytes.extend(frame);
    }
}

/// Returns the time of the shortest round, per trade.
fn least_ns(trades: usize, mut round: impl FnMut()) -> f64 {
    let mut least = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        (0..FEEDS_A_ROUND).for_each(|_| round());
        least = least.min(start.elapsed().as_secs_f64() * 1e9 / (trades * FEEDS_A_ROUND) as f64);
    }
    least
}

fn main() {
    println!(
        "{:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "a frame", "bytes", "words", "avx2", "avx512", "memchr", "sum"
    );
    let only: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let sizes = if only.is_empty() { vec![1, 3, 15, 128, 1000] } else { only };
    for trades_a_frame in sizes {
        let (bytes, trades) = feed(trades_a_frame);
        let mut row = format!("{trades_a_frame:>8} {:>8}", bytes.len() / trades);
        for simd in SimdLevel::ALL {
            if !simd.is_supported() {
                row += &format!(" {:>8}", "-");
                continue;
            }
            let mut reader = ObjectReader::with_simd(simd, 8, MissingSymbol::Drop);
            let mut count = ScanCount::default();
            let ns = least_ns(trades, || reader.feed(black_box(&bytes), &mut count).expect("a correct feed"));
            assert_eq!(count.objects % trades, 0);
            black_box(count.sum);
            row += &format!(" {ns:>8.2}");
        }
        let ns = least_ns(trades, || {
            black_box(memchr::memchr_iter(b'}', black_box(&bytes)).count());
        });
        row += &format!(" {ns:>8.2}");
        let ns = least_ns(trades, || {
            black_box(black_box(&bytes).iter().map(|byte| u64::from(*byte)).sum::<u64>());
        });
        println!("{row} {ns:>8.2}");
    }
}
