//! Tables of a run for other programs: orders, trades, book, levels, events and instruments.
//!
//! Does        turn replayed commands and their events into rows, and write them as CSV or Parquet.
//! Holds       all tables appear together or not at all: they are written into a hidden directory
//!             that is renamed at the end.
//! Leaves out  replaying the journal: the caller passes each command with its events and the
//!             engine.
//! Start at    [`Exporter`]. `docs/export.md` describes the columns.

mod command_range;
mod event_json;
mod format;
mod output_directory;
mod run_tables;
mod table;

use std::path::{Path, PathBuf};

pub use command_range::{CommandRange, RunTime};
pub use format::TableFormat;
use output_directory::OutputDirectory;
pub use output_directory::check_free;
use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_model::{Event, Seq, Stamped, VenueNanos};
use run_tables::RunTables;
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
        self.write_state(engine, last, time)
    }

    /// Takes a command, its events and the engine after it. Commands come in order.
    ///
    /// # Errors
    ///
    /// Returns a failure if a row cannot be written.
    pub fn observe(&mut self, engine: &Engine, stamped: &Stamped, events: &[Event]) -> Result<(), Failure> {
        self.tables.remember(stamped, events);
        if self.range.contains(stamped.seq) {
            self.tables.write(engine, stamped, events)?;
        }
        self.write_state(engine, stamped.seq, stamped.at)?;
        self.tables.forget(events);
        Ok(())
    }

    /// Writes the instruments, closes the tables and renames the directory to its final name.
    ///
    /// # Errors
    ///
    /// Returns a failure if a table cannot be written or the directory cannot be renamed.
    pub fn finish(mut self, engine: &Engine) -> Result<Vec<TableSummary>, Failure> {
        self.tables.write_instruments(engine)?;
        let tables = self.tables.finish()?;
        self.directory.publish(&self.out)?;
        Ok(tables)
    }

    /// Writes the book where the range begins and ends.
    fn write_state(&mut self, engine: &Engine, seq: Seq, time: VenueNanos) -> Result<(), Failure> {
        if self.range.begins_after(seq) {
            self.tables.write_opening_levels(engine, seq, time)?;
        }
        if self.range.ends_with(seq) {
            self.tables.write_closing_books(engine)?;
        }
        Ok(())
    }
}
