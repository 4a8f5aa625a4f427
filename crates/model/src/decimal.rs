//! Exact decimal numbers, as they are in JSON texts before they become ticks or lots.
//!
//! Holds       a value is `mantissa / 10^scale`; nothing is ever rounded and no float is involved.

use std::fmt;

/// The number `mantissa / 10^scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decimal {
    pub mantissa: i128,
    pub scale: u8,
}

/// Digits that fit into 64 bits whatever they are.
const SHORT_DIGITS: usize = 18;

/// The powers of ten that fit into 64 bits.
const POWERS: [i64; 19] = {
    let mut powers = [1; 19];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalError {
    /// Not the text of a finite decimal number.
    Malformed,
    /// More digits than any instrument could need (over 30 significant digits or 18 decimals).
    TooLong,
}

impl fmt::Display for DecimalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecimalError::Malformed => f.write_str("is not a decimal number, like 12.5"),
            DecimalError::TooLong => write!(
                f,
                "has too many digits: {} at most, and {} of them behind the point",
                Decimal::MAX_DIGITS,
                Decimal::MAX_SCALE
            ),
        }
    }
}

impl Decimal {
    pub const ZERO: Decimal = Decimal { mantissa: 0, scale: 0 };
    const MAX_DIGITS: usize = 30;
    const MAX_SCALE: i64 = 18;
    /// The smallest mantissa with too many digits.
    const MANTISSA_END: u128 = 10_u128.pow(30);

    pub const fn new(mantissa: i128, scale: u8) -> Self {
        Self { mantissa, scale }
    }

    /// Parses any JSON number, such as `-12.50`, `1e3` or `5E-1`, and one with a plus sign. Drops
    /// trailing zeros, so that equal numbers parse to equal values.
    ///
    /// # Errors
    /// `Malformed` or `TooLong`.
    pub fn parse(text: &str) -> Result<Self, DecimalError> {
        let text = text.as_bytes();
        let unsigned = text.strip_prefix(b"+").filter(|rest| !rest.starts_with(b"-"));
        let (mantissa, exponent) = Self::scan(unsigned.unwrap_or(text))?;
        if mantissa.unsigned_abs() >= Self::MANTISSA_END {
            return Err(DecimalError::TooLong);
        }
        Self::normalise(mantissa, exponent)
    }

    /// Parses a JSON number in units of `10^-scale`. Returns `None` if it is malformed, is not a
    /// whole number of units, or exceeds 128 bits.
    pub fn parse_units(text: &[u8], scale: u8) -> Option<i128> {
        let (mantissa, exponent) = Self::scan(text).ok()?;
        let places = i64::from(scale) + exponent;
        if mantissa == 0 {
            return Some(0);
        }
        if let Some(power) = usize::try_from(places).ok().and_then(|places| POWERS.get(places)) {
            let power = i128::from(*power);
            // The product of two 64-bit numbers needs no check, which is slow in 128 bits.
            return i64::try_from(mantissa)
                .map_or_else(|_| mantissa.checked_mul(power), |mantissa| Some(i128::from(mantissa) * power));
        }
        let power = 10_i128.checked_pow(u32::try_from(places.unsigned_abs()).ok()?)?;
        if places > 0 { mantissa.checked_mul(power) } else { (mantissa % power == 0).then_some(mantissa / power) }
    }

