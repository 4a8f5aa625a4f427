//! `pitwire tape serve --live`: options and report of the latency laboratory's feed.

use std::fs::File;
use std::net::TcpListener;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use pitwire_failure::{Failure, read_text};
use pitwire_recorder::live::{
    ArrivalLaw, ENVELOPE_BYTES, FaultScript, Injector, LiveConfig, LiveFeed, LiveReport, MessageTimes, PlainFeed,
    STORED_HEADER_BYTES,
};
use pitwire_recorder::payload_sizes::PayloadSizes;
use pitwire_recorder::rate::Rate;
use pitwire_recorder::recorder::RecordOptions;
use pitwire_recorder::trades::MessageSource;
use pitwire_tls::ServerConfig;

use super::source::FeedSource;
use pitwire_terminal::output::say;

/// Options that only apply with `--live`.
#[derive(Args)]
pub struct LiveOptions {
    /// Run one clock for all connections: each connection gets what falls due while it is open.
    #[arg(long, help_heading = "Live feed", conflicts_with_all = LIVE_EXCLUDES)]
    pub live: bool,
    /// Size of messages: bytes, a range A-B, or study (124 B to 805 kB, mean 224). Applies to
    /// plain [default: 224], to Bithumb's books and to Gemini's updates [default: one event].
    #[arg(long, value_name = "N|A-B|study", value_parser = PayloadSizes::parse,
        help_heading = "Live feed", requires = "live", conflicts_with = "file")]
    pub payload_bytes: Option<PayloadSizes>,
    /// Distribution of the gaps between messages, at a mean of --rate.
    #[arg(
        long,
        value_enum,
        value_name = "LAW",
        default_value = "constant",
        help_heading = "Live feed",
        requires = "live"
    )]
    arrival: ArrivalName,
    /// Messages of a batch, which are due at the same time. With --arrival batches.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(2..=1_000_000),
        help_heading = "Live feed", requires = "live")]
    batch: u64,
    /// Busy wait for the last microseconds before a message is due. Costs a core per connection.
    #[arg(long, value_name = "US", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000),
        help_heading = "Live feed", requires = "live")]
    spin_us: u64,
    /// Put sequence number, due time and sending time in front of each message.
    #[arg(long, help_heading = "Live feed", requires = "live")]
    envelope: bool,
    /// Compress messages for readers that offer permessage-deflate. The envelope is stored as it
    /// is, because it gets its sending time after compression.
    #[arg(long, help_heading = "Live feed", requires = "live")]
    compress: bool,
    /// Write a row for every message and connection to this CSV file.
    #[arg(long, value_name = "FILE", help_heading = "Live feed", requires = "live")]
    truth: Option<PathBuf>,
    /// Inject faults by this script (TOML).
    #[arg(long, value_name = "FILE", help_heading = "Live feed", requires = "live")]
    faults: Option<PathBuf>,
    /// Start the feed's clock when this many connections have joined.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256),
        help_heading = "Live feed", requires = "live")]
    start_with: u32,
    /// Send a connection nothing before its first text message, as a server with subscriptions
    /// does.
    #[arg(long, help_heading = "Live feed", requires = "live")]
    subscribe_first: bool,
    /// Send on the messages of this server (ws:// or wss://), which one connection receives. A
    /// message is due when it arrives.
    #[arg(long, value_name = "URL", help_heading = "Live feed", requires = "live",
        conflicts_with_all = ["file", "dialect", "markets", "payload_bytes", "arrival", "batch", "spin_us"])]
    relay: Option<String>,
    /// Message to send to the server of --relay first.
    #[arg(long, value_name = "TEXT", help_heading = "Live feed", requires = "relay")]
    relay_subscribe: Option<String>,
    /// Also trust the certificates in this PEM file for --relay.
    #[arg(long, value_name = "FILE", help_heading = "Live feed", requires = "relay")]
    relay_ca: Option<PathBuf>,
    /// End the relay after this many seconds.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..),
        help_heading = "Live feed", requires = "relay")]
    relay_seconds: Option<u64>,
}

/// Options of the other server, which a live feed does not have.
const LIVE_EXCLUDES: &[&str] = &[
    "frame_trades",
    "hello",
    "auth",
    "ping_every",
    "disconnect_every",
    "disconnect_how",
    "per_client",
    "content",
    "symbols",
];

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ArrivalName {
    Constant,
    Poisson,
    Bursty,
    Batches,
}

/// The content of a live feed.
pub enum LiveSource {
    Plain,
    Messages(FeedSource),
}

/// How a live feed sends its messages.
pub struct LiveTransport {
    pub tls: Option<Arc<ServerConfig>>,
    /// Largest payload of a frame.
    pub fragment_bytes: Option<usize>,
}

/// Size of plain messages without --payload-bytes.
const PLAIN_SIZES: PayloadSizes = PayloadSizes::Range { least: 224, most: 224 };

