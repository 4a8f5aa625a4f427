//! A market-wide feed from a seed: many symbols by Zipf's law, in the trade form of a large
//! provider.
//!
//! Does        writes trades at memory speed: it copies a cycle of prepared trades, and writes only
//!             the sequence number and the time of each.
//! Holds       each symbol's sequence numbers are 1, 2, 3, … over all cycles. The same seed gives
//!             the same trades, except for their times.
//! Start at    [`SyntheticFeed::take`].

use crate::checksum::{fnv1a, sequence_sum};
use crate::digits::{DIGITS, DigitCounter};
use crate::symbols;
use crate::trades::TradeSource;
use pitwire_random::SplitMix64;

/// Trades of a cycle. It contains each of 6,000 symbols, and fits the last-level cache.
const CYCLE: usize = 1 << 16;
const TIME_DIGITS: usize = 13;

pub struct SyntheticFeed {
    /// The objects of the cycle, each followed by a comma.
    text: Vec<u8>,
    /// Where each object begins, and the end of the last one.
    starts: Vec<u32>,
    slots: Vec<TradeSlot>,
    /// By symbol: the last number used, and the hash of the name.
    sequences: Vec<DigitCounter>,
    hashes: Vec<u64>,
    at: usize,
    taken: u64,
    time: TimeDigits,
}

/// The fields that are rewritten in one trade of the cycle.
#[derive(Clone, Copy)]
struct TradeSlot {
    symbol: u32,
    /// Offset from the start of the trade.
    sequence_at: u16,
    time_at: u16,
}

/// A time and its digits. Most messages have the time of the one before.
struct TimeDigits {
    ms: u64,
    digits: [u8; TIME_DIGITS],
}

impl TimeDigits {
    fn of(&mut self, ms: u64) -> [u8; TIME_DIGITS] {
        if self.ms != ms {
            let text = ms.to_string();
            // Thirteen digits cover 2001 to 2286.
            self.digits = text.as_bytes().try_into().unwrap_or([b'0'; TIME_DIGITS]);
            self.ms = ms;
        }
        self.digits
    }
}

impl SyntheticFeed {
    /// Creates a feed of 1 to [`symbols::MOST`] symbols.
    pub fn new(symbols: usize, seed: u64) -> Self {
        let symbols = symbols.clamp(1, symbols::MOST);
        let length = CYCLE.max(4 * symbols);
        let names = symbols::names(symbols, seed);
        let mut random = SplitMix64::new(seed);
        let mut order: Vec<u32> = Vec::with_capacity(length);
        for (symbol, share) in (0_u32..).zip(symbols::shares(symbols, length)) {
            order.extend(std::iter::repeat_n(symbol, share));
        }
        random.shuffle(&mut order);
        let mut walks: Vec<PriceWalk> = Vec::with_capacity(symbols);
        for share in symbols::shares(symbols, length) {
            walks.push(PriceWalk::new(share, &mut random));
        }
        let mut made = SyntheticFeed {
            text: Vec::with_capacity(length * 104),
            starts: vec![0],
            slots: Vec::with_capacity(length),
            sequences: vec![DigitCounter::ZERO; symbols],
            hashes: names.iter().map(|name| fnv1a(name.as_bytes())).collect(),
            at: 0,
            taken: 0,
            time: TimeDigits { ms: 0, digits: [b'0'; TIME_DIGITS] },
        };
        for symbol in order {
            let index = symbol as usize;
            made.add(symbol, &names[index], &mut walks[index], &mut random);
        }
        made
    }

    fn add(&mut self, symbol: u32, name: &str, walk: &mut PriceWalk, random: &mut SplitMix64) {
        let start = self.text.len();
        let offset = |text: &Vec<u8>| u16::try_from(text.len() - start).unwrap_or(u16::MAX);
        self.text.extend_from_slice(format!("{{\"ev\":\"T\",\"sym\":\"{name}\",\"i\":\"").as_bytes());
        let sequence_at = offset(&self.text);
        self.text.extend_from_slice(&[b'0'; DIGITS]);
        let venue = venue(random);
        let rest = format!(
            "\",\"x\":{venue},\"p\":{},\"s\":{},\"c\":{},\"t\":",
            walk.price(venue, random),
            size(random),
            conditions(random)
        );
        self.text.extend_from_slice(rest.as_bytes());
        let time_at = offset(&self.text);
        self.text.extend_from_slice(&[b'0'; TIME_DIGITS]);
        let tape = match symbol % 4 {
            0 | 1 => 3,
            2 => 1,
            _ => 2,
        };
        self.text.extend_from_slice(format!(",\"z\":{tape}}},").as_bytes());
        self.starts.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
        self.slots.push(TradeSlot { symbol, sequence_at, time_at });
    }

