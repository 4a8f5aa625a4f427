//! `pitwire engine-bench`: the matching core on a file of operations.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hdrhistogram::Histogram;
use pitwire_benchmarks::BenchProgress;
use pitwire_benchmarks::engine::bare_book::BareBook;
use pitwire_benchmarks::engine::full_engine::FullEngine;
use pitwire_benchmarks::engine::growth::{self, Curve};
use pitwire_benchmarks::engine::operations::{self, Operation};
use pitwire_benchmarks::engine::{OperationCounts, SAMPLE_EVERY, generate, sample_latency, time_run};
use pitwire_failure::Failure;

use pitwire_terminal::command_progress::CommandProgress;
use pitwire_terminal::output::say;

const EXAMPLES: &str = "Operations: 24 bytes each, little-endian:
  u8 kind, u8 side, u16 zero, u32 price in ticks, u64 id, u32 quantity, u32 zero.
  Side: 0 buy, 1 sell.
  Kind: 0 limit, 1 cancel, 2 market, 3 limit immediate-or-cancel, 4 replace (always loses priority).

Timing: a first pass gives the throughput. A second pass over a fresh book times every 16th operation.
The next 20 operations are known, and the core prefetches the memory that they will touch, inside the
clock, as recovery does within a group of the journal. With --no-look-ahead nothing is known beforehand,
as when a connection sends one order at a time.

Examples:
  pitwire engine-bench --generate 5000000 --seed 1 --ops ops.bin
      generates a file of operations
  pitwire engine-bench --ops ops.bin --mode venue --reports out.txt
      times it, and writes what the operations led to";

/// Parts of a run: writing the file, reading it, and the two passes.
const PARTS: u64 = 4;

