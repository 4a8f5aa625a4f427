//! `pitwire export`: what a run was, as tables for other programs.

mod directory;
mod parquet;
mod range;
mod sink;
mod spelling;
mod tables;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pitwire_disk::DirectoryStorage;
use pitwire_journal::Recovery;

use crate::output::say;
use directory::Unfinished;
use pitwire_failure::Failure;
use pitwire_venue::{Replay, inspect_settled};
use range::{Instant, Range};
use sink::Table;
use tables::Tables;

const EXAMPLES: &str = "Examples:
  pitwire export pitwire-data --out tables                      CSV in CoinTossX's columns, all instruments
  pitwire export pitwire-data --out tables --format parquet
  pitwire export pitwire-data --out morning --from 2026-01-05T09:00:00Z --to 2026-01-05T12:00:00Z --json

Files: orders, trades, book (what rests at the end), levels (every change of the visible book), events (everything),
instruments. Columns, units and types: docs/export.md.";

/// Write orders, trades, book and the full event log of a run as CSV or Parquet.
///
/// Nothing in DIR is changed, and the venue may go on: what was durable when the export began is exported. Everything
/// that is kept is replayed: from the first command if the journal still reaches back to it, else from the oldest
/// snapshot, and the report says which.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Export {
    /// The data directory of a venue.
    dir: PathBuf,
    /// A new directory for the tables.
    #[arg(long, value_name = "DIR2")]
    out: PathBuf,
    #[arg(long, value_enum, default_value = "csv")]
    format: Format,
    /// Leave out what happened before: RFC 3339, or nanoseconds of venue time.
    #[arg(long, value_name = "TIME")]
    from: Option<Instant>,
    /// Leave out what happened at this time or later; the book is the one that stood then.
    #[arg(long, value_name = "TIME")]
    to: Option<Instant>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Csv,
    Parquet,
}

impl Format {
    const fn extension(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Parquet => "parquet",
        }
    }
}

impl Export {
    pub fn run(self) -> Result<(), Failure> {
        if self.from.zip(self.to).is_some_and(|(from, to)| from >= to) {
            return Err(Failure::usage("--from is not before --to: that leaves nothing"));
        }
        directory::check_free(&self.out)?;
        let storage = DirectoryStorage::read_only(&self.dir).map_err(|error| {
            Failure::new(format!("cannot read {}: {error}", self.dir.display()))
                .remedy("name the data directory of a venue")
        })?;
        let recovery = inspect_settled(&storage)?;
        if recovery.is_fresh {
            return Err(Failure::new(format!("{} holds no journal", self.dir.display()))
                .remedy("name the data directory of a venue"));
        }
        let range = Range::find(&recovery, &storage, self.from, self.to)?;
        let unfinished = Unfinished::beside(&self.out)?;
        let mut tables = Tables::create(unfinished.path(), self.format)?;
        let mut replay = Replay::start(&recovery)?;
        if range.begins_after(replay.last) {
            tables.open_levels(&replay.engine, replay.last, replay.time)?;
        }
        if range.ends_with(replay.last) {
            tables.close_books(&replay.engine)?;
        }
        replay.run(
            &recovery,
            &storage,
            |replay, stamped, events| {
                tables.remember(stamped, events);
                if range.contains(stamped.seq) {
                    tables.write(&replay.engine, stamped, events)?;
                }
                if range.begins_after(stamped.seq) {
                    tables.open_levels(&replay.engine, stamped.seq, stamped.at)?;
                }
                if range.ends_with(stamped.seq) {
                    tables.close_books(&replay.engine)?;
                }
                tables.forget(events);
                Ok(())
            },
            |_| Ok(()),
        )?;
        tables.write_instruments(&replay.engine)?;
        let tables = tables.finish()?;
        unfinished.finish(&self.out)?;
        self.report(&recovery, &range, &tables);
        Ok(())
    }

    fn report(&self, recovery: &Recovery, range: &Range, tables: &[Table]) {
        if self.json {
            let rows = tables.iter().map(|table| format!("\"{}\":{}", table.name, table.rows));
            let rows = rows.collect::<Vec<_>>().join(",");
            let (format, base) = (self.format.extension(), recovery.base());
            say(&format!(
                "{{\"ok\":true,\"format\":\"{format}\",\"kept_from_command\":{base},\"first_command\":{},\
                 \"last_command\":{},\"commands\":{},\"rows\":{{{rows}}}}}",
                range.first, range.last, range.commands,
            ));
        } else {
            match &recovery.snapshot {
                Some(snapshot) => {
                    say(&format!("from          the oldest kept snapshot, at command {}", snapshot.meta.seq))
                }
                None => say("from          the first command"),
            }
            say(&format!("commands      {} ({} to {})", range.commands, range.first, range.last));
            for table in tables {
                say(&format!("{:<13} {} rows in {}", table.name, table.rows, self.out.join(&table.file).display()));
            }
        }
        if let Some(torn) = &recovery.torn {
            eprintln!("pitwire: note: the journal ends in something unfinished, which is left out: {torn}");
        }
        for damaged in &recovery.damaged_snapshots {
            eprintln!("pitwire: note: {damaged}");
        }
    }
}
