//! A table: named columns with a type each, and rows that go to a file in one of two forms.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use pitwire_model::{Decimal, VenueNanos};

use super::parquet::ParquetSink;
use super::range::date_time;
use super::{Format, directory::cannot_write};
use pitwire_failure::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    U32,
    U64,
    Bool,
    Text,
    /// Exact: no digit is lost in either form.
    Decimal,
    /// UTC, to the millisecond.
    Time,
}

#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
}

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
    pub fn maybe<T>(value: Option<T>, cell: impl FnOnce(T) -> Cell<'a>) -> Cell<'a> {
        value.map_or(Cell::Null, cell)
    }
}

pub trait Sink {
    fn write(&mut self, row: &[Cell<'_>]) -> io::Result<()>;
    fn close(self: Box<Self>) -> io::Result<()>;
}

pub struct Table {
    pub name: &'static str,
    pub file: String,
    pub rows: u64,
    sink: Option<Box<dyn Sink>>,
}

impl Table {
    pub fn create(
        directory: &Path,
        format: Format,
        name: &'static str,
        columns: &'static [Column],
    ) -> Result<Self, Failure> {
        let file = format!("{name}.{}", format.extension());
        let path = directory.join(&file);
        let failed = |error: io::Error| cannot_write(&path, &error);
        let out = BufWriter::with_capacity(1 << 20, File::create_new(&path).map_err(failed)?);
        let sink: Box<dyn Sink> = match format {
            Format::Csv => Box::new(CsvSink::new(out, columns).map_err(failed)?),
            Format::Parquet => Box::new(ParquetSink::new(out, columns).map_err(failed)?),
        };
        Ok(Table { name, file, rows: 0, sink: Some(sink) })
    }

    pub fn write(&mut self, row: &[Cell<'_>]) -> Result<(), Failure> {
        self.rows += 1;
        match &mut self.sink {
            Some(sink) => sink.write(row).map_err(|error| cannot_write(Path::new(&self.file), &error)),
            None => Ok(()),
        }
    }

    pub fn close(&mut self) -> Result<(), Failure> {
        match self.sink.take() {
            Some(sink) => sink.close().map_err(|error| cannot_write(Path::new(&self.file), &error)),
            None => Ok(()),
        }
    }
}

/// RFC 4180, with a line feed alone at the end of a line. Nothing is written where there is nothing.
struct CsvSink {
    out: BufWriter<File>,
    line: String,
}

impl CsvSink {
    fn new(mut out: BufWriter<File>, columns: &[Column]) -> io::Result<Self> {
        let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
        writeln!(out, "{}", names.join(","))?;
        Ok(CsvSink { out, line: String::new() })
    }
}

impl Sink for CsvSink {
    fn write(&mut self, row: &[Cell<'_>]) -> io::Result<()> {
        self.line.clear();
        for (index, cell) in row.iter().enumerate() {
            if index > 0 {
                self.line.push(',');
            }
            // A String takes everything.
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

    fn close(mut self: Box<Self>) -> io::Result<()> {
        self.out.flush()
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
    fn texts_are_quoted_only_where_they_must_be() {
        for (text, expected) in
            [("mm-1", "mm-1"), ("a,b", "\"a,b\""), ("say \"x\"", "\"say \"\"x\"\"\""), ("two\nlines", "\"two\nlines\"")]
        {
            let mut line = String::new();
            quote(&mut line, text);
            assert_eq!(line, expected);
        }
    }
}
