//! `pitwire tape`: serves and records feeds.

mod live;
mod record;
mod serve;
mod source;

use clap::{Args, Subcommand};

use pitwire_failure::Failure;

const EXAMPLES: &str = "Examples:
  pitwire tape serve --listen 127.0.0.1:9000
      serves a synthetic feed of 6,000 symbols as fast as it is read
  pitwire tape record ws://127.0.0.1:9000/ minute.tape --seconds 60
      records a feed for one minute";

/// Serve a feed of trades, synthetic or from a file, or record one.
///
/// Formats, checksums and faults: docs/tape.md.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Tape {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Serve(Box<serve::Serve>),
    Record(record::Record),
}

impl Tape {
    /// Serves or records a feed.
    ///
    /// # Errors
    /// The errors of the chosen command.
    pub fn run(self) -> Result<(), Failure> {
        match self.action {
            Action::Serve(serve) => serve.run(),
            Action::Record(record) => record.run(),
        }
    }
}
