//! The file formats of tables.

/// Format of all tables of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// Prices and amounts are exact decimal texts.
    Csv,
    Parquet(NumberType),
}

/// Type of prices and amounts in Parquet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberType {
    /// The nearest `float64`, which every notebook can plot. Ticks and lots beside it are exact.
    Float,
    /// Exact: DECIMAL(38, 18).
    Decimal,
}

impl TableFormat {
    /// Returns the name of the format, which is also the extension of its files.
    pub const fn extension(self) -> &'static str {
        match self {
            TableFormat::Csv => "csv",
            TableFormat::Parquet(_) => "parquet",
        }
    }
}
