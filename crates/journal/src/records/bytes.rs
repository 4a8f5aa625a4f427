//! Little-endian numbers, flags and texts, written to a vector and read back with every bound
//! checked.
//!
//! Does        give each codec of this crate the same few functions.
//! Holds       reading past the end is an error with its position; memory is only allocated for
//!             bytes that exist.
//! Layout      integers are little-endian in their own width; flags are one byte, 0 or 1; a text is
//!             a u16 count of bytes and then UTF-8; a list is a u32 count and then its items.

use std::fmt;

/// Why bytes cannot be decoded. `at` counts from the start of the given slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end too early.
    Truncated { at: usize },
    /// A kind or code that this version does not know.
    UnknownTag { what: &'static str, tag: u32, at: usize },
    /// Not UTF-8.
    BadText { at: usize },
    /// A value that no encoder of this version writes.
    BadValue { what: &'static str, at: usize },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Truncated { at } => write!(f, "the bytes end at {at} where more were promised"),
            DecodeError::UnknownTag { what, tag, at } => write!(f, "unknown {what} {tag} at byte {at}"),
            DecodeError::BadText { at } => write!(f, "text at byte {at} is not UTF-8"),
            DecodeError::BadValue { what, at } => write!(f, "impossible {what} at byte {at}"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Appends to a vector that the caller owns and reuses.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

/// Reads a slice from front to back.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

macro_rules! integers {
    ($($put:ident $take:ident $int:ty;)*) => {
        impl Writer<'_> {
            $(#[inline]
            pub fn $put(&mut self, value: $int) {
                self.out.extend_from_slice(&value.to_le_bytes());
            })*
        }

        impl Reader<'_> {
            $(#[doc = concat!("Reads a little-endian `", stringify!($int), "`.")]
            ///
            /// # Errors
            /// Returns an error if the record ends before the integer does.
            #[inline]
            pub fn $take(&mut self) -> Result<$int, DecodeError> {
                Ok(<$int>::from_le_bytes(self.take_array()?))
            })*
        }
    };
}

integers! {
    put_u8 take_u8 u8;
    put_u16 take_u16 u16;
    put_u32 take_u32 u32;
    put_u64 take_u64 u64;
    put_i64 take_i64 i64;
    put_i128 take_i128 i128;
    put_u128 take_u128 u128;
}

impl<'a> Writer<'a> {
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Bytes in the vector, including those before this writer.
    pub fn position(&self) -> usize {
        self.out.len()
    }

    pub fn put_bool(&mut self, value: bool) {
        self.put_u8(u8::from(value));
    }

    /// Appends bytes without a count.
    #[inline]
    pub fn put_raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends a text of at most 65,535 bytes. A longer text gets a count that contradicts it, so
    /// that no reader accepts it. Callers check beforehand with [`crate::records::fits`].
    pub fn put_text(&mut self, text: &str) {
        self.put_u16(u16::try_from(text.len()).unwrap_or(u16::MAX));
        self.put_raw(text.as_bytes());
    }

    /// Appends the number of items that follow.
    pub fn put_count(&mut self, count: usize) {
        self.put_u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// Overwrites four bytes written earlier, for a length that is known only afterwards.
    pub fn set_u32(&mut self, position: usize, value: u32) {
        if let Some(place) = self.out.get_mut(position..position + 4) {
            place.copy_from_slice(&value.to_le_bytes());
        }
    }
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Number of bytes already read.
    pub fn position(&self) -> usize {
        self.at
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// Reads `count` bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if fewer bytes remain.
    #[inline]
    pub fn take_raw(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.at.checked_add(count).ok_or(DecodeError::Truncated { at: self.bytes.len() })?;
        let taken = self.bytes.get(self.at..end).ok_or(DecodeError::Truncated { at: self.bytes.len() })?;
        self.at = end;
        Ok(taken)
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if fewer bytes remain.
    #[inline]
    pub fn take_array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let taken = self.take_raw(N)?;
        <[u8; N]>::try_from(taken).map_err(|_| DecodeError::Truncated { at: self.at })
    }

    /// Reads a flag: one byte, 0 or 1.
    ///
    /// # Errors
    ///
    /// Returns an error for another value, or if no byte remains.
    pub fn take_bool(&mut self) -> Result<bool, DecodeError> {
        let at = self.at;
        match self.take_u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::BadValue { what: "flag", at }),
        }
    }

    /// Reads a text: its length in two bytes, then UTF-8.
    ///
    /// # Errors
    ///
    /// Returns an error if fewer bytes remain or the text is not UTF-8.
    pub fn take_text(&mut self) -> Result<&'a str, DecodeError> {
        let count = usize::from(self.take_u16()?);
        let at = self.at;
        std::str::from_utf8(self.take_raw(count)?).map_err(|_| DecodeError::BadText { at })
    }

    /// Reads the number of items that follow. A count is refused if the rest cannot hold that many
    /// items of at least `item_bytes` each, so the memory reserved for them is bounded by the
    /// input.
    ///
    /// # Errors
    ///
    /// Returns an error for a count that cannot be right, or if fewer than four bytes remain.
    pub fn take_count(&mut self, item_bytes: usize) -> Result<usize, DecodeError> {
        let at = self.at;
        let count = self.take_u32()?;
        let count = usize::try_from(count).map_err(|_| DecodeError::BadValue { what: "count", at })?;
        match count.checked_mul(item_bytes.max(1)) {
            Some(needed) if needed <= self.remaining() => Ok(count),
            _ => Err(DecodeError::Truncated { at: self.bytes.len() }),
        }
    }

    /// Refuses remaining bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if bytes remain.
    pub fn finish(self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            _ => Err(DecodeError::BadValue { what: "bytes after the end", at: self.at }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_beyond_the_input_is_refused_before_anything_is_reserved() {
        let mut bytes = Vec::new();
        Writer::new(&mut bytes).put_u32(u32::MAX);
        bytes.extend_from_slice(&[0; 64]);
        assert_eq!(Reader::new(&bytes).take_count(8), Err(DecodeError::Truncated { at: 68 }));
        let mut nine = vec![8, 0, 0, 0];
        nine.extend_from_slice(&[0; 64]);
        assert_eq!(Reader::new(&nine).take_count(8), Ok(8));
        assert!(Reader::new(&nine).take_count(9).is_err());
    }

    #[test]
    fn a_flag_is_zero_or_one() {
        assert_eq!(Reader::new(&[1]).take_bool(), Ok(true));
        assert_eq!(Reader::new(&[2]).take_bool(), Err(DecodeError::BadValue { what: "flag", at: 0 }));
    }

    #[test]
    fn bytes_after_the_value_are_refused() {
        let mut reader = Reader::new(&[1, 2]);
        assert_eq!(reader.take_u8(), Ok(1));
        assert_eq!(reader.finish(), Err(DecodeError::BadValue { what: "bytes after the end", at: 1 }));
    }
}
