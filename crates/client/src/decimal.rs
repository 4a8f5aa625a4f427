//! Decimal numbers in the venue's JSON, read from their text and never through a float.

use std::cmp::Ordering;
use std::fmt;

use pitwire_model::Decimal;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Decimals of the common scale. Numbers with more are refused.
const SCALE: u8 = 18;

/// A price or an amount that the venue sent. Equal numbers compare equal, whatever their spelling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Value {
    /// The number times 10 to the power of 18.
    scaled: i128,
}

impl Value {
    pub const ZERO: Value = Value { scaled: 0 };

    /// Parses a JSON number.
    pub fn parse(text: &str) -> Option<Self> {
        Decimal::parse_units(text.as_bytes(), SCALE).map(|scaled| Value { scaled })
    }

    pub fn is_zero(self) -> bool {
        self.scaled == 0
    }

    /// Returns the nearest float, for display and statistics.
    pub fn to_f64(self) -> f64 {
        // A division of floats would round twice. The text is always a number.
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// Returns the sum, or the largest value if it does not fit.
    #[must_use]
    pub fn plus(self, other: Value) -> Value {
        Value { scaled: self.scaled.saturating_add(other.scaled) }
    }

    /// Returns the difference, or the nearest value if it does not fit.
    #[must_use]
    pub fn minus(self, other: Value) -> Value {
        Value { scaled: self.scaled.saturating_sub(other.scaled) }
    }

    /// Returns the product, or the nearest value if it does not fit.
    #[must_use]
    pub fn times(self, count: i64) -> Value {
        Value { scaled: self.scaled.saturating_mul(i128::from(count)) }
    }

    /// Returns how many whole steps the value has, rounded down. `None` if the step is not positive
    /// or the number does not fit.
    pub fn steps(self, step: Value) -> Option<i64> {
        let count = (step.scaled > 0).then(|| self.scaled.div_euclid(step.scaled))?;
        i64::try_from(count).ok()
    }

    /// Returns the number of decimals without zeros at the end.
    pub fn decimals(self) -> usize {
        self.to_string().split_once('.').map_or(0, |(_, decimals)| decimals.len())
    }

    /// Formats the value with at least this many decimals.
    pub fn with_decimals(self, decimals: usize) -> String {
        let mut text = self.to_string();
        let present = self.decimals();
        if present == 0 && decimals > 0 {
            text.push('.');
        }
        text.extend(std::iter::repeat_n('0', decimals.saturating_sub(present)));
        text
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        self.scaled.cmp(&other.scaled)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Decimal::new(self.scaled, SCALE).to_string();
        f.write_str(if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Value::parse(raw.get()).ok_or_else(|| D::Error::custom(format!("{} is not a decimal number", raw.get())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_down_from_the_value() {
        let value = |text| Value::parse(text).unwrap();
        let tick = value("0.05");
        assert_eq!(value("3.14").steps(tick), Some(62));
        assert_eq!(value("-3.14").steps(tick), Some(-63));
        assert_eq!(tick.times(62), value("3.1"));
        assert_eq!(value("3").minus(value("3.5")), value("-0.5"));
        assert_eq!(value("3").steps(Value::ZERO), None);
        assert_eq!(value("100000000000000000").steps(value("0.000001")), None);
    }

    #[test]
    fn decimals_are_padded_and_never_cut() {
        let shown = |text, decimals| Value::parse(text).unwrap().with_decimals(decimals);
        assert_eq!(shown("3200.1", 2), "3200.10");
        assert_eq!(shown("3200", 2), "3200.00");
        assert_eq!(shown("3200", 0), "3200");
        assert_eq!(shown("0.12345", 2), "0.12345");
    }

    #[test]
    fn equal_numbers_compare_equal_whatever_their_spelling() {
        let value = |text| Value::parse(text).unwrap();
        assert_eq!(value("1.50"), value("15e-1"));
        assert!(value("9.5") < value("10"));
        assert_eq!(value("-0.0010").to_string(), "-0.001");
        assert_eq!(value("3200").to_string(), "3200");
        assert_eq!(value("0.1").plus(value("0.2")), value("0.3"));
        assert_eq!(Value::parse("x"), None);
        assert!((value("40002").to_f64() - 40002.0).abs() == 0.0);
    }
}
