//! Rows of bars as a Parquet file. `docs/bars.md` has the columns.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, Int32Type,
    Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use crate::number::Nano;
use crate::shard::Row;

const NANOS_PER_MILLI: i64 = 1_000_000;
const DECIMAL_BYTES: i32 = 16;
const DECIMAL_DIGITS: i32 = 38;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Text,
    U32,
    U64,
    Bool,
    Time,
    Float,
    Decimal(i32),
}

/// What a row says in each column, in order. The one place that knows.
const COLUMNS: [(&str, Kind); 25] = [
    ("symbol", Kind::Text),
    ("bucket_s", Kind::U32),
    ("start", Kind::Time),
    ("open", Kind::Decimal(9)),
    ("high", Kind::Decimal(9)),
    ("low", Kind::Decimal(9)),
    ("close", Kind::Decimal(9)),
    ("volume", Kind::Decimal(9)),
    ("notional", Kind::Decimal(18)),
    ("vwap", Kind::Decimal(9)),
    ("trades", Kind::U64),
    ("off_exchange_volume", Kind::Decimal(9)),
    ("off_exchange_trades", Kind::U64),
    ("late_volume", Kind::Decimal(9)),
    ("late_trades", Kind::U64),
    ("merged_trades", Kind::U64),
    ("incomplete", Kind::Bool),
    ("rsi", Kind::Float),
    ("atr", Kind::Float),
    ("ha_open", Kind::Float),
    ("ha_high", Kind::Float),
    ("ha_low", Kind::Float),
    ("ha_close", Kind::Float),
    ("sar", Kind::Float),
    ("sar_is_long", Kind::Bool),
];

enum Cell<'a> {
    Text(&'a str),
    U32(u32),
    U64(u64),
    Bool(Option<bool>),
    Time(i64),
    Float(Option<f64>),
    Decimal(Option<i128>),
}

fn cells(row: &Row) -> [Cell<'_>; COLUMNS.len()] {
    let (bar, reading) = (&row.bar, &row.reading);
    let price = |price: Option<Nano>| Cell::Decimal(price.map(|price| i128::from(price.0)));
    let smooth = reading.heikin_ashi;
    [
        Cell::Text(&row.symbol),
        Cell::U32(row.bucket_s),
        Cell::Time(row.start_ns() / NANOS_PER_MILLI),
        price(bar.open),
        price(bar.high),
        price(bar.low),
        price(bar.close),
        Cell::Decimal(Some(bar.volume)),
        Cell::Decimal(Some(bar.notional)),
        price(bar.vwap()),
        Cell::U64(bar.trades),
        Cell::Decimal(Some(bar.off_exchange_volume)),
        Cell::U64(bar.off_exchange_trades),
        Cell::Decimal(Some(bar.late_volume)),
        Cell::U64(bar.late_trades),
        Cell::U64(bar.merged_trades),
        Cell::Bool(Some(row.is_incomplete)),
        Cell::Float(reading.rsi),
        Cell::Float(reading.atr),
        Cell::Float(smooth.map(|smooth| smooth.open)),
        Cell::Float(smooth.map(|smooth| smooth.high)),
        Cell::Float(smooth.map(|smooth| smooth.low)),
        Cell::Float(smooth.map(|smooth| smooth.close)),
        Cell::Float(reading.sar),
        Cell::Bool(reading.sar_is_long),
    ]
}

pub struct Columns<W: Write + Send> {
    out: SerializedFileWriter<W>,
    held: Vec<Held>,
    rows: usize,
    written: u64,
}

/// A column of the row group that is being filled: its values without the nulls, and where nulls stand.
struct Held {
    levels: Vec<i16>,
    values: Values,
}

enum Values {
    Text(Vec<ByteArray>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Bool(Vec<bool>),
    Float(Vec<f64>),
    Decimal(Vec<FixedLenByteArray>),
}

impl<W: Write + Send> Columns<W> {
    pub fn new(out: W) -> io::Result<Self> {
        let fields: Result<Vec<_>, _> = COLUMNS.iter().map(|(name, kind)| field(name, *kind).map(Arc::new)).collect();
        let schema = fields.and_then(|fields| Type::group_type_builder("bar").with_fields(fields).build());
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let schema = Arc::new(schema.map_err(failed)?);
        let out = SerializedFileWriter::new(out, schema, Arc::new(properties)).map_err(failed)?;
        let held = COLUMNS.iter().map(|(_, kind)| Held { levels: Vec::new(), values: Values::of(*kind) }).collect();
        Ok(Columns { out, held, rows: 0, written: 0 })
    }

