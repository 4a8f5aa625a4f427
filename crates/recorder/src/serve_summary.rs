//! The summary of a served feed: as JSON and as text.
//!
//! Start at    [`ServeSummary::of`].

use std::time::Duration;

use crate::server::ServeReport;

/// Names and values of the report, in order.
pub struct ServeSummary {
    fields: Vec<(&'static str, String)>,
}

impl ServeSummary {
    /// Builds the report. `cpu_s` is the CPU time of serving in seconds; `ceiling_per_s` is the
    /// maximum rate of the source.
    pub fn of(report: &ServeReport, cpu_s: f64, ceiling_per_s: f64) -> Self {
        let late = |quantile: f64| {
            let late = report.sums.late_ns.as_ref().filter(|late| !late.is_empty());
            late.map_or("null".into(), |late| format!("{:.1}", thousandth(late.value_at_quantile(quantile))))
        };
        let hex = |sum: Option<u64>| sum.map_or("null".into(), |sum| format!("\"{sum:016x}\""));
        let fields = vec![
            ("trades", report.sums.trades.to_string()),
            ("messages", report.sums.messages.to_string()),
            ("bytes", report.bytes.to_string()),
            ("seconds", format!("{:.6}", report.seconds)),
            ("trades_per_s", format!("{:.0}", per_second(report.sums.trades, report.seconds))),
            ("cpu_ns_per_trade", format!("{:.2}", each(cpu_s * 1e9, report.sums.trades))),
            ("ceiling_trades_per_s", format!("{ceiling_per_s:.0}")),
            ("connections", report.connections.to_string()),
            ("refused", report.refused.to_string()),
            ("disconnects", report.disconnects.to_string()),
            ("broken", report.broken.to_string()),
            ("violations", report.violations.to_string()),
            ("pings", report.pings.to_string()),
            ("late_p50_us", late(0.5)),
            ("late_p99_us", late(0.99)),
            ("late_max_us", late(1.0)),
            ("checksum", hex(report.sums.checksum)),
            ("content", hex(report.sums.content)),
        ];
        ServeSummary { fields }
    }

    /// Returns one JSON object.
    pub fn json(&self) -> String {
        let fields: Vec<String> = self.fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", fields.join(","))
    }

    /// Returns one line of text per known value.
    pub fn text(&self) -> String {
        let known = self.fields.iter().filter(|(_, value)| value != "null");
        let lines: Vec<String> =
            known.map(|(name, value)| format!("{:<22} {}", name.replace('_', " "), value.trim_matches('"'))).collect();
        lines.join("\n")
    }
}

#[allow(clippy::cast_precision_loss)] // A figure to read.
fn as_f64(count: u64) -> f64 {
    count as f64
}

fn thousandth(count: u64) -> f64 {
    as_f64(count) / 1e3
}

fn each(sum: f64, count: u64) -> f64 {
    if count > 0 { sum / as_f64(count) } else { 0.0 }
}

/// Returns `count` per second; 0 for no time.
pub fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { as_f64(count) / seconds } else { 0.0 }
}

/// Returns the CPU time of this process since its start, in seconds.
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).map_or(0.0, |time| time.as_secs_f64())
}
