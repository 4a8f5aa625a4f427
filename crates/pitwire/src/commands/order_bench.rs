//! `pitwire order-bench`: orders through a running venue.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use clap::{Args, ValueEnum};
use pitwire_benchmarks::BenchProgress;
use pitwire_benchmarks::orders::open_loop::{self, Wait};
use pitwire_benchmarks::orders::{BenchTarget, echo, flood, overload, pairs, raise_limits};
use pitwire_failure::Failure;
use serde_json::Value;

use pitwire_configuration::demo;
use pitwire_net::listen_options;
use pitwire_terminal::command_progress::CommandProgress;
use pitwire_terminal::output::say;

const EXAMPLES: &str =
    "The venue should be fresh and without flow: pitwire up --no-flow --durability memory. Orders are
buys of 0.001 ETH_USDC far below the market, from both demo accounts. They rest, and are cancelled
between measurements.

Examples:
  pitwire order-bench --mode pairs --venue 127.0.0.1:8080
      one order at a time
  pitwire order-bench --mode open --venue 127.0.0.1:8080 --rate 10000 --json
      10,000 orders a second, whether or not the venue keeps up";

/// Measure the latency and the throughput of orders through a running venue.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct OrderBench {
    /// What to measure.
    #[arg(long, value_enum)]
    mode: Mode,
    /// Address of the venue.
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_options::address, default_value = "127.0.0.1:8080")]
    venue: SocketAddr,
    /// Number of interleaved pairs.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pairs: u16,
    /// Requests in each half of a pair.
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    requests: u32,
    /// Cores of the client and of its peer. Bind the venue to the second one yourself (taskset).
    #[arg(long, value_name = "CLIENT,PEER", value_parser = two_cores)]
    cores: Option<(usize, usize)>,
    /// Also time a sync of 4 KiB in this directory, in every pair.
    #[arg(long, value_name = "DIR")]
    sync: Option<PathBuf>,
    /// Orders per second over all connections.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    rate: u32,
    /// Connections of the open loop.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=512))]
    connections: u16,
    /// Length of each load in seconds.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// How the open loop waits for the time of its next order. The figures include the delay of the
    /// client itself.
    #[arg(long, value_enum, default_value_t = WaitName::Awake)]
    wait: WaitName,
    /// A second venue. The flood alternates between both, which shows the cost of sharing the
    /// machine alone.
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_options::address)]
    elsewhere: Option<SocketAddr>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// One order at a time, compared with a blocking TCP ping-pong of the same sizes.
    Pairs,
    /// Orders at a fixed rate. The time of an order starts when it is due.
    Open,
    /// Rising rates, until the venue acknowledges fewer orders than are due.
    Ramp,
    /// Twice and ten times the rate that the venue can handle, with cancels in between.
    Overload,
    /// One session at a time, with and without another session that floods the venue.
    Flood,
    /// The peer of `pairs`, which starts it by itself.
    #[value(hide = true)]
    Echo,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WaitName {
    /// Poll without pause: exact times, at the cost of a core.
    Awake,
    /// Sleep: the core is free for others, and the wake-up latency is part of the times.
    Asleep,
}

impl OrderBench {
    /// Measures the time from an order to its acknowledgement.
    ///
    /// # Errors
    /// If the venue cannot be reached, refuses an order, or stops answering.
    pub fn run(self) -> Result<(), Failure> {
        let OrderBench { rate, connections, seconds, .. } = self;
        let wait = match self.wait {
            WaitName::Awake => Wait::Awake,
            WaitName::Asleep => Wait::Asleep,
        };
        let load = open_loop::Load { rate, connections, seconds, wait };
        // Two members and an operator, whose account has no funds to trade with.
        let mut members = demo().logins;
        let operators = members.split_off(2);
        let target = |address| BenchTarget { address, logins: members.clone() };
        let venue = target(self.venue);
        if self.mode == Mode::Echo {
            return echo::serve(|address| say(&address.to_string()));
        }
        for operator in operators {
            raise_limits(&venue, operator)?;
        }
        let progress = BenchProgress::default();
        let measure = || match self.mode {
            Mode::Pairs => {
                let mut echo = Command::new(std::env::current_exe()?);
                echo.args(["order-bench", "--mode", "echo"]);
                let size = pairs::Pairs { count: self.pairs, requests: self.requests, cores: self.cores, echo };
                pairs::measure(&venue, size, self.sync.as_deref(), &progress)
            }
            Mode::Open => open_loop::measure(&venue, &load, &progress),
            Mode::Ramp => open_loop::ramp(&venue, &load, &progress),
            Mode::Overload => overload::measure(&venue, &load, &progress),
            Mode::Flood => {
                let elsewhere = self.elsewhere.map(target);
                flood::measure(&venue, elsewhere.as_ref(), self.pairs, self.requests, &progress)
            }
            // Served above.
            Mode::Echo => Ok(Value::Null),
        };
        let figures = CommandProgress::new("measuring").watch(|| progress.read(), measure)?;
        if self.json {
            say(&figures.to_string());
        } else {
            print(&figures, "");
        }
        Ok(())
    }
}

fn two_cores(text: &str) -> Result<(usize, usize), String> {
    let cores = text.split_once(',').and_then(|(client, peer)| Some((client.parse().ok()?, peer.parse().ok()?)));
    cores.ok_or_else(|| "give two numbers, as in 0,1".into())
}

fn print(figures: &Value, prefix: &str) {
    match figures {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| print(value, &format!("{prefix}{name}."))),
        value => say(&format!("{:32} {value}", prefix.trim_end_matches('.'))),
    }
}
