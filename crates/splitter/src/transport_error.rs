//! Errors of a transport, with their remedies.

/// An error with its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportError {
    pub what: String,
    pub remedy: String,
}

impl TransportError {
    pub(crate) fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }
}

impl std::fmt::Display for TransportError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}; {}", self.what, self.remedy)
    }
}

impl std::error::Error for TransportError {}

impl From<TransportError> for pitwire_failure::Failure {
    fn from(error: TransportError) -> Self {
        pitwire_failure::Failure::new(error.what).remedy(error.remedy)
    }
}

impl From<pitwire_failure::Failure> for TransportError {
    fn from(failure: pitwire_failure::Failure) -> Self {
        let (what, remedy) = failure.into_parts();
        TransportError::new(what, remedy.unwrap_or_default())
    }
}
