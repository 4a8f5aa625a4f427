//! A text that nobody may see: not in a log, not in a dump of freed memory, not by timing.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Recoverable, because it is the key of a signature; wiped when dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub(crate) fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }

    /// For showing it to whom it belongs.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The key of a signature.
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