/// Measure the matching core: run a file of operations through it and time them.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct EngineBench {
    /// The file of operations.
    #[arg(long, value_name = "FILE", required_unless_present = "growth")]
    ops: Option<PathBuf>,
    /// Measure how the time per operation of the bare book grows with the number of orders and of
    /// instruments. It generates its own operations and takes no file.
    #[arg(long, value_enum, value_name = "WITH", num_args = 0..=1, default_missing_value = "all",
        conflicts_with_all = ["ops", "generate", "reports", "mode"])]
    growth: Option<GrowthCurve>,
    /// Measure only this point of the curve.
    #[arg(long, value_name = "N", requires = "growth", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    at: Option<u32>,
    /// First write this many operations of mixed flow to the file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    generate: Option<u32>,
    /// Seed of the generated flow.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write every report as text, in operation order.
    #[arg(long, value_name = "FILE")]
    reports: Option<PathBuf>,
    /// What to run.
    #[arg(long, value_enum, default_value = "book")]
    mode: MatcherName,
    /// Do not reveal an operation before its turn.
    #[arg(long, conflicts_with = "growth")]
    no_look_ahead: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MatcherName {
    /// The bare book.
    Book,
    /// The full engine: accounts, balances, all rules.
    Venue,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GrowthCurve {
    /// The same stream near the best prices, over more and more resting orders farther away.
    Untouched,
    /// Cancels that choose uniformly from more and more live orders.
    Cancels,
    /// Mixed flow over more and more instruments, with shares in proportion to 1, 1/2, 1/3 and so
    /// on.
    Instruments,
    /// All three.
    All,
}

impl GrowthCurve {
    fn curves(self) -> Vec<Curve> {
        match self {
            GrowthCurve::Untouched => vec![Curve::Untouched],
            GrowthCurve::Cancels => vec![Curve::Cancels],
            GrowthCurve::Instruments => vec![Curve::Instruments],
            GrowthCurve::All => Curve::ALL.to_vec(),
        }
    }
}

impl EngineBench {
    /// Measures the matching engine and prints the figures.
    ///
    /// # Errors
    /// If the file of operations is missing, cannot be read or written, or enters one id twice.
    pub fn run(self) -> Result<(), Failure> {
        if let Some(curve) = self.growth {
            return self.measure_growth(&curve.curves());
        }
        let Some(ops) = &self.ops else { return Err(Failure::usage("--ops names the file of operations")) };
        // The bar moves between the parts, not in a timed pass.
        let progress = CommandProgress::new("measuring");
        let part = |number| progress.show(number, PARTS);
        if let Some(count) = self.generate {
            generate::write(ops, count, self.seed)?;
        }
        part(1);
        let operations = operations::load(ops)?;
        part(2);
        let look_ahead = !self.no_look_ahead;
        let run = match self.mode {
            MatcherName::Book => time_run(&mut BareBook::new(operations.len()), &operations, look_ahead),
            MatcherName::Venue => time_run(&mut FullEngine::new(operations.len()), &operations, look_ahead),
        };
        if let Some(seq) = run.reports.duplicate {
            return Err(Failure::usage(format!(
                "operation {seq} enters id {} which is live already; ids must be unique among live orders",
                operations[seq as usize].id
            )));
        }
        part(3);
        let latency = match self.mode {
            MatcherName::Book => sample_latency(&mut BareBook::new(operations.len()), &operations, look_ahead),
            MatcherName::Venue => sample_latency(&mut FullEngine::new(operations.len()), &operations, look_ahead),
        };
        drop(progress);
        if let Some(path) = &self.reports {
            run.reports.write_text(path)?;
        }
        self.print(&operations, run.seconds, &latency, &OperationCounts::of(&operations, &run));
        Ok(())
    }

    fn measure_growth(&self, curves: &[Curve]) -> Result<(), Failure> {
        let (bar, progress) = (CommandProgress::new("measuring"), BenchProgress::default());
        let points = |curve: &Curve| self.at.map_or_else(|| curve.points().to_vec(), |at| vec![at]);
        progress.plan((growth::ROUNDS * curves.iter().map(|curve| points(curve).len()).sum::<usize>()) as u64);
        for curve in curves {
            let points = points(curve);
            let times = bar.watch(|| progress.read(), || growth::measure(*curve, &points, self.seed, &progress))?;
            let (name, Some(first)) = (curve.name(), times.first()) else { continue };
            bar.hide_for(|| {
                for (at, ns) in points.iter().zip(&times) {
                    let ratio = ns / first;
                    if self.json {
                        say(&format!(
                            "{{\"curve\":\"{name}\",\"at\":{at},\"ns_per_op\":{ns:.2},\"ratio\":{ratio:.3}}}"
                        ));
                    } else {
                        say(&format!("{name:<12} {at:>9}   {ns:>7.2} ns   {ratio:>5.2} x"));
                    }
                }
            });
        }
        Ok(())
    }

    #[allow(clippy::cast_precision_loss)]
    fn print(&self, operations: &[Operation], seconds: f64, latency: &Histogram<u64>, counts: &OperationCounts) {
        let ops = operations.len();
        let per_second = ops as f64 / seconds.max(1e-9);
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|quantile| latency.value_at_quantile(quantile));
        let max = latency.max();
        let OperationCounts { limits, immediates, markets, cancels, replaces, trades, lots, live } = counts;
        if self.json {
            say(&format!(
                "{{\"ops\":{ops},\"seconds\":{seconds:.6},\"ops_per_s\":{per_second:.0},\"p50_ns\":{p50},\"p99_ns\":{p99},\
                 \"p999_ns\":{p999},\"max_ns\":{max},\"limits\":{limits},\"immediates\":{immediates},\
                 \"markets\":{markets},\"cancels\":{cancels},\"replaces\":{replaces},\"trades\":{trades},\
                 \"lots\":{lots},\"live\":{live}}}"
            ));
            return;
        }
        say(&format!("ops        {ops}"));
        say(&format!("seconds    {seconds:.6}"));
        say(&format!("ops_per_s  {per_second:.0}"));
        say(&format!(
            "latency    p50 {p50} ns, p99 {p99} ns, p999 {p999} ns, max {max} ns (every {SAMPLE_EVERY}th operation, second pass)"
        ));
        say(&format!(
            "flow       {limits} limit, {immediates} immediate, {markets} market, {cancels} cancel, {replaces} replace; \
             {trades} trades of {lots} lots, {live} live at the end"
        ));
    }
}
