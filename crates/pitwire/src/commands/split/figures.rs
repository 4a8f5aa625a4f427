//! The summary of `pitwire split`, as JSON and as text.

use pitwire_splitter::{SplitterReport, StreamCounts};
use serde::Serialize;

/// The summary of a run. The field names of all parts are fields of one JSON object.
#[derive(Serialize)]
pub struct SplitFigures {
    #[serde(flatten)]
    volume: Volume,
    #[serde(flatten)]
    cpu: CpuPerTrade,
    #[serde(flatten)]
    reading: ReadCounts,
    #[serde(flatten)]
    delivery: Delivery,
    #[serde(flatten)]
    lag: Lag,
    #[serde(flatten)]
    odd_objects: OddObjects,
    stats_lines_left_out: u64,
    /// Results of the built-in counters; absent when a program took the trades.
    #[serde(skip_serializing_if = "Option::is_none")]
    counted: Option<CounterTotals>,
    /// Exit status of the workers' program.
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
}

#[derive(Serialize)]
struct Volume {
    trades: u64,
    bytes: u64,
    seconds: f64,
    trades_per_s: f64,
}

/// CPU time per trade, in nanoseconds.
#[derive(Serialize)]
struct CpuPerTrade {
    /// The feed thread and all other threads except the built-in counters.
    cpu_ns_per_trade: f64,
    /// The thread that reads, splits and distributes the feed.
    feed_cpu_ns_per_trade: f64,
    /// The built-in counters; absent without them. Verification is not part of splitting.
    #[serde(skip_serializing_if = "Option::is_none")]
    counters_cpu_ns_per_trade: Option<f64>,
}

#[derive(Serialize)]
struct ReadCounts {
    reads: u64,
    frames: u64,
    reconnects: u64,
}

#[derive(Serialize)]
struct Delivery {
    gaps: u64,
    dropped: u64,
    spilled: u64,
    conflated: u64,
    restarts: u64,
}

/// Time from the read of a trade to its hand-over, in microseconds.
#[derive(Serialize)]
struct Lag {
    lag_p50_us: f64,
    lag_p99_us: f64,
    lag_max_us: f64,
}

/// Objects that were not plain trades.
#[derive(Serialize)]
struct OddObjects {
    unusual: u64,
    no_sym: u64,
    malformed: u64,
    oversized: u64,
}

/// Results of all built-in counters combined; docs/tape.md defines the checksum.
#[derive(Serialize)]
struct CounterTotals {
    trades: u64,
    symbols: u64,
    checksum: String,
    /// Whether the feed numbers the trades of each symbol. Without numbers no loss can be seen.
    numbered: bool,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    sequence: Option<SequenceErrors>,
    gap_records: u64,
    unnumbered: u64,
    /// Number of trades that were not checked, because the limit of tracked symbols was reached.
    unchecked: u64,
    faults: u64,
}

/// Losses and duplicates that the numbers of a feed show.
#[derive(Serialize)]
struct SequenceErrors {
    lost: u64,
    lost_declared: u64,
    duplicated: u64,
    reordered: u64,
}

impl CounterTotals {
    fn of(counted: &[StreamCounts]) -> Option<Self> {
        let all = StreamCounts::sum(counted);
        (!counted.is_empty()).then(|| CounterTotals {
            trades: all.trades,
            symbols: all.symbols,
            checksum: format!("{:016x}", all.checksum),
            numbered: all.is_numbered(),
            sequence: all.is_numbered().then_some(SequenceErrors {
                lost: all.lost,
                lost_declared: all.lost_declared,
                duplicated: all.duplicated,
                reordered: all.reordered,
            }),
            gap_records: all.gaps,
            unnumbered: all.unnumbered,
            unchecked: all.unchecked,
            faults: all.faults,
        })
    }
}

