//! `pitwire journal-bench`: how fast commands become durable, and how fast they are recovered.

use std::path::PathBuf;

use clap::Args;
use pitwire_benchmarks::BenchProgress;
use pitwire_benchmarks::journal::{JournalBenchmark, JournalFigures, median};
use pitwire_failure::Failure;

use pitwire_terminal::command_progress::CommandProgress;
use pitwire_terminal::output::say;

const EXAMPLES: &str = "Commands are 54 % limit orders near the best prices, 40 % cancels and 6 % immediate-or-cancel
orders, with about 20,000 live orders, from two members and twelve house accounts. `journal` is the
journal alone. `venue` is the whole writer: engine, projections, public channels, hash chains. A
commit is one write and one sync.

Examples:
  pitwire journal-bench --data /tmp/bench
      ten million commands, five runs
  pitwire journal-bench --data /tmp/bench --commands 1000000 --runs 3 --json
      a shorter measurement, as one JSON object";

/// Measure how fast the journal writes commands in groups and recovers them.
#[derive(Args)]
#[command(after_help = EXAMPLES, hide = true)]
pub struct JournalBench {
    /// A directory that is empty or does not exist. It is removed afterwards.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Commands of each run.
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    commands: u64,
    /// Commands in one group commit.
    #[arg(long, value_name = "N", default_value_t = 4096)]
    batch: u64,
    /// Number of runs. The figures are medians.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Seed of the commands.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Percentage of commands that come from members. The others come from house accounts, which
    /// have no history.
    #[arg(long, value_name = "PERCENT", default_value_t = 20)]
    members: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl JournalBench {
    /// Measures the journal and the recovery, and prints the figures.
    ///
    /// # Errors
    /// If the directory is not empty or cannot be written.
    pub fn run(self) -> Result<(), Failure> {
        let JournalBench { data, commands, batch, runs, seed, members, json } = self;
        let progress = BenchProgress::default();
        let benchmark = JournalBenchmark { data, commands, batch, runs, seed, members, progress };
        let measure = || benchmark.run();
        let mut figures = CommandProgress::new("measuring").watch(|| benchmark.progress.read(), measure)?;
        let (journal, recovery) = (median(&mut figures.journal), median(&mut figures.recovery));
        let JournalFigures { venue, journal_cpu_ns, recovery_cpu_ns, pauses, .. } = &figures;
        #[allow(clippy::cast_precision_loss)]
        let seconds = commands as f64 / recovery;
        if json {
            say(&format!(
                "{{\"commands\":{commands},\"batch\":{batch},\"runs\":{runs},\"journal_per_s\":{journal:.0},\
                 \"venue_per_s\":{venue:.0},\"recovery_per_s\":{recovery:.0},\"recovery_s\":{seconds:.3},\
                 \"journal_cpu_ns\":{journal_cpu_ns:.1},\"recovery_cpu_ns\":{recovery_cpu_ns:.1},\
                 \"live_orders\":{},\"snapshot_pause_us\":{:.1},\"snapshot_on_the_spot_us\":{:.1}}}",
                pauses.live, pauses.replica_us, pauses.in_place_us
            ));
            return Ok(());
        }
        say(&format!("commands        {commands}, {batch} a commit"));
        say(&format!("journal_per_s   {journal:.0} (median of {runs}: {})", range(&figures.journal)));
        say(&format!("venue_per_s     {venue:.0}"));
        say(&format!("recovery_per_s  {recovery:.0} (median of {runs}: {})", range(&figures.recovery)));
        say(&format!("recovery_s      {seconds:.3}"));
        say(&format!(
            "processor       {journal_cpu_ns:.0} ns per command journaled, {recovery_cpu_ns:.0} recovered (all threads)"
        ));
        say(&format!(
            "snapshot pause  {:.0} us with {} live orders; {:.0} us if taken in place",
            pauses.replica_us, pauses.live, pauses.in_place_us
        ));
        Ok(())
    }
}

/// Formats the smallest and the largest of sorted samples.
fn range(sorted: &[f64]) -> String {
    let ends = sorted.first().zip(sorted.last());
    ends.map_or_else(String::new, |(min, max)| format!("{min:.0} to {max:.0}"))
}
