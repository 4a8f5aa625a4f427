//! Fields, headers and frames of SBE. All fields are little endian.

use std::fmt;

use pitwire_model::Decimal;
use serde::{Serialize, Serializer};

/// Bytes of the Simple Open Framing Header: the length of the whole frame (u32, big endian), then
/// the encoding (u16, big endian).
pub const FRAME_HEADER_BYTES: usize = 6;
/// Encoding type of little-endian SBE 1.0 in the framing header.
const ENCODING: u16 = 0xEB50;
/// Bytes of the shortest message: its header alone.
const LEAST_MESSAGE_BYTES: usize = 8;

/// Why a frame is refused. The stream cannot be read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    Length { bytes: usize, limit: usize },
    Encoding { encoding: u16 },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = FRAME_HEADER_BYTES + LEAST_MESSAGE_BYTES;
        match self {
            FrameError::Length { bytes, limit } => write!(f, "frame of {bytes} bytes: expected {least} to {limit}"),
            FrameError::Encoding { encoding } => {
                write!(f, "frame with encoding type {encoding:#06x}: expected {ENCODING:#06x}")
            }
        }
    }
}

/// Returns the length of a whole frame in bytes.
///
/// # Errors
///
/// Fails if the encoding is not SBE, or if the length is below both headers or above `limit` bytes.
pub fn frame_length(header: [u8; FRAME_HEADER_BYTES], limit: usize) -> Result<usize, FrameError> {
    let [a, b, c, d, e, f] = header;
    let encoding = u16::from_be_bytes([e, f]);
    if encoding != ENCODING {
        return Err(FrameError::Encoding { encoding });
    }
    let bytes = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if (FRAME_HEADER_BYTES + LEAST_MESSAGE_BYTES..=limit).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(FrameError::Length { bytes, limit })
    }
}

/// Appends one frame to `out`. `message` appends the message header and the message.
#[inline]
pub(crate) fn write_frame(out: &mut Vec<u8>, message: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&ENCODING.to_be_bytes());
    message(out);
    let bytes = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&bytes.to_be_bytes());
}

/// Why a message in a whole frame is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    Schema {
        id: u16,
        expected: u16,
    },
    Version {
        version: u16,
        expected: u16,
    },
    Template {
        id: u16,
    },
    BlockLength {
        bytes: u16,
        expected: u16,
    },
    /// The message ends before its fields do.
    Short,
    /// Bytes follow the last field.
    Trailing {
        bytes: usize,
    },
    /// A field has a value that its type does not allow.
    Value {
        field: &'static str,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Schema { id, expected } => write!(f, "schema id {id}: expected {expected}"),
            DecodeError::Version { version, expected } => write!(f, "schema version {version}: expected {expected}"),
            DecodeError::Template { id } => write!(f, "template id {id} is not a message of the schema"),
            DecodeError::BlockLength { bytes, expected } => {
                write!(f, "block length {bytes}: expected {expected} bytes")
            }
            DecodeError::Short => f.write_str("the message ends before its last field"),
            DecodeError::Trailing { bytes } => write!(f, "{bytes} bytes follow the last field"),
            DecodeError::Value { field } => write!(f, "field {field} has a value outside its type"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// A field with a fixed size.
pub(crate) trait Field: Sized {
    const BYTES: usize;
    /// Writes the field into a place of `Self::BYTES` bytes.
    fn put(&self, place: &mut [u8]);
    /// Returns `None` if the type does not allow the value. `bytes` has `Self::BYTES` bytes.
    fn read(bytes: &[u8]) -> Option<Self>;
    /// Appends the field to `out`.
    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + Self::BYTES, 0);
        self.put(&mut out[start..]);
    }
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Field for $type {
            const BYTES: usize = size_of::<$type>();
            #[inline]
            fn put(&self, place: &mut [u8]) {
                place.copy_from_slice(&self.to_le_bytes());
            }
            #[inline]
            fn read(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(<$type>::from_le_bytes)
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, i8, i32, i64);

/// A long field on the heap, so that the other messages stay small.
impl<F: Field> Field for Box<F> {
    const BYTES: usize = F::BYTES;
    fn put(&self, place: &mut [u8]) {
        F::put(self, place);
    }
    fn read(bytes: &[u8]) -> Option<Self> {
        F::read(bytes).map(Box::new)
    }
}

/// A price or quantity: a whole number of units of 1e-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FixedDecimal(pub i64);

impl FixedDecimal {
    const DIGITS: u8 = 8;

    /// Converts a number exactly. Returns `None` if it has more than eight decimals or a value
    /// outside the type.
    pub fn of(number: Decimal) -> Option<FixedDecimal> {
        let units = number.in_steps_of(Decimal::new(1, Self::DIGITS))?;
        i64::try_from(units).ok().map(FixedDecimal)
    }

    /// Parses a number. Returns `None` if it is malformed, or as [`Self::of`].
    pub fn parse(text: &str) -> Option<FixedDecimal> {
        Self::of(Decimal::parse(text).ok()?)
    }

    /// Returns the number with as few decimals as it needs.
    pub fn decimal(self) -> Decimal {
        let (mut mantissa, mut scale) = (self.0, Self::DIGITS);
        while scale > 0 && mantissa % 10 == 0 {
            mantissa /= 10;
            scale -= 1;
        }
        Decimal::new(mantissa.into(), scale)
    }
}

impl fmt::Display for FixedDecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.decimal())
    }
}

