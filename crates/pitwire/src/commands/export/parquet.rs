//! A table as a Parquet file: every column nullable, Snappy, row groups of [`ROWS`].
//!
//! Texts are UTF-8, decimals DECIMAL(38, 18) in sixteen bytes, times TIMESTAMP(MILLIS, UTC), counts unsigned INT.

use std::fs::File;
use std::io::{self, BufWriter};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use pitwire_model::Decimal;

use super::sink::{Cell, Column, Kind, Sink};

/// Of one row group, which is what is kept in memory.
const ROWS: usize = 1 << 16;
const DECIMAL_SCALE: u8 = 18;
const DECIMAL_DIGITS: i32 = 38;
const DECIMAL_BYTES: i32 = 16;

pub struct ParquetSink {
    out: SerializedFileWriter<BufWriter<File>>,
    columns: Vec<Held>,
    rows: usize,
}

/// A column of the row group that is being filled: its values without the nulls, and where nulls stand.
struct Held {
    levels: Vec<i16>,
    values: Values,
}

enum Values {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Bool(Vec<bool>),
    Text(Vec<ByteArray>),
    Decimal(Vec<FixedLenByteArray>),
}

impl ParquetSink {
    pub fn new(out: BufWriter<File>, columns: &[Column]) -> io::Result<Self> {
        let fields: Result<Vec<_>, _> = columns.iter().map(|column| field(column).map(Arc::new)).collect();
        let schema = fields.and_then(|fields| Type::group_type_builder("row").with_fields(fields).build());
        let schema = schema.map_err(failed)?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let out = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties)).map_err(failed)?;
        let columns = columns.iter().map(|column| Held { levels: Vec::new(), values: Values::of(column.kind) });
        Ok(ParquetSink { out, columns: columns.collect(), rows: 0 })
    }

    fn flush(&mut self) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.out.next_row_group()?;
        for held in &mut self.columns {
            held.write(&mut group)?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

impl Sink for ParquetSink {
    fn write(&mut self, row: &[Cell<'_>]) -> io::Result<()> {
        for (held, cell) in self.columns.iter_mut().zip(row) {
            held.push(cell)?;
        }
        self.rows += 1;
        if self.rows == ROWS { self.flush().map_err(failed) } else { Ok(()) }
    }

    fn close(mut self: Box<Self>) -> io::Result<()> {
        self.flush().map_err(failed)?;
        self.out.close().map(drop).map_err(failed)
    }
}

impl Values {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::U32 => Values::Int32(Vec::new()),
            Kind::U64 | Kind::Time => Values::Int64(Vec::new()),
            Kind::Bool => Values::Bool(Vec::new()),
            Kind::Text => Values::Text(Vec::new()),
            Kind::Decimal => Values::Decimal(Vec::new()),
        }
    }
}

impl Held {
    /// Unsigned numbers keep their bits: the column's type says how to read them.
    fn push(&mut self, cell: &Cell<'_>) -> io::Result<()> {
        match (&mut self.values, cell) {
            (_, Cell::Null) => {
                self.levels.push(0);
                return Ok(());
            }
            (Values::Int32(values), Cell::U32(number)) => values.push(number.cast_signed()),
            (Values::Int64(values), Cell::U64(number)) => values.push(number.cast_signed()),
            (Values::Int64(values), Cell::Time(at)) => values.push(at.as_millis().cast_signed()),
            (Values::Bool(values), Cell::Bool(is)) => values.push(*is),
            (Values::Text(values), Cell::Text(text)) => values.push(ByteArray::from(*text)),
            (Values::Decimal(values), Cell::Decimal(number)) => values.push(decimal(*number)?),
            _ => return Err(io::Error::other("a cell is not of its column's type")),
        }
        self.levels.push(1);
        Ok(())
    }

    fn write(&mut self, group: &mut SerializedRowGroupWriter<'_, BufWriter<File>>) -> Result<(), ParquetError> {
        match &mut self.values {
            Values::Int32(values) => write_column::<Int32Type>(group, values, &self.levels)?,
            Values::Int64(values) => write_column::<Int64Type>(group, values, &self.levels)?,
            Values::Bool(values) => write_column::<BoolType>(group, values, &self.levels)?,
            Values::Text(values) => write_column::<ByteArrayType>(group, values, &self.levels)?,
            Values::Decimal(values) => write_column::<FixedLenByteArrayType>(group, values, &self.levels)?,
        }
        self.levels.clear();
        Ok(())
    }
}

fn write_column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, BufWriter<File>>,
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

fn decimal(number: Decimal) -> io::Result<FixedLenByteArray> {
    let most = 10_i128.pow(DECIMAL_DIGITS.unsigned_abs());
    let units = number.rescaled(DECIMAL_SCALE).filter(|units| units.abs() < most);
    let units =
        units.ok_or_else(|| io::Error::other(format!("{number} has more digits than DECIMAL(38, 18) holds")))?;
    Ok(ByteArray::from(units.to_be_bytes().to_vec()).into())
}

fn field(column: &Column) -> Result<Type, ParquetError> {
    let (physical, logical) = match column.kind {
        Kind::U32 => (Physical::INT32, Some(LogicalType::integer(32, false))),
        Kind::U64 => (Physical::INT64, Some(LogicalType::integer(64, false))),
        Kind::Bool => (Physical::BOOLEAN, None),
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS))),
        Kind::Decimal => {
            let logical = LogicalType::decimal(i32::from(DECIMAL_SCALE), DECIMAL_DIGITS);
            (Physical::FIXED_LEN_BYTE_ARRAY, Some(logical))
        }
    };
    let builder = Type::primitive_type_builder(column.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical);
    if column.kind != Kind::Decimal {
        return builder.build();
    }
    builder.with_length(DECIMAL_BYTES).with_precision(DECIMAL_DIGITS).with_scale(i32::from(DECIMAL_SCALE)).build()
}

fn failed(error: ParquetError) -> io::Error {
    io::Error::other(error)
}