    /// Copies `run` trades from the position in the cycle, not beyond its end.
    fn copy(&mut self, run: usize, time: [u8; TIME_DIGITS], out: &mut Vec<u8>, ends: Option<&mut Vec<usize>>) {
        let starts = &self.starts[self.at..=self.at + run];
        let first = starts[0] as usize;
        let base = out.len();
        out.extend_from_slice(&self.text[first..starts[run] as usize]);
        let written = &mut out[base..];
        for (slot, start) in self.slots[self.at..self.at + run].iter().zip(starts) {
            let trade = *start as usize - first;
            let sequence = &mut self.sequences[slot.symbol as usize];
            sequence.count();
            let sequence_at = trade + slot.sequence_at as usize;
            if let Some(digits) = written[sequence_at..].first_chunk_mut() {
                sequence.write(digits);
            }
            let time_at = trade + slot.time_at as usize;
            written[time_at..time_at + TIME_DIGITS].copy_from_slice(&time);
        }
        if let Some(ends) = ends {
            ends.extend(starts[1..].iter().map(|end| base + *end as usize - first - 1));
        }
        self.at += run;
        self.taken += run as u64;
        if self.at == self.slots.len() {
            self.at = 0;
        }
    }
}

impl TradeSource for SyntheticFeed {
    fn take(&mut self, trades: usize, wall_ms: u64, out: &mut Vec<u8>, mut ends: Option<&mut Vec<usize>>) -> usize {
        let time = self.time.of(wall_ms);
        let mut left = trades;
        while left > 0 {
            let run = left.min(self.slots.len() - self.at);
            self.copy(run, time, out, ends.as_deref_mut());
            left -= run;
        }
        trades
    }

    fn checksum(&self) -> Option<u64> {
        let sums =
            self.hashes.iter().zip(&self.sequences).map(|(hash, sequence)| sequence_sum(*hash, sequence.value()));
        Some(sums.fold(0, u64::wrapping_add))
    }

    fn remaining(&self) -> u64 {
        // No symbol can exhaust its digits before this.
        DigitCounter::MOST - self.taken
    }
}

/// A symbol's prices over the cycle, in hundredths: a random walk that ends where it began, so that
/// cycles connect.
struct PriceWalk {
    prices: std::vec::IntoIter<u64>,
}

impl PriceWalk {
    fn new(trades: usize, random: &mut SplitMix64) -> Self {
        // From 1 to about 800, mostly low: the product of two draws.
        let start = 100 + random.below(283) * random.below(283);
        let mut drift = 0_i64;
        let mut drifts = Vec::with_capacity(trades);
        for _ in 0..trades {
            drift += [-2, -1, -1, 0, 0, 0, 0, 1, 1, 2][usize::try_from(random.below(10)).unwrap_or(0)];
            drifts.push(drift);
        }
        let length = i64::try_from(trades).unwrap_or(1).max(1);
        let bridge = |(index, at): (i64, i64)| {
            let price = i64::try_from(start).unwrap_or(0) + at - drift * index / length;
            u64::try_from(price.max(1)).unwrap_or(1)
        };
        let prices: Vec<u64> = (1..).zip(drifts).map(bridge).collect();
        PriceWalk { prices: prices.into_iter() }
    }

    /// Formats a price like a provider: no trailing zeros; off-exchange sometimes with four
    /// decimals.
    fn price(&mut self, venue: u64, random: &mut SplitMix64) -> String {
        let cents = self.prices.next().unwrap_or(100);
        if venue == OFF_EXCHANGE && random.one_in(3) {
            return format!("{}.{:02}{:02}", cents / 100, cents % 100, random.between(1, 9) * 10 + 5);
        }
        match (cents / 100, cents % 100) {
            (whole, 0) => whole.to_string(),
            (whole, part) if part % 10 == 0 => format!("{whole}.{}", part / 10),
            (whole, part) => format!("{whole}.{part:02}"),
        }
    }
}

/// The exchange id of off-exchange trades, reported to FINRA.
const OFF_EXCHANGE: u64 = 4;

fn venue(random: &mut SplitMix64) -> u64 {
    const LIT: [u64; 12] = [1, 2, 3, 7, 8, 9, 10, 11, 12, 15, 19, 20];
    if random.below(100) < 40 { OFF_EXCHANGE } else { LIT[usize::try_from(random.below(12)).unwrap_or(0)] }
}

/// Draws round lots, and many odd lots.
fn size(random: &mut SplitMix64) -> u64 {
    match random.below(100) {
        0..=44 => 100,
        45..=54 => 100 * random.between(2, 9),
        55..=57 => 100 * random.between(10, 200),
        _ => random.between(1, 99),
    }
}

/// Draws condition codes: none, odd lot, sweep, extended hours, late (sold out of sequence),
/// average price.
fn conditions(random: &mut SplitMix64) -> &'static str {
    match random.below(1_000) {
        0..=399 => "[]",
        400..=699 => "[37]",
        700..=849 => "[14]",
        850..=949 => "[14,37]",
        950..=969 => "[14,41]",
        970..=979 => "[12,37]",
        980..=989 => "[12]",
        990..=995 => "[2]",
        _ => "[32]",
    }
}
