//! `pitwire load`: load test with many WebSocket readers. The work is in `crates/load-generator`.

mod children;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use clap::Args;
use pitwire_load_generator::{
    Address, Arrivals, ConnectionShare, ExpectedReplies, FaultyReaders, LimitSearch, LoadPlan, LoadReport,
    MOST_CONNECTIONS, MeasurementStart, OpenFailure, RunControl, RunError, Traffic, first_problem, raise_file_limit,
    run, summary,
};
use pitwire_tls::{Tickets, Trust, client_config};
use serde_json::{Value, json};

use pitwire_failure::{Failure, without_password};
use pitwire_net::stop_flag;
use pitwire_terminal::load_progress::Progress;
use pitwire_terminal::output::{printable, say};

const EXAMPLES: &str = "What each figure means, and what is checked: docs/load.md. The exit code
is 3 if the server broke the WebSocket protocol.

Examples:
  pitwire load ws://127.0.0.1:8080/ --connections 1000 --seconds 10
      1,000 readers for ten seconds
  pitwire load ws://127.0.0.1:8080/ --connections 100 --echo 64 --arrivals 5000/s --json
      5,000 messages a second that the server returns";

/// Exit code of a run whose server broke the WebSocket protocol.
const PROTOCOL_EXIT_CODE: u8 = 3;
/// File descriptors reserved for uses other than connections.
const OTHER_FILES: u64 = 64;
const MOST_THREADS: usize = 256;
const MOST_PER_S: u64 = 100_000_000;
/// Pause between two steps of a search. The server needs it to notice that all connections have
/// closed.
const BETWEEN_STEPS: Duration = Duration::from_millis(300);

/// Load a WebSocket server with many readers, and check every message.
#[derive(Args, Clone)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub struct Load {
    /// Address of the server: ws:// or wss://.
    url: String,
    /// Connections to open.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_CONNECTIONS)))]
    connections: Option<u32>,
    /// Measure for this long, from the moment when every connection is open.
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Arrival rate as a Poisson process (even:N/s: evenly spaced). It applies to messages with
    /// --echo or --heartbeat, otherwise to connections.
    #[arg(long, value_name = "N/s")]
    arrivals: Option<Arrivals>,
    /// Send a short message on each connection once per period (ms, s).
    #[arg(long, value_name = "PERIOD", value_parser = period, conflicts_with = "echo", requires = "expect")]
    heartbeat: Option<Duration>,
    /// Expect each heartbeat to be answered by K messages of BYTES bytes.
    #[arg(long, value_name = "KxBYTES", requires = "heartbeat")]
    expect: Option<ExpectedReplies>,
    /// Send messages of BYTES bytes that the server returns: one per second on each connection, or
    /// at the rate of --arrivals.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    echo: Option<u32>,
    /// Preset: 5,000 connections for 8 seconds; each sends a heartbeat every second and gets 10
    /// messages of 10,000 bytes.
    #[arg(long, conflicts_with_all = ["heartbeat", "echo"])]
    seed_002: bool,
    /// Send this text once on each connection when it opens.
    #[arg(long, value_name = "TEXT")]
    subscribe: Option<String>,
    /// Request this subprotocol. A connection whose server does not accept it fails.
    #[arg(long, value_name = "NAME", value_parser = token)]
    subprotocol: Option<String>,
    /// Offer permessage-deflate.
    #[arg(long)]
    deflate: bool,
    /// Percentage of connections that read little at a time and late.
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "0")]
    slow: u32,
    /// Percentage of connections that never read.
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "0")]
    stopped: u32,
    /// Cut all connections after this many seconds and reopen them at once.
    #[arg(long, value_name = "S", value_parser = seconds)]
    storm: Option<Duration>,
    /// Threads of each process [default: half of the cores].
    #[arg(long, value_name = "N", value_parser = threads)]
    threads: Option<usize>,
    /// Connect from this many addresses in 127.0.0.0/8 [default: one per 10,000 connections].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_000))]
    sources: Option<u32>,
    /// Most connections that may be opening at the same time.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    wave: u32,
    /// Time limit for opening a connection, in seconds.
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "20")]
    timeout: Duration,
    /// Trust only the authorities in this file (PEM).
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Trust any certificate.
    #[arg(long)]
    insecure: bool,
    /// Name of the field with the message number.
    #[arg(long, value_name = "NAME", default_value = "seq", value_parser = field)]
    sequence_field: String,
    /// Find the largest number of connections (with --arrivals and --echo or --heartbeat: the
    /// highest rate) with nothing late or lost.
    #[arg(long, conflicts_with = "storm")]
    find_limit: bool,
    /// Seed of the arrival process.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
    /// Share of the connections for a child process: part I of K.
    #[arg(long, hide = true, value_name = "I/K", value_parser = part)]
    part: Option<(usize, usize)>,
}

