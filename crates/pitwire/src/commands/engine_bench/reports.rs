//! What happened, as fixed 32-byte records while the clock runs, as text afterwards.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use pitwire_model::Side;

use pitwire_failure::Failure;

/// In the order in which reports of one operation are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Type {
    Accepted = 0,
    Trade = 1,
    Cancelled = 2,
    Replaced = 3,
    CancelRefused = 4,
    ReplaceRefused = 5,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Report {
    kind: Type,
    side: Side,
    seq: u32,
    /// The order; of a trade, the maker.
    id: u64,
    /// Of a trade only.
    taker: u64,
    price: u32,
    quantity: u32,
}

const _: () = assert!(size_of::<Report>() == 32);

pub struct Reports {
    records: Vec<Report>,
    /// The first operation whose id was live already.
    pub duplicate: Option<u32>,
}

impl Reports {
    /// Room for two reports an operation, every page of it touched.
    pub fn with_room_for(operations: usize) -> Self {
        let blank = Report { kind: Type::Accepted, side: Side::Buy, seq: 0, id: 0, taker: 0, price: 0, quantity: 0 };
        let mut records = vec![blank; operations * 2 + 1024];
        std::hint::black_box(&mut records);
        records.clear();
        Reports { records, duplicate: None }
    }

    /// No room made ahead.
    pub fn new() -> Self {
        Reports { records: Vec::new(), duplicate: None }
    }

    /// Forgets everything reported so far.
    pub fn clear(&mut self) {
        self.records.clear();
    }

    #[inline]
    pub fn order(&mut self, kind: Type, seq: u32, side: Side, id: u64, price: u32, quantity: u32) {
        self.records.push(Report { kind, side, seq, id, taker: 0, price, quantity });
    }

    #[inline]
    pub fn trade(&mut self, seq: u32, price: u32, quantity: u32, maker: u64, taker: u64) {
        self.records.push(Report { kind: Type::Trade, side: Side::Buy, seq, id: maker, taker, price, quantity });
    }

    #[inline]
    pub fn refused(&mut self, kind: Type, seq: u32, id: u64) {
        self.records.push(Report { kind, side: Side::Buy, seq, id, taker: 0, price: 0, quantity: 0 });
    }

    pub fn trades(&self) -> usize {
        self.records.iter().filter(|report| report.kind == Type::Trade).count()
    }

    pub fn traded_lots(&self) -> u64 {
        let trades = self.records.iter().filter(|report| report.kind == Type::Trade);
        trades.map(|trade| u64::from(trade.quantity)).sum()
    }

    /// Lines joined by newlines, none at the end.
    pub fn write_text(&self, path: &Path) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::new(format!("cannot write {}: {error}", path.display()));
        let mut sorted = self.records.clone();
        // Stable: trades of one operation stay in the order in which they happened.
        sorted.sort_by_key(|report| (report.seq, report.kind));
        let mut out = BufWriter::new(File::create(path).map_err(failed)?);
        for (at, report) in sorted.iter().enumerate() {
            if at > 0 {
                out.write_all(b"\n").map_err(failed)?;
            }
            write_line(&mut out, report).map_err(failed)?;
        }
        out.flush().map_err(failed)
    }
}

fn write_line(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    let Report { kind, side, seq, id, taker, price, quantity } = *report;
    let (kind_code, side) = (kind as u8, side as u8);
    match kind {
        Type::Accepted | Type::Replaced => write!(out, "{kind_code},{seq},{side},{id},{price},{quantity}"),
        Type::Trade => write!(out, "{kind_code},{seq},{price},{quantity},{id},{taker}"),
        Type::Cancelled => write!(out, "{kind_code},{seq},{side},{id},{price}"),
        Type::CancelRefused | Type::ReplaceRefused => write!(out, "{kind_code},{seq},{id}"),
    }
}
