//! Tables of a run for other programs: orders, trades, book, levels, quotes, auctions, events and
//! instruments.
//!
//! Does        turn replayed commands and their events into rows, and write them as CSV or Parquet.
//! Holds       all tables appear together or not at all: they are written into a hidden directory
//!             that is renamed at the end.
//! Leaves out  replaying the journal: the caller passes the engine at the start, each command with
//!             its events, and the engine at the end. Memory is bounded by one row group per table.
//! Start at    [`Exporter`]. `docs/export.md` describes the columns.

mod columns;
mod command_range;
mod event_json;
mod event_table;
mod event_type;
mod format;
mod instrument_state;
mod output_directory;
mod run_tables;
mod table;

use std::path::{Path, PathBuf};

pub use command_range::{CommandRange, RunTime};
pub use format::{NumberType, TableFormat};
use output_directory::OutputDirectory;
pub use output_directory::check_free;
use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_model::{Event, Seq, SequencedCommand, VenueNanos};
use run_tables::{RestingOrder, RunTables, resting_orders};
pub use table::TableSummary;

/// An export that is being written. Dropping it deletes what was written.
pub struct Exporter {
    out: PathBuf,
    directory: OutputDirectory,
    tables: RunTables,
    range: CommandRange,
}

impl Exporter {
    /// Creates the hidden directory next to `out` and the tables in it.
    ///
    /// # Errors
    ///
    /// Returns a failure if the directory cannot be created.
    pub fn create(out: &Path, format: TableFormat, range: CommandRange) -> Result<Self, Failure> {
        let directory = OutputDirectory::create_for(out)?;
        let tables = RunTables::create(directory.path(), format)?;
        Ok(Exporter { out: out.to_path_buf(), directory, tables, range })
    }

    /// Takes the state before the first replayed command, which is the state after command `last`
    /// at `time`.
    ///
    /// # Errors
    ///
    /// Returns a failure if a row cannot be written.
    pub fn begin(&mut self, engine: &Engine, last: Seq, time: VenueNanos) -> Result<(), Failure> {
        self.tables.start(engine);
        self.begin_range(last, time)
    }

    /// Takes a command and its events. Commands come in order. Those after the range are ignored.
    ///
    /// # Errors
    ///
    /// Returns a failure if a row cannot be written.
    pub fn observe(&mut self, stamped: &SequencedCommand, events: &[Event]) -> Result<(), Failure> {
        if stamped.seq > self.range.last {
            return Ok(());
        }
        self.tables.remember(stamped, events);
        if self.range.contains(stamped.seq) {
            self.tables.write(stamped, events)?;
        } else {
            self.tables.follow(events);
        }
        self.begin_range(stamped.seq, stamped.at)?;
        self.tables.forget(events);
        Ok(())
    }

    /// Writes the book and the instruments, closes the tables, and renames the directory to its
    /// final name.
    ///
    /// # Errors
    ///
    /// Returns a failure if a table cannot be written or the directory cannot be renamed.
    pub fn finish(mut self, engine: &Engine, book: ClosingBook) -> Result<ExportSummary, Failure> {
        self.tables.write_closing_book(&book.resting)?;
        self.tables.write_instruments(engine)?;
        let (tables, orders_placed) = self.tables.finish()?;
        self.directory.publish(&self.out)?;
        Ok(ExportSummary { tables, orders_placed })
    }

    /// Writes the book before the range, if the range begins after this command.
    fn begin_range(&mut self, seq: Seq, time: VenueNanos) -> Result<(), Failure> {
        if self.range.begins_after(seq) { self.tables.write_opening_state(seq, time) } else { Ok(()) }
    }
}

/// A finished export.
#[derive(Debug)]
pub struct ExportSummary {
    pub tables: Vec<TableSummary>,
    /// Orders that were accepted. The table of orders contains refused ones as well.
    pub orders_placed: u64,
}

/// The resting orders at the end of the range.
pub struct ClosingBook {
    last: Seq,
    resting: Vec<RestingOrder>,
}

impl ClosingBook {
    /// Waits for the last command of the range.
    pub fn of(range: &CommandRange) -> Self {
        ClosingBook { last: range.last, resting: Vec::new() }
    }

    /// Takes the engine after command `seq`.
    pub fn take(&mut self, engine: &Engine, seq: Seq) {
        if seq == self.last {
            self.resting = resting_orders(engine);
        }
    }
}
