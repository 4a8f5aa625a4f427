//! `pitwire feed-bench`: the speed of the order-by-order feed.

use clap::Args;
use pitwire_benchmarks::feed::{FeedRecording, lossy, time_encoding, time_rebuild};
use pitwire_failure::Failure;
use pitwire_terminal::command_progress::CommandProgress;
use pitwire_terminal::output::say;
use serde_json::json;

const EXAMPLES: &str = "What each figure means: docs/order-feed.md.

Examples:
  pitwire feed-bench
      encoding, rebuilding, and five million messages over two lossy lines
  pitwire feed-bench --messages 200000 --lost 10 --json
      fewer messages, of which each line loses a tenth, as one JSON object";

/// Parts of a run: the flow, encoding, rebuilding, and the lossy lines.
const PARTS: u64 = 4;

/// Measure the order-by-order feed: encoding, rebuilding books, and lines with losses.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct FeedBench {
    /// Messages of the flow.
    #[arg(long, value_name = "N", default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1_000..=50_000_000))]
    messages: u64,
    /// Datagrams that each line loses, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=50))]
    lost: u64,
    /// Seed of the flow and of the losses.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl FeedBench {
    /// Measures and prints the figures.
    ///
    /// # Errors
    /// If a socket fails, or if a rebuilt book differs from the encoded one.
    pub fn run(self) -> Result<(), Failure> {
        // The bar moves between the parts, not in a timed pass.
        let progress = CommandProgress::new("measuring");
        let part = |number| progress.show(number, PARTS);
        let recording = FeedRecording::make(self.messages, self.seed)?;
        part(1);
        let encoding = time_encoding(&recording);
        part(2);
        let rebuilt = time_rebuild(&recording)?;
        part(3);
        let run = lossy::measure(&recording, self.lost, self.seed)?;
        drop(progress);
        let [lost_a, lost_b] = run.lost;
        let counts = run.counts;
        say(&if self.json {
            json!({
                "messages": recording.count, "observe_ns": encoding.observe_ns, "write_ns": encoding.write_ns,
                "rebuilt_per_s": rebuilt,
                "lossy": {
                    "messages": run.messages, "seconds": run.seconds, "lost_datagrams": [lost_a, lost_b],
                    "replays": counts.replays, "replayed_messages": counts.replayed_messages,
                    "overflow": counts.overflow, "dropped": counts.dropped,
                },
            })
            .to_string()
        } else {
            format!(
                "messages   {} of {} commands\n\
                 encoding   {:.1} ns a message from events to messages, {:.1} ns from a message to a unit\n\
                 rebuilding {:.2} million messages a second, one thread\n\
                 lossy      {} messages arrived whole in {:.1} s; the lines lost {lost_a} and {lost_b} datagrams, {} replays of {} messages, {} overflowed",
                recording.count,
                recording.commands.len(),
                encoding.observe_ns,
                encoding.write_ns,
                rebuilt / 1e6,
                run.messages,
                run.seconds,
                counts.replays,
                counts.replayed_messages,
                counts.overflow
            )
        });
        Ok(())
    }
}
