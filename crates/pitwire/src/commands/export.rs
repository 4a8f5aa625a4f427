//! `pitwire export`: tables of a run for other programs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pitwire_export::{
    ClosingBook, CommandRange, ExportSummary, Exporter, NumberType, RunTime, TableFormat, check_free,
};
use pitwire_failure::Failure;
use pitwire_journal::Recovery;
use pitwire_venue::{Replay, report_progress};

use crate::commands::data_directory;
use pitwire_terminal::command_progress::CommandProgress;
use pitwire_terminal::output::say;

const EXAMPLES: &str =
    "Files: orders, trades, book (the resting orders at the end), levels (every change of the visible book),
quotes (best bid and offer), auctions (results), events (everything), instruments. Columns, units and
types: docs/export.md.

Examples:
  pitwire export pitwire-data --out tables
      CSV with the columns of CoinTossX
  pitwire export pitwire-data --out morning --format parquet --to 2026-01-05T12:00:00Z
      Parquet, up to this venue time";

/// Export orders, trades, quotes, auctions, books and the event log of a run as CSV or Parquet.
///
/// The export reads DIR and changes nothing in it. A venue may run there: the export covers what
/// was durable when it began. It replays the journal from the first command, or from the oldest
/// snapshot if older segments were removed, and reports which.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Export {
    /// The data directory of a venue.
    dir: PathBuf,
    /// A new directory for the tables.
    #[arg(long, value_name = "DIR2")]
    out: PathBuf,
    /// Format of the tables.
    #[arg(long, value_enum, default_value = "csv")]
    format: FormatName,
    /// Write exact decimals to Parquet instead of float64. CSV always has the exact text.
    #[arg(long)]
    decimal: bool,
    /// Skip what happened before this time: RFC 3339, or nanoseconds of venue time.
    #[arg(long, value_name = "TIME")]
    from: Option<RunTime>,
    /// Skip what happened at this time or later. The book is the one just before this time.
    #[arg(long, value_name = "TIME")]
    to: Option<RunTime>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatName {
    Csv,
    Parquet,
}

impl Export {
    /// Exports the tables of a data directory.
    ///
    /// # Errors
    /// If the range is empty, the target exists, the directory cannot be read or replayed, or a
    /// table cannot be written.
    pub fn run(self) -> Result<(), Failure> {
        if self.from.zip(self.to).is_some_and(|(from, to)| from >= to) {
            return Err(Failure::usage("--from must be before --to"));
        }
        check_free(&self.out)?;
        let progress = CommandProgress::new("exporting");
        let (storage, recovery) = data_directory::open(&self.dir)?;
        let range = CommandRange::find(&recovery, &storage, self.from, self.to)?;
        let mut exporter = Exporter::create(&self.out, self.table_format(), range)?;
        let mut replay = Replay::start(&recovery)?;
        exporter.begin(&replay.engine, replay.last, replay.time)?;
        let mut book = ClosingBook::of(&range);
        book.take(&replay.engine, replay.last);
        if range.last > replay.last {
            replay.run_observed(
                &recovery,
                &storage,
                range.last,
                |stamped, events| exporter.observe(stamped, events),
                |engine, seq| {
                    report_progress(&mut |done, total| progress.show(done, total), recovery.base(), seq, range.last);
                    book.take(engine, seq);
                },
            )?;
        }
        let summary = exporter.finish(&replay.engine, book)?;
        drop(progress);
        self.report(&recovery, &range, &summary);
        Ok(())
    }

    fn table_format(&self) -> TableFormat {
        match (self.format, self.decimal) {
            (FormatName::Csv, _) => TableFormat::Csv,
            (FormatName::Parquet, false) => TableFormat::Parquet(NumberType::Float),
            (FormatName::Parquet, true) => TableFormat::Parquet(NumberType::Decimal),
        }
    }

    fn report(&self, recovery: &Recovery, range: &CommandRange, summary: &ExportSummary) {
        let ExportSummary { tables, orders_placed } = summary;
        if self.json {
            let rows = tables.iter().map(|table| format!("\"{}\":{}", table.name, table.rows));
            let rows = rows.collect::<Vec<_>>().join(",");
            let (format, base) = (self.table_format().extension(), recovery.base());
            say(&format!(
                "{{\"ok\":true,\"format\":\"{format}\",\"kept_from_command\":{base},\"first_command\":{},\
                 \"last_command\":{},\"commands\":{},\"orders_placed\":{orders_placed},\"rows\":{{{rows}}}}}",
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
                let (name, rows, file) = (table.name, table.rows, self.out.join(&table.file));
                let refused = rows.saturating_sub(*orders_placed);
                let note = match name {
                    "orders" => format!(" ({orders_placed} placed, {refused} refused)"),
                    _ => String::new(),
                };
                say(&format!("{name:<13} {rows} rows{note} in {}", file.display()));
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
