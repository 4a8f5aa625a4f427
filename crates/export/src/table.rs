//! A table: typed columns, and rows that go to a CSV or a Parquet file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use pitwire_failure::Failure;
use pitwire_model::{Decimal, VenueNanos};
use pitwire_tables::{Cell, ColumnType, ParquetTable};

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
/// Digits of the milliseconds at the end of a time.
const MILLIS_DIGITS: usize = 3;
/// Name and kind of a column.
pub type Column = (&'static str, ColumnKind);

/// Kind of a column, as `docs/export.md` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    U32,
    U64,
    I64,
    Text,
    /// Text that seldom repeats.
    DistinctText,
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
            (ColumnKind::DistinctText, _) => ColumnType::DistinctText,
            (ColumnKind::Bool, _) => ColumnType::Bool,
            (ColumnKind::Number, NumberType::Float) => ColumnType::Float,
            (ColumnKind::Number, NumberType::Decimal) => ColumnType::Decimal(DECIMAL_SCALE),
            (ColumnKind::Time, _) => ColumnType::Time,
        }
    }
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
        let out = File::create_new(&path).map_err(failed)?;
        let rows_out = match format {
            TableFormat::Csv => RowWriter::Csv(CsvWriter::new(out, columns)),
            TableFormat::Parquet(numbers) => {
                let out = BufWriter::with_capacity(1 << 20, out);
                let columns: Vec<(&str, ColumnType)> =
                    columns.iter().map(|(name, kind)| (*name, kind.parquet_type(numbers))).collect();
                RowWriter::Parquet(Box::new(ParquetTable::new(out, "row", &columns).map_err(failed)?))
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
            RowWriter::Parquet(table) => table.push(row),
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
            RowWriter::Csv(mut csv) => csv.flush(),
            RowWriter::Parquet(table) => table.close().and_then(|(_, mut out)| out.flush()),
        };
        closed.map_err(|error| cannot_write(Path::new(&file), &error))?;
        Ok(TableSummary { name, file, rows })
    }
}

/// Bytes that are collected before they are written to the file.
const CSV_BUFFER: usize = 1 << 20;

/// CSV as in RFC 4180, except that a line ends with a line feed alone. Null is an empty field.
struct CsvWriter {
    file: File,
    /// Whole lines that are not in the file yet.
    lines: Vec<u8>,
    time: TimeText,
}

impl CsvWriter {
    fn new(file: File, columns: &[Column]) -> Self {
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let mut lines = Vec::with_capacity(CSV_BUFFER + CSV_BUFFER / 8);
        lines.extend_from_slice(names.join(",").as_bytes());
        lines.push(b'\n');
        CsvWriter { file, lines, time: TimeText::default() }
    }