impl SplitFigures {
    #[allow(clippy::cast_precision_loss)]
    pub fn of(report: &SplitterReport) -> Self {
        let SplitterReport { totals, dealt, lag, .. } = report;
        let seconds = report.elapsed_ns as f64 / 1e9;
        let ratio = |above: f64, below: f64| if below > 0.0 { above / below } else { 0.0 };
        let per_trade = |ns: u64| (ratio(ns as f64, totals.trades as f64) * 100.0).round() / 100.0;
        let us = |ns: u64| (ns as f64 / 100.0).round() / 10.0;
        let summary = report.summaries.first();
        SplitFigures {
            volume: Volume {
                trades: totals.trades,
                bytes: totals.bytes,
                seconds,
                trades_per_s: ratio(totals.trades as f64, seconds).round(),
            },
            cpu: CpuPerTrade {
                cpu_ns_per_trade: per_trade(report.cpu_ns + report.others_cpu_ns),
                feed_cpu_ns_per_trade: per_trade(report.cpu_ns),
                counters_cpu_ns_per_trade: (report.counters_cpu_ns > 0).then(|| per_trade(report.counters_cpu_ns)),
            },
            reading: ReadCounts {
                reads: totals.reads,
                frames: totals.frames,
                reconnects: totals.connections.saturating_sub(1),
            },
            delivery: Delivery {
                gaps: dealt.gaps,
                dropped: dealt.dropped,
                spilled: dealt.spilled,
                conflated: dealt.conflated,
                restarts: dealt.restarts,
            },
            lag: Lag { lag_p50_us: us(lag.p50_ns), lag_p99_us: us(lag.p99_ns), lag_max_us: us(lag.max_ns) },
            odd_objects: OddObjects {
                unusual: report.unusual,
                no_sym: report.no_sym,
                malformed: report.malformed,
                oversized: report.oversized,
            },
            stats_lines_left_out: report.lines_left_out,
            counted: summary.and_then(|summary| CounterTotals::of(&summary.counted)),
            program: summary.and_then(|summary| summary.program.clone()),
        }
    }

    /// Returns the summary as lines of text.
    pub fn lines(&self) -> Vec<String> {
        let SplitFigures { volume, cpu, reading, delivery, lag, odd_objects, .. } = self;
        let mut lines = vec![
            format!(
                "{} trades in {:.3} s: {:.0} a second, {:.1} ns of CPU each; {} bytes, {} reads, {} frames",
                volume.trades,
                volume.seconds,
                volume.trades_per_s,
                cpu.cpu_ns_per_trade,
                volume.bytes,
                reading.reads,
                reading.frames
            ),
            format!(
                "hand-over after a read: p50 {:.1} µs, p99 {:.1} µs, max {:.1} µs; {} reconnects, {} gap records, {} dropped, {} spilled",
                lag.lag_p50_us,
                lag.lag_p99_us,
                lag.lag_max_us,
                reading.reconnects,
                delivery.gaps,
                delivery.dropped,
                delivery.spilled
            ),
            format!(
                "{} conflated, {} restarts; {} unusual, {} without symbol, {} malformed, {} above 1 MiB",
                delivery.conflated,
                delivery.restarts,
                odd_objects.unusual,
                odd_objects.no_sym,
                odd_objects.malformed,
                odd_objects.oversized
            ),
        ];
        if let Some(counted) = &self.counted {
            let losses = match &counted.sequence {
                Some(SequenceErrors { lost, lost_declared, duplicated, reordered }) => format!(
                    "{lost} lost undeclared, {lost_declared} lost at gaps, {duplicated} duplicated, {reordered} out of order"
                ),
                None => "the feed does not number the trades of a symbol, so losses are unknown".into(),
            };
            let CounterTotals { trades, symbols, checksum, .. } = counted;
            lines.push(format!("counted: {trades} trades of {symbols} symbols, checksum {checksum}; {losses}"));
        }
        lines.extend(self.program.as_ref().map(|program| format!("the program {program}")));
        lines
    }
}