impl Load {
    /// Loads a server with subscribers and prints the report.
    ///
    /// # Errors
    /// If the plan is impossible, no connection succeeds, or the server broke the WebSocket
    /// protocol.
    pub fn run(self) -> Result<(), Failure> {
        let stop = stop_flag()?;
        let plan = self.plan()?;
        if self.part.is_some() {
            return children::serve(&plan, &stop);
        }
        if self.find_limit {
            return self.find_limit(&plan, &stop);
        }
        let report = self.measure(&plan, &stop)?;
        for line in summary::warnings(&plan, &report) {
            eprintln!("pitwire load: {}", printable(&line));
        }
        say(&if self.json { summary::json(&plan, &report).to_string() } else { summary::text(&plan, &report) });
        protocol_result(&report)
    }

    /// Searches for the limit with one run per step. Prints the figures of the largest load that
    /// passed.
    fn find_limit(&self, plan: &LoadPlan, stop: &Arc<AtomicBool>) -> Result<(), Failure> {
        let is_rate = plan.arrivals.is_some() && plan.traffic != Traffic::Listen;
        let unit = if is_rate { "messages a second" } else { "connections" };
        let mut search = match plan.arrivals {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Some(arrivals) if is_rate => LimitSearch::new(arrivals.per_s as u64, MOST_PER_S),
            _ => LimitSearch::new(u64::from(plan.share.total), u64::from(MOST_CONNECTIONS)),
        };
        let (mut best, mut steps, mut limited_by) = (None, Vec::new(), None);
        while let Some(next) = search.next() {
            let plan = if is_rate { with_rate(plan, next) } else { with_connections(plan, next) };
            let report = match self.measure(&plan, stop) {
                Err(failure) if steps.is_empty() => return Err(failure),
                // A failure to open connections counts as the limit.
                Err(failure) => Err(failure.to_string()),
                Ok(report) => Ok(report),
            };
            if stop.load(Relaxed) {
                break;
            }
            let wrong = match &report {
                Ok(report) => first_problem(report),
                Err(what) => Some(what.clone()),
            };
            eprintln!("pitwire load: {next} {unit}: {}", wrong.as_deref().unwrap_or("all in time"));
            steps.push(json!({"tried": next, "wrong": wrong}));
            search.tried(wrong.is_none());
            match (wrong, report) {
                (None, Ok(report)) => best = Some((plan, report)),
                (wrong, _) => limited_by = wrong,
            }
            std::thread::sleep(BETWEEN_STEPS);
        }
        let limit = search.limit();
        let Some((plan, report)) = best else {
            let what = limited_by.unwrap_or_else(|| "it was stopped".into());
            return Err(Failure::new(format!("the server did not carry the smallest load: {what}"))
                .remedy("start with a smaller load, with --connections or --arrivals"));
        };
        if self.json {
            let mut figures = summary::json(&plan, &report);
            if let Value::Object(fields) = &mut figures {
                let limit_of = if is_rate { "arrivals_per_s" } else { "connections" };
                fields.insert("limit".into(), limit.into());
                fields.insert("limit_of".into(), limit_of.into());
                fields.insert("limited_by".into(), limited_by.into());
                fields.insert("steps".into(), steps.into());
            }
            say(&figures.to_string());
        } else {
            let by = limited_by.map_or_else(String::new, |what| format!("; beyond that: {what}"));
            say(&format!("limit: {limit} {unit}{by}"));
            say(&summary::text(&plan, &report));
        }
        Ok(())
    }

