//! `pitwire sim`: a market without sockets.

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use pitwire_configuration::PresetName;
use pitwire_failure::Failure;
use pitwire_flow_models::FlowSource;
use pitwire_simulation::{LatencyFigures, RunFigures, SimulationPlan, SimulationResult};

use crate::sim_replay::SimReplay;
use pitwire_terminal::command_progress::CommandProgress;
use pitwire_terminal::output::say;

const EXAMPLES: &str = "Examples:
  pitwire sim --seed 7 --horizon 3600 --flow market --out run --report
      an hour of venue time; keeps its journal in run/ and writes run/report.html
  pitwire sim --replay tables --instrument BTC_USDC --own-orders mine.csv
      the recorded orders of an export, with orders of your own in the queue";

/// Run a market from a seed without sockets, as fast as it goes.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Sim {
    /// The market.
    #[arg(long, value_enum, default_value = "demo")]
    preset: PresetName,
    /// The order flow: a name that `pitwire flow list` prints, or a file (docs/flow.md).
    #[arg(long, value_name = "NAME|FILE", default_value = FlowSource::default().name())]
    flow: String,
    /// The seed. Equal seeds give equal tapes.
    #[arg(long, value_name = "N", required_unless_present = "replay")]
    seed: Option<u64>,
    /// Stop after this many commands of the flow.
    #[arg(long, value_name = "N", conflicts_with = "horizon")]
    events: Option<u64>,
    /// Stop after this many seconds of venue time. A preset with a day of sessions stops at the end
    /// of its day.
    #[arg(long, value_name = "SECONDS")]
    horizon: Option<u64>,
    /// Most seconds of venue time in a second. The default is as fast as it goes. The tape is the
    /// same.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    speed: Option<u32>,
    /// 2 runs the hash chain and the projections on a second thread. The tape is the same.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    threads: u8,
    /// Write a journal of the run to this directory, for verify, export, explain and up. Not with
    /// --threads 2.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Measure spread, depth, volatility, signs, impact and event rates. With --out also write
    /// report.html with plots and report.json.
    #[arg(long)]
    report: bool,
    /// Only these instruments of the preset.
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    instruments: Vec<String>,
    /// Accounts that trade each instrument for the flow, at least 8. The default is that of the
    /// preset.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(8..=1000))]
    clients: Option<u16>,
    /// Print the progress as JSON lines with `done` and `total`, in nanoseconds of venue time or
    /// in commands. The run ends if standard output is closed.
    #[arg(long)]
    progress: bool,
    #[command(flatten)]
    replay: SimReplay,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Sim {
    /// Runs the market, or replays a tape, and prints the result.
    ///
    /// # Errors
    ///
    /// Returns a failure if the flow or the tape cannot be used, or a file cannot be written.
    pub fn run(self) -> Result<(), Failure> {
        if let Some(tape) = &self.replay.replay {
            return self.replay.run(tape, self.json);
        }
        let mut preset = self.preset.preset();
        preset.keep_instruments(&self.instruments)?;
        if let Some(clients) = self.clients {
            preset.set_house_accounts(clients.into());
        }
        let plan = SimulationPlan {
            preset,
            flow: FlowSource::named(&self.flow)?,
            seed: self.seed.unwrap_or_default(),
            events: self.events,
            horizon_s: self.horizon,
            speed: self.speed,
            has_observer_thread: self.threads == 2,
            out: self.out,
            report: self.report,
        };
        let result = if self.progress {
            let mut lines = ProgressLines::default();
            plan.run(&mut |done, total| lines.print(done, total))?
        } else {
            let progress = CommandProgress::new("simulating");
            plan.run(&mut |done, total| {
                progress.show(done, total);
                Ok(())
            })?
        };
        if self.json {
            print_json(&result)
        } else {
            print_text(&result)
        }
        Ok(())
    }
}

/// Time between two lines of progress.
const LINE_EVERY: Duration = Duration::from_millis(100);

/// Progress as JSON lines on standard output.
#[derive(Default)]
struct ProgressLines {
    last: Option<Instant>,
}

impl ProgressLines {
    /// Prints a line, unless one was printed just before.
    ///
    /// # Errors
    ///
    /// Returns a failure if standard output is closed: the reader of the run has gone.
    fn print(&mut self, done: u64, total: u64) -> Result<(), Failure> {
        if self.last.is_some_and(|last| last.elapsed() < LINE_EVERY) {
            return Ok(());
        }
        self.last = Some(Instant::now());
        let mut out = stdout().lock();
        writeln!(out, "{{\"done\":{done},\"total\":{total}}}").and_then(|()| out.flush()).map_err(|error| {
            Failure::new(format!("the progress could not be written: {error}")).remedy("leave --progress out")
        })
    }
}

#[allow(clippy::cast_precision_loss)]
fn events_per_second(result: &SimulationResult) -> f64 {
    result.events as f64 / result.wall_s.max(1e-9)
}

fn print_json(result: &SimulationResult) {
    let SimulationResult { events, orders, trades, wall_s, tape_hash, figures, latency } = result;
    let latency = latency.as_ref().and_then(|latency| serde_json::to_string(latency).ok());
    let latency = latency.map_or_else(String::new, |latency| format!(",\"latency\":{latency}"));
    let report = figures.as_ref().and_then(|figures| serde_json::to_string(figures).ok());
    let report = report.map_or_else(String::new, |report| format!(",\"report\":{report}"));
    say(&format!(
        "{{\"events\":{events},\"orders\":{orders},\"trades\":{trades},\"wall_s\":{wall_s:.6},\
         \"events_per_s\":{:.1},\"tape_hash\":\"{}\"{latency}{report}}}",
        events_per_second(result),
        hex::encode(tape_hash)
    ));
}

fn print_text(result: &SimulationResult) {
    say(&format!("events        {}", result.events));
    say(&format!("orders        {}", result.orders));
    say(&format!("trades        {}", result.trades));
    say(&format!("wall_s        {:.3}", result.wall_s));
    say(&format!("events_per_s  {:.0}", events_per_second(result)));
    say(&format!("tape_hash     {}", hex::encode(result.tape_hash)));
    if let Some(LatencyFigures { p50_ns, p99_ns, p99_9_ns, max_ns, .. }) = &result.latency {
        say(&format!("engine_ns     50 % {p50_ns}, 99 % {p99_ns}, 99.9 % {p99_9_ns}, max {max_ns}"));
    }
    result.figures.as_ref().map(RunFigures::lines).into_iter().flatten().for_each(|line| say(&line));
}
