//! Decimals as integers in billionths, to read prices and sizes exactly.

use std::fmt;

use pitwire_model::Decimal;

/// Decimals of a price or a size.
pub const DIGITS: u8 = 9;
/// Decimals of a product of a price and a size.
pub const NOTIONAL_DIGITS: u8 = 18;
const ONE: i64 = 10_i64.pow(DIGITS as u32);

/// A number in billionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Nano(pub i64);

impl Nano {
    /// Parses a JSON number exactly. `None` if it is malformed, too large, or has more than nine
    /// decimals.
    pub fn parse(text: &[u8]) -> Option<Nano> {
        i64::try_from(Decimal::parse_units(text, DIGITS)?).ok().map(Nano)
    }

    /// Converts to a float, for indicators.
    #[allow(clippy::cast_precision_loss)]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / ONE as f64
    }
}

impl fmt::Display for Nano {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", Decimal::new(i128::from(self.0), DIGITS))
    }
}

fn whole_number(text: &[u8]) -> Option<i64> {
    let mut number = 0_i64;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(i64::from(digit))?;
    }
    Some(number)
}

/// Parses a JSON integer that is not negative.
pub fn parse_count(text: &[u8]) -> Option<u64> {
    if text.is_empty() { None } else { u64::try_from(whole_number(text)?).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_exactly_or_refused() {
        for (text, expected) in [
            ("189.12", Some(189_120_000_000)),
            ("0.000000001", Some(1)),
            ("-7", Some(-7_000_000_000)),
            ("100", Some(100_000_000_000)),
            ("9223372036.854775807", Some(i64::MAX)),
            ("1.1000000000", Some(1_100_000_000)),
            ("00.5", Some(500_000_000)),
            ("9223372036.854775808", None),
            ("0.0000000001", None),
            ("", None),
            ("-", None),
            (".5", None),
            ("5.", None),
            ("1.2.3", None),
            ("1,5", None),
            ("NaN", None),
            ("99999999999999999999999999", None),
        ] {
            assert_eq!(Nano::parse(text.as_bytes()).map(|nano| nano.0), expected, "{text:?}");
        }
    }

    #[test]
    fn written_numbers_equal_what_was_read() {
        for text in ["0", "189.12", "-0.000000001", "9223372036.854775807", "100"] {
            assert_eq!(Nano::parse(text.as_bytes()).unwrap().to_string(), text);
        }
    }
}
