//! Rows of typed columns, written as a Parquet file.
//!
//! Does        buffer one row group, compress it with Snappy, and write it to any `Write`.
//! Holds       every column may be null. Texts are UTF-8, times TIMESTAMP(MILLIS, UTC), decimals
//!             DECIMAL(38, scale) in sixteen bytes, counts unsigned INT. Integers and times are
//!             stored as differences: most wide ones grow from row to row, and the others are so
//!             small that a dictionary would only cost time. Texts have no smallest and largest
//!             value: each row group has nearly the same.
//! Leaves out  files, names and directories: the callers differ in how a file becomes visible.
//! Start at    [`ParquetTable`].

use std::io::{self, Write};
use std::sync::Arc;

use bytes::BytesMut;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::column::writer::ColumnWriterImpl;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, Int32Type,
    Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};
use pitwire_model::Decimal;

/// Rows of one row group. This is also the number of rows held in memory.
const GROUP_ROWS: usize = 1 << 16;
const NANOS_PER_MILLI: i64 = 1_000_000;
/// Size of a page in bytes. The writer makes a new buffer for each page. Buffers of this size come
/// from the free lists of the allocator, and larger ones from fresh pages of the kernel.
const PAGE_BYTES: usize = 1 << 16;
/// Values of a column that are written at once: half a page of wide integers.
const VALUES_AT_ONCE: usize = 4096;
/// Texts that are written at once. Their descriptors fit into the first cache of a core.
const TEXTS_AT_ONCE: usize = 512;
/// Digits of a decimal column.
const DECIMAL_DIGITS: i32 = 38;
/// Bytes of a decimal value.
const DECIMAL_BYTES: i32 = 16;

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    Text,
    /// Text that seldom repeats, so that a dictionary only costs time.
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
pub enum Cell<'a> {
    Null,
    Text(&'a str),
    U32(u32),
    U64(u64),
    I64(i64),
    Bool(bool),
    /// UTC, in nanoseconds since 1970.
    Time(i64),
    Float(f64),
    /// A number for a column of decimals, which keeps it exactly, or of floats.
    Number(Decimal),
}

impl<'a> Cell<'a> {
    /// Returns the cell of a value, or null.
    pub fn maybe<T>(value: Option<T>, cell: impl FnOnce(T) -> Cell<'a>) -> Cell<'a> {
        value.map_or(Cell::Null, cell)
    }
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
    /// Sixteen bytes each, in units of the last of this many digits after the point.
    Decimal(Vec<FixedLenByteArray>, u8),
}

/// Texts, one after the other. All row groups use one allocation.
#[derive(Default)]
struct TextValues {
    bytes: BytesMut,
    /// End of each text in `bytes`.
    ends: Vec<usize>,
    /// A buffer: the texts that are written next.
    texts: Vec<ByteArray>,
}

impl TextValues {
    fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        self.ends.push(self.bytes.len());
    }

