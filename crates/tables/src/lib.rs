//! Rows of typed columns, written as a Parquet file.
//!
//! Does        buffer one row group, compress it with Snappy, and write it to any `Write`.
//! Holds       every column may be null. Texts are UTF-8, times TIMESTAMP(MILLIS, UTC), decimals
//!             DECIMAL(38, scale) in sixteen bytes, counts unsigned INT. Wide integers and times
//!             are stored as differences, because most of them grow from row to row.
//! Leaves out  files, names and directories: the callers differ in how a file becomes visible.
//! Start at    [`ParquetTable`].

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, Int32Type,
    Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};

/// Rows of one row group. This is also the number of rows held in memory.
const GROUP_ROWS: usize = 1 << 16;
/// Digits of a decimal column.
const DECIMAL_DIGITS: i32 = 38;
/// Bytes of a decimal value.
const DECIMAL_BYTES: i32 = 16;

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    Text,
    /// Text that seldom repeats, so that a dictionary and the smallest and largest value only cost
    /// time.
    DistinctText,
    U32,
    U64,
    I64,
    Bool,
    /// UTC, in milliseconds since 1970.
    Time,
    Float,
    /// A number with this many digits after the point.
    Decimal(u8),
}

/// A value in a row.
#[derive(Clone, Copy, Debug)]
pub enum CellValue<'a> {
    Null,
    Text(&'a str),
    U32(u32),
    U64(u64),
    I64(i64),
    Bool(bool),
    /// Milliseconds since 1970.
    Time(i64),
    Float(f64),
    /// The number in units of the last digit of its column.
    Decimal(i128),
}

/// A Parquet file that is being written.
pub struct ParquetTable<W: Write + Send> {
    out: SerializedFileWriter<W>,
    columns: Vec<ColumnBuffer>,
    /// Rows in the buffers.
    buffered: usize,
    /// A buffer: for each row of a group, 1 for a value and 0 for null.
    definition_levels: Vec<i16>,
    /// Rows in finished row groups.
    written: u64,
}

/// The part of a column that belongs to the current row group.
struct ColumnBuffer {
    /// Rows of the group that are null.
    nulls: Vec<usize>,
    /// The values without the nulls.
    values: Values,
}

enum Values {
    Text(TextValues),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Bool(Vec<bool>),
    Float(Vec<f64>),
    Decimal(Vec<FixedLenByteArray>),
}

/// Texts, one after the other, so that a row group needs one allocation for all of them.
#[derive(Default)]
struct TextValues {
    bytes: Vec<u8>,
    /// End of each text in `bytes`.
    ends: Vec<usize>,
}

impl TextValues {
    fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        self.ends.push(self.bytes.len());
    }

    fn take(&mut self) -> Vec<ByteArray> {
        let capacity = self.bytes.len();
        let bytes = Bytes::from(std::mem::replace(&mut self.bytes, Vec::with_capacity(capacity)));
        let mut from = 0;
        let text = |end| ByteArray::from(bytes.slice(std::mem::replace(&mut from, end)..end));
        self.ends.drain(..).map(text).collect()
    }
}

impl<W: Write + Send> ParquetTable<W> {
    /// Starts a file whose root group is called `root`.
    ///
    /// # Errors
    ///
    /// Returns an error if the schema is not valid or `out` does not accept the header.
    pub fn new(out: W, root: &str, columns: &[(&str, ColumnType)]) -> io::Result<Self> {
        let fields: Result<Vec<_>, _> =
            columns.iter().map(|(name, column_type)| field(name, *column_type).map(Arc::new)).collect();
        let schema = fields.and_then(|fields| Type::group_type_builder(root).with_fields(fields).build());
        let schema = Arc::new(schema.map_err(io::Error::other)?);
        let properties = columns.iter().fold(
            WriterProperties::builder()
                .set_compression(Compression::SNAPPY)
                .set_statistics_enabled(EnabledStatistics::Chunk),
            |properties, (name, column_type)| match column_type {
                ColumnType::U64 | ColumnType::I64 | ColumnType::Time => {
                    let column = ColumnPath::from(*name);
                    properties
                        .set_column_dictionary_enabled(column.clone(), false)
                        .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED)
                }
                ColumnType::DistinctText => {
                    let column = ColumnPath::from(*name);
                    properties
                        .set_column_dictionary_enabled(column.clone(), false)
                        .set_column_statistics_enabled(column, EnabledStatistics::None)
                }
                _ => properties,
            },
        );
        let properties = properties.build();
        let out = SerializedFileWriter::new(out, schema, Arc::new(properties)).map_err(io::Error::other)?;
        let columns = columns.iter().map(|(_, column_type)| ColumnBuffer::new(*column_type)).collect();
        Ok(ParquetTable { out, columns, buffered: 0, definition_levels: Vec::new(), written: 0 })
    }

    /// Adds a row. It reaches the file with its row group of 65,536 rows.
    ///
    /// # Errors
    ///
    /// Returns an error if the row does not match the columns, or if a full row group cannot be
    /// written.
    pub fn push<'a>(&mut self, row: impl IntoIterator<Item = CellValue<'a>>) -> io::Result<()> {
        let mut cells = row.into_iter();
        for column in &mut self.columns {
            column.push(self.buffered, cells.next().unwrap_or(CellValue::Null))?;
        }
        self.buffered += 1;
        if self.buffered == GROUP_ROWS { self.flush().map_err(io::Error::other) } else { Ok(()) }
    }

    /// Writes the last row group and the footer. Returns the number of rows and the writer.
    ///
    /// # Errors
    ///
    /// Returns an error if the rest of the file cannot be written.
    pub fn close(mut self) -> io::Result<(u64, W)> {
        self.flush().map_err(io::Error::other)?;
        let out = self.out.into_inner().map_err(io::Error::other)?;
        Ok((self.written, out))
    }

    fn flush(&mut self) -> Result<(), ParquetError> {
        if self.buffered == 0 {
            return Ok(());
        }
        let mut group = self.out.next_row_group()?;
        for column in &mut self.columns {
            self.definition_levels.clear();
            self.definition_levels.resize(self.buffered, 1);
            column.write(&mut group, &mut self.definition_levels)?;
        }
        group.close()?;
        self.written += self.buffered as u64;
        self.buffered = 0;
        Ok(())
    }
}

