//! Decimals as integers in billionths.
//!
//! Leaves out  more than nine digits behind the point, exponents beyond that, and values above 128
//!             bits: refused.

use std::fmt::Write;

/// Digits behind the point of a price or a size, and of their product.
pub(super) const BILLIONTHS: u32 = 9;
pub(super) const SQUARED: u32 = 2 * BILLIONTHS;

/// A number in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Decimal(pub i128);

impl Decimal {
    pub const ZERO: Self = Self(0);

    /// Parses a JSON number, or one in quotes.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = text.strip_prefix(b"\"").map_or(Some(text), |rest| rest.strip_suffix(b"\""))?;
        let (is_negative, text) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
            None => (text, 0),
            Some(at) => (&text[..at], exponent(&text[at + 1..])?),
        };
        let (mut units, mut digits, mut behind, mut has_point) = (0_i128, 0, 0_i32, false);
        for byte in mantissa {
            match byte {
                b'0'..=b'9' => {
                    units = units.checked_mul(10)?.checked_add(i128::from(byte - b'0'))?;
                    digits += 1;
                    behind += i32::from(has_point);
                }
                b'.' if !has_point && digits > 0 => has_point = true,
                _ => return None,
            }
        }
        if digits == 0 || (has_point && behind == 0) {
            return None;
        }
        let places = 9 - behind + exponent;
        let units = if places >= 0 {
            units.checked_mul(10_i128.checked_pow(u32::try_from(places).ok()?)?)?
        } else {
            let part = 10_i128.checked_pow(u32::try_from(-places).ok()?)?;
            (units % part == 0).then_some(units / part)?
        };
        Some(Self(if is_negative { -units } else { units }))
    }

    pub fn plus(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// Multiplies. The result is in billionths of billionths.
    pub fn times(self, other: Self) -> Option<i128> {
        self.0.checked_mul(other.0)
    }
}

/// Parses an exponent of at most two digits with an optional sign.
fn exponent(text: &[u8]) -> Option<i32> {
    let (sign, digits) = match text {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        rest => (1, rest),
    };
    let value = match digits {
        [one] if one.is_ascii_digit() => i32::from(one - b'0'),
        [ten, one] if ten.is_ascii_digit() && one.is_ascii_digit() => {
            i32::from(ten - b'0') * 10 + i32::from(one - b'0')
        }
        _ => return None,
    };
    Some(sign * value)
}

/// Writes `units` of 10^-scale without trailing zeros.
pub(super) fn write(out: &mut String, units: i128, scale: u32) {
    let part = 10_u128.pow(scale);
    let (whole, rest) = (units.unsigned_abs() / part, units.unsigned_abs() % part);
    if units < 0 {
        out.push('-');
    }
    // Writing to a string cannot fail.
    let _ = write!(out, "{whole}");
    if rest > 0 {
        let _ = write!(out, ".{rest:0width$}", width = scale as usize);
        out.truncate(out.trim_end_matches('0').len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_parsed_exactly_or_refused() {
        for (text, units) in [
            ("0", Some(0)),
            ("1", Some(1_000_000_000)),
            ("187.25", Some(187_250_000_000)),
            ("\"187.25\"", Some(187_250_000_000)),
            ("-0.000000001", Some(-1)),
            ("0.0000000010", Some(1)),
            ("1e3", Some(1_000_000_000_000)),
            ("12.5E-2", Some(125_000_000)),
            ("1e+1", Some(10_000_000_000)),
            ("0.0000000001", None),
            ("1e-10", None),
            ("", None),
            ("-", None),
            (".5", None),
            ("5.", None),
            ("1.2.3", None),
            ("1e", None),
            ("1e999", None),
            ("\"1", None),
            ("true", None),
            ("null", None),
            ("99999999999999999999999999999999999999999", None),
            ("1e30", None),
        ] {
            assert_eq!(Decimal::parse(text.as_bytes()), units.map(Decimal), "{text}");
        }
    }

    #[test]
    fn decimals_are_written_without_trailing_zeros() {
        for (units, scale, text) in [
            (0, 9, "0"),
            (1, 9, "0.000000001"),
            (-1_500_000_000, 9, "-1.5"),
            (100_000_000_000, 9, "100"),
            (10, 18, "0.00000000000000001"),
            (i128::MIN, 18, "-170141183460469231731.687303715884105728"),
        ] {
            let mut out = String::new();
            write(&mut out, units, scale);
            assert_eq!(out, text);
        }
    }
}
