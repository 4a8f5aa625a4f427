//! `pitwire explain`: which rule decided, with its numbers, from the log alone.

use std::path::PathBuf;

use clap::Args;
use pitwire_explain::{Note, Question, Viewer};
use pitwire_model::{OrderId, Seq};
use serde_json::json;

use crate::output::say;
use pitwire_failure::Failure;
use pitwire_venue::{ExplainAnswer, explain};

const EXAMPLES: &str = "Examples:
  pitwire explain --data pitwire-data --order 4711           what befell this order, and what it waits for
  pitwire explain --data pitwire-data --order 4712           likewise a report of a trade made beside the book, by its number
  pitwire explain --data pitwire-data --at 4711              what this command decided: an uncross, a breach, expiries
  pitwire explain --data pitwire-data --at 4711 --instrument AUC_ZAR --json

The venue may go on meanwhile: what was durable when this began is looked at. What each kind of note says: docs/explain.md.";

/// Say which rule decided over an order or a command, and with which numbers.
///
/// Of a reject the reason, its rule and the numbers compared; of an expiry what caused it; of an uncross the candidates and the
/// step that decided; of an order that rests what stands before it, or what it waits for; of a breach price, reference, tolerance.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Explain {
    /// The data directory of a venue.
    #[arg(long, value_name = "DIR", default_value = "pitwire-data")]
    data: PathBuf,
    /// An order's number, or that of a report of a trade made beside the book.
    #[arg(long, value_name = "ID", required_unless_present = "at", conflicts_with = "at")]
    order: Option<u64>,
    /// A command's number.
    #[arg(long, value_name = "SEQ")]
    at: Option<u64>,
    /// Of that command, what concerns this instrument alone.
    #[arg(long, value_name = "NAME", requires = "at")]
    instrument: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub fn run(self) -> Result<(), Failure> {
        let question = match (self.order, self.at) {
            (Some(order), _) => Question::Order(OrderId(order)),
            (None, at) => Question::At { seq: Seq(at.unwrap_or_default()), instrument: self.instrument.clone() },
        };
        let ExplainAnswer { notes, first, last } = explain(&self.data, question, Viewer::Operator)?;
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
