//! A price or an amount in the user's spelling.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A positive decimal number that is sent exactly as written. The venue checks its value.
#[derive(Clone, Debug)]
pub struct Number(Box<RawValue>);

impl Number {
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl FromStr for Number {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a positive decimal number such as 0.25 or 60000");
        let is_number = text.as_bytes().first().is_some_and(u8::is_ascii_digit);
        let raw = RawValue::from_string(text.into()).map_err(|_| wrong())?;
        // A digit other than zero before the exponent makes the number positive.
        let digits = text.split(['e', 'E']).next().unwrap_or_default();
        let is_positive = digits.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
        if is_number && is_positive && raw.get() == text { Ok(Number(raw)) } else { Err(wrong()) }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_sent_as_written() {
        for text in ["1", "0.1", "60000", "3200.010", "1e-8", "123456789012345678901234567890.5"] {
            let number: Number = text.parse().unwrap();
            assert_eq!(serde_json::to_string(&number).unwrap(), text);
        }
        for text in
            ["", " 1", "1 ", "-1", "+1", "0", "0.000", "0e5", ".5", "5.", "1,5", "0x10", "NaN", "1e", "01", "[1]"]
        {
            assert!(text.parse::<Number>().is_err(), "{text:?}");
        }
    }
}
