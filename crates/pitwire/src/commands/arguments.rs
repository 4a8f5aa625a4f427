//! Options that several commands share.

use std::path::{Path, PathBuf};

use clap::Args;

/// The certificate of a TLS listener, in files.
#[derive(Args)]
pub struct CertificateFiles {
    /// Certificate chain of the server, PEM, its own certificate first.
    #[arg(long, value_name = "FILE", requires = "tls", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "tls", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl CertificateFiles {
    /// Returns the files of the chain and of the key, if they were given.
    pub fn pair(&self) -> Option<(&Path, &Path)> {
        self.tls_cert.as_deref().zip(self.tls_key.as_deref())
    }
}
