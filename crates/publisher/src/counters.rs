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
    /// Connections open now, whatever they are for.
    connections: "gauge",
    /// Connections taken.
    connections_total: "counter",
    /// WebSockets opened.
    opened_total: "counter",
    /// Connections that were refused because there were too many.
    refused_total: "counter",
    /// Messages taken from whoever publishes.
    messages_total: "counter",
    /// Bytes given to sockets.
    sent_bytes_total: "counter",
    /// Calls that gave bytes to sockets.
    sends_total: "counter",
    /// Turns through those for whom there is something.
    sweeps_total: "counter",
    /// Times that a socket would take no more.
    blocked_total: "counter",
    /// Readers that fell behind and were told what they missed.
    gaps_total: "counter",
    /// Readers that fell behind and were closed.
    closed_slow_total: "counter",
    /// Readers that were silent for too long and were closed.
    closed_idle_total: "counter",
    /// Readers that broke the protocol and were closed.
    violations_total: "counter",
    /// Messages that a hall was too busy to take in; its readers were told, or closed.
    shed_total: "counter",
    /// Messages that are no JSON and were put into envelopes as strings.
    quoted_total: "counter",
}

pub(crate) fn add(counter: &AtomicU64, more: u64) {
    // Only one thread writes, so a load and a store suffice.
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// Returns the counters of all threads in the Prometheus text format 0.0.4.
pub fn text<'a>(prefix: &str, halls: impl Iterator<Item = &'a Counters> + Clone) -> String {
    let mut out = String::new();
    let lists: Vec<_> = halls.map(Counters::list).collect();
    for (at, (name, kind, help, _)) in lists.first().into_iter().flatten().enumerate() {
        // Writing to memory does not fail.
        let _ = writeln!(out, "# HELP {prefix}_{name}{help}\n# TYPE {prefix}_{name} {kind}");
        for (hall, list) in lists.iter().enumerate() {
            let _ = writeln!(out, "{prefix}_{name}{{hall=\"{hall}\"}} {}", list[at].3);
        }
    }
    out
}
