//! `pitwire tape serve`: a feed for whoever connects.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use pitwire_host::stop_signals;
use pitwire_tape::framing::Sizes;
use pitwire_tape::server::{Disconnect, Feed, Hello, Report, Server, Service};
use pitwire_tape::stream::{Moment, Next, Source, Stream, Terms};
use pitwire_tape::symbols;
use pitwire_tape::synthetic::Synthetic;

use super::values::{Rate, sizes};
use crate::failure::Failure;
use crate::output::say;

const EXAMPLES: &str = "Examples:
  pitwire tape serve --listen 127.0.0.1:9000                               6,000 symbols as fast as they are read
  pitwire tape serve --listen 127.0.0.1:9000 --rate open-close --frame-trades cutoff:1000
                                                                           a market's day in a minute
  pitwire tape serve --listen 127.0.0.1:9000 --trades 1000000 --disconnect-every 100000 --fragment 1000
                                                                           a million trades, with faults
A reader can prove what it got: see docs/tape.md.";

/// Serve a feed over WebSocket and say at the end what was sent.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Serve {
    /// Where to listen; port 0 takes any free one.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// Make the trades from --seed; the default.
    #[arg(long)]
    synthetic: bool,
    /// Symbols of the synthetic market, from 1 to 100000.
    #[arg(long, value_name = "N", default_value_t = 6_000, value_parser = symbol_count)]
    symbols: usize,
    /// Trades of a message: a number, a random one between two (A-B), or whatever falls due within so many microseconds
    /// (cutoff:US).
    #[arg(long, value_name = "N|A-B|cutoff:US", default_value = "128", value_parser = sizes)]
    frame_trades: Sizes,
    /// max, trades a second, open-close or midday-burst; of a file also original or xN.
    #[arg(long, value_name = "RATE", default_value = "max")]
    rate: Rate,
    /// End after so many trades.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    trades: Option<u64>,
    /// Seed of everything that is left to chance.
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
    /// Say hello as this provider does and wait for auth and subscribe.
    #[arg(long, value_enum, default_value = "none")]
    hello: HelloName,
    /// The key that auth must give (any, if absent).
    #[arg(long, value_name = "KEY")]
    auth: Option<String>,
    /// Cut each message into frames of at most so many bytes.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    fragment: Option<u32>,
    /// Send a ping every so many milliseconds.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    ping_every: Option<u64>,
    /// End each connection after so many trades; the next one continues.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    disconnect_every: Option<u64>,
    /// How --disconnect-every ends a connection.
    #[arg(long, value_enum, default_value = "close")]
    disconnect_how: DisconnectName,
    /// A stream of its own for each connection, from the beginning.
    #[arg(long)]
    per_client: bool,
    /// Keep the checksum of content too (a few nanoseconds a trade).
    #[arg(long)]
    content: bool,
    /// Written whole once the feed is served: {"http":"ADDR:PORT","pid":N,"url":"ws://…"}.
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum HelloName {
    None,
    Polygon,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DisconnectName {
    /// A close frame, then the end: nothing is lost.
    Close,
    /// The end in the middle of a frame: nothing that was handed over is lost.
    Cut,
    /// A reset in the middle of a frame: what is under way is lost.
    Reset,
}

fn symbol_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=symbols::MOST).contains(count));
    count.ok_or_else(|| format!("give a number from 1 to {}", symbols::MOST))
}

impl Serve {
    pub fn run(self) -> Result<(), Failure> {
        if matches!(self.rate, Rate::Recorded(_)) {
            return Err(Failure::usage("--rate original and xN replay a recording").remedy("name one with --file"));
        }
        // An old one must not be taken for ours, whatever happens next.
        if let Some(path) = &self.ready_file {
            remove_old(path)?;
        }
        let listener = TcpListener::bind(self.listen).map_err(|error| {
            Failure::new(format!("cannot listen on {}: {error}", self.listen))
                .remedy("stop what uses the port, or give another with --listen")
        })?;
        let signals = stop_signals()?;
        let plan = self.plan();
        let feed = if self.per_client {
            let plan = plan.clone();
            Feed::PerClient(Box::new(move || plan.stream()))
        } else {
            Feed::One(Box::new(plan.stream()))
        };
        let service = Service {
            hello: if self.hello == HelloName::Polygon { Hello::Polygon } else { Hello::None },
            auth: self.auth.clone(),
            ping_every: self.ping_every.map(Duration::from_millis),
            disconnect: match self.disconnect_how {
                DisconnectName::Close => Disconnect::Close,
                DisconnectName::Cut => Disconnect::Cut,
                DisconnectName::Reset => Disconnect::Reset,
            },
            tls: None,
            feed,
        };
        let server = Server::new(listener, service)?;
        let address = server.local_address()?;
        if !self.json {
            say(&format!("Serving ws://{address}/; Ctrl-C stops it and says what was sent."));
        }
        if let Some(path) = &self.ready_file {
            write_ready(path, address)?;
        }
        let report = server.run(signals.as_fd());
        if let Some(path) = &self.ready_file {
            remove_old(path)?;
        }
        let report = report?;
        self.print(&report, plan.ceiling());
        match report.failure {
            Some(reason) => Err(Failure::new(reason)),
            None => Ok(()),
        }
    }

