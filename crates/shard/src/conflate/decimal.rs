//! Prices, sizes and sums as integers in billionths.

use pitwire_model::Decimal;

/// Digits behind the point of a price or a size, and of their product.
pub(super) const BILLIONTHS: u8 = 9;
pub(super) const SQUARED: u8 = 2 * BILLIONTHS;

/// A number in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Billionths(pub i128);

impl Billionths {
    pub const ZERO: Self = Self(0);

    /// Parses a JSON number, with or without quotes. Refuses numbers with more than nine decimals.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = text.strip_prefix(b"\"").map_or(Some(text), |rest| rest.strip_suffix(b"\""))?;
        Decimal::parse_units(text, BILLIONTHS).map(Self)
    }

    pub fn plus(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// Multiplies. The result is in billionths of billionths.
    pub fn times(self, other: Self) -> Option<i128> {
        self.0.checked_mul(other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_be_in_quotes() {
        for (text, units) in [
            ("187.25", Some(187_250_000_000)),
            ("\"187.25\"", Some(187_250_000_000)),
            ("-0.000000001", Some(-1)),
            ("0.0000000001", None),
            ("\"1", None),
            ("\"\"", None),
            ("true", None),
            ("null", None),
        ] {
            assert_eq!(Billionths::parse(text.as_bytes()), units.map(Billionths), "{text}");
        }
    }
}