    /// HOT. Adds a line.
    fn write(&mut self, row: &[Cell<'_>]) -> io::Result<()> {
        let lines = &mut self.lines;
        for (index, cell) in row.iter().enumerate() {
            if index > 0 {
                lines.push(b',');
            }
            match cell {
                Cell::Null => {}
                Cell::U32(number) => put_integer(lines, *number),
                Cell::U64(number) => put_integer(lines, *number),
                Cell::I64(number) => put_integer(lines, *number),
                Cell::Bool(is) => lines.extend_from_slice(if *is { b"true" } else { b"false" }),
                Cell::Float(number) => write!(lines, "{number}")?,
                Cell::Number(number) => put_decimal(lines, *number)?,
                Cell::Time(at_ns) => self.time.put(lines, VenueNanos(at_ns.cast_unsigned())),
                Cell::Text(text) => quote(lines, text),
            }
        }
        lines.push(b'\n');
        if lines.len() >= CSV_BUFFER { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.lines)?;
        self.lines.clear();
        Ok(())
    }
}

fn put_integer(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends the text of a decimal. Arithmetic in 64 bits serves almost all of them.
fn put_decimal(out: &mut Vec<u8>, number: Decimal) -> io::Result<()> {
    let one = 10_u64.checked_pow(u32::from(number.scale));
    let (Ok(magnitude), Some(one)) = (u64::try_from(number.mantissa.unsigned_abs()), one) else {
        return write!(out, "{number}");
    };
    if number.mantissa < 0 {
        out.push(b'-');
    }
    put_integer(out, magnitude / one);
    if number.scale > 0 {
        let mut buffer = itoa::Buffer::new();
        let fraction = buffer.format(magnitude % one).as_bytes();
        out.push(b'.');
        out.resize(out.len() + usize::from(number.scale) - fraction.len(), b'0');
        out.extend_from_slice(fraction);
    }
    Ok(())
}

/// The text of the second that was written last. Thousands of rows have one second.
#[derive(Default)]
struct TimeText {
    second: u64,
    /// Up to the point before the milliseconds.
    text: String,
}

impl TimeText {
    fn put(&mut self, out: &mut Vec<u8>, at: VenueNanos) {
        let (second, millis) = (at.as_millis() / 1000, at.as_millis() % 1000);
        if self.text.is_empty() || second != self.second {
            self.second = second;
            self.text = date_time(at);
            self.text.truncate(self.text.len().saturating_sub(MILLIS_DIGITS));
        }
        out.extend_from_slice(self.text.as_bytes());
        let mut digit = |unit: u64| out.push(b'0' + u8::try_from(millis / unit % 10).unwrap_or(0));
        digit(100);
        digit(10);
        digit(1);
    }
}

/// Appends a text. Members write labels, and a spreadsheet evaluates a cell that begins with one of
/// [`FORMULA_STARTS`]. Such a text gets an apostrophe in front, and so does a text that begins with
/// an apostrophe. A reader gets the text back by removing one apostrophe.
fn quote(out: &mut Vec<u8>, text: &str) {
    let is_formula = text.starts_with(FORMULA_STARTS);
    let must_quote = text.bytes().any(|byte| matches!(byte, b'"' | b',' | b'\n' | b'\r'));
    if must_quote {
        out.push(b'"');
    }
    if is_formula {
        out.push(b'\'');
    }
    if must_quote {
        put_with_doubled_quotes(out, text.as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(text.as_bytes());
    }
}

/// HOT. The JSON of an event has a quote every few bytes, so searching for the next one is slower
/// than copying byte by byte.
fn put_with_doubled_quotes(out: &mut Vec<u8>, text: &[u8]) {
    let quotes = text.iter().filter(|byte| **byte == b'"').count();
    let start = out.len();
    // The second byte of each pair stays as it is set here.
    out.resize(start + text.len() + quotes, b'"');
    let (out, mut at) = (&mut out[start..], 0);
    for byte in text {
        out[at] = *byte;
        at += 1 + usize::from(*byte == b'"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_has_the_digits_of_its_scale() {
        for (mantissa, scale, expected) in [
            (0, 0, "0"),
            (0, 2, "0.00"),
            (5, 3, "0.005"),
            (-1_234_567, 4, "-123.4567"),
            (i128::from(u64::MAX), 19, "1.8446744073709551615"),
            (i128::from(u64::MAX) + 1, 19, "1.8446744073709551616"),
            (-7, 25, "-0.0000000000000000000000007"),
        ] {
            let mut text = Vec::new();
            put_decimal(&mut text, Decimal::new(mantissa, scale)).unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    }

    #[test]
    fn a_time_has_its_own_second_and_milliseconds() {
        let mut time = TimeText::default();
        for (ns, expected) in [
            (0, "1970-01-01 00:00:00.000"),
            (987_999_999, "1970-01-01 00:00:00.987"),
            (1_000_000_000, "1970-01-01 00:00:01.000"),
            (1_606_030_988_007_000_000, "2020-11-22 07:43:08.007"),
            (999_999_999, "1970-01-01 00:00:00.999"),
        ] {
            let mut text = Vec::new();
            time.put(&mut text, VenueNanos(ns));
            assert_eq!(String::from_utf8(text).unwrap(), expected);
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
            let mut line = Vec::new();
            quote(&mut line, text);
            assert_eq!(line, expected.as_bytes());
        }
    }

    #[test]
    fn only_texts_with_special_characters_are_quoted() {
        for (text, expected) in
            [("mm-1", "mm-1"), ("a,b", "\"a,b\""), ("say \"x\"", "\"say \"\"x\"\"\""), ("two\nlines", "\"two\nlines\"")]
        {
            let mut line = Vec::new();
            quote(&mut line, text);
            assert_eq!(line, expected.as_bytes());
        }
    }
}
