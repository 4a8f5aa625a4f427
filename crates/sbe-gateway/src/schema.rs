//! Messages of an SBE schema from a table: the types, and their encoders and decoders.

use crate::codec::{DecodeError, Field};

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
    pub fn write(self, out: &mut Vec<u8>, schema: u16, version: u16) {
        for word in [self.block, self.template, schema, version] {
            word.write(out);
        }
    }

    /// Reads the words at the start of `bytes`, and moves `bytes` behind them.
    ///
    /// # Errors
    ///
    /// Fails if the schema or the version is another one.
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
            fn write(&self, out: &mut Vec<u8>) {
                out.push(*self as u8);
            }
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
                        $($crate::codec::Field::write(&message.$field, out);)*
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
                let message = match words.template {
                    $($id => {
                        const BLOCK: u16 =
                            $crate::schema::block_bytes(0 $(+ <$type as $crate::codec::Field>::BYTES)*);
                        if words.block != BLOCK {
                            return Err(DecodeError::BlockLength { bytes: words.block, expected: BLOCK });
                        }
                        $all::$name($name {
                            $($field: $crate::codec::take_field(&mut bytes, stringify!($field))?,)*
                            $($($part: $crate::codec::Part::read(&mut bytes, stringify!($part))?,)*)?
                        })
                    })*
                    id => return Err(DecodeError::Template { id }),
                };
                if bytes.is_empty() { Ok(message) } else { Err(DecodeError::Trailing { bytes: bytes.len() }) }
            }
        }
    };
}
pub(crate) use messages;
