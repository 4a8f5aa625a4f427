//! `/metrics` in the Prometheus text format.
//!
//! Holds       everyone may read it, so it counts what the public sees. Counts that include hidden,
//!             parked or unelected orders are rounded down to whole thousands. The number of
//!             commands is public, because order ids are command numbers.

use std::fmt::Write as _;

use pitwire_deribit::FailureCounts;
use pitwire_journal::records::ChainState;

#[derive(Debug, Default)]
pub struct ServerCounters {
    pub http_requests: u64,
    pub messages: u64,
    pub errors: u64,
    pub connections: u64,
    pub commits: u64,
    pub commit_ns: u64,
    pub commit_ns_max: u64,
}

impl ServerCounters {
    pub fn committed(&mut self, took_ns: u64) {
        self.commits += 1;
        self.commit_ns += took_ns;
        self.commit_ns_max = self.commit_ns_max.max(took_ns);
    }
}

pub struct Gauges<'a> {
    pub chain: &'a ChainState,
    pub epoch: u64,
    pub durable: u64,
    /// Orders in the visible books.
    pub shown_orders: u64,
    pub open_connections: usize,
    /// Connections that delivery threads serve.
    pub listeners: usize,
    pub open_channels: usize,
    pub is_durable: bool,
    pub is_early: bool,
    pub login_failures: FailureCounts,
}

/// Resolution of counts that include hidden orders.
const COARSE: u64 = 1_000;

pub fn render(counters: &ServerCounters, gauges: &Gauges<'_>) -> String {
    let mut out = String::new();
    let coarse = |count: u64| (count - count % COARSE).to_string();
    let seconds = |ns: u64| {
        let (whole, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
        format!("{whole}.{rest:09}")
    };
    let rows: [(&str, &str, &str, String); 19] = [
        ("commands_total", "counter", "Commands in the log.", gauges.chain.commands.to_string()),
        ("events_total", "counter", "Events put out by the engine, in whole thousands.", coarse(gauges.chain.events)),
        ("orders_total", "counter", "Orders accepted, in whole thousands.", coarse(gauges.chain.orders)),
        ("trades_total", "counter", "Trades.", gauges.chain.trades.to_string()),
        ("durable_command", "gauge", "Newest command that would survive a power cut.", gauges.durable.to_string()),
        ("epoch", "gauge", "Starts of this venue so far.", gauges.epoch.to_string()),
        ("live_orders", "gauge", "Orders in the visible books.", gauges.shown_orders.to_string()),
        ("open_connections", "gauge", "WebSocket connections.", gauges.open_connections.to_string()),
        (
            "listeners",
            "gauge",
            "Of these, connections that only listen, served beside the loop.",
            gauges.listeners.to_string(),
        ),
        ("open_channels", "gauge", "Public channels with a subscriber.", gauges.open_channels.to_string()),
        ("connections_total", "counter", "WebSocket connections accepted.", counters.connections.to_string()),
        ("http_requests_total", "counter", "HTTP requests answered.", counters.http_requests.to_string()),
        ("messages_total", "counter", "WebSocket messages answered.", counters.messages.to_string()),
        ("errors_total", "counter", "Requests answered with an error.", counters.errors.to_string()),
        (
            "failed_logins_total",
            "counter",
            "Logins with an unknown client id, a wrong secret or a wrong signature.",
            gauges.login_failures.failed.to_string(),
        ),
        (
            "slowed_logins_total",
            "counter",
            "Logins refused without a check, because too many had failed.",
            gauges.login_failures.slowed.to_string(),
        ),
        ("commits_total", "counter", "Group commits.", counters.commits.to_string()),
        ("commit_seconds_total", "counter", "Time spent in commits.", seconds(counters.commit_ns)),
        ("commit_seconds_max", "gauge", "The longest commit of this start.", seconds(counters.commit_ns_max)),
    ];
    for (name, kind, help, value) in rows {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "# HELP pitwire_{name} {help}\n# TYPE pitwire_{name} {kind}\npitwire_{name} {value}");
    }
    let durability = u8::from(gauges.is_durable);
    let _ =
        writeln!(out, "# HELP pitwire_durable_on_disk 1 when commands are on disk before anything is said about them.");
    let _ = writeln!(out, "# TYPE pitwire_durable_on_disk gauge\npitwire_durable_on_disk {durability}");
    let early = u8::from(gauges.is_early);
    let _ = writeln!(out, "# HELP pitwire_early_market_data 1 when public channels do not wait for the disk.");
    let _ = writeln!(out, "# TYPE pitwire_early_market_data gauge\npitwire_early_market_data {early}");
    out
}