impl ColumnBuffer {
    fn new(column_type: ColumnType) -> Self {
        let values = match column_type {
            ColumnType::Text | ColumnType::DistinctText => Values::Text(TextValues::default()),
            ColumnType::U32 => Values::Int32(Vec::new()),
            ColumnType::U64 | ColumnType::I64 | ColumnType::Time => Values::Int64(Vec::new()),
            ColumnType::Bool => Values::Bool(Vec::new()),
            ColumnType::Float => Values::Float(Vec::new()),
            ColumnType::Decimal(_) => Values::Decimal(Vec::new()),
        };
        ColumnBuffer { nulls: Vec::new(), values }
    }

    /// HOT. Adds the value of a row of the group.
    fn push(&mut self, row: usize, cell: CellValue<'_>) -> io::Result<()> {
        match (&mut self.values, cell) {
            (_, CellValue::Null) => self.nulls.push(row),
            (Values::Text(values), CellValue::Text(text)) => values.push(text),
            // Unsigned numbers keep their bits. The type of the column tells readers that they are
            // unsigned.
            (Values::Int32(values), CellValue::U32(number)) => values.push(number.cast_signed()),
            (Values::Int64(values), CellValue::U64(number)) => values.push(number.cast_signed()),
            (Values::Int64(values), CellValue::I64(number) | CellValue::Time(number)) => values.push(number),
            (Values::Bool(values), CellValue::Bool(flag)) => values.push(flag),
            (Values::Float(values), CellValue::Float(number)) => values.push(number),
            (Values::Decimal(values), CellValue::Decimal(units)) => {
                values.push(ByteArray::from(units.to_be_bytes().to_vec()).into());
            }
            _ => return Err(io::Error::other("a cell does not have the type of its column")),
        }
        Ok(())
    }

    /// Writes the column of a group. `levels` has a 1 for each row.
    fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        levels: &mut [i16],
    ) -> Result<(), ParquetError> {
        self.nulls.drain(..).for_each(|row| levels[row] = 0);
        match &mut self.values {
            Values::Text(values) => write_column::<ByteArrayType, W>(group, &mut values.take(), levels)?,
            Values::Int32(values) => write_column::<Int32Type, W>(group, values, levels)?,
            Values::Int64(values) => write_column::<Int64Type, W>(group, values, levels)?,
            Values::Bool(values) => write_column::<BoolType, W>(group, values, levels)?,
            Values::Float(values) => write_column::<DoubleType, W>(group, values, levels)?,
            Values::Decimal(values) => write_column::<FixedLenByteArrayType, W>(group, values, levels)?,
        }
        Ok(())
    }
}

fn write_column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &mut Vec<T::T>,
    definition_levels: &[i16],
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("more columns than the schema has".into()));
    };
    column.typed::<T>().write_batch(values, Some(definition_levels), None)?;
    column.close()?;
    values.clear();
    Ok(())
}

fn field(name: &str, column_type: ColumnType) -> Result<Type, ParquetError> {
    let (physical, logical) = match column_type {
        ColumnType::Text | ColumnType::DistinctText => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnType::U32 => (Physical::INT32, Some(LogicalType::integer(32, false))),
        ColumnType::U64 => (Physical::INT64, Some(LogicalType::integer(64, false))),
        ColumnType::I64 => (Physical::INT64, Some(LogicalType::integer(64, true))),
        ColumnType::Bool => (Physical::BOOLEAN, None),
        ColumnType::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS))),
        ColumnType::Float => (Physical::DOUBLE, None),
        ColumnType::Decimal(scale) => {
            (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::decimal(i32::from(scale), DECIMAL_DIGITS)))
        }
    };
    let builder =
        Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL).with_logical_type(logical);
    match column_type {
        ColumnType::Decimal(scale) => {
            builder.with_length(DECIMAL_BYTES).with_precision(DECIMAL_DIGITS).with_scale(i32::from(scale)).build()
        }
        _ => builder.build(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_rows_and_the_magic_at_both_ends() {
        let columns = [("name", ColumnType::Text), ("price", ColumnType::Decimal(9)), ("at", ColumnType::Time)];
        let mut table = ParquetTable::new(Vec::new(), "row", &columns).unwrap();
        table.push([CellValue::Text("A"), CellValue::Decimal(1_500_000_000), CellValue::Time(7)]).unwrap();
        table.push([CellValue::Null, CellValue::Null, CellValue::Null]).unwrap();
        let (rows, file) = table.close().unwrap();
        assert_eq!((rows, &file[..4], &file[file.len() - 4..]), (2, &b"PAR1"[..], &b"PAR1"[..]));
    }

    #[test]
    fn a_cell_of_another_type_is_refused() {
        let mut table = ParquetTable::new(Vec::new(), "row", &[("count", ColumnType::U64)]).unwrap();
        assert!(table.push([CellValue::Text("7")]).is_err());
    }
}
