//! Checks the UTF-8 of a message that arrives in pieces.
//!
//! Does        Remembers the start of a character that was split, and rejects it at its first wrong
//!             byte.
//! Start at    [`Utf8::check`].

/// How much of a piece is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidPart {
    Whole,
    /// The text is invalid at this offset. Nothing from there on may be used.
    Until(usize),
}

#[derive(Debug, Default)]
pub struct Utf8 {
    /// The first bytes of a character that is incomplete.
    begun: [u8; 4],
    begun_bytes: usize,
}

impl Utf8 {
    pub fn restart(&mut self) {
        self.begun_bytes = 0;
    }

    pub fn is_mid_character(&self) -> bool {
        self.begun_bytes > 0
    }

    /// Checks whether the message continues as UTF-8 with `piece`.
    #[inline]
    pub fn check(&mut self, piece: &[u8]) -> ValidPart {
        let mut at = 0;
        while self.begun_bytes > 0 {
            let Some(byte) = piece.get(at) else { return ValidPart::Whole };
            self.begun[self.begun_bytes] = *byte;
            match std::str::from_utf8(&self.begun[..=self.begun_bytes]) {
                Ok(_) => self.begun_bytes = 0,
                Err(error) if error.error_len().is_none() => self.begun_bytes += 1,
                Err(_) => return ValidPart::Until(at),
            }
            at += 1;
        }
        match std::str::from_utf8(&piece[at..]) {
            Ok(_) => ValidPart::Whole,
            Err(error) if error.error_len().is_some() => ValidPart::Until(at + error.valid_up_to()),
            Err(error) => {
                let rest = &piece[at + error.valid_up_to()..];
                self.begun[..rest.len()].copy_from_slice(rest);
                self.begun_bytes = rest.len();
                ValidPart::Whole
            }
        }
    }
}
