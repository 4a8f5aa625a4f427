//! A gateway's figures: `/metrics` in the Prometheus text format, and the summary at the end.

use std::fmt::Write as _;

use pitwire_gateway::{FollowerCounts, NodeFigures};

#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    pub connections: u64,
    pub messages: u64,
    pub http_requests: u64,
    pub calls: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Summary {
    pub counters: Counters,
    pub follower: FollowerCounts,
    pub node: NodeFigures,
    pub epoch: u64,
    pub sequence: u64,
    pub forged: u64,
    pub dropped: u64,
    pub is_ok: bool,
}

impl Summary {
    /// Returns name, kind, help text and value of each metric.
    fn rows(&self) -> [(&'static str, &'static str, &'static str, u64); 21] {
        let Summary { counters, follower, node, .. } = self;
        [
            ("ok", "gauge", "1 while nothing is known to be missing and everybody answers.", u64::from(self.is_ok)),
            ("epoch", "gauge", "The venue's start that is followed, milliseconds since 1970.", self.epoch),
            ("sequence", "gauge", "The newest message taken in.", self.sequence),
            ("batches_total", "counter", "Batches of the venue's.", follower.batches),
            ("messages_total", "counter", "Messages taken in.", follower.messages),
            ("filled_total", "counter", "Messages that did not come by the bus and were asked for.", follower.filled),
            ("gaps_total", "counter", "Times that messages were missing.", follower.gaps),
            ("repeated_total", "counter", "Batches ignored because they were known.", follower.repeated),
            ("foreign_total", "counter", "Batches ignored because they are of another start.", follower.foreign),
            ("forged_total", "counter", "Messages ignored because they are not the venue's.", self.forged),
            ("dropped_total", "counter", "Batches for which there was no room; they were asked for.", self.dropped),
            ("restarts_total", "counter", "Times that clients had to begin anew.", follower.restarts),
            ("clients", "gauge", "WebSocket connections.", node.clients as u64),
            ("channels", "gauge", "Channels that are on the bus for this gateway.", node.channels as u64),
            ("joins_total", "counter", "Beginnings asked for.", node.joins),
            ("overrun_total", "counter", "Times that a client was too slow for a channel.", node.overrun),
            ("history_bytes", "gauge", "Batches kept for clients.", node.history_bytes as u64),
            ("connections_total", "counter", "WebSocket connections accepted.", counters.connections),
            ("requests_total", "counter", "WebSocket messages of clients.", counters.messages),
            ("http_requests_total", "counter", "HTTP requests answered.", counters.http_requests),
            ("calls_total", "counter", "Calls passed on to the venue.", counters.calls),
        ]
    }

    /// Returns one line of JSON.
    pub fn json(&self) -> String {
        let fields: Vec<String> = self.rows().iter().map(|(name, _, _, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", fields.join(","))
    }
}

pub fn render(summary: &Summary, out: &mut String) {
    for (name, kind, help, value) in summary.rows() {
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "# HELP pitwire_gateway_{name} {help}\n# TYPE pitwire_gateway_{name} {kind}\npitwire_gateway_{name} {value}"
        );
    }
}