    /// Writes the texts and removes them. `levels` has a 1 for each row with a text.
    fn write(&mut self, column: &mut ColumnWriterImpl<'_, ByteArrayType>, levels: &[i16]) -> Result<(), ParquetError> {
        let capacity = self.bytes.len();
        let bytes = self.bytes.split().freeze();
        let (mut ends, mut from) = (self.ends.drain(..), 0);
        for levels in levels.chunks(TEXTS_AT_ONCE) {
            let count = levels.iter().filter(|level| **level == 1).count();
            let text = |end| ByteArray::from(bytes.slice(std::mem::replace(&mut from, end)..end));
            self.texts.extend(ends.by_ref().take(count).map(text));
            column.write_batch(&self.texts, Some(levels), None)?;
            self.texts.clear();
        }
        drop(ends);
        // Nothing refers to the allocation now, so `reserve` gives it back to `self.bytes`.
        drop(bytes);
        self.bytes.reserve(capacity);
        Ok(())
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
                .set_data_page_size_limit(PAGE_BYTES)
                .set_write_batch_size(VALUES_AT_ONCE)
                .set_statistics_enabled(EnabledStatistics::Chunk),
            |properties, (name, column_type)| match column_type {
                ColumnType::U32 | ColumnType::U64 | ColumnType::I64 | ColumnType::Time => {
                    let column = ColumnPath::from(*name);
                    properties
                        .set_column_dictionary_enabled(column.clone(), false)
                        .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED)
                }
                ColumnType::Text | ColumnType::DistinctText => {
                    let (column, repeats) = (ColumnPath::from(*name), *column_type == ColumnType::Text);
                    properties
                        .set_column_dictionary_enabled(column.clone(), repeats)
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

    /// HOT. Adds a row with one cell per column. It reaches the file with its row group of 65,536
    /// rows.
    ///
    /// # Errors
    ///
    /// Returns an error if the row does not match the columns, if a number has more digits than its
    /// column holds, or if a full row group cannot be written.
    pub fn push(&mut self, row: &[Cell<'_>]) -> io::Result<()> {
        if row.len() != self.columns.len() {
            let (cells, columns) = (row.len(), self.columns.len());
            return Err(io::Error::other(format!("a row has {cells} cells for {columns} columns")));
        }
        for (column, cell) in self.columns.iter_mut().zip(row) {
            column.push(self.buffered, cell)?;
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
            ColumnType::Decimal(scale) => Values::Decimal(Vec::new(), scale),
        };
        ColumnBuffer { nulls: Vec::new(), values }
    }

    /// HOT. Adds the value of a row of the group. The cell comes by reference: to copy one right
    /// after it was made costs more than all else here.
    #[inline]
    fn push(&mut self, row: usize, cell: &Cell<'_>) -> io::Result<()> {
        match (&mut self.values, cell) {
            (_, Cell::Null) => self.nulls.push(row),
            (Values::Text(values), Cell::Text(text)) => values.push(text),
            // Unsigned numbers keep their bits. The type of the column tells readers that they are
            // unsigned.
            (Values::Int32(values), Cell::U32(number)) => values.push(number.cast_signed()),
            (Values::Int64(values), Cell::U64(number)) => values.push(number.cast_signed()),
            (Values::Int64(values), Cell::I64(number)) => values.push(*number),
            (Values::Int64(values), Cell::Time(at_ns)) => values.push(at_ns / NANOS_PER_MILLI),
            (Values::Bool(values), Cell::Bool(flag)) => values.push(*flag),
            (Values::Float(values), Cell::Float(number)) => values.push(*number),
            (Values::Float(values), Cell::Number(number)) => values.push(nearest_float(*number)),
            (Values::Decimal(values, scale), Cell::Number(number)) => {
                let units = decimal_units(*number, *scale)?;
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
            Values::Text(values) => write_column(group, |column| values.write(column, levels))?,
            Values::Int32(values) => write_values::<Int32Type, W>(group, values, levels)?,
            Values::Int64(values) => write_values::<Int64Type, W>(group, values, levels)?,
            Values::Bool(values) => write_values::<BoolType, W>(group, values, levels)?,
            Values::Float(values) => write_values::<DoubleType, W>(group, values, levels)?,
            Values::Decimal(values, _) => write_values::<FixedLenByteArrayType, W>(group, values, levels)?,
        }
        Ok(())
    }
}

fn write_values<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &mut Vec<T::T>,
    levels: &[i16],
) -> Result<(), ParquetError> {
    write_column::<T, W>(group, |column| column.write_batch(values, Some(levels), None).map(drop))?;
    values.clear();
    Ok(())
}

/// Opens the next column of a row group, lets `write` write it, and closes it.
fn write_column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    write: impl FnOnce(&mut ColumnWriterImpl<'_, T>) -> Result<(), ParquetError>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("more columns than the schema has".into()));
    };
    write(column.typed::<T>())?;
    column.close()
}

/// HOT. Returns the float that is nearest to a number.
#[allow(clippy::cast_precision_loss)]
fn nearest_float(number: Decimal) -> f64 {
    /// Up to here, integers and powers of ten are exact floats, and one division rounds correctly.
    const EXACT: u64 = 1 << 53;
    const TENS: [f64; 23] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
        1e20, 1e21, 1e22,
    ];
    let mantissa = i64::try_from(number.mantissa).ok().filter(|mantissa| mantissa.unsigned_abs() <= EXACT);
    if let Some((mantissa, one)) = mantissa.zip(TENS.get(usize::from(number.scale))) {
        return mantissa as f64 / one;
    }
    // The text of a decimal is a valid number.
    number.to_string().parse().unwrap_or(f64::NAN)
}

fn decimal_units(number: Decimal, scale: u8) -> io::Result<i128> {
    const LIMIT: i128 = 10_i128.pow(DECIMAL_DIGITS.unsigned_abs());
    let units = number.rescaled(scale).filter(|units| units.abs() < LIMIT);
    units.ok_or_else(|| io::Error::other(format!("{number} has more digits than DECIMAL(38, {scale}) holds")))
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
        let price = Cell::Number(Decimal::new(15, 1));
        table.push(&[Cell::Text("A"), price, Cell::Time(7_000_000)]).unwrap();
        table.push(&[Cell::Null, Cell::Null, Cell::Null]).unwrap();
        let (rows, file) = table.close().unwrap();
        assert_eq!((rows, &file[..4], &file[file.len() - 4..]), (2, &b"PAR1"[..], &b"PAR1"[..]));
    }

    #[test]
    fn a_row_that_does_not_match_the_columns_is_refused() {
        let mut table = ParquetTable::new(Vec::new(), "row", &[("count", ColumnType::U64)]).unwrap();
        assert!(table.push(&[Cell::Text("7")]).is_err());
        assert!(table.push(&[]).is_err() && table.push(&[Cell::U64(7), Cell::Null]).is_err());
        assert!(table.push(&[Cell::U64(7)]).is_ok());
    }

    #[test]
    fn a_number_that_its_decimal_column_cannot_hold_is_refused() {
        let mut table = ParquetTable::new(Vec::new(), "row", &[("price", ColumnType::Decimal(18))]).unwrap();
        assert!(table.push(&[Cell::Number(Decimal::new(1, 19))]).is_err());
        assert!(table.push(&[Cell::Number(Decimal::new(10_i128.pow(20), 0))]).is_err());
        assert!(table.push(&[Cell::Number(Decimal::new(10_i128.pow(20) - 1, 0))]).is_ok());
    }

    #[test]
    fn a_float_is_the_nearest_one() {
        for text in ["0", "0.1", "3199.99", "-0.05", "123456789.123456789", "9007199254740993", "0.000000001"] {
            let number = Decimal::parse(text).unwrap();
            let nearest: f64 = text.parse().unwrap();
            assert_eq!(nearest_float(number).to_bits(), nearest.to_bits(), "{text}");
        }
    }
}
