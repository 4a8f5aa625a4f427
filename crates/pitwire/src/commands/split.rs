//! `pitwire split`: splits one market-wide feed into shards for workers.

use std::fs::File;
use std::io::{IsTerminal, Write, sink, stderr, stdout};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use pitwire_net::{listen_options, stop_flag, stop_signals};
use pitwire_splitter::{
    Address, DiscardTransport, InvalidPolicy, LinePrinter, MissingSymbol, Publication, ShardPublisher, ShardServer,
    SharedStats, SlowWorkerPolicy, Splitter, SplitterConfig, SplitterError, SplitterReport, Transport,
    TransportOptions, WorkerProgram, open_pipe, open_shm, open_shm_ref, serve,
};
use pitwire_tls::{Tickets, Trust, client_config};
use serde_json::{Value, json};

use self::figures::SplitFigures;
use pitwire_failure::{Failure, read_text, without_password};
use pitwire_net::ready_file::ReadyFile;
use pitwire_terminal::output::say;
use pitwire_terminal::rate_lines::RateLines;
use pitwire_terminal::split_view::View;

mod figures;

const EXAMPLES: &str =
    "Each statistics line of --stats-every: time, reads (r), frames (f), frames per read, trades per frame,
trades of this connection (tt) and of all (ttt), bytes of this line (br) and of all (bt), trades per second.
Records, rings, policies: docs/splitter.md.

Examples:
  pitwire split ws://127.0.0.1:9000/feed --workers 8
      distributes to built-in counters and prints what they counted
  pitwire split ws://127.0.0.1:9000/ --workers 4 --transport shm -- pitwire bars --out bars
      starts a program; the names of the rings are its last arguments";

/// Read one feed of trades over WebSocket and distribute it to workers by symbol.
///
/// The feed sends JSON arrays of objects with a "sym" field. All trades of a symbol go to the same
/// worker, in order. A lost connection is reopened automatically, and every worker then gets a gap
/// record.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Split {
    /// Address of the feed: ws://HOST[:PORT]/PATH, or wss:// for TLS.
    url: String,
    /// Number of workers that share the symbols.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: u32,
    /// How trades reach the workers: pipes, rings in shared memory, or one WebSocket path per
    /// worker.
    #[arg(long, value_enum, default_value = "pipe")]
    transport: TransportName,
    /// First message on every connection, unchanged. @FILE reads it from a file, where other users
    /// cannot see it.
    #[arg(long, value_name = "TEXT")]
    auth: Option<String>,
    /// Message to send after --auth; may be repeated.
    #[arg(long, value_name = "TEXT")]
    subscribe: Vec<String>,
    /// Policy for a slow worker. spill:BYTES buffers up to this much per worker, then drops; block
    /// stops the feed for all;
    /// conflate keeps one record per symbol; restart restarts the program.
    #[arg(long, value_name = "POLICY", default_value = "spill:64MiB")]
    on_slow: String,
    /// The treatment of objects without a symbol.
    #[arg(long, value_enum, default_value = "drop")]
    no_sym: NoSymName,
    /// Do not send gap records for lost connections and dropped trades.
    #[arg(long)]
    no_gap_records: bool,
    /// End with exit code 1 when the connection fails or is lost.
    #[arg(long)]
    no_reconnect: bool,
    /// Working directory of the program.
    #[arg(long, value_name = "DIR", requires = "command")]
    workdir: Option<PathBuf>,
    /// For wss://: trust only the authorities in this PEM file.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Time limit for connecting, including the handshakes.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Reconnect when the connection has been silent for this long. A ping is sent after half of
    /// it.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = clap::value_parser!(u64).range(1..=3600))]
    silence: u64,
    /// Size of the kernel's receive buffer for the feed (SO_RCVBUF) in bytes; 0 keeps the kernel's
    /// default.
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_RECEIVE_BUFFER)]
    receive_buffer: usize,
    /// Size of each worker's ring in bytes (--transport shm, shm-ref); a power of two.
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = bytes)]
    ring: u64,
    /// How pages with trades enter a pipe: copied by the kernel, or lent to it, which costs less
    /// CPU. By default only the
    /// built-in counters get lent pages. Lending is safe for a program that takes its trades with
    /// read(2). A program that
    /// moves them on with splice or tee would see them change.
    #[arg(long, value_enum)]
    pipe_pages: Option<PipePages>,
    /// Address that serves the shards (--transport ws); port 0 selects a free port.
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_options::address, default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    /// Also publish the shards on core NATS: nats://HOST:PORT (see docs/splitter.md for subjects
    /// and numbers).
    #[arg(long, value_name = "NATS_URL")]
    publish: Option<String>,
    /// First part of every subject.
    #[arg(long, value_name = "PREFIX", default_value = "pitwire", requires = "publish")]
    publish_prefix: String,
    /// Serve Prometheus metrics at http://ADDR:PORT/metrics; port 0 selects a free port.
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_options::address)]
    metrics: Option<SocketAddr>,
    /// File to write atomically once everything is set up: {"pid":N}, and "http" (the shards) and
    /// "metrics" if they are served.
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
    /// Number of trades between two statistics lines; 0 disables them [default: 8192; on a
    /// terminal one line a second instead].
    #[arg(long, value_name = "N")]
    stats_every: Option<u64>,
    /// End after exactly this many trades.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit_trades: Option<u64>,
    /// Show rate, lag per worker and a histogram of the hand-off lag on the terminal; q ends.
    #[arg(long)]
    view: bool,
    /// Print the summary as one JSON object; statistics lines go to standard error.
    #[arg(long)]
    json: bool,
    /// Program of the workers, with its arguments. Without it, built-in counters take the trades
    /// and verify them.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Trades between two statistics lines, where they are not for a terminal.
