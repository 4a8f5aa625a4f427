//! A seeded file of mixed flow: what a busy book sees.
//!
//! In a hundred operations about 54 limit orders near the touch with a heavy tail, 34 cancels of live orders (mostly
//! among the last few thousand entered), 7 market orders and 5 immediate ones; about 19,000 orders live throughout.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use pitwire_model::Side;

use super::Matcher;
use super::book::BareBook;
use super::operations::{Kind, Operation, RECORD};
use super::reports::Reports;
use crate::failure::Failure;

const LIVE: usize = 20_000;
const MID: i64 = 1_000_000;

/// SplitMix64: small, seeded, the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A count from 0 whose tail is heavy: half are below `scale`, one in a hundred about a hundred times as large.
    fn heavy(&mut self, scale: u64) -> u64 {
        let uniform = self.below(1_000_000) + 1;
        (scale * 1_000_000 / uniform).saturating_sub(scale).min(scale * 500)
    }
}

struct Generator {
    random: Random,
    book: BareBook,
    reports: Reports,
    /// Ids in order of entry; those that have filled are dropped when they come up.
    live: Vec<u64>,
    mid: i64,
    next_id: u64,
}

impl Generator {
    fn next(&mut self) -> Operation {
        // What fills is not known beforehand. The depth is held by how often the price moves: what it passes trades.
        let depth = self.book.live_orders();
        if self.random.below(if depth > LIVE { 64 } else { 2_048 }) == 0 {
            self.mid += i64::from(self.random.below(2) == 0) * 2 - 1;
        }
        match self.random.below(100) {
            0..=47 if depth < LIVE * 21 / 20 => self.limit(Kind::Limit),
            48..=87 if depth < LIVE * 19 / 20 => self.limit(Kind::Limit),
            0..=87 => self.cancel().unwrap_or_else(|| self.limit(Kind::Limit)),
            88..=94 => self.market(),
            _ => self.limit(Kind::Immediate),
        }
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        // Arbitrary to the book, distinct by construction: an odd multiplier permutes the 64-bit numbers.
        self.next_id.wrapping_mul(0xD134_2543_DE82_EF95)
    }

    fn side(&mut self) -> Side {
        if self.random.below(2) == 0 { Side::Buy } else { Side::Sell }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn limit(&mut self, kind: Kind) -> Operation {
        let (id, side) = (self.id(), self.side());
        let away = 1 + self.random.heavy(8) as i64 - i64::from(kind == Kind::Immediate) * 3;
        let price = match side {
            Side::Buy => self.mid - away,
            Side::Sell => self.mid + away,
        };
        let scale = if kind == Kind::Immediate { 2 } else { 10 };
        let quantity = 1 + self.random.heavy(scale) as u32;
        Operation { kind, side, price: price.max(1) as u32, id, quantity }
    }

    #[allow(clippy::cast_possible_truncation)]
    fn market(&mut self) -> Operation {
        let (id, side) = (self.id(), self.side());
        // Mostly smaller than what rests: about one order is used up by each.
        Operation { kind: Kind::Market, side, price: 0, id, quantity: 1 + self.random.heavy(2) as u32 }
    }

    fn cancel(&mut self) -> Option<Operation> {
        loop {
            let back = usize::try_from(self.random.heavy(1_500)).unwrap_or(0).min(self.live.len().checked_sub(1)?);
            let at = self.live.len() - 1 - back;
            let id = self.live.remove(at);
            if self.book.is_live(id) {
                return Some(Operation { kind: Kind::Cancel, side: Side::Buy, price: 0, id, quantity: 0 });
            }
        }
    }

    fn step(&mut self, seq: u32) -> Operation {
        let operation = self.next();
        self.book.apply(seq, &operation, &mut self.reports);
        self.reports.clear();
        if operation.kind == Kind::Limit && self.book.is_live(operation.id) {
            self.live.push(operation.id);
        }
        operation
    }
}

/// Writes `count` operations; the first 30,000 or so fill the book.
pub fn write(path: &Path, count: u32, seed: u64) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("cannot write {}: {error}", path.display()));
    let mut out = BufWriter::new(File::create(path).map_err(failed)?);
    let mut generator = Generator {
        random: Random(seed),
        book: BareBook::new(LIVE * 2),
        reports: Reports::with_room_for(64),
        live: Vec::new(),
        mid: MID,
        next_id: 0,
    };
    for seq in 0..count {
        let operation = if seq < 30_000 && generator.live.len() < LIVE {
            let operation = generator.limit(Kind::Limit);
            generator.book.apply(seq, &operation, &mut generator.reports);
            generator.reports.clear();
            generator.live.push(operation.id);
            operation
        } else {
            generator.step(seq)
        };
        out.write_all(&record(&operation)).map_err(failed)?;
    }
    out.flush().map_err(failed)
}

fn record(operation: &Operation) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    bytes[0] = operation.kind as u8;
    bytes[1] = operation.side as u8;
    bytes[4..8].copy_from_slice(&operation.price.to_le_bytes());
    bytes[8..16].copy_from_slice(&operation.id.to_le_bytes());
    bytes[16..20].copy_from_slice(&operation.quantity.to_le_bytes());
    bytes
}