    fn plan(&self) -> Plan {
        Plan {
            symbols: self.symbols,
            rate: self.rate,
            sizes: self.frame_trades,
            fragment: self.fragment.and_then(|bytes| usize::try_from(bytes).ok()),
            trades: self.trades,
            disconnect_every: self.disconnect_every,
            content: self.content,
            seed: self.seed,
        }
    }

    fn print(&self, report: &Report, ceiling: f64) {
        let figures = Figures::of(report, ceiling);
        say(&if self.json { figures.json() } else { figures.text() });
    }
}

/// All that makes a stream.
#[derive(Clone)]
struct Plan {
    symbols: usize,
    rate: Rate,
    sizes: Sizes,
    fragment: Option<usize>,
    trades: Option<u64>,
    disconnect_every: Option<u64>,
    content: bool,
    seed: u64,
}

impl Plan {
    fn stream(&self) -> Stream {
        self.stream_at(self.rate, self.trades, self.disconnect_every)
    }

    fn stream_at(&self, rate: Rate, trades: Option<u64>, disconnect_every: Option<u64>) -> Stream {
        let source = Source::Trades(Box::new(Synthetic::new(self.symbols, self.seed)));
        let terms = Terms {
            pace: rate.pace(),
            sizes: self.sizes,
            fragment: self.fragment,
            trades,
            disconnect_every,
            content: self.content,
            seed: self.seed,
        };
        Stream::new(source, terms)
    }

    /// Trades a second that the same stream makes when nobody has to take them.
    fn ceiling(&self) -> f64 {
        const MEASURED: Duration = Duration::from_millis(100);
        let mut stream = self.stream_at(Rate::Max, None, None);
        let mut out = Vec::new();
        let started = Instant::now();
        while started.elapsed() < MEASURED {
            out.clear();
            if stream.fill(Moment::default(), &mut out) != Next::Send {
                break;
            }
        }
        per(stream.tally.trades, started.elapsed().as_secs_f64())
    }
}

/// What is printed at the end.
struct Figures {
    fields: Vec<(&'static str, String)>,
}

impl Figures {
    fn of(report: &Report, ceiling: f64) -> Self {
        let cpu_s = cpu_seconds();
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
            ("trades_per_s", format!("{:.0}", per(report.sums.trades, report.seconds))),
            ("cpu_ns_per_trade", format!("{:.2}", if report.sums.trades == 0 { 0.0 } else { cpu_s * 1e9 / as_f64(report.sums.trades) })),
            ("ceiling_trades_per_s", format!("{ceiling:.0}")),
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
        Figures { fields }
    }

    fn json(&self) -> String {
        let fields: Vec<String> = self.fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", fields.join(","))
    }

    fn text(&self) -> String {
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

fn per(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { as_f64(count) / seconds } else { 0.0 }
}

/// Of this process so far, its start included.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).map_or(0.0, |time| time.as_secs_f64())
}

fn remove_old(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::new(format!("cannot remove {}: {error}", path.display())).remedy("check --ready-file"))
        }
        _ => Ok(()),
    }
}

fn write_ready(path: &Path, address: SocketAddr) -> Result<(), Failure> {
    let failed = |error| Failure::new(format!("cannot write {}: {error}", path.display())).remedy("check --ready-file");
    let temporary = path.with_extension("tmp");
    let text = format!("{{\"http\":\"{address}\",\"pid\":{},\"url\":\"ws://{address}/\"}}\n", std::process::id());
    fs::write(&temporary, text).map_err(failed)?;
    fs::rename(&temporary, path).map_err(failed)
}
