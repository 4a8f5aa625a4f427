//! Enums whose variants have a stable code and a name.

/// Defines an enum of variants without fields. Each has a code, which the journal stores, and a
/// name, which rules, scenarios and messages use.
macro_rules! coded_enum {
    ($(#[$attribute:meta])* $enum:ident {
        $($(#[$doc:meta])* $variant:ident = $code:literal, $name:literal;)*
    }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $enum { $($(#[$doc])* $variant = $code,)* }

        impl $enum {
            /// All variants, in the order of their definition.
            pub const ALL: [$enum; [$($enum::$variant),*].len()] = [$($enum::$variant),*];

            pub const fn name(self) -> &'static str {
                match self { $($enum::$variant => $name,)* }
            }
        }
    };
}

pub(crate) use coded_enum;
