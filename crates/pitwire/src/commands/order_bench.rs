//! `pitwire order-bench`: orders through a running venue, seen from a client that costs little itself.
//!
//! Does        one measurement a call, each beside what it is compared with, interleaved in the same run.
//! Leaves out  starting the venue: `scripts/bench.py` starts one for each measurement.
//! Start at    [`OrderBench::run`].

mod client;
mod echo;
mod figures;
mod flood;
mod open_loop;
mod overload;
mod pairs;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::commands::arguments;
use crate::output::say;
use pitwire_failure::Failure;

const EXAMPLES: &str = "Examples:
  pitwire order-bench --mode pairs --venue 127.0.0.1:8080
  pitwire order-bench --mode open --venue 127.0.0.1:8080 --rate 10000 --json
  pitwire order-bench --mode open --venue 127.0.0.1:8080 --wait asleep --seconds 60    # as a load beside something else
  pitwire order-bench --mode overload --venue 127.0.0.1:8080

The venue should be fresh and without flow: pitwire up --no-flow --durability memory. Orders are buys of 0.001 ETH_USDC
far below the market, from both demo accounts; they rest, and are cancelled between measurements.";

/// Time orders through a running venue.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct OrderBench {
    /// What to measure.
    #[arg(long, value_enum)]
    mode: Mode,
    /// Where the venue serves.
    #[arg(long, value_name = "ADDR:PORT", value_parser = arguments::address, default_value = "127.0.0.1:8080")]
    venue: SocketAddr,
    /// How many interleaved pairs.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pairs: u16,
    /// Requests in each half of a pair.
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    requests: u32,
    /// Cores for the client and for what it talks to; bind the venue to the second yourself (taskset).
    #[arg(long, value_name = "CLIENT,PEER", value_parser = two_cores)]
    cores: Option<(usize, usize)>,
    /// Also time a sync of 4 KiB in this directory, in every pair.
    #[arg(long, value_name = "DIR")]
    sync: Option<PathBuf>,
    /// Orders a second over all connections.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    rate: u32,
    /// Connections of the open loop.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=512))]
    connections: u16,
    /// Length of each load.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// How the open loop waits for the time of its next order. Awake it takes a core and its times are exact; asleep it leaves
    /// the core to others, and its own waking is in its times. How late it was itself is among the figures.
    #[arg(long, value_enum, default_value_t = open_loop::Wait::Awake)]
    wait: open_loop::Wait,
    /// A second venue, to be flooded by turns: what the flood costs a session by sharing the machine alone.
    #[arg(long, value_name = "ADDR:PORT", value_parser = arguments::address)]
    elsewhere: Option<SocketAddr>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// One order at a time against a blocking TCP ping-pong of the same sizes.
    Pairs,
    /// Orders at a fixed rate, each timed from when it was due to be sent.
    Open,
    /// Rising rates, up to where the venue acknowledges fewer than are due.
    Ramp,
    /// Twice and ten times what the venue can do, with cancels in between.
    Overload,
    /// One session at a time, with and without another one that floods the venue.
    Flood,
    /// What `pairs` talks to instead of a venue; used by itself.
    #[value(hide = true)]
    Echo,
}

impl OrderBench {
    pub fn run(self) -> Result<(), Failure> {
        let OrderBench { rate, connections, seconds, wait, .. } = self;
        let load = open_loop::Load { rate, connections, seconds, wait };
        let figures = match self.mode {
            Mode::Pairs => {
                let pairs = pairs::Pairs { count: self.pairs, requests: self.requests, cores: self.cores };
                pairs::measure(self.venue, pairs, self.sync.as_deref())
            }
            Mode::Open => open_loop::measure(self.venue, &load),
            Mode::Ramp => open_loop::ramp(self.venue, &load),
            Mode::Overload => overload::measure(self.venue, &load),
            Mode::Flood => flood::measure(self.venue, self.elsewhere, self.pairs, self.requests),
            Mode::Echo => return echo::serve(),
        }?;
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
