//! A seeded file of mixed flow: what a busy book sees.
//!
//! In a hundred operations about 49 limit orders near the touch with a heavy tail, 39 cancels of live orders (mostly
//! among the last few thousand entered), 7 market orders and 5 immediate ones; 19,000 to 21,000 orders live throughout.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use pitwire_model::Side;

use super::Matcher;
use super::book::BareBook;
use super::operations::{Kind, Operation, RECORD};
use super::reports::Reports;
use pitwire_failure::Failure;

/// How many orders are live, give or take a twentieth.
pub const LIVE: usize = 20_000;
pub const MID: i64 = 1_000_000;

/// SplitMix64: small, seeded, the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A count from 0 whose tail is heavy: half are below `scale`, one in a hundred about a hundred times as large.
    fn heavy(&mut self, scale: u64) -> u64 {
        let uniform = self.below(1_000_000) + 1;
        (scale * 1_000_000 / uniform).saturating_sub(scale).min(scale * 500)
    }
}

pub struct Generator {
    random: Random,
    book: BareBook,
    reports: Reports,
    /// How many orders are to be live.
    depth: usize,
    /// Half the cancels are of orders no older than this many live ones.
    recent: u64,
    /// Ids in order of entry; those that have filled are dropped when they come up.
    live: Vec<u64>,
    mid: i64,
    /// Ids are this one and every `stride`-th after it, so that several generators share the numbers.
    next_id: u64,
    stride: u64,
    steps: u32,
}

impl Generator {
    pub fn new(seed: u64, depth: usize) -> Self {
        Self::sharing_ids(seed, depth, 1, 1)
    }

    /// One of `stride` generators whose ids never meet.
    pub fn sharing_ids(seed: u64, depth: usize, first_id: u64, stride: u64) -> Self {
        Generator {
            random: Random(seed),
            book: BareBook::new(depth * 2),
            reports: Reports::new(),
            depth,
            recent: (depth as u64 * 3 / 40).max(1),
            live: Vec::new(),
            mid: MID,
            next_id: first_id,
            stride,
            steps: 0,
        }
    }

    /// Whether the book is still being filled to its depth.
    pub fn is_filling(&self) -> bool {
        self.steps < u32::try_from(self.depth * 3 / 2).unwrap_or(u32::MAX) && self.live.len() < self.depth
    }

    /// The next operation: entries until the book is as deep as it is to be, then the mix.
    pub fn step(&mut self) -> Operation {
        let operation = if self.is_filling() { self.limit(Kind::Limit) } else { self.next() };
        self.book.apply(self.steps, &operation, &mut self.reports);
        self.reports.clear();
        self.steps += 1;
        if operation.kind == Kind::Limit && self.book.is_live(operation.id) {
            self.live.push(operation.id);
        }
        operation
    }

    fn next(&mut self) -> Operation {
        // What fills is not known beforehand. The depth is held by how often the price moves: what it passes trades.
        let (depth, wanted) = (self.book.live_orders(), self.depth);
        if self.random.below(if depth > wanted { 64 } else { 2_048 }) == 0 {
            self.mid += i64::from(self.random.below(2) == 0) * 2 - 1;
        }
        match self.random.below(100) {
            0..=47 if depth <= wanted * 21 / 20 => self.limit(Kind::Limit),
            48..=87 if depth < wanted * 19 / 20 => self.limit(Kind::Limit),
            0..=87 => self.cancel().unwrap_or_else(|| self.limit(Kind::Limit)),
            88..=94 => self.market(),
            _ => self.limit(Kind::Immediate),
        }
    }

    fn id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += self.stride;
        // Arbitrary to the book, distinct by construction: an odd multiplier permutes the 64-bit numbers.
        id.wrapping_mul(0xD134_2543_DE82_EF95)
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
            let back =
                usize::try_from(self.random.heavy(self.recent)).unwrap_or(0).min(self.live.len().checked_sub(1)?);
            let at = self.live.len() - 1 - back;
            let id = self.live.remove(at);
            if self.book.is_live(id) {
                return Some(Operation { kind: Kind::Cancel, side: Side::Buy, price: 0, id, quantity: 0 });
            }
        }
    }
}

/// Writes `count` operations; the first 30,000 or so fill the book.
pub fn write(path: &Path, count: u32, seed: u64) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("cannot write {}: {error}", path.display()));
    let mut out = BufWriter::new(File::create(path).map_err(failed)?);
    let mut generator = Generator::new(seed, LIVE);
    for _ in 0..count {
        out.write_all(&record(&generator.step())).map_err(failed)?;
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
