//! `pitwire tape`: serves and records feeds.

mod figures;
mod live;
mod record;
mod serve;
mod source;
mod values;

use clap::{Args, Subcommand};

use pitwire_failure::Failure;

/// Serve a feed of trades, synthetic or from a file; or record one (see docs/tape.md).
#[derive(Args)]
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
    pub fn run(self) -> Result<(), Failure> {
        match self.action {
            Action::Serve(serve) => serve.run(),
            Action::Record(record) => record.run(),
        }
    }
}
