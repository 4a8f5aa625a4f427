//! The summary of a run: as JSON, as text, and the warnings that belong to it.
//!
//! Start at    [`json()`], [`text`], [`warnings`].

use serde_json::{Value, json};

use crate::plan::LoadPlan;
use crate::report::LoadReport;
use crate::verdict::LimitVerdict;

#[allow(clippy::cast_precision_loss)]
fn per_s(count: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { count as f64 * 1e9 / ns as f64 }
}

#[allow(clippy::cast_precision_loss)]
fn seconds(report: &LoadReport) -> f64 {
    report.measured_ns as f64 / 1e9
}

fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// Returns the summary as one JSON object. Its field names are part of the output of
/// `pitwire load --json`.
#[allow(clippy::cast_precision_loss)]
pub fn json(plan: &LoadPlan, report: &LoadReport) -> Value {
    let (counters, generator) = (&report.counters, &report.generator);
    let us = |percent: f64| report.latencies.percentile_us(percent).map(|us| rounded(us, 1));
    let arrived = |percent: f64| report.arrivals.percentile_us(percent).map(|us| rounded(us, 1));
    let verdict = LimitVerdict::of(report);
    let (spread, last) = (report.spread_us(), report.last_us());
    let per_delivery_ns =
        (counters.deliveries > 0).then(|| rounded(generator.cpu_ns as f64 / counters.deliveries as f64, 1));
    let mut figures = json!({
        "connections": plan.share.total,
        "failed_connections": counters.failed,
        "deliveries": counters.deliveries,
        "deliveries_per_s": rounded(per_s(counters.deliveries, report.measured_ns), 1),
        "late": counters.late,
        "lost": counters.lost,
        "conflated": counters.conflated,
        "duplicated": counters.duplicated,
        "p50_us": us(50.0),
        "p99_us": us(99.0),
        "p999_us": us(99.9),
        "spread_us": spread.map(|(half, _)| rounded(half, 1)),
        "generator_cpu_s": rounded(generator.cpu_ns as f64 / 1e9, 3),
        "generator_bound": generator.is_bound(),
    });
    let more = json!({
        "arrived_p50_us": arrived(50.0),
        "arrived_p99_us": arrived(99.0),
        "generator_busy": rounded(generator.busy, 3),
        "bottleneck": verdict.bottleneck.name(),
        "bottleneck_confidence": verdict.confidence.name(),
        "verdict": verdict.sentence(report),
        "server_busy": report.machine.server_busy.map(|part| rounded(part, 3)),
        "server_cpu_s": report.machine.server_cpu_ns.map(|ns| rounded(ns as f64 / 1e9, 3)),
        "machine_busy": report.machine.machine_busy.map(|part| rounded(part, 3)),
        "schedule_late_p99_us": report.schedule_lateness.percentile_us(99.0).map(|us| rounded(us, 1)),
        "generator_waiting": rounded(generator.waiting, 3),
        "generator_threads": generator.threads,
        "generator_ns_per_delivery": per_delivery_ns,
        "seconds": rounded(seconds(report), 3),
        "max_us": report.latencies.max_us().map(|us| rounded(us, 1)),
        "timed": report.latencies.count(),
        "untimed": counters.untimed,
        "unnumbered": counters.unnumbered,
        "undelivered": counters.undelivered,
        "silent_connections": counters.silent,
        "ended_early": counters.ended_early,
        "faulty_ended": counters.faulty_ended,
        "gap_notices": counters.gap_notices,
        "malformed": counters.malformed,
        "breaches": report.violations,
        "closes": report.closes,
        "sent": counters.sent,
        "unsent": counters.unsent,
        "slow_deliveries": counters.slow_deliveries,
        "bytes": counters.bytes,
        "reads": counters.reads,
        "spread_p99_us": spread.map(|(_, most)| rounded(most, 1)),
        "last_us": last.map(|(half, _)| rounded(half, 1)),
        "last_p99_us": last.map(|(_, most)| rounded(most, 1)),
        "opening_s": rounded(report.opening_ns as f64 / 1e9, 3),
        "storm_s": report.storm_ns.map(|ns| rounded(ns as f64 / 1e9, 3)),
        "storm_retries": counters.storm_retries,
        "tls": plan.tls.is_some(),
        "failures": report.failures,
        "interrupted": is_interrupted(plan, report),
    });
    if let (Value::Object(figures), Value::Object(more)) = (&mut figures, more) {
        figures.extend(more);
    }
    figures
}

