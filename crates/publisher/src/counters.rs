//! Counters of a delivery thread, which other threads may read at any time.
//!
//! Start at    [`Counters`], then [`text`].

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $help:literal])* $name:ident: $kind:literal,)*) => {
        /// Counters of one delivery thread. Only that thread writes them.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[doc = $help])* pub $name: AtomicU64,)*
        }

        impl Counters {
            /// Returns the Prometheus name and kind of each counter, its help text and its value.
            pub(crate) fn list(&self) -> Vec<(&'static str, &'static str, &'static str, u64)> {
                vec![$((stringify!($name), $kind, concat!($($help),*), self.$name.load(Ordering::Relaxed)),)*]
            }
        }
    };
}

counters! {
    /// Open connections of any kind.
    connections: "gauge",
    /// Accepted connections.
    connections_total: "counter",
    /// Opened WebSockets.
    opened_total: "counter",
    /// Connections refused at the connection limit.
    refused_total: "counter",
    /// Messages taken in.
    messages_total: "counter",
    /// Bytes sent.
    sent_bytes_total: "counter",
    /// Send calls that sent bytes.
    sends_total: "counter",
    /// Delivery passes.
    sweeps_total: "counter",
    /// Sends that found a full socket buffer.
    blocked_total: "counter",
    /// Gap notices sent to slow subscribers.
    gaps_total: "counter",
    /// Slow subscribers closed.
    closed_slow_total: "counter",
    /// Subscribers closed by the idle timeout.
    closed_idle_total: "counter",
    /// Subscribers closed for a protocol error.
    violations_total: "counter",
    /// Messages shed by a busy delivery thread; its subscribers got a notice or were closed.
    shed_total: "counter",
    /// Messages that are not JSON, sent as strings in envelopes.
    quoted_total: "counter",
}

pub(crate) fn add(counter: &AtomicU64, more: u64) {
    // Only one thread writes, so a load and a store suffice.
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// Returns the counters of all threads in the Prometheus text format 0.0.4.
pub fn text<'a>(prefix: &str, threads: impl Iterator<Item = &'a Counters> + Clone) -> String {
    let mut out = String::new();
    let lists: Vec<_> = threads.map(Counters::list).collect();
    for (at, (name, kind, help, _)) in lists.first().into_iter().flatten().enumerate() {
        // Writing to memory does not fail.
        let _ = writeln!(out, "# HELP {prefix}_{name}{help}\n# TYPE {prefix}_{name} {kind}");
        for (thread, list) in lists.iter().enumerate() {
            let _ = writeln!(out, "{prefix}_{name}{{hall=\"{thread}\"}} {}", list[at].3);
        }
    }
    out
}