impl LiveOptions {
    /// Prepares the feed on `listener`.
    ///
    /// # Errors
    /// The rate does not fit, the script is wrong, or the truth log cannot be created.
    pub fn feed(
        &self,
        listener: TcpListener,
        source: LiveSource,
        rate: Rate,
        messages: Option<u64>,
        seed: u64,
        transport: LiveTransport,
    ) -> Result<LiveFeed, Failure> {
        let least = ENVELOPE_BYTES + if self.compress { STORED_HEADER_BYTES } else { 0 };
        if let Some(bytes) = transport.fragment_bytes.filter(|bytes| self.envelope && *bytes < least) {
            return Err(Failure::usage(format!("--fragment {bytes} is too short for the envelope"))
                .remedy(format!("give {least} or more, or leave --envelope out")));
        }
        if let LiveSource::Messages(what) = &source {
            // Finds a damaged file before the first connection does.
            what.messages(seed)?;
        }
        let config = LiveConfig {
            times: self.times(rate, seed)?,
            messages,
            has_envelope: self.envelope,
            faults: self.faults(seed)?,
            truth: self.truth.clone(),
            spin: Duration::from_micros(self.spin_us),
            start_with: self.start_with,
            fragment_bytes: transport.fragment_bytes,
            compresses: self.compress,
            tls: transport.tls,
            needs_subscription: self.subscribe_first,
            relay: self.relay(messages),
        };
        let (sizes, has_envelope) = (self.payload_bytes.unwrap_or(PLAIN_SIZES), self.envelope);
        let make = move || -> Result<Box<dyn MessageSource>, String> {
            match &source {
                LiveSource::Plain => Ok(Box::new(PlainFeed::new(sizes, has_envelope, seed))),
                LiveSource::Messages(what) => what.messages(seed).map_err(|failure| failure.to_string()),
            }
        };
        LiveFeed::new(listener, config, Box::new(make)).map_err(|error| {
            let path = self.truth.as_deref().unwrap_or("the listener".as_ref());
            Failure::new(format!("cannot use {}: {error}", path.display())).remedy("check --truth")
        })
    }

    /// Returns whether the messages are those of another server.
    pub fn is_relay(&self) -> bool {
        self.relay.is_some()
    }

    fn relay(&self, messages: Option<u64>) -> Option<RecordOptions> {
        Some(RecordOptions {
            url: self.relay.clone()?,
            ca: self.relay_ca.clone(),
            greetings: self.relay_subscribe.iter().cloned().collect(),
            messages,
            time: self.relay_seconds.map(Duration::from_secs),
        })
    }

    fn times(&self, rate: Rate, seed: u64) -> Result<MessageTimes, Failure> {
        let law = match self.arrival {
            ArrivalName::Constant => ArrivalLaw::Constant,
            ArrivalName::Poisson => ArrivalLaw::Poisson,
            ArrivalName::Bursty => ArrivalLaw::Bursty,
            ArrivalName::Batches => ArrivalLaw::Batches(self.batch),
        };
        match rate {
            Rate::Max if law == ArrivalLaw::Constant => Ok(MessageTimes::Max),
            Rate::Even(per_s) => Ok(MessageTimes::Law { law, per_s, seed }),
            Rate::Recorded(speed_milli) if law == ArrivalLaw::Constant => Ok(MessageTimes::Recorded { speed_milli }),
            _ => Err(Failure::usage("--live cannot keep this --rate with this --arrival")
                .remedy("give messages a second; or max, original or xN with --arrival constant")),
        }
    }

    fn faults(&self, seed: u64) -> Result<FaultScript, Failure> {
        let Some(path) = &self.faults else { return Ok(FaultScript::default()) };
        let bad = |what: String| {
            Failure::usage(format!("{}: {what}", path.display()))
                .remedy("write the script as contracts/lab-connector.md says")
        };
        let text = File::open(path).and_then(read_text).map_err(|error| bad(error.to_string()))?;
        FaultScript::parse(Injector::Feed, &text, seed).map_err(bad)
    }
}

/// Serves a live feed to its end, and prints the report.
///
/// # Errors
/// The source or the truth log failed.
pub fn run(feed: LiveFeed, stop: BorrowedFd<'_>, is_json: bool) -> Result<(), Failure> {
    let report = feed.run(stop)?;
    say(&if is_json { json(&report).to_string() } else { text(&report) });
    match report.failure {
        Some(reason) => Err(Failure::new(reason).remedy("check the source and the space on the disk")),
        None => Ok(()),
    }
}

fn json(report: &LiveReport) -> serde_json::Value {
    let faults: serde_json::Map<String, serde_json::Value> =
        report.faults.iter().map(|(kind, count)| (kind.name().to_owned(), (*count).into())).collect();
    serde_json::json!({
        "messages": report.messages,
        "bytes": report.bytes,
        "connections": report.connections,
        "refused": report.refused,
        "late_p50_us": late_us(report, 0.5),
        "late_p99_us": late_us(report, 0.99),
        "late_max_us": late_us(report, 1.0),
        "faults": faults,
    })
}

fn text(report: &LiveReport) -> String {
    let late = |quantile| late_us(report, quantile).map_or_else(|| "none".into(), |us| us.to_string());
    let mut lines = vec![
        format!("{:<12} {}", "messages", report.messages),
        format!("{:<12} {}", "bytes", report.bytes),
        format!("{:<12} {}", "connections", report.connections),
        format!("{:<12} p50 {} p99 {} max {}", "late, us", late(0.5), late(0.99), late(1.0)),
    ];
    let injected = report.faults.iter().filter(|(_, count)| *count > 0);
    lines.extend(injected.map(|(kind, count)| format!("{:<12} {count}", kind.name())));
    lines.join("\n")
}

/// Returns a quantile of the lateness in microseconds, or `None` if nothing was sent.
#[allow(clippy::cast_precision_loss)] // A figure to read.
fn late_us(report: &LiveReport, quantile: f64) -> Option<f64> {
    let late = &report.late_ns;
    (!late.is_empty()).then(|| (late.value_at_quantile(quantile) / 100) as f64 / 10.0)
}
