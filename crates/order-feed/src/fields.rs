//! The types of fields in MITCH messages. All numbers are little endian.
//!
//! Holds       a field is written in exactly [`MitchField::BYTES`] bytes.

use pitwire_model::Decimal;

/// How a field is shown. The dissector and the table in `docs/order-feed.md` use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    Unsigned,
    /// A signed number with eight decimals.
    Price,
    /// One ASCII character.
    Letter,
    /// ASCII text, padded with spaces.
    Text,
    /// Written as zeros and not read.
    FillerBytes,
}

/// The content of a field, for output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    Unsigned(u64),
    Decimal(Decimal),
    Text(String),
}

pub trait MitchField: Sized {
    const BYTES: usize;
    const KIND: FieldKind;

    /// Returns the content; `None` for bytes that the format does not use.
    fn value(&self) -> Option<FieldValue>;

    fn write(&self, out: &mut Vec<u8>);

    /// Takes the field from the front of `bytes`. `None` if there are too few.
    fn read(bytes: &mut &[u8]) -> Option<Self>;
}

pub(crate) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (field, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*field)
}

macro_rules! unsigned {
    ($($type:ty),*) => {$(
        impl MitchField for $type {
            const BYTES: usize = size_of::<$type>();
            const KIND: FieldKind = FieldKind::Unsigned;

            fn value(&self) -> Option<FieldValue> {
                Some(FieldValue::Unsigned(u64::from(*self)))
            }

            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn read(bytes: &mut &[u8]) -> Option<Self> {
                take(bytes).map(<$type>::from_le_bytes)
            }
        }
    )*};
}

unsigned!(u8, u16, u32, u64);

/// A price, or another number with eight decimals, in units of 1e-8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MitchPrice(pub i64);

impl MitchPrice {
    const DECIMALS: u8 = 8;

    /// Converts a number. `None` if it has more than eight decimals or does not fit.
    pub fn of(number: Decimal) -> Option<MitchPrice> {
        number.rescaled(Self::DECIMALS).and_then(|units| i64::try_from(units).ok()).map(MitchPrice)
    }

    pub fn decimal(self) -> Decimal {
        Decimal::new(i128::from(self.0), Self::DECIMALS)
    }
}

impl MitchField for MitchPrice {
    const BYTES: usize = 8;
    const KIND: FieldKind = FieldKind::Price;

    fn value(&self) -> Option<FieldValue> {
        Some(FieldValue::Decimal(self.decimal()))
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        take(bytes).map(i64::from_le_bytes).map(MitchPrice)
    }
}

/// One ASCII character; a space means "none".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Letter(pub u8);

impl Default for Letter {
    fn default() -> Self {
        Letter(b' ')
    }
}

impl MitchField for Letter {
    const BYTES: usize = 1;
    const KIND: FieldKind = FieldKind::Letter;

    fn value(&self) -> Option<FieldValue> {
        Alpha([self.0]).value()
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.0);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        take(bytes).map(|[letter]| Letter(letter))
    }
}

/// ASCII text of `N` bytes, padded with spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alpha<const N: usize>(pub [u8; N]);

impl<const N: usize> Alpha<N> {
    /// Converts a text: keeps its first `N` bytes, and writes `?` for characters beyond ASCII.
    pub fn new(text: &str) -> Self {
        let mut field = [b' '; N];
        for (byte, character) in field.iter_mut().zip(text.chars()) {
            *byte = u8::try_from(character).ok().filter(|byte| (b' '..=b'~').contains(byte)).unwrap_or(b'?');
        }
        Alpha(field)
    }

    /// Returns the text without its padding, with `?` for bytes that are not printable ASCII.
    pub fn text(&self) -> String {
        let printable = |byte: &u8| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '?' };
        self.0.iter().map(printable).collect::<String>().trim_end().to_owned()
    }
}

impl<const N: usize> Default for Alpha<N> {
    fn default() -> Self {
        Alpha([b' '; N])
    }
}

impl<const N: usize> MitchField for Alpha<N> {
    const BYTES: usize = N;
    const KIND: FieldKind = FieldKind::Text;

    fn value(&self) -> Option<FieldValue> {
        Some(FieldValue::Text(self.text()))
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        take(bytes).map(Alpha)
    }
}

/// `N` bytes of the format that this feed does not use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FillerBytes<const N: usize>;

impl<const N: usize> MitchField for FillerBytes<N> {
    const BYTES: usize = N;
    const KIND: FieldKind = FieldKind::FillerBytes;

    fn value(&self) -> Option<FieldValue> {
        None
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0; N]);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        take::<N>(bytes).map(|_| FillerBytes)
    }
}
