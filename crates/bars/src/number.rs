//! Decimals as integers in billionths, to read prices and sizes exactly.

use std::fmt;

/// Decimals of a price or a size.
pub const DIGITS: u32 = 9;
const ONE: i64 = 10_i64.pow(DIGITS);
/// Longest text that is parsed; more digits than an `i64` can hold.
const LONGEST_TEXT: usize = 24;

/// A number in billionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Nano(pub i64);

impl Nano {
    /// Parses `189.12` exactly. `None` if it is not a plain decimal, or has more than nine
    /// decimals.
    pub fn parse(text: &[u8]) -> Option<Nano> {
        let (is_negative, digits) = match text.split_first() {
            Some((b'-', rest)) => (true, rest),
            _ => (false, text),
        };
        if digits.is_empty() || digits.len() > LONGEST_TEXT {
            return None;
        }
        let point = digits.iter().position(|&byte| byte == b'.');
        let (whole, fraction) = match point {
            Some(at) => (&digits[..at], &digits[at + 1..]),
            None => (digits, &digits[..0]),
        };
        if whole.is_empty() || (point.is_some() && fraction.is_empty()) {
            return None;
        }
        // Trailing zeros do not count: 1.1000000000 is exact.
        let kept = fraction.len() - fraction.iter().rev().take_while(|&&byte| byte == b'0').count();
        let fraction = &fraction[..kept];
        let mut number = whole_number(whole)?;
        let mut missing = DIGITS;
        for &byte in fraction {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 || missing == 0 {
                return None;
            }
            number = number.checked_mul(10)?.checked_add(i64::from(digit))?;
            missing -= 1;
        }
        let number = number.checked_mul(POWERS[missing as usize])?;
        Some(Nano(if is_negative { -number } else { number }))
    }

    /// Parses a number with an optional exponent, as JSON allows it.
    pub fn parse_any(text: &str) -> Option<Nano> {
        let Some(at) = text.find(['e', 'E']) else { return Nano::parse(text.as_bytes()) };
        let shift: i32 = text[at + 1..].parse().ok()?;
        let (sign, mantissa) = text[..at].strip_prefix('-').map_or(("", &text[..at]), |rest| ("-", rest));
        if !mantissa.starts_with(|digit: char| digit.is_ascii_digit())
            || mantissa.len() > LONGEST_TEXT
            || shift.unsigned_abs() > 40
        {
            return None;
        }
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        let point = i32::try_from(whole.len()).ok()? + shift;
        let plain = match usize::try_from(point) {
            Ok(point) if point >= digits.len() => format!("{digits}{}", "0".repeat(point - digits.len())),
            Ok(0) => format!("0.{digits}"),
            Ok(point) => format!("{}.{}", &digits[..point], &digits[point..]),
            Err(_) => format!("0.{}{digits}", "0".repeat(point.unsigned_abs() as usize)),
        };
        let plain = plain.trim_start_matches('0');
        let plain = if plain.is_empty() || plain.starts_with('.') { format!("0{plain}") } else { plain.to_string() };
        // Zeros that an exponent moved behind the ninth decimal cost no precision, but they make
        // the text long.
        let plain = if plain.contains('.') { plain.trim_end_matches('0').trim_end_matches('.') } else { &plain };
        Nano::parse(format!("{sign}{plain}").as_bytes())
    }

    /// Converts to a float, for indicators.
    #[allow(clippy::cast_precision_loss)]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / ONE as f64
    }
}

impl fmt::Display for Nano {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Decimal { units: i128::from(self.0), digits: DIGITS }.fmt(f)
    }
}

const POWERS: [i64; 10] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

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

/// A sum of prices, sizes or their products, for output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decimal {
    pub units: i128,
    pub digits: u32,
}

impl fmt::Display for Decimal {
    /// Writes the exact value without trailing zeros.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = 10_u128.pow(self.digits);
        let magnitude = self.units.unsigned_abs();
        if self.units < 0 {
            f.write_str("-")?;
        }
        write!(f, "{}", magnitude / one)?;
        let fraction = magnitude % one;
        if fraction == 0 {
            return Ok(());
        }
        let text = format!("{fraction:0width$}", width = self.digits as usize);
        write!(f, ".{}", text.trim_end_matches('0'))
    }
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
            ("1e3", None),
            ("NaN", None),
            ("99999999999999999999999999", None),
        ] {
            assert_eq!(Nano::parse(text.as_bytes()).map(|nano| nano.0), expected, "{text:?}");
        }
    }

    #[test]
    fn exponents_are_read_if_exact() {
        for (text, expected) in [
            ("1e2", Some(100_000_000_000)),
            ("1.5E1", Some(15_000_000_000)),
            ("150e-1", Some(15_000_000_000)),
            ("-2.5e-3", Some(-2_500_000)),
            ("1e-9", Some(1)),
            ("10e-10", Some(1)),
            ("0e5", Some(0)),
            ("1e-10", None),
            ("1e40", None),
            ("1e99999999999", None),
            ("1e", None),
            ("e5", None),
            ("189.12", Some(189_120_000_000)),
        ] {
            assert_eq!(Nano::parse_any(text).map(|nano| nano.0), expected, "{text:?}");
        }
    }

    #[test]
    fn written_numbers_equal_what_was_read() {
        for text in ["0", "189.12", "-0.000000001", "9223372036.854775807", "100"] {
            assert_eq!(Nano::parse(text.as_bytes()).unwrap().to_string(), text);
        }
        assert_eq!(Decimal { units: 1_500_000_000_000_000_001, digits: 18 }.to_string(), "1.500000000000000001");
        assert_eq!(Decimal { units: i128::MIN, digits: 18 }.to_string(), "-170141183460469231731.687303715884105728");
    }
}