    /// Runs one measurement in this process, or in several if the open-file limit is too low for
    /// one.
    fn measure(&self, plan: &LoadPlan, stop: &Arc<AtomicBool>) -> Result<LoadReport, Failure> {
        let room = raise_file_limit().saturating_sub(OTHER_FILES).max(1);
        let parts = usize::try_from(u64::from(plan.share.count).div_ceil(room)).unwrap_or(usize::MAX);
        let mut progress = Progress::new(plan);
        if parts > 1 {
            return children::run(parts, plan, stop, &mut progress);
        }
        let control = RunControl::default();
        let lead = |control: &RunControl| {
            if stop.load(Relaxed) {
                control.stop();
            }
            progress.show(control);
        };
        run(plan, &control, MeasurementStart::WhenOpen, lead).map_err(|error| failure(error, &self.url))
    }

    fn plan(&self) -> Result<LoadPlan, Failure> {
        let address = Address::parse(&self.url).map_err(|error| {
            Failure::usage(format!("invalid WebSocket address {:?}: {error}", without_password(&self.url)))
        })?;
        let traffic = match (self.seed_002, self.heartbeat, self.expect, self.echo) {
            (true, ..) => Traffic::Heartbeat {
                period: Duration::from_secs(1),
                expect: ExpectedReplies { messages: 10, bytes: 10_000 },
            },
            (_, Some(period), Some(expect), _) => Traffic::Heartbeat { period, expect },
            (.., Some(bytes)) => Traffic::Echo { bytes },
            _ => Traffic::Listen,
        };
        let connections = self.connections.unwrap_or(if self.seed_002 { 5_000 } else { 1 });
        let whole = ConnectionShare::whole(connections);
        if self.slow + self.stopped > 10_000 {
            return Err(Failure::usage("--slow and --stopped together exceed 100 %"));
        }
        let duration = self.seconds.unwrap_or(Duration::from_secs(if self.seed_002 {
            8
        } else if self.find_limit {
            3
        } else {
            10
        }));
        if self.storm.is_some_and(|after| after >= duration) {
            return Err(Failure::usage("--storm is after the end of the measurement")
                .remedy("give more --seconds, or an earlier storm"));
        }
        if !address.is_secure && (self.ca.is_some() || self.insecure) {
            return Err(
                Failure::usage("--ca and --insecure apply to wss:// addresses only").remedy("give a wss:// address")
            );
        }
        let trust = match (&self.ca, self.insecure) {
            (Some(file), _) => Trust::File(file),
            (None, true) => Trust::Anybody,
            (None, false) => Trust::System,
        };
        let tls = address
            .is_secure
            .then(|| client_config(trust, Tickets::PerConnection))
            .transpose()
            .map_err(Failure::usage)?;
        Ok(LoadPlan {
            server: resolve(&address)?,
            address,
            tls,
            share: self.part.map_or(whole, |(index, parts)| whole.part(index, parts)),
            duration,
            traffic,
            arrivals: self.arrivals,
            subscribe: self.subscribe.clone(),
            subprotocol: self.subprotocol.clone(),
            deflate: self.deflate,
            faulty_readers: FaultyReaders { slow: self.slow, stopped: self.stopped },
            storm: self.storm,
            threads: self.threads.unwrap_or_else(half_of_the_cores),
            sources: self.sources.unwrap_or(0),
            open_timeout: self.timeout,
            max_opening: self.wave,
            sequence_field: self.sequence_field.clone(),
            seed: self.seed,
        })
    }
}

fn with_connections(plan: &LoadPlan, connections: u64) -> LoadPlan {
    LoadPlan { share: ConnectionShare::whole(u32::try_from(connections).unwrap_or(MOST_CONNECTIONS)), ..plan.clone() }
}

