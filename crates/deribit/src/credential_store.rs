//! Where credentials made at run time are kept.

use std::io;

use crate::auth::Credential;

/// Keeps credentials for the next start, sealed. The host has the file; the desk only says what there is.
pub trait CredentialStore {
    /// Replaces what is kept. Nothing is shown to anyone before this has returned.
    fn keep(&mut self, credentials: &[Credential]) -> io::Result<()>;
}

/// For a venue that forgets everything at its end.
#[derive(Debug, Default)]
pub struct NoCredentialStore;

impl CredentialStore for NoCredentialStore {
    fn keep(&mut self, _: &[Credential]) -> io::Result<()> {
        Ok(())
    }
}
