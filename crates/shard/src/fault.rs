//! Invalid content of a ring or a stream, which no splitter writes.

/// The error in a ring or a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingFault {
    /// The header does not begin with `PWRING01`.
    NotARing,
    /// The version is unknown, or needs another way to open it.
    Version { found: u32 },
    /// The capacity is not a power of two, or does not fit the memory.
    Layout,
    /// Head and tail contradict each other.
    Positions { head: u64, tail: u64 },
    /// A record exceeds the space where it begins.
    Length { found: u32, at: u64 },
}

impl std::fmt::Display for RingFault {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotARing => write!(out, "not a ring: it does not begin with PWRING01"),
            Self::Version { found } => write!(out, "a ring of version {found}, which this reader does not know here"),
            Self::Layout => write!(out, "the ring's header gives a capacity that its memory does not have"),
            Self::Positions { head, tail } => write!(out, "head {head} and tail {tail} do not fit together"),
            Self::Length { found, at } => write!(out, "a record of {found} bytes at position {at} leaves its place"),
        }
    }
}

impl std::error::Error for RingFault {}

impl RingFault {
    /// Returns what to do about it, in one sentence.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::NotARing | Self::Layout => "give the names that `pitwire split` appended, nothing else",
            Self::Version { .. } => "use the reader that came with this splitter",
            Self::Positions { .. } | Self::Length { .. } => {
                "start splitter and workers again; something else wrote here"
            }
        }
    }
}