    /// Parses a JSON number as `mantissa * 10^exponent`.
    #[inline]
    fn scan(text: &[u8]) -> Result<(i128, i64), DecimalError> {
        let (negative, text) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
        // Most numbers fit into 64 bits, in which arithmetic costs a fraction.
        let (mut short, mut long) = (0_i64, 0_i128);
        let (mut digits, mut point) = (0_usize, None);
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                match byte {
                    b'.' if point.is_none() && digits > 0 => point = Some(digits),
                    b'e' | b'E' => break,
                    _ => return Err(DecimalError::Malformed),
                }
            } else if digits < SHORT_DIGITS {
                short = short * 10 + i64::from(digit);
                digits += 1;
            } else {
                let value = if digits == SHORT_DIGITS { i128::from(short) } else { long };
                let value = value.checked_mul(10).and_then(|value| value.checked_add(i128::from(digit)));
                long = value.ok_or(DecimalError::TooLong)?;
                digits += 1;
            }
            at += 1;
        }
        let decimals = point.map_or(0, |point| digits - point);
        if digits == 0 || (point.is_some() && decimals == 0) {
            return Err(DecimalError::Malformed);
        }
        let exponent = if at < text.len() { Self::parse_exponent(&text[at + 1..])? } else { 0 };
        let mantissa = if digits <= SHORT_DIGITS { i128::from(short) } else { long };
        let decimals = i64::try_from(decimals).map_err(|_| DecimalError::TooLong)?;
        Ok((if negative { -mantissa } else { mantissa }, exponent - decimals))
    }

    fn parse_exponent(text: &[u8]) -> Result<i64, DecimalError> {
        let (negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(DecimalError::Malformed);
        }
        // Anything beyond three digits is out of range for every mantissa but zero; clamp instead
        // of overflowing.
        let value = digits.iter().fold(0_i64, |v, d| (v * 10 + i64::from(d - b'0')).min(1_000_000));
        Ok(if negative { -value } else { value })
    }

    fn normalise(mut mantissa: i128, mut exponent: i64) -> Result<Self, DecimalError> {
        if mantissa == 0 {
            return Ok(Self::ZERO);
        }
        while exponent < 0 && mantissa % 10 == 0 {
            mantissa /= 10;
            exponent += 1;
        }
        if !(-Self::MAX_SCALE..=Self::MAX_SCALE).contains(&exponent) {
            return Err(DecimalError::TooLong);
        }
        while exponent > 0 {
            mantissa = mantissa.checked_mul(10).ok_or(DecimalError::TooLong)?;
            exponent -= 1;
        }
        let scale = u8::try_from(-exponent).map_err(|_| DecimalError::TooLong)?;
        Ok(Self { mantissa, scale })
    }

    /// How many whole `step`s this is, or `None` when it is not a multiple (or does not fit).
    pub fn in_steps_of(self, step: Decimal) -> Option<i128> {
        let scale = self.scale.max(step.scale);
        let value = self.rescaled(scale)?;
        let step = step.rescaled(scale)?;
        (step != 0 && value % step == 0).then(|| value / step)
    }

    /// The mantissa at a given scale, or `None` when that would lose digits or overflow.
    pub fn rescaled(self, scale: u8) -> Option<i128> {
        let up = scale.checked_sub(self.scale)?;
        self.mantissa.checked_mul(10_i128.checked_pow(u32::from(up))?)
    }

    /// `self × count`, exactly.
    #[must_use]
    pub fn times(self, count: i128) -> Decimal {
        Decimal { mantissa: self.mantissa * count, scale: self.scale }
    }
}

