//! Writes digits, quoted decimals and JSON pieces directly into a byte buffer.
//!
//! Does        Writes the values of the three dialects: plain decimals in quotes, whole numbers
//!             without.
//! Holds       No floats are used. A decimal is exact, with at least the requested number of
//!             places.
//! Leaves out  Escaping, except in [`string`]: everything else is our own name or number.
//! Start at    [`fixed`].

use pitwire_model::Decimal;

/// Decimals of every price and quantity in the Binance dialect.
pub(crate) const PLACES: u8 = 8;

pub(crate) fn uint(out: &mut Vec<u8>, value: u64) {
    digits(out, u128::from(value), 0);
}

/// Writes a quoted decimal with at least `places` decimals: `"3199.99000000"`.
pub(crate) fn fixed(out: &mut Vec<u8>, value: Decimal, places: u8) {
    out.push(b'"');
    fixed_bare(out, value, places);
    out.push(b'"');
}

pub(crate) fn fixed_bare(out: &mut Vec<u8>, value: Decimal, places: u8) {
    if value.mantissa < 0 {
        out.push(b'-');
    }
    digits(out, value.mantissa.unsigned_abs(), usize::from(value.scale));
    if value.scale < places {
        if value.scale == 0 {
            out.push(b'.');
        }
        out.extend(std::iter::repeat_n(b'0', usize::from(places - value.scale)));
    }
}

/// Writes the shortest quoted decimal: `"15.5"`, `"0"`.
pub(crate) fn short(out: &mut Vec<u8>, value: Decimal) {
    let Decimal { mut mantissa, mut scale } = value;
    while scale > 0 && mantissa % 10 == 0 {
        mantissa /= 10;
        scale -= 1;
    }
    fixed(out, Decimal::new(mantissa, scale), 0);
}

/// Writes digits with a point before the last `scale` of them.
fn digits(out: &mut Vec<u8>, value: u128, scale: usize) {
    // A u128 has at most 39 digits; a scale is at most a u8.
    let mut buffer = [b'0'; 304];
    let (mut at, mut wide) = (buffer.len(), value);
    while wide > u128::from(u64::MAX) {
        at -= 1;
        buffer[at] = digit(wide % 10);
        wide /= 10;
    }
    let mut rest = u64::try_from(wide).unwrap_or(u64::MAX);
    while rest > 0 {
        at -= 1;
        buffer[at] = digit(u128::from(rest % 10));
        rest /= 10;
    }
    let point = buffer.len() - scale;
    out.extend_from_slice(&buffer[at.min(point - 1)..point]);
    if scale > 0 {
        out.push(b'.');
        out.extend_from_slice(&buffer[point..]);
    }
}

fn digit(value: u128) -> u8 {
    b'0' + u8::try_from(value).unwrap_or(0)
}

/// Writes text from outside, quoted and escaped.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    // Serialising a str cannot fail.
    out.extend_from_slice(serde_json::to_string(text).unwrap_or_default().as_bytes());
}

/// Writes `items` separated by commas.
pub(crate) fn list<T>(out: &mut Vec<u8>, items: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Vec<u8>, T)) {
    let mut is_first = true;
    for item in items {
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        write(out, item);
    }
}

/// Appends literals and calls in one line: `put!(out, b"\"p\":", fixed(price, 8), b",")`.
macro_rules! put {
    ($out:expr $(, $piece:expr)* $(,)?) => {{ $( $crate::text::Piece::put($piece, $out); )* }};
}
pub(crate) use put;

/// A value that [`put`] accepts.
pub(crate) trait Piece {
    fn put(self, out: &mut Vec<u8>);
}

impl Piece for &str {
    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl Piece for &String {
    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl Piece for u64 {
    fn put(self, out: &mut Vec<u8>) {
        uint(out, self);
    }
}

impl Piece for bool {
    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self { b"true" } else { b"false" });
    }
}

/// A quoted decimal with eight places, as everywhere in the Binance dialect.
pub(crate) struct EightPlaces(pub Decimal);

impl Piece for EightPlaces {
    fn put(self, out: &mut Vec<u8>) {
        fixed(out, self.0, PLACES);
    }
}

/// The shortest quoted decimal.
pub(crate) struct ShortestDecimal(pub Decimal);

impl Piece for ShortestDecimal {
    fn put(self, out: &mut Vec<u8>) {
        short(out, self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_have_the_requested_places_and_lose_none() {
        for (mantissa, scale, eight, brief) in [
            (319_999, 2, "\"3199.99000000\"", "\"3199.99\""),
            (4, 0, "\"4.00000000\"", "\"4\""),
            (0, 0, "\"0.00000000\"", "\"0\""),
            (0, 4, "\"0.00000000\"", "\"0\""),
            (-5, 2, "\"-0.05000000\"", "\"-0.05\""),
            (15_500, 3, "\"15.50000000\"", "\"15.5\""),
            (1, 10, "\"0.0000000001\"", "\"0.0000000001\""),
            (
                123_456_789_012_345_678_901_234_567,
                8,
                "\"1234567890123456789.01234567\"",
                "\"1234567890123456789.01234567\"",
            ),
        ] {
            let (mut wide, mut narrow) = (Vec::new(), Vec::new());
            fixed(&mut wide, Decimal::new(mantissa, scale), PLACES);
            short(&mut narrow, Decimal::new(mantissa, scale));
            assert_eq!(
                (String::from_utf8(wide).unwrap().as_str(), String::from_utf8(narrow).unwrap().as_str()),
                (eight, brief)
            );
        }
        let mut out = Vec::new();
        put!(&mut out, "{\"t\":", 0, ",\"u\":", u64::MAX, ",\"m\":", true, "}");
        assert_eq!(String::from_utf8(out).unwrap(), "{\"t\":0,\"u\":18446744073709551615,\"m\":true}");
    }
}
