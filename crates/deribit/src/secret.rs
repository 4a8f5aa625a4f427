//! A secret text that is never logged, is wiped from memory when dropped, and is compared in
//! constant time.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// The text can be recovered, because it is the key of a signature.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub(crate) fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }

    /// Returns the text, to be shown to its owner.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the key for signatures.
    pub(crate) fn key(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Secret(Zeroizing::new(text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret(withheld)")
    }
}