#[allow(clippy::cast_precision_loss)]
fn with_rate(plan: &LoadPlan, per_s: u64) -> LoadPlan {
    let arrivals = plan.arrivals.map(|arrivals| Arrivals { per_s: per_s as f64, ..arrivals });
    LoadPlan { arrivals, ..plan.clone() }
}

/// Returns a failure with [`PROTOCOL_EXIT_CODE`] if the server broke the WebSocket protocol.
fn protocol_result(report: &LoadReport) -> Result<(), Failure> {
    let Some(first) = report.violations.first() else { return Ok(()) };
    let count = report.counters.violations;
    let times = if count == 1 { "once".into() } else { format!("{count} times") };
    Err(Failure::new(format!("the server broke the WebSocket protocol {times}: {first}"))
        .remedy("correct the server; the figures above count its other connections")
        .with_exit_code(PROTOCOL_EXIT_CODE))
}

fn half_of_the_cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).clamp(1, MOST_THREADS))
}

fn resolve(address: &Address) -> Result<SocketAddr, Failure> {
    let named = (address.host.as_str(), address.port).to_socket_addrs();
    let first = named.map(|mut addresses| addresses.next());
    let cause = match first {
        Ok(Some(server)) => return Ok(server),
        Ok(None) => "the name has no address".into(),
        Err(error) => error.to_string(),
    };
    Err(Failure::new(format!("cannot resolve {}: {cause}", address.host))
        .remedy("check the name in the URL, and this machine's name servers"))
}

fn failure(error: RunError, url: &str) -> Failure {
    match error {
        RunError::NothingOpened(refusal) => refused(&refusal, url),
        RunError::Machine(cause) => Failure::new(cause).remedy("see `pitwire doctor`"),
    }
}

fn refused(refusal: &OpenFailure, url: &str) -> Failure {
    Failure::new(format!("{url}: {refusal}")).remedy(refusal.remedy())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| *seconds >= 0.001 && *seconds <= 1e6);
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "give seconds from 0.001 to 1000000".into())
}

fn period(text: &str) -> Result<Duration, String> {
    match text.strip_suffix("ms") {
        Some(ms) => match ms.parse::<u64>() {
            Ok(ms) if (1..=1_000_000).contains(&ms) => Ok(Duration::from_millis(ms)),
            _ => Err("give a period as in 500ms or 1s".into()),
        },
        None => seconds(text).map_err(|_| "give a period as in 500ms or 1s".into()),
    }
}

/// Parses a percentage into units of 0.01 %.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn percent(text: &str) -> Result<u32, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).parse::<f64>().ok();
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    percent.map(|percent| (percent * 100.0).round() as u32).ok_or_else(|| "give a number from 0 to 100".into())
}

fn threads(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=MOST_THREADS).contains(count));
    count.ok_or_else(|| format!("give a number from 1 to {MOST_THREADS}"))
}

/// Parses an HTTP token, so that the text cannot break the request header.
fn token(text: &str) -> Result<String, String> {
    let is_token =
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
    if is_token { Ok(text.into()) } else { Err("give a name of letters, digits, '.', '-' or '_'".into()) }
}

fn field(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\');
    if is_name { Ok(text.into()) } else { Err("give the field's name, without quotes".into()) }
}

fn part(text: &str) -> Result<(usize, usize), String> {
    let numbers = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
    numbers.filter(|(index, of)| index < of).ok_or_else(|| "give a part as in 0/4".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_values_are_parsed_and_validated() {
        assert_eq!(period("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(period("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(period("0.25"), Ok(Duration::from_millis(250)));
        for text in ["", "0", "0ms", "-1s", "1m", "NaN", "inf"] {
            assert!(period(text).is_err(), "{text}");
        }
        assert_eq!((percent("1"), percent("0.5%"), percent("100")), (Ok(100), Ok(50), Ok(10_000)));
        for text in ["", "-1", "101", "x", "NaN"] {
            assert!(percent(text).is_err(), "{text}");
        }
        assert!(token("a b").is_err() && token("a\r\n").is_err() && token("").is_err() && token("v1.x").is_ok());
        assert!(part("4/4").is_err() && part("1").is_err() && part("0/1").is_ok());
    }
}
