//! The splitter's statistics in Prometheus text format 0.0.4.
//!
//! Start at    [`text`].

use std::fmt::Write;

use crate::shared_stats::{LAG_OCTAVES, SplitterStats};

pub(crate) fn text(snapshot: &SplitterStats) -> String {
    let SplitterStats { totals, dealt, .. } = snapshot;
    let mut out = String::new();
    for (name, kind, help, value) in [
        ("connected", "gauge", "1 while the feed's connection is open.", u64::from(snapshot.is_connected)),
        ("trades_total", "counter", "Trades dealt.", totals.trades),
        ("received_bytes_total", "counter", "Bytes received, decrypted.", totals.bytes),
        ("reads_total", "counter", "Reads that brought something.", totals.reads),
        ("frames_total", "counter", "WebSocket frames with data.", totals.frames),
        ("connections_total", "counter", "Connections opened.", totals.connections),
        ("connections_lost_total", "counter", "Connections lost.", totals.gaps),
        ("gap_records_total", "counter", "Gap records given to workers.", dealt.gaps),
        ("dropped_total", "counter", "Trades that their worker did not get.", dealt.dropped),
        ("spilled_total", "counter", "Trades that waited in memory for a slow worker.", dealt.spilled),
        ("conflated_total", "counter", "Trades that a conflated record stands for.", dealt.conflated),
        ("restarts_total", "counter", "Times the workers' program was started again.", dealt.restarts),
        ("workers_behind", "gauge", "Workers that do not keep up.", u64::from(dealt.behind)),
        ("unusual_total", "counter", "Objects that took the slow way through the parser.", snapshot.unusual),
        ("no_sym_total", "counter", "Objects without a symbol.", snapshot.no_sym),
    ] {
        metric(&mut out, name, kind, help);
        line(&mut out, format_args!("pitwire_split_{name} {value}"));
    }
    metric(&mut out, "worker_waiting_bytes", "gauge", "Bytes that a worker has not taken yet.");
    for (worker, bytes) in snapshot.waiting_bytes.iter().enumerate() {
        line(&mut out, format_args!("pitwire_split_worker_waiting_bytes{{worker=\"{worker}\"}} {bytes}"));
    }
    metric(
        &mut out,
        "hand_over_seconds",
        "histogram",
        "From a read to the hand-over of what it brought, one sample a read.",
    );
    let mut so_far = 0;
    for (octave, reads) in snapshot.lag_octaves.iter().enumerate() {
        so_far += reads;
        let bound = if octave + 1 == LAG_OCTAVES { "+Inf".into() } else { micros(1 << octave) };
        line(&mut out, format_args!("pitwire_split_hand_over_seconds_bucket{{le=\"{bound}\"}} {so_far}"));
    }
    line(&mut out, format_args!("pitwire_split_hand_over_seconds_count {so_far}"));
    metric(&mut out, "hand_over_max_seconds", "gauge", "The longest hand-over so far.");
    line(&mut out, format_args!("pitwire_split_hand_over_max_seconds {}", micros(snapshot.lag.max_ns.div_ceil(1_000))));
    out
}

/// Formats microseconds as decimal seconds.
fn micros(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

fn metric(out: &mut String, name: &str, kind: &str, help: &str) {
    line(out, format_args!("# HELP pitwire_split_{name} {help}\n# TYPE pitwire_split_{name} {kind}"));
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_named_and_the_histogram_adds_up() {
        let mut snapshot = SplitterStats { is_connected: true, waiting_bytes: vec![7, 0], ..SplitterStats::default() };
        snapshot.totals.trades = 12;
        snapshot.lag_octaves[0] = 1;
        snapshot.lag_octaves[5] = 2;
        snapshot.lag_octaves[LAG_OCTAVES - 1] = 3;
        snapshot.lag.max_ns = 2_000_001;
        let text = text(&snapshot);
        for wanted in [
            "pitwire_split_connected 1\n",
            "# TYPE pitwire_split_trades_total counter\npitwire_split_trades_total 12\n",
            "worker_waiting_bytes{worker=\"0\"} 7\n",
            "bucket{le=\"0.000001\"} 1\n",
            "bucket{le=\"0.000016\"} 1\n",
            "bucket{le=\"0.000032\"} 3\n",
            "bucket{le=\"0.065536\"} 3\n",
            "bucket{le=\"+Inf\"} 6\npitwire_split_hand_over_seconds_count 6\n",
            "hand_over_max_seconds 0.002001\n",
        ] {
            assert!(text.contains(wanted), "{wanted:?} in\n{text}");
        }
    }
}
