//! The options of `pitwire bench`.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use pitwire_benchmarks::BenchProgress;
use pitwire_client::{CredentialError, Credentials, Error, Number, Reconnect, Settings};
use pitwire_failure::Failure;
use pitwire_terminal::command_progress::CommandProgress;
use pitwire_terminal::output::{say, say_styled};
use serde_json::Value;

use crate::client_threads::ThreadModel;
use crate::cost::AllocationCounter;
use crate::hawkes::{HawkesBenchmark, HawkesMode, Scenario};
use crate::pacing::Pacing;
use crate::trading_loop::LoopBenchmark;

/// Measure a venue through the trading client.
#[derive(Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = false,
    after_help = "Examples:\n  pitwire bench loop ws://127.0.0.1:8080/ws/api/v2\n  pitwire bench hawkes --mode paper"
)]
pub struct Bench {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    Loop(Box<LoopArguments>),
    Hawkes(Box<HawkesArguments>),
}

const LOOP_EXAMPLES: &str = "It enters orders of the smallest amount and cancels them. For the trading loop a second
account of --maker-credentials offers, and the first one buys at once. Run it against a venue where
that does no harm. The venue's credentials are found as for `pitwire trade`.

A quantile needs 100 values above it: --count 10000 for p99, 1000000 for p99.99.

Examples:
  pitwire bench loop ws://127.0.0.1:8080/ws/api/v2 --maker-credentials maker.toml
      each request waits for the answer to the one before
  pitwire bench loop ws://127.0.0.1:8080/ws/api/v2 --rate 5000 --connections 4 --threads pool --json
      5,000 requests a second over four connections";

/// Measure orders, messages, market data and the loop from a book change to a fill.
#[derive(Args)]
#[command(after_help = LOOP_EXAMPLES)]
struct LoopArguments {
    /// WebSocket URL of the venue.
    #[arg(value_name = "WS_URL")]
    url: String,
    /// Instrument of the orders and of the book.
    #[arg(long, value_name = "NAME", default_value = "ETH_USDC")]
    instrument: String,
    /// Price at which orders rest; the default is half of the market price.
    #[arg(long)]
    price: Option<Number>,
    /// Credentials file of the second account of the trading loop.
    #[arg(long, value_name = "FILE")]
    maker_credentials: Option<PathBuf>,
    /// Requests per second of an open loop: a latency counts from the due time.
    #[arg(long, value_name = "N")]
    rate: Option<NonZeroU64>,
    /// Operations of each measurement.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    count: u64,
    /// Rounds into which the operations are divided. Each round measures the TCP ping-pong too.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Book updates that are replayed to one connection.
    #[arg(long, value_name = "N", default_value_t = 400_000)]
    updates: u64,
    /// Connections for orders. An order uses the one with the fewest requests in flight.
    #[arg(long, value_name = "N", default_value = "1")]
    connections: NonZeroUsize,
    #[command(flatten)]
    client: ConnectionArguments,
    /// For wss://, trust only the certificate authorities in this PEM file.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Timeout of a request in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Args)]
struct ConnectionArguments {
    /// Threads of the client.
    #[arg(long, value_enum, default_value_t = ThreadModel::EventLoop)]
    threads: ThreadModel,
    /// Threads of --threads pool.
    #[arg(long, value_name = "N", default_value = "2")]
    workers: NonZeroUsize,
}

#[derive(Args)]
struct OutputArguments {
    /// Directory for histogram files (.hgrm) and reports, created if necessary.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl OutputArguments {
    /// Writes a report to the directory of `--out`, if there is one, and prints it.
    fn finish(
        &self,
        json: &Value,
        text: &str,
        write: impl FnOnce(&Path) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.out.as_deref().map(write).transpose()?;
        if self.json {
            say(&json.to_string());
        } else {
            say_styled(text.trim_end());
        }
        Ok(())
    }
}

const HAWKES_EXAMPLES: &str =
    "Each row has a fresh venue, which the command starts and stops. The modes measure different
things, so each run has one mode.

Examples:
  pitwire bench hawkes --mode paper --out hawkes-paper
      110,000 orders for each of 1 to 10 clients, with histogram files and report.html
  pitwire bench hawkes --mode pipelined --scenario one-stock --clients 1,64 --rate 50000 --json
      1 and 64 clients on one stock, 50,000 orders a second together";

/// Run the test bench of CoinTossX: clients whose orders follow Hawkes processes.
#[derive(Args)]
#[command(after_help = HAWKES_EXAMPLES)]
struct HawkesArguments {
    /// How clients send their orders.
    #[arg(long, value_enum)]
    mode: HawkesMode,
    /// Who trades what in the rows.
    #[arg(long, value_enum, default_value_t = Scenario::Pairs)]
    scenario: Scenario,
    /// Numbers of clients, one row for each; the default belongs to the scenario.
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=256))]
    clients: Vec<u16>,
    /// Orders of a client, or of all clients with one-stock; the default is 110,000, or 1,000,000
    /// with million.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    orders: Option<u64>,
    /// Orders per second over all clients in mode pipelined.
    #[arg(long, value_name = "N", default_value = "50000")]
    rate: NonZeroU64,
    /// Fewest orders in one commit in mode inprocess. A slow sync makes the next commit larger.
    #[arg(long, value_name = "N", default_value = "4096")]
    group: NonZeroUsize,
    /// Seed of the processes.
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
    /// Let the venue of a row acknowledge orders after they are on disk instead of in memory.
    #[arg(long)]
    durable: bool,
    /// Directory for the data of a row, empty or absent. It is removed afterwards. The default is
    /// in the directory for temporary files.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    client: ConnectionArguments,
    #[command(flatten)]
    output: OutputArguments,
}

