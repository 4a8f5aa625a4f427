//! Metrics of a gateway: `/metrics` in the Prometheus text format, and the summary at the end.

use std::fmt::Write as _;

use pitwire_gateway::{FollowerCounts, NodeFigures};

/// Counts of client requests since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct GatewayCounters {
    pub connections: u64,
    pub messages: u64,
    pub http_requests: u64,
    pub calls: u64,
}

/// All metrics of a gateway at one moment.
#[derive(Clone, Copy, Debug)]
pub struct GatewaySummary {
    pub counters: GatewayCounters,
    pub follower: FollowerCounts,
    pub node: NodeFigures,
    pub epoch: u64,
    pub sequence: u64,
    pub forged: u64,
    pub dropped: u64,
    pub is_ok: bool,
}

impl GatewaySummary {
    /// Returns name, kind, help text and value of each metric.
    fn rows(&self) -> [(&'static str, &'static str, &'static str, u64); 21] {
        let GatewaySummary { counters, follower, node, .. } = self;
        [
            (
                "ok",
                "gauge",
                "1 while no message is known to be missing and the bus and the venue answer.",
                u64::from(self.is_ok),
            ),
            (
                "epoch",
                "gauge",
                "Epoch that the gateway follows: start of the venue, in milliseconds since 1970.",
                self.epoch,
            ),
            ("sequence", "gauge", "Sequence of the newest message received.", self.sequence),
            ("batches_total", "counter", "Batches received from the venue.", follower.batches),
            ("messages_total", "counter", "Messages received.", follower.messages),
            ("filled_total", "counter", "Messages that the bus lost and the venue answered.", follower.filled),
            ("gaps_total", "counter", "Gaps found in the sequence of messages.", follower.gaps),
            ("repeated_total", "counter", "Repeated batches that were ignored.", follower.repeated),
            ("foreign_total", "counter", "Ignored batches of another epoch.", follower.foreign),
            ("forged_total", "counter", "Ignored messages without a valid MAC.", self.forged),
            (
                "dropped_total",
                "counter",
                "Batches dropped because the queue was full; the venue is asked for them.",
                self.dropped,
            ),
            (
                "restarts_total",
                "counter",
                "Restarts of all channels, after which clients subscribe again.",
                follower.restarts,
            ),
            ("clients", "gauge", "Open WebSocket connections.", node.clients as u64),
            ("channels", "gauge", "Channels that the venue publishes for this gateway.", node.channels as u64),
            ("joins_total", "counter", "Snapshots requested from the venue for new channels.", node.joins),
            ("overrun_total", "counter", "Times that a client was too slow for a channel.", node.overrun),
            ("history_bytes", "gauge", "Bytes of batches stored for clients.", node.history_bytes as u64),
            ("connections_total", "counter", "WebSocket connections accepted.", counters.connections),
            ("requests_total", "counter", "WebSocket messages from clients.", counters.messages),
            ("http_requests_total", "counter", "HTTP requests answered.", counters.http_requests),
            ("calls_total", "counter", "Calls forwarded to the venue.", counters.calls),
        ]
    }

    /// Returns one line of JSON.
    pub fn json(&self) -> String {
        let fields: Vec<String> = self.rows().iter().map(|(name, _, _, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", fields.join(","))
    }
}

/// Appends all metrics to `out` in the Prometheus text format.
pub fn render(summary: &GatewaySummary, out: &mut String) {
    for (name, kind, help, value) in summary.rows() {
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "# HELP pitwire_gateway_{name} {help}\n# TYPE pitwire_gateway_{name} {kind}\npitwire_gateway_{name} {value}"
        );
    }
}
