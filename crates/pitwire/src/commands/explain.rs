//! `pitwire explain`: which rule decided, with its numbers, from the journal alone.

use std::path::PathBuf;

use clap::Args;
use pitwire_explain::{Note, Question, Viewer};
use pitwire_model::{OrderId, Seq};
use serde_json::json;

use pitwire_failure::Failure;
use pitwire_terminal::command_progress::CommandProgress;
use pitwire_terminal::output::say;
use pitwire_venue::{ExplainAnswer, explain};

const EXAMPLES: &str =
    "The venue may run: the command reads what was durable when it began. The kinds of notes: docs/explain.md.

Examples:
  pitwire explain --data pitwire-data --order 4711
      the history of this order, or of this trade report, and what it waits for
  pitwire explain --data pitwire-data --at 4711 --instrument AUC_ZAR --json
      what this command decided: an uncross, a breach, expiries";

/// Explain which rule decided about an order or a command, with its numbers.
///
/// For a reject: the reason, its rule and the compared numbers. For an expiry: its cause. For an
/// uncross: the candidate prices and the deciding step. For a resting order: the orders before it,
/// or what it waits for. For a breach: price, reference and tolerance.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Explain {
    /// The data directory of a venue.
    #[arg(long, value_name = "DIR", default_value = "pitwire-data")]
    data: PathBuf,
    /// Number of an order, or of a report of an off-book trade.
    #[arg(long, value_name = "ID", required_unless_present = "at", conflicts_with = "at")]
    order: Option<u64>,
    /// Number of a command.
    #[arg(long, value_name = "SEQ")]
    at: Option<u64>,
    /// Show only what concerns this instrument.
    #[arg(long, value_name = "NAME", requires = "at")]
    instrument: Option<String>,
    /// Write ticks and lots in the texts, not prices and amounts.
    #[arg(long)]
    raw: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Explain {
    /// Explains an order or a command from the journal.
    ///
    /// # Errors
    /// If the directory cannot be read, or nothing in it concerns the question.
    pub fn run(self) -> Result<(), Failure> {
        let question = match (self.order, self.at) {
            (Some(order), _) => Question::Order(OrderId(order)),
            (None, at) => Question::At { seq: Seq(at.unwrap_or_default()), instrument: self.instrument.clone() },
        };
        let progress = CommandProgress::new("explaining");
        let ExplainAnswer { notes, first, last } =
            explain(&self.data, question, Viewer::Operator, self.raw, &mut |done, total| progress.show(done, total))?;
        drop(progress);
        if notes.is_empty() {
            let what = match self.order {
                Some(order) => {
                    format!("nothing concerns an order or report {order} in commands {first} to {last}, which are kept")
                }
                None => format!("nothing was decided there; commands {first} to {last} are kept"),
            };
            return Err(Failure::new(what).remedy("orders' numbers stand in replies and in pitwire export's tables"));
        }
        self.report(&notes);
        Ok(())
    }

    fn report(&self, notes: &[Note]) {
        if self.json {
            say(&json!({"order": self.order, "at": self.at, "notes": notes}).to_string());
            return;
        }
        for note in notes {
            say(&note.line());
        }
    }
}
