//! Reports of what operations led to: 32-byte records while the clock runs, text afterwards.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use pitwire_model::Side;

use pitwire_failure::Failure;

/// Kind of a report. Reports of one operation are listed in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ReportType {
    Accepted = 0,
    Trade = 1,
    Cancelled = 2,
    Replaced = 3,
    CancelRefused = 4,
    ReplaceRefused = 5,
}

/// One report.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct ReportRecord {
    kind: ReportType,
    side: Side,
    seq: u32,
    /// The order that the report is about; for a trade, the maker.
    id: u64,
    /// The taker of a trade; 0 for other reports.
    taker: u64,
    price: u32,
    quantity: u32,
}

const _: () = assert!(size_of::<ReportRecord>() == 32);

/// All reports of a run, in the order in which they were made.
#[derive(Default)]
pub struct Reports {
    records: Vec<ReportRecord>,
    /// The first operation that entered an id which was live already.
    pub duplicate: Option<u32>,
}

impl Reports {
    /// Allocates two reports per operation and touches every page, so that page faults do not count
    /// as matching.
    pub fn with_room_for(operations: usize) -> Self {
        let blank = ReportRecord {
            kind: ReportType::Accepted,
            side: Side::Buy,
            seq: 0,
            id: 0,
            taker: 0,
            price: 0,
            quantity: 0,
        };
        let mut records = vec![blank; operations * 2 + 1024];
        std::hint::black_box(&mut records);
        records.clear();
        Reports { records, duplicate: None }
    }

    /// Deletes all reports and keeps the memory.
    pub fn clear(&mut self) {
        self.records.clear();
    }

    /// Adds a report about an order.
    #[inline]
    pub fn order(&mut self, kind: ReportType, seq: u32, side: Side, id: u64, price: u32, quantity: u32) {
        self.records.push(ReportRecord { kind, side, seq, id, taker: 0, price, quantity });
    }

    /// Adds a trade.
    #[inline]
    pub fn trade(&mut self, seq: u32, price: u32, quantity: u32, maker: u64, taker: u64) {
        self.records.push(ReportRecord {
            kind: ReportType::Trade,
            side: Side::Buy,
            seq,
            id: maker,
            taker,
            price,
            quantity,
        });
    }

    /// Adds a refused cancel or replace.
    #[inline]
    pub fn refused(&mut self, kind: ReportType, seq: u32, id: u64) {
        self.records.push(ReportRecord { kind, side: Side::Buy, seq, id, taker: 0, price: 0, quantity: 0 });
    }

    /// Returns the number of trades.
    pub fn trades(&self) -> usize {
        self.records.iter().filter(|report| report.kind == ReportType::Trade).count()
    }

    /// Returns the sum of the quantities of all trades.
    pub fn traded_lots(&self) -> u64 {
        let trades = self.records.iter().filter(|report| report.kind == ReportType::Trade);
        trades.map(|trade| u64::from(trade.quantity)).sum()
    }

    /// Writes one line per report in operation order, without a newline at the end.
    ///
    /// # Errors
    ///
    /// Returns a failure if the file cannot be written.
    pub fn write_text(&self, path: &Path) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::new(format!("cannot write {}: {error}", path.display()));
        let mut sorted = self.records.clone();
        // A stable sort keeps the trades of one operation in the order in which they happened.
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

fn write_line(out: &mut impl Write, report: &ReportRecord) -> std::io::Result<()> {
    let ReportRecord { kind, side, seq, id, taker, price, quantity } = *report;
    let (kind_code, side) = (kind as u8, side as u8);
    match kind {
        ReportType::Accepted | ReportType::Replaced => write!(out, "{kind_code},{seq},{side},{id},{price},{quantity}"),
        ReportType::Trade => write!(out, "{kind_code},{seq},{price},{quantity},{id},{taker}"),
        ReportType::Cancelled => write!(out, "{kind_code},{seq},{side},{id},{price}"),
        ReportType::CancelRefused | ReportType::ReplaceRefused => write!(out, "{kind_code},{seq},{id}"),
    }
}
