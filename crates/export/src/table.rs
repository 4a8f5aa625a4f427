//! A table: typed columns, and rows that go to a CSV or a Parquet file.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use pitwire_failure::Failure;
use pitwire_model::{Decimal, VenueNanos};
use pitwire_tables::{CellValue, ColumnType, ParquetTable};

use crate::command_range::date_time;
use crate::format::{NumberType, TableFormat};
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
/// First characters of a formula in a spreadsheet, and the apostrophe that marks a text.
const FORMULA_STARTS: [char; 7] = ['=', '+', '-', '@', '\t', '\r', '\''];
/// Name and kind of a column.
pub type Column = (&'static str, ColumnKind);

/// Kind of a column, as `docs/export.md` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    U32,
    U64,
    I64,
    Text,
    Bool,
    /// A price or an amount.
    Number,
    Time,
}

impl ColumnKind {
    const fn parquet_type(self, numbers: NumberType) -> ColumnType {
        match (self, numbers) {
            (ColumnKind::U32, _) => ColumnType::U32,
            (ColumnKind::U64, _) => ColumnType::U64,
            (ColumnKind::I64, _) => ColumnType::I64,
            (ColumnKind::Text, _) => ColumnType::Text,
            (ColumnKind::Bool, _) => ColumnType::Bool,
            (ColumnKind::Number, NumberType::Float) => ColumnType::Float,
            (ColumnKind::Number, NumberType::Decimal) => ColumnType::Decimal(DECIMAL_SCALE),
            (ColumnKind::Time, _) => ColumnType::Time,
        }
    }
}

/// A value in a row.
#[derive(Clone, Copy, Debug)]
pub enum Cell<'a> {
    Null,
    U32(u32),
    U64(u64),
    I64(i64),
    Bool(bool),
    Text(&'a str),
    Number(Decimal),
    Time(VenueNanos),
}

impl<'a> Cell<'a> {
    /// Returns the cell of a value, or null.
    pub fn maybe<T>(value: Option<T>, cell: impl FnOnce(T) -> Cell<'a>) -> Cell<'a> {
        value.map_or(Cell::Null, cell)
    }

    fn parquet_value(self, numbers: NumberType) -> io::Result<CellValue<'a>> {
        Ok(match self {
            Cell::Null => CellValue::Null,
            Cell::U32(number) => CellValue::U32(number),
            Cell::U64(number) => CellValue::U64(number),
            Cell::I64(number) => CellValue::I64(number),
            Cell::Bool(flag) => CellValue::Bool(flag),
            Cell::Text(text) => CellValue::Text(text),
            Cell::Time(at) => CellValue::Time(at.as_millis().cast_signed()),
            Cell::Number(number) => match numbers {
                NumberType::Float => CellValue::Float(nearest_float(number)),
                NumberType::Decimal => CellValue::Decimal(parquet_units(number)?),
            },
        })
    }
}

/// Returns the float that is nearest to a number.
#[allow(clippy::cast_precision_loss)]
fn nearest_float(number: Decimal) -> f64 {
    /// Up to here, integers and powers of ten are exact floats, and one division rounds correctly.
    const EXACT: u128 = 1 << 53;
    const EXACT_SCALE: u8 = 22;
    if number.mantissa.unsigned_abs() <= EXACT && number.scale <= EXACT_SCALE {
        return number.mantissa as f64 / 10_f64.powi(i32::from(number.scale));
    }
    // The text of a decimal is a valid number.
    number.to_string().parse().unwrap_or(f64::NAN)
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
    Parquet(Box<ParquetTable<BufWriter<File>>>, NumberType),
}

