//! Generates the operations of a busy book from a seed.
//!
//! About 49 percent of the operations are limit orders, most of them near the best prices, and 39
//! percent cancel live orders, mostly among the last few thousand entered. 7 percent are market
//! orders and 5 percent immediate-or-cancel orders. Between 19,000 and 21,000 orders are live
//! throughout.
//!
//! Published figures depend on the sequence: change nothing about the draws.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use pitwire_failure::Failure;
use pitwire_model::Side;
use pitwire_random::SplitMix64;

use super::bare_book::BareBook;
use super::matcher::Matcher;
use super::operations::{Operation, OperationKind, RECORD};
use super::reports::Reports;

/// Number of live orders that a generated file keeps, within 5 %.
pub const LIVE: usize = 20_000;
/// Price in ticks around which the flow starts.
pub const MID: i64 = 1_000_000;

/// Draws a count with a heavy tail: half are below `scale`, one in a hundred is about a hundred
/// times as large.
fn heavy(random: &mut SplitMix64, scale: u64) -> u64 {
    let uniform = random.remainder(1_000_000) + 1;
    (scale * 1_000_000 / uniform).saturating_sub(scale).min(scale * 500)
}

/// Generates operations one at a time. It runs a bare book to know which orders are live.
pub struct Generator {
    random: SplitMix64,
    book: BareBook,
    reports: Reports,
    /// Target number of live orders.
    depth: usize,
    /// Half of the cancels hit one of this many newest live orders.
    recent: u64,
    /// Ids in order of entry. Filled orders are removed when a cancel draws them.
    live: Vec<u64>,
    mid: i64,
    /// Number of the next id. It grows by `stride`, so that several generators never make the same
    /// id.
    next_id: u64,
    stride: u64,
    steps: u32,
}

impl Generator {
    /// Creates a generator that keeps `depth` orders live.
    pub fn new(seed: u64, depth: usize) -> Self {
        Self::sharing_ids(seed, depth, 1, 1)
    }

    /// Creates one of `stride` generators whose ids are distinct.
    pub fn sharing_ids(seed: u64, depth: usize, first_id: u64, stride: u64) -> Self {
        Generator {
            random: SplitMix64::new(seed),
            book: BareBook::new(depth * 2),
            reports: Reports::default(),
            depth,
            recent: (depth as u64 * 3 / 40).max(1),
            live: Vec::new(),
            mid: MID,
            next_id: first_id,
            stride,
            steps: 0,
        }
    }

    /// Returns whether the generator is still filling the book to its depth.
    pub fn is_filling(&self) -> bool {
        self.steps < u32::try_from(self.depth * 3 / 2).unwrap_or(u32::MAX) && self.live.len() < self.depth
    }

    /// Returns the next operation: limit orders until the book has its depth, then the mix.
    pub fn step(&mut self) -> Operation {
        let operation = if self.is_filling() { self.limit(OperationKind::Limit) } else { self.next() };
        self.book.apply(self.steps, &operation, &mut self.reports);
        self.reports.clear();
        self.steps += 1;
        if operation.kind == OperationKind::Limit && self.book.is_live(operation.id) {
            self.live.push(operation.id);
        }
        operation
    }

    fn next(&mut self) -> Operation {
        // Fills are not known beforehand, so the rate at which the price moves controls the depth:
        // orders that the price passes are traded.
        let (depth, wanted) = (self.book.live_orders(), self.depth);
        if self.random.remainder(if depth > wanted { 64 } else { 2_048 }) == 0 {
            self.mid += i64::from(self.random.remainder(2) == 0) * 2 - 1;
        }
        match self.random.remainder(100) {
            0..=47 if depth <= wanted * 21 / 20 => self.limit(OperationKind::Limit),
            48..=87 if depth < wanted * 19 / 20 => self.limit(OperationKind::Limit),
            0..=87 => self.cancel().unwrap_or_else(|| self.limit(OperationKind::Limit)),
            88..=94 => self.market(),
            _ => self.limit(OperationKind::Immediate),
        }
    }

    fn id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += self.stride;
        // An odd multiplier permutes the 64-bit numbers: ids look arbitrary and are distinct.
        id.wrapping_mul(0xD134_2543_DE82_EF95)
    }

    fn side(&mut self) -> Side {
        if self.random.remainder(2) == 0 { Side::Buy } else { Side::Sell }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn limit(&mut self, kind: OperationKind) -> Operation {
        let (id, side) = (self.id(), self.side());
        let away = 1 + heavy(&mut self.random, 8) as i64 - i64::from(kind == OperationKind::Immediate) * 3;
        let price = match side {
            Side::Buy => self.mid - away,
            Side::Sell => self.mid + away,
        };
        let scale = if kind == OperationKind::Immediate { 2 } else { 10 };
        let quantity = 1 + heavy(&mut self.random, scale) as u32;
        Operation { kind, side, price: price.max(1) as u32, id, quantity }
    }

    #[allow(clippy::cast_possible_truncation)]
    fn market(&mut self) -> Operation {
        let (id, side) = (self.id(), self.side());
        // Mostly smaller than the resting orders: each market order fills about one of them.
        Operation { kind: OperationKind::Market, side, price: 0, id, quantity: 1 + heavy(&mut self.random, 2) as u32 }
    }

    fn cancel(&mut self) -> Option<Operation> {
        loop {
            let back =
                usize::try_from(heavy(&mut self.random, self.recent)).unwrap_or(0).min(self.live.len().checked_sub(1)?);
            let at = self.live.len() - 1 - back;
            let id = self.live.remove(at);
            if self.book.is_live(id) {
                return Some(Operation { kind: OperationKind::Cancel, side: Side::Buy, price: 0, id, quantity: 0 });
            }
        }
    }
}

/// Writes `count` operations to a file. About the first 30,000 fill the book.
///
/// # Errors
///
/// Returns a failure if the file cannot be written.
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