/// As a text, so that each digit is kept.
impl Serialize for FixedDecimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The smallest mantissa stands for "no value".
impl Field for Option<FixedDecimal> {
    const BYTES: usize = 8;
    #[inline]
    fn put(&self, place: &mut [u8]) {
        self.map_or(i64::MIN, |decimal| decimal.0).put(place);
    }
    #[inline]
    fn read(bytes: &[u8]) -> Option<Self> {
        let mantissa = i64::read(bytes)?;
        Some((mantissa != i64::MIN).then_some(FixedDecimal(mantissa)))
    }
}

/// Copies a text into `N` bytes and fills the rest with `pad`. Cuts the text at the last character
/// that fits.
pub(crate) fn padded<const N: usize>(text: &str, pad: u8) -> [u8; N] {
    let mut bytes = [pad; N];
    let end = (0..=text.len().min(N)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
    bytes
}

/// Returns the text before the first NUL and the bytes behind it, or `None` if it is not UTF-8.
pub(crate) fn split_at_nul(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end..]))
}

/// UTF-8 text of at most `N` bytes, padded with NUL. Aligned, so that it is copied in whole words.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(align(8))]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// Copies a text. Cuts it at the last character that fits.
    pub fn new(text: &str) -> Self {
        Text(padded(text, 0))
    }

    pub fn as_str(&self) -> &str {
        split_at_nul(&self.0).map_or("", |(text, _)| text)
    }
}

impl<const N: usize> Serialize for Text<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Text([0; N])
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl<const N: usize> Field for Text<N> {
    const BYTES: usize = N;
    #[inline]
    fn put(&self, place: &mut [u8]) {
        place.copy_from_slice(&self.0);
    }
    #[inline(always)]
    fn read(bytes: &[u8]) -> Option<Self> {
        let text: &[u8; N] = bytes.try_into().ok()?;
        // Without branches and over a constant length, so that the compiler uses vectors.
        let behind_nul = text.iter().zip(&text[1..]).fold(0, |bits, (a, b)| bits | if *a == 0 { *b } else { 0 });
        let all = text.iter().fold(0, |bits, byte| bits | byte);
        (behind_nul == 0 && (all.is_ascii() || split_at_nul(text).is_some())).then_some(Text(*text))
    }
}

/// A part with its own length, behind the fixed block of a message.
pub(crate) trait Part: Sized {
    fn write(&self, out: &mut Vec<u8>);
    /// Reads the part at the start of `bytes`, and moves `bytes` behind it.
    fn read(bytes: &mut &[u8], field: &'static str) -> Result<Self, DecodeError>;
}

#[inline(always)]
pub(crate) fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], DecodeError> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or(DecodeError::Short)?;
    *bytes = rest;
    Ok(taken)
}

#[inline(always)]
pub(crate) fn take_field<F: Field>(bytes: &mut &[u8], field: &'static str) -> Result<F, DecodeError> {
    F::read(take(bytes, F::BYTES)?).ok_or(DecodeError::Value { field })
}

/// Variable text: a length (u16), then UTF-8.
impl Part for String {
    fn write(&self, out: &mut Vec<u8>) {
        let bytes = &self.as_bytes()[..self.len().min(usize::from(u16::MAX))];
        u16::try_from(bytes.len()).unwrap_or(u16::MAX).write(out);
        out.extend_from_slice(bytes);
    }
    fn read(bytes: &mut &[u8], field: &'static str) -> Result<Self, DecodeError> {
        let count: u16 = take_field(bytes, field)?;
        let text = take(bytes, usize::from(count))?;
        String::from_utf8(text.to_vec()).map_err(|_| DecodeError::Value { field })
    }
}

