//! The matching core on a file of operations.
//!
//! Does        load or generate operations, run them through the bare book or the full engine, and
//!             time them.
//! Holds       throughput and latency come from separate passes over fresh books, so that reading
//!             the clock does not count as matching.
//! Start at    [`time_run`] and [`sample_latency`]; [`growth`] for curves over the size of the
//!             book.

pub mod bare_book;
pub mod full_engine;
pub mod generate;
pub mod growth;
mod matcher;
pub mod operations;
pub mod reports;

use std::time::Instant;

use hdrhistogram::Histogram;

pub use matcher::Matcher;
use operations::{Operation, OperationKind};
use reports::Reports;

/// [`sample_latency`] times one operation out of this many.
pub const SAMPLE_EVERY: usize = 16;

/// Result of one timed pass.
pub struct TimedRun {
    pub seconds: f64,
    pub reports: Reports,
    /// Orders that rest at the end.
    pub live: usize,
}

/// Counts of operations by kind, and of their results.
pub struct OperationCounts {
    pub limits: usize,
    pub immediates: usize,
    pub markets: usize,
    pub cancels: usize,
    pub replaces: usize,
    pub trades: usize,
    pub lots: u64,
    /// Orders that rest at the end.
    pub live: usize,
}

impl OperationCounts {
    /// Counts the operations and the results of the run over them.
    pub fn of(operations: &[Operation], run: &TimedRun) -> OperationCounts {
        let count = |kind: OperationKind| operations.iter().filter(|operation| operation.kind == kind).count();
        OperationCounts {
            limits: count(OperationKind::Limit),
            immediates: count(OperationKind::Immediate),
            markets: count(OperationKind::Market),
            cancels: count(OperationKind::Cancel),
            replaces: count(OperationKind::Replace),
            trades: run.reports.trades(),
            lots: run.reports.traded_lots(),
            live: run.live,
        }
    }
}

/// Runs all operations and times the whole pass.
///
/// With `look_ahead` the matcher may prefetch for the operations that follow.
pub fn time_run(matcher: &mut impl Matcher, operations: &[Operation], look_ahead: bool) -> TimedRun {
    let mut reports = Reports::with_room_for(operations.len());
    let started = Instant::now();
    run_all(matcher, operations, look_ahead, &mut reports);
    let seconds = started.elapsed().as_secs_f64();
    TimedRun { seconds, reports, live: matcher.live() }
}

/// Never inlined, so that an instruction counter can count this function alone.
#[inline(never)]
fn run_all(matcher: &mut impl Matcher, operations: &[Operation], look_ahead: bool, reports: &mut Reports) {
    for (seq, operation) in (0_u32..).zip(operations) {
        if look_ahead {
            matcher.look_ahead(move |n| operations.get(seq as usize + n));
        }
        matcher.apply(seq, operation, reports);
    }
}

/// Runs all operations and times every 16th of them between two clock readings, in nanoseconds.
///
/// # Panics
///
/// Never: the bounds of the histogram are constants that it accepts.
pub fn sample_latency(matcher: &mut impl Matcher, operations: &[Operation], look_ahead: bool) -> Histogram<u64> {
    let mut latency = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("a histogram from 1 ns to a minute");
    let mut reports = Reports::with_room_for(operations.len());
    for (seq, operation) in (0_u32..).zip(operations) {
        let started = (seq as usize).is_multiple_of(SAMPLE_EVERY).then(Instant::now);
        if look_ahead {
            matcher.look_ahead(move |n| operations.get(seq as usize + n));
        }
        matcher.apply(seq, operation, &mut reports);
        if let Some(started) = started {
            latency.saturating_record(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1));
        }
    }
    latency
}
