//! `pitwire engine-bench`: the matching core on a file of operations.

mod book;
mod generate;
mod growth;
mod operations;
mod reports;
mod venue;

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use hdrhistogram::Histogram;

use crate::output::say;
use growth::Curve;
use operations::{Kind, Operation};
use pitwire_failure::Failure;
use reports::Reports;

const EXAMPLES: &str = "Examples:
  pitwire engine-bench --ops ops.bin --json
  pitwire engine-bench --generate 5000000 --seed 1 --ops ops.bin
  pitwire engine-bench --ops ops.bin --mode venue --reports out.txt
  pitwire engine-bench --growth

An operation is 24 bytes, little-endian: u8 kind, u8 side, u16 zero, u32 price in ticks, u64 id, u32 quantity, u32 zero.
Side: 0 buy, 1 sell. Kind: 0 limit, 1 cancel, 2 market, 3 limit immediate-or-cancel, 4 replace (always loses priority).
Latency is measured in a second pass over a fresh book: every 16th operation between two clock readings.
Operations are taken one at a time, in order, but the next 20 are known: memory is asked for what they will touch, inside
the clock, as recovery does within a group of the journal. With --no-look-ahead nothing is known beforehand, as when a
connection sends one order at a time.";

/// Run the matching core over a file of operations and time it.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct EngineBench {
    /// The file of operations.
    #[arg(long, value_name = "FILE", required_unless_present = "growth")]
    ops: Option<PathBuf>,
    /// Measure how the bare book's time grows, with its own streams, instead of running a file.
    #[arg(long, value_enum, value_name = "WITH", num_args = 0..=1, default_missing_value = "all",
        conflicts_with_all = ["ops", "generate", "reports", "mode"])]
    growth: Option<Curve>,
    /// Only this point of the curve.
    #[arg(long, value_name = "N", requires = "growth", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    at: Option<u32>,
    /// Write so many operations of mixed flow to the file first.
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
    mode: Mode,
    /// Know nothing of an operation before its turn.
    #[arg(long, conflicts_with = "growth")]
    no_look_ahead: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// The bare book.
    Book,
    /// The full engine: accounts, balances, all rules.
    Venue,
}

/// What is timed: one operation at a time, reports into a buffer.
trait Matcher {
    /// `coming(n)` is the operation `n` places behind the one whose turn it is.
    fn look_ahead<'a>(&mut self, coming: impl Fn(usize) -> Option<&'a Operation>);
    fn apply(&mut self, seq: u32, operation: &Operation, reports: &mut Reports);
    /// Orders that rest now.
    fn live(&self) -> usize;
}

const SAMPLE_EVERY: usize = 16;

impl EngineBench {
    pub fn run(self) -> Result<(), Failure> {
        if let Some(curve) = self.growth {
            return growth::run(curve, self.at, self.seed, self.json);
        }
        let Some(ops) = &self.ops else { return Err(Failure::usage("--ops names the file of operations")) };
        if let Some(count) = self.generate {
            generate::write(ops, count, self.seed)?;
        }
        let operations = operations::load(ops)?;
        let ahead = !self.no_look_ahead;
        let (seconds, reports, live) = match self.mode {
            Mode::Book => timed(&mut book::BareBook::new(operations.len()), &operations, ahead),
            Mode::Venue => timed(&mut venue::Venue::new(operations.len()), &operations, ahead),
        };
        if let Some(seq) = reports.duplicate {
            return Err(Failure::usage(format!(
                "operation {seq} enters id {} which is live already; ids must be unique among live orders",
                operations[seq as usize].id
            )));
        }
        let latency = match self.mode {
            Mode::Book => sampled(&mut book::BareBook::new(operations.len()), &operations, ahead),
            Mode::Venue => sampled(&mut venue::Venue::new(operations.len()), &operations, ahead),
        };
        if let Some(path) = &self.reports {
            reports.write_text(path)?;
        }
        self.print(&operations, seconds, &latency, &Flow::of(&operations, &reports, live));
        Ok(())
    }

