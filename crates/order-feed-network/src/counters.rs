//! Counters of the feed, which the venue thread renders for `/metrics`.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Shared by the venue thread and the feed thread.
#[derive(Debug, Default)]
pub(crate) struct FeedCounters {
    /// Bytes of messages that wait for the feed thread.
    pub queued_bytes: AtomicUsize,
    pub messages: AtomicU64,
    pub units: AtomicU64,
    /// Prices that did not fit the encoding.
    pub clipped_prices: AtomicU64,
    /// Datagrams that a line could not send.
    pub unsent: AtomicU64,
    /// Restarts of the feed because the queue was full.
    pub restarts: AtomicU64,
    pub connections: AtomicU64,
    pub refused_connections: AtomicU64,
    pub replays: AtomicU64,
    pub snapshots: AtomicU64,
    /// Requests over a limit.
    pub limited: AtomicU64,
    /// Requests that were not valid.
    pub invalid: AtomicU64,
    /// Clients that did not read or did not finish a request in time.
    pub slow: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl FeedCounters {
    pub fn render(&self, out: &mut String) {
        let rows = [
            ("messages_total", "Messages of the order feed.", &self.messages),
            ("units_total", "Units sent on each line.", &self.units),
            ("clipped_prices_total", "Prices sent as the highest price of the encoding.", &self.clipped_prices),
            ("unsent_total", "Datagrams that a line could not send.", &self.unsent),
            ("restarts_total", "Restarts because the feed thread was behind.", &self.restarts),
            ("connections_total", "Recovery connections accepted.", &self.connections),
            ("refused_connections_total", "Recovery connections over the limit.", &self.refused_connections),
            ("replays_total", "Replay requests answered.", &self.replays),
            ("snapshots_total", "Snapshots sent.", &self.snapshots),
            ("limited_total", "Recovery requests over the limit.", &self.limited),
            ("invalid_total", "Recovery requests that were not valid.", &self.invalid),
            ("slow_total", "Recovery clients closed because they were too slow.", &self.slow),
        ];
        for (name, help, counter) in rows {
            let (name, value) = (format!("pitwire_order_feed_{name}"), counter.load(Ordering::Relaxed));
            // Writing to a String cannot fail.
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}");
        }
        let (name, value) = ("pitwire_order_feed_queued_bytes", self.queued_bytes.load(Ordering::Relaxed));
        let _ =
            writeln!(out, "# HELP {name} Bytes that wait for the feed thread.\n# TYPE {name} gauge\n{name} {value}");
    }
}
