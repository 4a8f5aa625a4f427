//! Writes JSON into a byte buffer.
//!
//! Not a library, because prices must be exact plain decimals, and because each object is
//! written once per event and sent to every subscriber.

use pitwire_model::Decimal;

pub struct Json<'a> {
    out: &'a mut Vec<u8>,
    /// Whether the next value of the open object or array needs a comma before it.
    comma: bool,
}

impl<'a> Json<'a> {
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Json { out, comma: false }
    }

    fn before_value(&mut self) {
        if self.comma {
            self.out.push(b',');
        }
        self.comma = true;
    }

    pub fn object(&mut self, fill: impl FnOnce(&mut Json<'_>)) -> &mut Self {
        self.nested(b'{', b'}', fill)
    }

    pub fn array(&mut self, fill: impl FnOnce(&mut Json<'_>)) -> &mut Self {
        self.nested(b'[', b']', fill)
    }

    fn nested(&mut self, open: u8, close: u8, fill: impl FnOnce(&mut Json<'_>)) -> &mut Self {
        self.before_value();
        self.out.push(open);
        fill(&mut Json { out: self.out, comma: false });
        self.out.push(close);
        self
    }

    /// Ends a chain in a closure or match arm that returns nothing.
    pub const fn end(&mut self) {}

    /// Writes a key, which must need no escaping. Exactly one value must follow.
    pub fn key(&mut self, key: &str) -> &mut Self {
        debug_assert!(!key.bytes().any(must_be_escaped), "{key:?} is no key of ours");
        self.out.reserve(key.len() + 4);
        self.before_value();
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.comma = false;
        self
    }

    pub fn string(&mut self, text: &str) -> &mut Self {
        self.before_value();
        self.out.push(b'"');
        // Nearly every string is a constant key or name without characters to escape.
        if text.bytes().fold(false, |any, byte| any | must_be_escaped(byte)) {
            self.escaped(text);
        } else {
            self.out.extend_from_slice(text.as_bytes());
        }
        self.out.push(b'"');
        self
    }

    #[cold]
    fn escaped(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                b'"' => self.out.extend_from_slice(b"\\\""),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                byte if must_be_escaped(byte) => self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                _ => self.out.push(byte),
            }
        }
    }

    pub fn uint(&mut self, value: u64) -> &mut Self {
        self.before_value();
        push_digits(self.out, u128::from(value), 0);
        self
    }

    /// Writes a number as a string, as ids are.
    pub fn quoted_uint(&mut self, value: u64) -> &mut Self {
        self.before_value();
        self.out.push(b'"');
        push_digits(self.out, u128::from(value), 0);
        self.out.push(b'"');
        self
    }

    pub fn int(&mut self, value: i64) -> &mut Self {
        self.before_value();
        if value < 0 {
            self.out.push(b'-');
        }
        push_digits(self.out, u128::from(value.unsigned_abs()), 0);
        self
    }

    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.raw(if value { b"true" } else { b"false" })
    }

    pub fn null(&mut self) -> &mut Self {
        self.raw(b"null")
    }

    /// Writes bytes that are JSON already.
    pub fn raw(&mut self, json: &[u8]) -> &mut Self {
        self.before_value();
        self.out.extend_from_slice(json);
        self
    }

    /// Writes a plain decimal at its own scale with at least one digit after the point. Clients
    /// tell prices from counters by it.
    pub fn decimal(&mut self, value: Decimal) -> &mut Self {
        self.before_value();
        if value.mantissa < 0 {
            self.out.push(b'-');
        }
        push_digits(self.out, value.mantissa.unsigned_abs(), usize::from(value.scale));
        if value.scale == 0 {
            self.out.extend_from_slice(b".0");
        }
        self
    }
}

fn must_be_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The digits `00` to `99`, so that one division yields two digits.
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut at = 0;
    while at < 100 {
        #[allow(clippy::cast_possible_truncation)]
        let (tens, ones) = ((at / 10) as u8, (at % 10) as u8);
        pairs[2 * at] = b'0' + tens;
        pairs[2 * at + 1] = b'0' + ones;
        at += 1;
    }
    pairs
};

/// Writes the digits of `value` with a point before the last `scale` of them.
#[allow(clippy::cast_possible_truncation)]
fn push_digits(out: &mut Vec<u8>, value: u128, scale: usize) {
    // Room for a u128 and for the zeros before a small one.
    let mut digits = [b'0'; 64];
    let mut at = digits.len();
    // Values of 64 bits, which are nearly all, are divided at half the width in a tenth of the
    // time.
    let mut wide = value;
    while wide > u128::from(u64::MAX) {
        at -= 1;
        digits[at] = b'0' + (wide % 10) as u8;
        wide /= 10;
    }
    let mut rest = wide as u64;
    while rest >= 10 {
        let pair = 2 * (rest % 100) as usize;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
        rest /= 100;
    }
    if rest > 0 {
        at -= 1;
        digits[at] = b'0' + rest as u8;
    }
    let point = digits.len() - scale;
    // At least one digit before the point.
    let first = at.min(point - 1);
    out.extend_from_slice(&digits[first..point]);
    if scale > 0 {
        out.push(b'.');
        out.extend_from_slice(&digits[point..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(fill: impl FnOnce(&mut Json<'_>)) -> String {
        let mut out = Vec::new();
        fill(&mut Json::new(&mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn decimals_are_plain_and_exact() {
        for (mantissa, scale, text) in [
            (319_999, 2, "3199.99"),
            (5, 2, "0.05"),
            (0, 2, "0.00"),
            (-5, 1, "-0.5"),
            (70, 0, "70.0"),
            (1, 18, "0.000000000000000001"),
            (i128::MAX, 0, "170141183460469231731687303715884105727.0"),
            (i128::from(u64::MAX), 0, "18446744073709551615.0"),
            (i128::from(u64::MAX) + 1, 0, "18446744073709551616.0"),
            (i128::from(u64::MAX) * 10 + 10, 20, "1.84467440737095516160"),
            (10, 1, "1.0"),
            (9, 0, "9.0"),
            (10, 0, "10.0"),
            (105, 0, "105.0"),
            (1_000_000, 0, "1000000.0"),
            (100, 4, "0.0100"),
            (99_900, 2, "999.00"),
        ] {
            let write = |j: &mut Json<'_>| {
                j.decimal(Decimal::new(mantissa, scale));
            };
            assert_eq!(written(write), text);
        }
    }

    #[test]
    fn digits_equal_those_of_the_standard_library() {
        let mut value = 1_u128;
        for step in 0..2_000_u128 {
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step) >> (step % 97);
            for near in [value, value.saturating_sub(1), 10_u128.pow((step % 39) as u32)] {
                let mut out = Vec::new();
                push_digits(&mut out, near, 0);
                assert_eq!(String::from_utf8(out).unwrap(), near.to_string());
            }
        }
    }

    #[test]
    fn nests_and_escapes() {
        let text = written(|j| {
            j.object(|j| {
                j.key("a").uint(0).key("b").array(|j| {
                    j.int(-1).string("q\"\\\n\u{1}é").null();
                });
                j.key("c").bool(true).key("d").object(|_| {}).key("e").quoted_uint(7);
            });
        });
        assert_eq!(text, r#"{"a":0,"b":[-1,"q\"\\\n\u0001é",null],"c":true,"d":{},"e":"7"}"#);
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    }
}
