//! Storage for credentials that are made at run time.

use std::collections::BTreeSet;
use std::io;

use crate::auth::Credential;

/// Stores credentials for the next start. The server implements it with a sealed file.
pub trait CredentialStore {
    /// Replaces the stored credentials, and the client ids that were removed and stay removed. A
    /// new secret is shown to its owner only after this returns.
    ///
    /// # Errors
    ///
    /// Returns the I/O error; the previous credentials are then still stored.
    fn keep(&mut self, credentials: &[Credential], removed: &BTreeSet<String>) -> io::Result<()>;
}

/// Stores nothing: the credentials end with the process.
#[derive(Debug, Default)]
pub struct NoCredentialStore;

impl CredentialStore for NoCredentialStore {
    fn keep(&mut self, _: &[Credential], _: &BTreeSet<String>) -> io::Result<()> {
        Ok(())
    }
}