impl Bench {
    /// Runs the benchmark and prints its figures.
    ///
    /// # Errors
    ///
    /// Fails if the venue cannot be reached, refuses a request, or does not answer.
    pub fn run(self, counter: AllocationCounter) -> Result<(), Failure> {
        match self.benchmark {
            Benchmark::Loop(arguments) => arguments.run(counter),
            Benchmark::Hawkes(arguments) => arguments.run(),
        }
    }
}

impl LoopArguments {
    fn run(self, counter: AllocationCounter) -> Result<(), Failure> {
        let credentials = match Credentials::find() {
            Ok(credentials) => Some(credentials),
            // Public methods need no login.
            Err(CredentialError::Missing { .. }) => None,
            Err(error) => return Err(Error::from(error).into()),
        };
        let read = |file: &PathBuf| Credentials::read(file);
        let maker = self.maker_credentials.as_ref().map(read).transpose().map_err(Error::from)?;
        let settings = Settings {
            authority: self.ca,
            credentials,
            timeout: Duration::from_secs(self.timeout),
            reconnect: Reconnect::Never,
            heartbeat: None,
            ..Settings::new(self.url)
        };
        let mut echo = Command::new(std::env::current_exe()?);
        echo.args(["order-bench", "--mode", "echo"]);
        let progress = Arc::new(BenchProgress::default());
        let benchmark = LoopBenchmark {
            settings,
            maker,
            instrument: self.instrument,
            price: self.price,
            threads: self.client.threads,
            workers: self.client.workers.get(),
            connections: self.connections,
            pacing: self.rate.map_or(Pacing::Closed, |rate| Pacing::Open { rate }),
            count: self.count,
            rounds: self.rounds,
            updates: self.updates,
            echo,
            counter,
            progress: Arc::clone(&progress),
        };
        let report = CommandProgress::new("measuring").watch(|| progress.read(), || benchmark.run())?;
        self.output.finish(&report.json(), &report.text(), |directory| report.write(directory))
    }
}

impl HawkesArguments {
    fn run(self) -> Result<(), Failure> {
        let clients: Vec<usize> = self.clients.into_iter().map(usize::from).collect();
        let orders = self.orders.unwrap_or(self.scenario.published_orders());
        let temporary = || std::env::temp_dir().join(format!("pitwire-bench-hawkes-{}", std::process::id()));
        let progress = Arc::new(BenchProgress::default());
        let benchmark = HawkesBenchmark {
            mode: self.mode,
            scenario: self.scenario,
            rows: self.scenario.rows(&clients, orders),
            seed: self.seed,
            rate: self.rate,
            group: self.group.get(),
            threads: self.client.threads,
            workers: self.client.workers.get(),
            program: std::env::current_exe()?,
            durability: if self.durable { "disk" } else { "memory" },
            data: self.data.unwrap_or_else(temporary),
            progress: Arc::clone(&progress),
        };
        let report = CommandProgress::new("measuring").watch(|| progress.read(), || benchmark.run())?;
        self.output.finish(&report.json(), &report.text(), |directory| report.write(directory))
    }
}
