//! A table: typed columns, and rows that go to a CSV or a Parquet file.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use pitwire_failure::Failure;
use pitwire_model::{Decimal, VenueNanos};
use pitwire_tables::{CellValue, ColumnType, ParquetTable};

use crate::command_range::date_time;
use crate::format::TableFormat;
use crate::output_directory::cannot_write;

/// A finished table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSummary {
    pub name: &'static str,
    /// File name in the output directory.
    pub file: String,
    pub rows: u64,
}

/// Digits after the point of a decimal in Parquet. Every price and amount of the venue has fewer.
const DECIMAL_SCALE: u8 = 18;
/// Type of a column with prices or amounts. CSV has all digits of the number.
pub const DECIMAL: ColumnType = ColumnType::Decimal(DECIMAL_SCALE);

/// Name and type of a column.
pub type Column = (&'static str, ColumnType);

/// A value in a row.
#[derive(Clone, Copy, Debug)]
pub enum Cell<'a> {
    Null,
    U32(u32),
    U64(u64),
    Bool(bool),
    Text(&'a str),
    Decimal(Decimal),
    Time(VenueNanos),
}

impl<'a> Cell<'a> {
    /// Returns the cell of a value, or null.
    pub fn maybe<T>(value: Option<T>, cell: impl FnOnce(T) -> Cell<'a>) -> Cell<'a> {
        value.map_or(Cell::Null, cell)
    }

    fn parquet_value(self) -> io::Result<CellValue<'a>> {
        Ok(match self {
            Cell::Null => CellValue::Null,
            Cell::U32(number) => CellValue::U32(number),
            Cell::U64(number) => CellValue::U64(number),
            Cell::Bool(flag) => CellValue::Bool(flag),
            Cell::Text(text) => CellValue::Text(text),
            Cell::Time(at) => CellValue::Time(at.as_millis().cast_signed()),
            Cell::Decimal(number) => CellValue::Decimal(parquet_units(number)?),
        })
    }
}

fn parquet_units(number: Decimal) -> io::Result<i128> {
    const LIMIT: i128 = 10_i128.pow(38);
    let units = number.rescaled(DECIMAL_SCALE).filter(|units| units.abs() < LIMIT);
    units.ok_or_else(|| io::Error::other(format!("{number} has more digits than DECIMAL(38, 18) holds")))
}

/// A table that is being written.
pub struct Table {
    name: &'static str,
    file: String,
    rows: u64,
    rows_out: RowWriter,
}

enum RowWriter {
    Csv(CsvWriter),
    Parquet(Box<ParquetTable<BufWriter<File>>>),
}

impl Table {
    pub fn create(
        directory: &Path,
        format: TableFormat,
        name: &'static str,
        columns: &[Column],
    ) -> Result<Self, Failure> {
        let file = format!("{name}.{}", format.extension());
        let path = directory.join(&file);
        let failed = |error: io::Error| cannot_write(&path, &error);
        let out = BufWriter::with_capacity(1 << 20, File::create_new(&path).map_err(failed)?);
        let rows_out = match format {
            TableFormat::Csv => RowWriter::Csv(CsvWriter::new(out, columns).map_err(failed)?),
            TableFormat::Parquet => {
                RowWriter::Parquet(Box::new(ParquetTable::new(out, "row", columns).map_err(failed)?))
            }
        };
        Ok(Table { name, file, rows: 0, rows_out })
    }

    /// Adds a row with one cell per column.
    pub fn write(&mut self, row: &[Cell<'_>]) -> Result<(), Failure> {
        self.rows += 1;
        let written = match &mut self.rows_out {
            RowWriter::Csv(csv) => csv.write(row),
            RowWriter::Parquet(table) => {
                let cells: io::Result<Vec<CellValue<'_>>> = row.iter().map(|cell| cell.parquet_value()).collect();
                cells.and_then(|cells| table.push(cells))
            }
        };
        written.map_err(|error| cannot_write(Path::new(&self.file), &error))
    }

    /// Writes the rest of the file.
    pub fn close(self) -> Result<TableSummary, Failure> {
        let Table { name, file, rows, rows_out } = self;
        let closed = match rows_out {
            RowWriter::Csv(mut csv) => csv.out.flush(),
            RowWriter::Parquet(table) => table.close().and_then(|(_, mut out)| out.flush()),
        };
        closed.map_err(|error| cannot_write(Path::new(&file), &error))?;
        Ok(TableSummary { name, file, rows })
    }
}

/// CSV as in RFC 4180, except that a line ends with a line feed alone. Null is an empty field.
struct CsvWriter {
    out: BufWriter<File>,
    line: String,
}

impl CsvWriter {
    fn new(mut out: BufWriter<File>, columns: &[Column]) -> io::Result<Self> {
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        writeln!(out, "{}", names.join(","))?;
        Ok(CsvWriter { out, line: String::new() })
    }

    fn write(&mut self, row: &[Cell<'_>]) -> io::Result<()> {
        self.line.clear();
        for (index, cell) in row.iter().enumerate() {
            if index > 0 {
                self.line.push(',');
            }
            // Writing into a String cannot fail.
            let _ = match cell {
                Cell::Null => Ok(()),
                Cell::U32(number) => write!(self.line, "{number}"),
                Cell::U64(number) => write!(self.line, "{number}"),
                Cell::Bool(is) => write!(self.line, "{is}"),
                Cell::Decimal(number) => write!(self.line, "{number}"),
                Cell::Time(at) => write!(self.line, "{}", date_time(*at)),
                Cell::Text(text) => {
                    quote(&mut self.line, text);
                    Ok(())
                }
            };
        }
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes())
    }
}

fn quote(line: &mut String, text: &str) {
    if !text.contains(['"', ',', '\n', '\r']) {
        line.push_str(text);
        return;
    }
    line.push('"');
    line.push_str(&text.replace('"', "\"\""));
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_with_special_characters_are_quoted() {
        for (text, expected) in
            [("mm-1", "mm-1"), ("a,b", "\"a,b\""), ("say \"x\"", "\"say \"\"x\"\"\""), ("two\nlines", "\"two\nlines\"")]
        {
            let mut line = String::new();
            quote(&mut line, text);
            assert_eq!(line, expected);
        }
    }
}
