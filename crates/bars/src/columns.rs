//! The columns of a table of bars. `docs/bars.md` describes them.

use pitwire_model::Decimal;
use pitwire_tables::{Cell, ColumnType};

use crate::number::Nano;
use crate::shard::BarRow;

/// Digits after the point of a price or a volume, and of a price times a volume.
const PLACES: u8 = 9;
const NOTIONAL_PLACES: u8 = 18;
/// The largest number of a decimal column, in units of its last digit.
const DECIMAL_MAX: i128 = 10_i128.pow(38) - 1;

/// Name and type of each column, in the order of [`cells`].
pub const COLUMNS: [(&str, ColumnType); 25] = [
    ("symbol", ColumnType::Text),
    ("bucket_s", ColumnType::U32),
    ("start", ColumnType::Time),
    ("open", ColumnType::Decimal(PLACES)),
    ("high", ColumnType::Decimal(PLACES)),
    ("low", ColumnType::Decimal(PLACES)),
    ("close", ColumnType::Decimal(PLACES)),
    ("volume", ColumnType::Decimal(PLACES)),
    ("notional", ColumnType::Decimal(NOTIONAL_PLACES)),
    ("vwap", ColumnType::Decimal(PLACES)),
    ("trades", ColumnType::U64),
    ("off_exchange_volume", ColumnType::Decimal(PLACES)),
    ("off_exchange_trades", ColumnType::U64),
    ("late_volume", ColumnType::Decimal(PLACES)),
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
pub fn cells(row: &BarRow) -> [Cell<'_>; COLUMNS.len()] {
    let (bar, reading) = (&row.bar, &row.reading);
    let price = |price: Option<Nano>| Cell::maybe(price, |price| number(i128::from(price.0), PLACES));
    let float = |number| Cell::maybe(number, Cell::Float);
    let smooth = reading.heikin_ashi;
    [
        Cell::Text(&row.symbol),
        Cell::U32(row.bucket_s),
        Cell::Time(row.start_ns()),
        price(bar.open),
        price(bar.high),
        price(bar.low),
        price(bar.close),
        number(bar.volume, PLACES),
        number(bar.notional, NOTIONAL_PLACES),
        price(bar.vwap()),
        Cell::U64(bar.trades),
        number(bar.off_exchange_volume, PLACES),
        Cell::U64(bar.off_exchange_trades),
        number(bar.late_volume, PLACES),
        Cell::U64(bar.late_trades),
        Cell::U64(bar.merged_trades),
        Cell::Bool(row.is_incomplete),
        float(reading.rsi),
        float(reading.atr),
        float(smooth.map(|smooth| smooth.open)),
        float(smooth.map(|smooth| smooth.high)),
        float(smooth.map(|smooth| smooth.low)),
        float(smooth.map(|smooth| smooth.close)),
        float(reading.sar),
        Cell::maybe(reading.sar_is_long, Cell::Bool),
    ]
}

/// Returns the cell of a number in units of its last place. A sum too large for its column becomes
/// the largest number.
fn number<'a>(units: i128, places: u8) -> Cell<'a> {
    Cell::Number(Decimal::new(units.clamp(-DECIMAL_MAX, DECIMAL_MAX), places))
}

#[cfg(test)]
mod tests {
    use pitwire_tables::ParquetTable;

    use super::*;

    #[test]
    fn a_sum_too_large_for_its_column_becomes_the_largest_number() {
        let columns = [("notional", ColumnType::Decimal(NOTIONAL_PLACES))];
        let mut table = ParquetTable::new(Vec::new(), "bar", &columns).unwrap();
        for units in [i128::MAX, i128::MIN, 10_i128.pow(38)] {
            table.push(&[number(units, NOTIONAL_PLACES)]).unwrap();
        }
        assert!(matches!(number(i128::MAX, 9), Cell::Number(most) if most.mantissa == DECIMAL_MAX));
    }
}
