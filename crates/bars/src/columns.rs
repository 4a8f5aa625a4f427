//! The columns of a table of bars. `docs/bars.md` describes them.

use pitwire_tables::{CellValue, ColumnType};

use crate::number::Nano;
use crate::shard::BarRow;

const NANOS_PER_MILLI: i64 = 1_000_000;

/// Name and type of each column, in the order of [`cells`].
pub const COLUMNS: [(&str, ColumnType); 25] = [
    ("symbol", ColumnType::Text),
    ("bucket_s", ColumnType::U32),
    ("start", ColumnType::Time),
    ("open", ColumnType::Decimal(9)),
    ("high", ColumnType::Decimal(9)),
    ("low", ColumnType::Decimal(9)),
    ("close", ColumnType::Decimal(9)),
    ("volume", ColumnType::Decimal(9)),
    ("notional", ColumnType::Decimal(18)),
    ("vwap", ColumnType::Decimal(9)),
    ("trades", ColumnType::U64),
    ("off_exchange_volume", ColumnType::Decimal(9)),
    ("off_exchange_trades", ColumnType::U64),
    ("late_volume", ColumnType::Decimal(9)),
    ("late_trades", ColumnType::U64),
    ("merged_trades", ColumnType::U64),
    ("incomplete", ColumnType::Bool),
    ("rsi", ColumnType::Float),
    ("atr", ColumnType::Float),
    ("ha_open", ColumnType::Float),
    ("ha_high", ColumnType::Float),
    ("ha_low", ColumnType::Float),
    ("ha_close", ColumnType::Float),
    ("sar", ColumnType::Float),
    ("sar_is_long", ColumnType::Bool),
];

/// Returns the cells of a row, in the order of [`COLUMNS`].
pub fn cells(row: &BarRow) -> [CellValue<'_>; COLUMNS.len()] {
    let (bar, reading) = (&row.bar, &row.reading);
    let price = |price: Option<Nano>| price.map_or(CellValue::Null, |price| CellValue::Decimal(i128::from(price.0)));
    let float = |number: Option<f64>| number.map_or(CellValue::Null, CellValue::Float);
    let smooth = reading.heikin_ashi;
    [
        CellValue::Text(&row.symbol),
        CellValue::U32(row.bucket_s),
        CellValue::Time(row.start_ns() / NANOS_PER_MILLI),
        price(bar.open),
        price(bar.high),
        price(bar.low),
        price(bar.close),
        CellValue::Decimal(bar.volume),
        CellValue::Decimal(bar.notional),
        price(bar.vwap()),
        CellValue::U64(bar.trades),
        CellValue::Decimal(bar.off_exchange_volume),
        CellValue::U64(bar.off_exchange_trades),
        CellValue::Decimal(bar.late_volume),
        CellValue::U64(bar.late_trades),
        CellValue::U64(bar.merged_trades),
        CellValue::Bool(row.is_incomplete),
        float(reading.rsi),
        float(reading.atr),
        float(smooth.map(|smooth| smooth.open)),
        float(smooth.map(|smooth| smooth.high)),
        float(smooth.map(|smooth| smooth.low)),
        float(smooth.map(|smooth| smooth.close)),
        float(reading.sar),
        reading.sar_is_long.map_or(CellValue::Null, CellValue::Bool),
    ]
}