    #[allow(clippy::cast_precision_loss)]
    fn print(&self, operations: &[Operation], seconds: f64, latency: &Histogram<u64>, flow: &Flow) {
        let ops = operations.len();
        let per_second = ops as f64 / seconds.max(1e-9);
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|quantile| latency.value_at_quantile(quantile));
        let max = latency.max();
        if self.json {
            say(&format!(
                "{{\"ops\":{ops},\"seconds\":{seconds:.6},\"ops_per_s\":{per_second:.0},\"p50_ns\":{p50},\"p99_ns\":{p99},\
                 \"p999_ns\":{p999},\"max_ns\":{max},{}}}",
                flow.json()
            ));
            return;
        }
        say(&format!("ops        {ops}"));
        say(&format!("seconds    {seconds:.6}"));
        say(&format!("ops_per_s  {per_second:.0}"));
        say(&format!(
            "latency    p50 {p50} ns, p99 {p99} ns, p999 {p999} ns, max {max} ns (every {SAMPLE_EVERY}th operation, second pass)"
        ));
        say(&format!("flow       {}", flow.text()));
    }
}

/// What the file turned out to be.
struct Flow {
    limits: usize,
    immediates: usize,
    markets: usize,
    cancels: usize,
    replaces: usize,
    trades: usize,
    lots: u64,
    /// Orders that rest at the end.
    live: usize,
}

impl Flow {
    fn of(operations: &[Operation], reports: &Reports, live: usize) -> Flow {
        let count = |kind: Kind| operations.iter().filter(|operation| operation.kind == kind).count();
        Flow {
            limits: count(Kind::Limit),
            immediates: count(Kind::Immediate),
            markets: count(Kind::Market),
            cancels: count(Kind::Cancel),
            replaces: count(Kind::Replace),
            trades: reports.trades(),
            lots: reports.traded_lots(),
            live,
        }
    }

    fn json(&self) -> String {
        let Flow { limits, immediates, markets, cancels, replaces, trades, lots, live } = self;
        format!(
            "\"limits\":{limits},\"immediates\":{immediates},\"markets\":{markets},\"cancels\":{cancels},\
             \"replaces\":{replaces},\"trades\":{trades},\"lots\":{lots},\"live\":{live}"
        )
    }

    fn text(&self) -> String {
        let Flow { limits, immediates, markets, cancels, replaces, trades, lots, live } = self;
        format!(
            "{limits} limit, {immediates} immediate, {markets} market, {cancels} cancel, {replaces} replace; \
             {trades} trades of {lots} lots, {live} live at the end"
        )
    }
}

fn timed(matcher: &mut impl Matcher, operations: &[Operation], ahead: bool) -> (f64, Reports, usize) {
    let mut reports = Reports::with_room_for(operations.len());
    let started = Instant::now();
    run_through(matcher, operations, ahead, &mut reports);
    let seconds = started.elapsed().as_secs_f64();
    (seconds, reports, matcher.live())
}

/// On its own and never inlined, so that an instruction counter can be told to count here and nowhere else.
#[inline(never)]
fn run_through(matcher: &mut impl Matcher, operations: &[Operation], ahead: bool, reports: &mut Reports) {
    for (seq, operation) in (0_u32..).zip(operations) {
        if ahead {
            matcher.look_ahead(move |n| operations.get(seq as usize + n));
        }
        matcher.apply(seq, operation, reports);
    }
}

fn sampled(matcher: &mut impl Matcher, operations: &[Operation], ahead: bool) -> Histogram<u64> {
    // Bounds and digits are constants that the histogram accepts.
    let mut latency = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("a histogram from 1 ns to a minute");
    let mut reports = Reports::with_room_for(operations.len());
    for (seq, operation) in (0_u32..).zip(operations) {
        let started = (seq as usize).is_multiple_of(SAMPLE_EVERY).then(Instant::now);
        if ahead {
            matcher.look_ahead(move |n| operations.get(seq as usize + n));
        }
        matcher.apply(seq, operation, &mut reports);
        if let Some(started) = started {
            latency.saturating_record(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1));
        }
    }
    latency
}