    pub fn push(&mut self, row: &Row) {
        for (held, cell) in self.held.iter_mut().zip(cells(row)) {
            held.push(&cell);
        }
        self.rows += 1;
    }

    /// Rows since the last flush.
    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn flush(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.out.next_row_group().map_err(failed)?;
        for held in &mut self.held {
            held.write(&mut group).map_err(failed)?;
        }
        group.close().map_err(failed)?;
        self.written += self.rows as u64;
        self.rows = 0;
        Ok(())
    }

    /// Rows in the file, and what it was written to.
    pub fn close(mut self) -> io::Result<(u64, W)> {
        self.flush()?;
        let out = self.out.into_inner().map_err(failed)?;
        Ok((self.written, out))
    }
}

impl Values {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Text => Values::Text(Vec::new()),
            Kind::U32 => Values::Int32(Vec::new()),
            Kind::U64 | Kind::Time => Values::Int64(Vec::new()),
            Kind::Bool => Values::Bool(Vec::new()),
            Kind::Float => Values::Float(Vec::new()),
            Kind::Decimal(_) => Values::Decimal(Vec::new()),
        }
    }
}

impl Held {
    /// Unsigned numbers keep their bits: the column's type says how to read them.
    fn push(&mut self, cell: &Cell<'_>) {
        let is_there = match (&mut self.values, cell) {
            (Values::Text(values), Cell::Text(text)) => store(values, Some(ByteArray::from(*text))),
            (Values::Int32(values), Cell::U32(number)) => store(values, Some(number.cast_signed())),
            (Values::Int64(values), Cell::U64(number)) => store(values, Some(number.cast_signed())),
            (Values::Int64(values), Cell::Time(millis)) => store(values, Some(*millis)),
            (Values::Bool(values), Cell::Bool(is)) => store(values, *is),
            (Values::Float(values), Cell::Float(number)) => store(values, *number),
            (Values::Decimal(values), Cell::Decimal(units)) => {
                store(values, units.map(|units| ByteArray::from(units.to_be_bytes().to_vec()).into()))
            }
            // COLUMNS and cells() stand in one file and a test writes every column.
            _ => false,
        };
        self.levels.push(i16::from(is_there));
    }

    fn write<W: Write + Send>(&mut self, group: &mut SerializedRowGroupWriter<'_, W>) -> Result<(), ParquetError> {
        match &mut self.values {
            Values::Text(values) => write_column::<ByteArrayType, W>(group, values, &self.levels)?,
            Values::Int32(values) => write_column::<Int32Type, W>(group, values, &self.levels)?,
            Values::Int64(values) => write_column::<Int64Type, W>(group, values, &self.levels)?,
            Values::Bool(values) => write_column::<BoolType, W>(group, values, &self.levels)?,
            Values::Float(values) => write_column::<DoubleType, W>(group, values, &self.levels)?,
            Values::Decimal(values) => write_column::<FixedLenByteArrayType, W>(group, values, &self.levels)?,
        }
        self.levels.clear();
        Ok(())
    }
}

fn store<T>(values: &mut Vec<T>, value: Option<T>) -> bool {
    let is_there = value.is_some();
    values.extend(value);
    is_there
}

fn write_column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &mut Vec<T::T>,
    levels: &[i16],
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("more columns than the schema has".into()));
    };
    column.typed::<T>().write_batch(values, Some(levels), None)?;
    column.close()?;
    values.clear();
    Ok(())
}

fn field(name: &str, kind: Kind) -> Result<Type, ParquetError> {
    let (physical, logical) = match kind {
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::U32 => (Physical::INT32, Some(LogicalType::integer(32, false))),
        Kind::U64 => (Physical::INT64, Some(LogicalType::integer(64, false))),
        Kind::Bool => (Physical::BOOLEAN, None),
        Kind::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS))),
        Kind::Float => (Physical::DOUBLE, None),
        Kind::Decimal(scale) => (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::decimal(scale, DECIMAL_DIGITS))),
    };
    let builder =
        Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL).with_logical_type(logical);
    match kind {
        Kind::Decimal(scale) => {
            builder.with_length(DECIMAL_BYTES).with_precision(DECIMAL_DIGITS).with_scale(scale).build()
        }
        _ => builder.build(),
    }
}

fn failed(error: ParquetError) -> io::Error {
    io::Error::other(error)
}
