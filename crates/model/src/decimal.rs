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

    pub const fn new(mantissa: i128, scale: u8) -> Self {
        Self { mantissa, scale }
    }

    /// Parses any JSON number, such as `-12.50`, `1e3` or `5E-1`. Drops trailing zeros, so that
    /// equal numbers parse to equal values.
    ///
    /// # Errors
    /// `Malformed` or `TooLong`.
    pub fn parse(text: &str) -> Result<Self, DecimalError> {
        let (negative, rest) = match text.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let (mut mantissa, mut digits, mut significant) = (0_i128, 0_usize, 0_usize);
        let (mut exponent, mut seen_point) = (0_i64, false);
        let mut at = 0;
        while let Some(&byte) = rest.get(at) {
            match byte {
                b'0'..=b'9' => {
                    digits += 1;
                    significant += usize::from(mantissa != 0 || byte != b'0');
                    if significant > Self::MAX_DIGITS {
                        return Err(DecimalError::TooLong);
                    }
                    mantissa = mantissa * 10 + i128::from(byte - b'0');
                    exponent -= i64::from(seen_point);
                }
                b'.' if !seen_point && digits > 0 => seen_point = true,
                b'e' | b'E' => break,
                _ => return Err(DecimalError::Malformed),
            }
            at += 1;
        }
        if digits == 0 || rest.get(at.wrapping_sub(1)) == Some(&b'.') {
            return Err(DecimalError::Malformed);
        }
        if at < rest.len() {
            exponent += Self::parse_exponent(&rest[at + 1..])?;
        }
        Self::normalise(if negative { -mantissa } else { mantissa }, exponent)
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
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.mantissa < 0 { "-" } else { "" };
        let digits = self.mantissa.unsigned_abs().to_string();
        let scale = usize::from(self.scale);
        if scale == 0 {
            return write!(f, "{sign}{digits}");
        }
        let padded = format!("{digits:0>width$}", width = scale + 1);
        let (whole, part) = padded.split_at(padded.len() - scale);
        write!(f, "{sign}{whole}.{part}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_json_writes_and_nothing_else() {
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
        ] {
            assert_eq!(value.to_string(), text);
        }
    }
}
