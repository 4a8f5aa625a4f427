//! Labels: short texts that the engine stores but does not read.

/// A text of at most 64 bytes, for example a client's own label of an order. The engine does not
/// read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Label(Option<Box<str>>);

impl Label {
    pub const MAX_BYTES: usize = 64;
    pub const NONE: Label = Label(None);

    /// Returns `None` if the text is longer than [`Self::MAX_BYTES`].
    pub fn new(text: &str) -> Option<Label> {
        match text.len() {
            0 => Some(Label(None)),
            1..=Self::MAX_BYTES => Some(Label(Some(text.into()))),
            _ => None,
        }
    }

    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or("")
    }
}