/// An integer in the header of a repeating group.
pub(crate) trait GroupInteger: Field + Copy {
    /// Converts a number, or returns the largest value if it does not fit.
    fn of(number: usize) -> Self;
    /// Returns `None` if the number does not fit into an address.
    fn number(self) -> Option<usize>;
}

macro_rules! group_integers {
    ($($type:ty),*) => {$(
        impl GroupInteger for $type {
            fn of(number: usize) -> Self {
                number.try_into().unwrap_or(<$type>::MAX)
            }
            fn number(self) -> Option<usize> {
                Some(usize::from(self))
            }
        }
    )*};
}
group_integers!(u8, u16);

impl GroupInteger for u32 {
    fn of(number: usize) -> Self {
        number.try_into().unwrap_or(u32::MAX)
    }
    fn number(self) -> Option<usize> {
        self.try_into().ok()
    }
}

/// An entry of a repeating group.
pub(crate) trait GroupEntry: Sized {
    const BYTES: usize;
    /// Type of the entry's block length in the group header.
    type Length: GroupInteger;
    /// Type of the number of entries in the group header.
    type Count: GroupInteger;
    fn write(&self, out: &mut Vec<u8>);
    fn read(bytes: &mut &[u8]) -> Result<Self, DecodeError>;
}

/// A repeating group: the block length of an entry, the number of entries, then the entries.
impl<E: GroupEntry> Part for Vec<E> {
    fn write(&self, out: &mut Vec<u8>) {
        let count = E::Count::of(self.len());
        E::Length::of(E::BYTES).write(out);
        count.write(out);
        for entry in self.iter().take(count.number().unwrap_or_default()) {
            entry.write(out);
        }
    }
    fn read(bytes: &mut &[u8], field: &'static str) -> Result<Self, DecodeError> {
        let entry_bytes: E::Length = take_field(bytes, field)?;
        let count: E::Count = take_field(bytes, field)?;
        let entry_bytes = entry_bytes.number().ok_or(DecodeError::Value { field })?;
        let count = count.number().ok_or(DecodeError::Value { field })?;
        if entry_bytes != E::BYTES {
            return Err(DecodeError::BlockLength { bytes: u16::of(entry_bytes), expected: u16::of(E::BYTES) });
        }
        // The count comes from the peer, so check it against the bytes before reserving memory.
        if count.checked_mul(entry_bytes).is_none_or(|all| bytes.len() < all) {
            return Err(DecodeError::Short);
        }
        (0..count).map(|_| E::read(bytes)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_keeps_every_digit() {
        for (text, mantissa, shown) in [
            ("3200.00", 320_000_000_000, "3200"),
            ("0.0001", 10_000, "0.0001"),
            ("-1.5", -150_000_000, "-1.5"),
            ("0", 0, "0"),
            ("92233720368.54775807", i64::MAX, "92233720368.54775807"),
        ] {
            assert_eq!(FixedDecimal::parse(text), Some(FixedDecimal(mantissa)), "{text}");
            assert_eq!(FixedDecimal(mantissa).to_string(), shown);
        }
        for text in ["", ".5", "1e-9", "0.000000001", "92233720368.54775808", "1.2.3", "market_price"] {
            assert_eq!(FixedDecimal::parse(text), None, "{text}");
        }
    }

    #[test]
    fn text_is_cut_at_a_character() {
        assert_eq!(Text::<4>::new("abcdef").as_str(), "abcd");
        assert_eq!(Text::<4>::new("abcé").as_str(), "abc");
    }

    #[test]
    fn text_with_bytes_after_its_end_is_refused() {
        assert!(Text::<4>::read(b"ab\0\0").is_some());
        assert!(Text::<4>::read(b"a\0b\0").is_none());
        assert!(Text::<4>::read(b"\xff\0\0\0").is_none());
        // Every text of four bytes with ends, letters and parts of a character.
        let alphabet = [0, b'a', 0xC3, 0xA9];
        for number in 0..256 {
            let bytes = [0, 2, 4, 6].map(|shift| alphabet[(number >> shift) & 3]);
            let allowed = split_at_nul(&bytes).is_some_and(|(_, rest)| rest.iter().all(|byte| *byte == 0));
            assert_eq!(Text::<4>::read(&bytes).is_some(), allowed, "{bytes:?}");
        }
    }
}
