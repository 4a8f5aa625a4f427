//! Messages of an SBE schema from a table: the types, and their encoders and decoders.

use crate::codec::DecodeError;

/// Length of a block that the table defines, in bytes. Every block has less than 1,000 bytes.
#[expect(clippy::cast_possible_truncation, reason = "the assertion bounds the value")]
pub(crate) const fn block_bytes(bytes: usize) -> u16 {
    assert!(bytes < 1000, "the block is too long");
    bytes as u16
}

/// Template id, name, the fields with their sizes in bytes, and the parts behind the block.
#[cfg(test)]
pub(crate) type Layout = (u16, &'static str, &'static [(&'static str, usize)], &'static [&'static str]);

/// The header words in front of the fields, little endian: block length, template id, schema id and
/// version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderWords {
    pub block: u16,
    pub template: u16,
}

impl HeaderWords {
    #[inline]
    pub fn write(self, out: &mut Vec<u8>, schema: u16, version: u16) {
        let [a, b, c, d] = [self.block, self.template, schema, version].map(u16::to_le_bytes);
        out.extend_from_slice(&[a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]]);
    }

    /// Reads the words at the start of `bytes`, and moves `bytes` behind them.
    ///
    /// # Errors
    ///
    /// Fails if the schema or the version is another one.
    #[inline]
    pub fn read(bytes: &mut &[u8], schema: u16, version: u16) -> Result<Self, DecodeError> {
        let mut word = || crate::codec::take_field::<u16>(bytes, "header");
        let (block, template, of_schema, of_version) = (word()?, word()?, word()?, word()?);
        if of_schema != schema {
            return Err(DecodeError::Schema { id: of_schema, expected: schema });
        }
        if of_version != version {
            return Err(DecodeError::Version { version: of_version, expected: version });
        }
        Ok(HeaderWords { block, template })
    }
}

/// Defines enumerations of one byte.
macro_rules! enums {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident = $value:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
        #[repr(u8)]
        pub enum $name { $($variant = $value),* }

        impl $crate::codec::Field for $name {
            const BYTES: usize = 1;
            #[inline]
            fn put(&self, place: &mut [u8]) {
                $crate::codec::Field::put(&(*self as u8), place);
            }
            #[inline]
            fn read(bytes: &[u8]) -> Option<Self> {
                match bytes {
                    $([$value] => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
    )*};
}
pub(crate) use enums;

/// Defines messages, and an enumeration of all of them. A `+` precedes the parts behind the block.
macro_rules! messages {
    ($(#[$all_doc:meta])* enum $all:ident; $($(#[$doc:meta])* $name:ident = $id:literal {
        $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)?
    } $(+ { $($part:ident: $part_type:ty),* })?)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
            pub struct $name { $($(#[$field_doc])* pub $field: $type,)* $($(pub $part: $part_type,)*)? }
        )*

        $(#[$all_doc])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
        #[serde(untagged)]
        pub enum $all { $($name($name)),* }

        $(impl From<$name> for $all {
            fn from(message: $name) -> Self {
                $all::$name(message)
            }
        })*

        impl $all {
            #[cfg(test)]
            pub(crate) const LAYOUTS: &[$crate::schema::Layout] = &[$((
                $id,
                stringify!($name),
                &[$((stringify!($field), <$type as $crate::codec::Field>::BYTES)),*],
                &[$($(stringify!($part)),*)?],
            )),*];

            pub fn template_id(&self) -> u16 {
                match self { $($all::$name(_) => $id),* }
            }

            pub fn name(&self) -> &'static str {
                match self { $($all::$name(_) => stringify!($name)),* }
            }

            /// Returns the template id and the length of the block.
            pub(crate) fn header_words(&self) -> $crate::schema::HeaderWords {
                match self {
                    $($all::$name(_) => {
                        const BLOCK: u16 =
                            $crate::schema::block_bytes(0 $(+ <$type as $crate::codec::Field>::BYTES)*);
                        $crate::schema::HeaderWords { block: BLOCK, template: $id }
                    })*
                }
            }

            /// Appends the fields.
            pub(crate) fn write_fields(&self, out: &mut Vec<u8>) {
                match self {
                    $($all::$name(message) => {
                        const BYTES: usize = 0 $(+ <$type as $crate::codec::Field>::BYTES)*;
                        // All places are constants, so no write needs a check of its bounds.
                        let mut block = [0; BYTES];
                        let mut rest = block.as_mut_slice();
                        $(
                            let (place, after) = rest.split_at_mut(<$type as $crate::codec::Field>::BYTES);
                            $crate::codec::Field::put(&message.$field, place);
                            rest = after;
                        )*
                        debug_assert!(rest.is_empty(), "the block has a place for each field");
                        out.extend_from_slice(&block);
                        $($($crate::codec::Part::write(&message.$part, out);)*)?
                    })*
                }
            }

            /// Reads the fields of a whole message.
            pub(crate) fn read_fields(
                words: $crate::schema::HeaderWords,
                mut bytes: &[u8],
            ) -> Result<Self, $crate::codec::DecodeError> {
                use $crate::codec::DecodeError;
                match words.template {
                    $($id => {
                        const BYTES: usize = 0 $(+ <$type as $crate::codec::Field>::BYTES)*;
                        const BLOCK: u16 = $crate::schema::block_bytes(BYTES);
                        if words.block != BLOCK {
                            return Err(DecodeError::BlockLength { bytes: words.block, expected: BLOCK });
                        }
                        // One check of the bounds for all fields.
                        let (block, rest) = bytes.split_first_chunk::<BYTES>().ok_or(DecodeError::Short)?;
                        let mut block = block.as_slice();
                        bytes = rest;
                        // The message is put together at its final place.
                        $(let $field = $crate::codec::take_field(&mut block, stringify!($field))?;)*
                        $($(let $part = $crate::codec::Part::read(&mut bytes, stringify!($part))?;)*)?
                        if !bytes.is_empty() {
                            return Err(DecodeError::Trailing { bytes: bytes.len() });
                        }
                        Ok($all::$name($name { $($field,)* $($($part,)*)? }))
                    })*
                    id => Err(DecodeError::Template { id }),
                }
            }
        }
    };
}
pub(crate) use messages;