const DEFAULT_STATS_EVERY: u64 = 8192;

/// Best size in a loopback measurement (scripts/bench_feed.py). A larger buffer exceeds the cache
/// of a small core.
const DEFAULT_RECEIVE_BUFFER: usize = 512 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TransportName {
    /// One pipe per worker, with length-prefixed records.
    Pipe,
    /// One ring per worker in /dev/shm.
    Shm,
    /// Rings of references to the received data, in memory that all workers map: less CPU per
    /// trade.
    ShmRef,
    /// One WebSocket path per worker (/shard/0 and so on) with JSON arrays.
    Ws,
    /// Discards everything, to measure scanning and routing alone.
    #[value(hide = true)]
    Null,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PipePages {
    /// The kernel copies them; works with every program.
    Copy,
    /// The kernel borrows them; only for a program that takes its trades with read(2).
    Lend,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NoSymName {
    /// Count and drop them.
    Drop,
    /// Send them to worker 0.
    Worker0,
}

impl Split {
    /// Splits one feed to the workers until it ends or a signal comes.
    ///
    /// # Errors
    /// If an option is wrong, a transport or a program cannot be started, or the feed ends with an
    /// error.
    pub fn run(self) -> Result<(), Failure> {
        let ready_file = ReadyFile::prepare(self.ready_file.clone())?;
        let (stop, is_stopping) = (stop_signals()?, stop_flag()?);
        let plan = self.plan()?;
        let options = self.options(is_stopping)?;
        let stats = Arc::new(SharedStats::default());
        // Check the NATS address before any program is started.
        let publisher = self.publisher()?;
        let shards_at = (self.transport == TransportName::Ws).then_some(self.listen);
        let mut server = None;
        let mut sinks: Vec<Box<dyn Transport>> = Vec::new();
        if shards_at.is_some() || self.metrics.is_some() {
            let (shards, serving) = serve(&options, Arc::clone(&stats), shards_at, self.metrics)?;
            sinks.extend(shards);
            server = Some(serving);
        }
        match self.transport {
            TransportName::Pipe => sinks.push(open_pipe(options)?),
            TransportName::Shm => sinks.push(open_shm(options)?),
            TransportName::ShmRef => sinks.push(open_shm_ref(options)?),
            TransportName::Null => sinks.push(Box::new(DiscardTransport)),
            TransportName::Ws => {}
        }
        sinks.extend(publisher);
        ready_file.write(served_addresses(server.as_ref()))?;
        let view = if self.view { Some(View::open(Arc::clone(&stats))?) } else { None };
        let to_stdout = !self.json && !view.as_ref().is_some_and(View::is_on_stdout);
        let lines: Box<dyn Write + Send> = match (to_stdout, &view) {
            (true, _) => Box::new(stdout()),
            (false, None) => Box::new(stderr()),
            (false, Some(_)) => Box::new(sink()),
        };
        let (lines, rate_lines) = match self.has_rate_lines() {
            true => (Box::new(sink()) as Box<dyn Write + Send>, Some(RateLines::start(Arc::clone(&stats), lines)?)),
            false => (lines, None),
        };
        let mut report = Splitter::new(plan, sinks, LinePrinter::to(lines), stats, &stop).run();
        drop((view, rate_lines));
        drop(server);
        let failure = report.failure.take();
        self.print(&report)?;
        match failure {
            Some(error) => Err(failed(error)),
            None => Ok(()),
        }
    }

    /// Returns whether the statistics are one line a second: they go to a terminal, and neither
    /// `--stats-every` nor `--view` asks for another form.
    fn has_rate_lines(&self) -> bool {
        let is_terminal = if self.json { stderr().is_terminal() } else { stdout().is_terminal() };
        self.stats_every.is_none() && !self.view && is_terminal
    }

    fn publisher(&self) -> Result<Option<Box<dyn Transport>>, Failure> {
        let Some(url) = self.publish.clone() else { return Ok(None) };
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch = u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX);
        let publication = Publication { url, prefix: self.publish_prefix.clone(), epoch, workers: self.workers };
        Ok(Some(Box::new(ShardPublisher::open(publication)?)))
    }

    fn plan(&self) -> Result<SplitterConfig, Failure> {
        let address = Address::parse(&self.url)
            .map_err(|error| Failure::usage(format!("invalid feed URL {}: {error}", without_password(&self.url))))?;
        let tls = match (address.is_secure, &self.ca) {
            (true, ca) => {
                let trust = ca.as_deref().map_or(Trust::System, Trust::File);
                Some(client_config(trust, Tickets::Few).map_err(Failure::usage)?)
            }
            (false, Some(_)) => return Err(Failure::usage("--ca is for wss:// URLs")),
            (false, None) => None,
        };
        let auth = self.auth.as_deref().map(text_or_file).transpose()?;
        let subscriptions = self.subscribe.iter().map(|text| text_or_file(text)).collect::<Result<Vec<_>, _>>()?;
        Ok(SplitterConfig {
            address,
            tls,
            introduction: auth.into_iter().chain(subscriptions).collect(),
            workers: self.workers,
            no_sym: match self.no_sym {
                NoSymName::Drop => MissingSymbol::Drop,
                NoSymName::Worker0 => MissingSymbol::Worker0,
            },
            reconnects: !self.no_reconnect,
            gap_records: !self.no_gap_records,
            limit: self.limit_trades,
            stats_every: if self.has_rate_lines() { 0 } else { self.stats_every.unwrap_or(DEFAULT_STATS_EVERY) },
            receive_buffer: (self.receive_buffer > 0).then_some(self.receive_buffer),
            patience_ns: self.timeout * 1_000_000_000,
            silence_ns: self.silence * 1_000_000_000,
            is_quiet: self.view,
        })
    }

    fn options(&self, stop: Arc<AtomicBool>) -> Result<TransportOptions, Failure> {
        let policy: SlowWorkerPolicy =
            self.on_slow.parse().map_err(|error: InvalidPolicy| Failure::usage(error.to_string()))?;
        let program = self.command.split_first().map(|(command, arguments)| WorkerProgram {
            command: command.clone(),
            arguments: arguments.to_vec(),
            workdir: self.workdir.clone(),
        });
        if program.is_some() && matches!(self.transport, TransportName::Ws | TransportName::Null) {
            return Err(Failure::usage(
                "a program takes pipes or rings; its readers of --transport ws connect by themselves",
            ));
        }
        if policy == SlowWorkerPolicy::Restart && program.is_none() && self.transport != TransportName::Ws {
            return Err(Failure::usage("--on-slow restart needs a program to start again; name one after --"));
        }
        let mut options = TransportOptions::new(self.workers);
        options.policy = policy;
        options.gap_records = !self.no_gap_records;
        options.program = program;
        options.lend_pages = self.pipe_pages.map(|pages| pages == PipePages::Lend);
        options.ring_bytes = self.ring;
        options.stop = stop;
        Ok(options)
    }

    fn print(&self, report: &SplitterReport) -> Result<(), Failure> {
        let figures = SplitFigures::of(report);
        if self.json {
            let text = serde_json::to_string(&figures).map_err(|error| Failure::new(error.to_string()))?;
            say(&text);
        } else {
            figures.lines().iter().for_each(|line| say(line));
        }
        Ok(())
    }
}

fn failed(error: SplitterError) -> Failure {
    match error {
        SplitterError::Connect(error) => Failure::new(error.to_string()).remedy(error.remedy()),
        SplitterError::Lost(why) => Failure::new(why).remedy("leave out --no-reconnect to reconnect automatically"),
        SplitterError::Transport(failure) => failure.into(),
    }
}

/// Returns the text, or for `@FILE` the content of the file without its final line break.
///
/// # Errors
///
/// The file cannot be read as text.
fn text_or_file(text: &str) -> Result<String, Failure> {
    let Some(path) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    let read = File::open(path)
        .and_then(read_text)
        .map_err(|error| Failure::usage(format!("cannot read {path}: {error}; name a readable text file after @")))?;
    Ok(read.trim_end_matches(['\r', '\n']).to_owned())
}

/// Returns the addresses of the shards and the metrics, for the ready file.
fn served_addresses(server: Option<&ShardServer>) -> Value {
    let mut fields = json!({});
    for (name, address) in
        [("http", server.and_then(ShardServer::shards)), ("metrics", server.and_then(ShardServer::metrics))]
    {
        if let Some(address) = address {
            fields[name] = address.to_string().into();
        }
    }
    fields
}

/// Parses a ring size in bytes: `4096`, `64KiB`, `4MiB`, `1GiB`. Accepts powers of two from 4 KiB
/// to 4 GiB.
fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return Err("write bytes as 65536, 64KiB, 4MiB or 1GiB".into()),
    };
    let bytes =
        number.parse::<u64>().ok().and_then(|number| number.checked_shl(shift).filter(|b| b >> shift == number));
    bytes
        .filter(|bytes| bytes.is_power_of_two() && (4096..=1 << 32).contains(bytes))
        .ok_or_else(|| "a ring is a power of two from 4KiB to 4GiB".into())
}