impl Table {
    /// Creates the file of a table.
    ///
    /// # Errors
    ///
    /// Returns a failure if the file cannot be created.
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
            TableFormat::Parquet(numbers) => {
                let columns: Vec<(&str, ColumnType)> =
                    columns.iter().map(|(name, kind)| (*name, kind.parquet_type(numbers))).collect();
                RowWriter::Parquet(Box::new(ParquetTable::new(out, "row", &columns).map_err(failed)?), numbers)
            }
        };
        Ok(Table { name, file, rows: 0, rows_out })
    }

    /// Adds a row with one cell per column.
    ///
    /// # Errors
    ///
    /// Returns a failure if the file cannot be written.
    pub fn write(&mut self, row: &[Cell<'_>]) -> Result<(), Failure> {
        self.rows += 1;
        let written = match &mut self.rows_out {
            RowWriter::Csv(csv) => csv.write(row),
            RowWriter::Parquet(table, numbers) => push(table, row, *numbers),
        };
        written.map_err(|error| cannot_write(Path::new(&self.file), &error))
    }

    /// Writes the rest of the file.
    ///
    /// # Errors
    ///
    /// Returns a failure if the file cannot be written.
    pub fn close(self) -> Result<TableSummary, Failure> {
        let Table { name, file, rows, rows_out } = self;
        let closed = match rows_out {
            RowWriter::Csv(mut csv) => csv.out.flush(),
            RowWriter::Parquet(table, _) => table.close().and_then(|(_, mut out)| out.flush()),
        };
        closed.map_err(|error| cannot_write(Path::new(&file), &error))?;
        Ok(TableSummary { name, file, rows })
    }
}

fn push(table: &mut ParquetTable<BufWriter<File>>, row: &[Cell<'_>], numbers: NumberType) -> io::Result<()> {
    let mut failure = None;
    table.push(row.iter().map(|cell| {
        cell.parquet_value(numbers).unwrap_or_else(|error| {
            failure = Some(error);
            CellValue::Null
        })
    }))?;
    failure.map_or(Ok(()), Err)
}

/// CSV as in RFC 4180, except that a line ends with a line feed alone. Null is an empty field.
struct CsvWriter {
    out: BufWriter<File>,
    line: String,
    time: TimeText,
}

impl CsvWriter {
    fn new(mut out: BufWriter<File>, columns: &[Column]) -> io::Result<Self> {
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        writeln!(out, "{}", names.join(","))?;
        Ok(CsvWriter { out, line: String::new(), time: TimeText::default() })
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
                Cell::I64(number) => write!(self.line, "{number}"),
                Cell::Bool(is) => write!(self.line, "{is}"),
                Cell::Number(number) => write!(self.line, "{number}"),
                Cell::Time(at) => {
                    self.line.push_str(self.time.of(*at));
                    Ok(())
                }
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

/// The text of the time that was written last. All rows of a command have one time.
#[derive(Default)]
struct TimeText {
    millis: u64,
    text: String,
}

impl TimeText {
    fn of(&mut self, at: VenueNanos) -> &str {
        if self.text.is_empty() || at.as_millis() != self.millis {
            self.millis = at.as_millis();
            self.text = date_time(at);
        }
        &self.text
    }
}

/// Appends a text. Members write labels, and a spreadsheet evaluates a cell that begins with one of
/// [`FORMULA_STARTS`]. Such a text gets an apostrophe in front, and so does a text that begins with
/// an apostrophe. A reader gets the text back by removing one apostrophe.
fn quote(line: &mut String, text: &str) {
    if text.starts_with(FORMULA_STARTS) {
        return quote_plain(line, &format!("'{text}"));
    }
    quote_plain(line, text);
}

fn quote_plain(line: &mut String, text: &str) {
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
    fn a_float_is_the_nearest_one() {
        for text in ["0", "0.1", "3199.99", "-0.05", "123456789.123456789", "9007199254740993", "0.000000001"] {
            let number = Decimal::parse(text).unwrap();
            let nearest: f64 = text.parse().unwrap();
            assert_eq!(nearest_float(number).to_bits(), nearest.to_bits(), "{text}");
        }
    }

    #[test]
    fn a_text_that_a_spreadsheet_would_evaluate_gets_an_apostrophe() {
        for (text, expected) in [
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@sum", "'@sum"),
            ("'=1", "''=1"),
            ("=a,\"b\"", "\"'=a,\"\"b\"\"\""),
            ("a=1", "a=1"),
        ] {
            let mut line = String::new();
            quote(&mut line, text);
            assert_eq!(line, expected);
        }
    }

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