impl fmt::Display for Decimal {
    /// Writes every decimal of the scale; with `{:#}` without trailing zeros.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.mantissa.unsigned_abs();
        // No mantissa reaches a power of ten that exceeds 128 bits.
        let one = 10_u128.checked_pow(u32::from(self.scale));
        let (whole, mut fraction) = one.map_or((0, magnitude), |one| (magnitude / one, magnitude % one));
        let mut decimals = usize::from(self.scale);
        while f.alternate() && decimals > 0 && fraction.is_multiple_of(10) {
            fraction /= 10;
            decimals -= 1;
        }
        let sign = if self.mantissa < 0 { "-" } else { "" };
        if decimals == 0 { write!(f, "{sign}{whole}") } else { write!(f, "{sign}{whole}.{fraction:0decimals$}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_numbers_are_parsed() {
        let table = [
            ("0", Ok((0, 0))),
            ("-0.00", Ok((0, 0))),
            ("10.0", Ok((10, 0))),
            ("3199.99", Ok((319_999, 2))),
            ("1e3", Ok((1000, 0))),
            ("1.5E-1", Ok((15, 2))),
            ("25e-1", Ok((25, 1))),
            ("0.1e1", Ok((1, 0))),
            ("-7.250", Ok((-725, 2))),
            ("0e999999999999", Ok((0, 0))),
            ("", Err(DecimalError::Malformed)),
            (".5", Err(DecimalError::Malformed)),
            ("5.", Err(DecimalError::Malformed)),
            ("1e", Err(DecimalError::Malformed)),
            ("1e+", Err(DecimalError::Malformed)),
            ("NaN", Err(DecimalError::Malformed)),
            ("Infinity", Err(DecimalError::Malformed)),
            ("1 ", Err(DecimalError::Malformed)),
            ("0x10", Err(DecimalError::Malformed)),
            ("1e400", Err(DecimalError::TooLong)),
            ("1e-400", Err(DecimalError::TooLong)),
            ("1234567890123456789012345678901", Err(DecimalError::TooLong)),
        ];
        for (text, expected) in table {
            let got = Decimal::parse(text).map(|d| (d.mantissa, d.scale));
            assert_eq!(got, expected, "{text:?}");
        }
    }

    #[test]
    fn counts_whole_steps_only() {
        let tick = Decimal::new(5, 1);
        assert_eq!(Decimal::parse("60000").unwrap().in_steps_of(tick), Some(120_000));
        assert_eq!(Decimal::parse("60000.25").unwrap().in_steps_of(tick), None);
        assert_eq!(Decimal::parse("1").unwrap().in_steps_of(Decimal::new(1, 18)), Some(10_i128.pow(18)));
        assert_eq!(Decimal::parse("1").unwrap().in_steps_of(Decimal::ZERO), None);
    }

    #[test]
    fn prints_plain_decimals() {
        for (value, text) in [
            (Decimal::new(319_999, 2), "3199.99"),
            (Decimal::new(5, 2), "0.05"),
            (Decimal::new(-5, 2), "-0.05"),
            (Decimal::new(100, 0), "100"),
            (Decimal::new(100, 2), "1.00"),
            (Decimal::new(-1, 40), "-0.0000000000000000000000000000000000000001"),
        ] {
            assert_eq!(value.to_string(), text);
        }
    }

    #[test]
    fn units_are_parsed_exactly_or_refused() {
        for (text, units) in [
            ("0", Some(0)),
            ("1", Some(1_000_000_000)),
            ("187.25", Some(187_250_000_000)),
            ("-0.000000001", Some(-1)),
            ("0.0000000010", Some(1)),
            ("00.5", Some(500_000_000)),
            ("1e3", Some(1_000_000_000_000)),
            ("12.5E-2", Some(125_000_000)),
            ("1e+1", Some(10_000_000_000)),
            ("0e999", Some(0)),
            ("18446744073709551615", Some(18_446_744_073_709_551_615_000_000_000)),
            ("18446744073709551616", Some(18_446_744_073_709_551_616_000_000_000)),
            ("1e29", Some(10_i128.pow(38))),
            ("0.0000000001", None),
            ("1e-10", None),
            ("", None),
            ("-", None),
            ("+1", None),
            ("--1", None),
            (".5", None),
            ("5.", None),
            ("5.e1", None),
            ("1.2.3", None),
            ("1e", None),
            ("1e999", None),
            ("true", None),
            ("99999999999999999999999999999999999999999", None),
            ("1e30", None),
        ] {
            assert_eq!(Decimal::parse_units(text.as_bytes(), 9), units, "{text}");
        }
        assert_eq!(Decimal::parse("+-5"), Err(DecimalError::Malformed));
        assert_eq!(Decimal::parse("+5"), Ok(Decimal::new(5, 0)));
    }

    #[test]
    fn alternate_form_has_no_trailing_zeros() {
        for (units, scale, text) in [
            (0, 9, "0"),
            (1, 9, "0.000000001"),
            (-1_500_000_000, 9, "-1.5"),
            (100_000_000_000, 9, "100"),
            (10, 18, "0.00000000000000001"),
            (1_500_000_000_000_000_001, 18, "1.500000000000000001"),
            (i128::MIN, 18, "-170141183460469231731.687303715884105728"),
        ] {
            assert_eq!(format!("{:#}", Decimal::new(units, scale)), text);
        }
    }
}