/// Returns whether the run ended before its planned duration.
fn is_interrupted(plan: &LoadPlan, report: &LoadReport) -> bool {
    u128::from(report.measured_ns) < plan.duration.as_nanos()
}

/// Returns warnings to show before the figures.
pub fn warnings(plan: &LoadPlan, report: &LoadReport) -> Vec<String> {
    let mut lines: Vec<String> = report
        .failures
        .iter()
        .map(|failures| format!("{} connections failed: {} ({})", failures.count, failures.cause, failures.remedy))
        .collect();
    if is_interrupted(plan, report) {
        lines.push(format!("interrupted: measured {:.1} s of {:.1} s", seconds(report), plan.duration.as_secs_f64()));
    }
    lines.extend(report.violations.iter().map(|what| format!("the server broke the WebSocket protocol: {what}")));
    if report.counters.ended_early > 0 {
        let codes: Vec<String> = report.closes.iter().map(|(code, count)| format!("{code} × {count}")).collect();
        let what = "connections were ended early by the server; close codes";
        let remedy = "1013: they did not keep up; 1006: without a close frame";
        lines.push(format!("{} {what}: {} ({remedy})", report.counters.ended_early, codes.join(", ")));
    }
    let counters = &report.counters;
    if counters.silent > 0 {
        let remedy = "check the path in the URL, or subscribe with --subscribe";
        lines.push(format!("{} connections never received a message ({remedy})", counters.silent));
    }
    if counters.unnumbered > 0 && counters.unnumbered >= counters.deliveries {
        lines.push("messages carry no number, so nothing can be said of lost ones (--sequence-field names another than \"seq\")".into());
    } else if counters.untimed > counters.opened && report.latencies.count() == 0 {
        lines.push("messages say neither \"due_ns\" nor \"ts_ns\", so nothing can be said of their latency".into());
    }
    if report.generator.is_bound() {
        lines.push(
            "generator-bound: a thread of the load client had or wanted its processor more than nine tenths of the time; \
             what it measured is its own limit (more --threads, or fewer connections)"
                .into(),
        );
    }
    lines
}

/// Returns the summary as lines of text.
#[allow(clippy::cast_precision_loss)]
pub fn text(plan: &LoadPlan, report: &LoadReport) -> String {
    let counters = &report.counters;
    let us = |percent: f64| report.latencies.percentile_us(percent).map_or_else(|| "-".into(), |us| format!("{us:.0}"));
    let mut lines = vec![
        format!(
            "{} connections ({} failed), {} deliveries in {:.1} s: {:.0} a second",
            plan.share.total,
            counters.failed,
            counters.deliveries,
            seconds(report),
            per_s(counters.deliveries, report.measured_ns)
        ),
        format!(
            "late {}, lost {}, conflated {}, duplicated {}, malformed {}, ended early {}",
            counters.late,
            counters.lost,
            counters.conflated,
            counters.duplicated,
            counters.malformed,
            counters.ended_early
        ),
        format!("latency µs: p50 {}, p99 {}, p99.9 {}", us(50.0), us(99.0), us(99.9)),
    ];
    if let (Some(half), Some(most)) = (report.arrivals.percentile_us(50.0), report.arrivals.percentile_us(99.0)) {
        lines.push(format!("of that until it was at the load client's socket, µs: p50 {half:.0}, p99 {most:.0}"));
    }
    if let Some((half, most)) = report.spread_us() {
        lines.push(format!("first to last connection of a message, µs: median {half:.0}, p99 {most:.0}"));
    }
    if let Some((half, most)) = report.last_us() {
        lines.push(format!("until the last connection has it, µs: median {half:.0}, p99 {most:.0}"));
    }
    if let Some(ns) = report.storm_ns {
        lines.push(format!("storm: all back after {:.3} s, {} retries", ns as f64 / 1e9, counters.storm_retries));
    }
    lines.push(format!(
        "load client: {:.2} CPU seconds, busiest thread {:.0} %{}",
        report.generator.cpu_ns as f64 / 1e9,
        report.generator.busy * 100.0,
        if report.generator.is_bound() { ", generator-bound" } else { "" }
    ));
    lines.push(LimitVerdict::of(report).sentence(report));
    lines.join("\n")
}
