//! The ready file of a server: one JSON object, written atomically once the server serves.
//!
//! Holds       a file of an earlier run is removed first, so that no reader mistakes it for the
//!             file of this run.
//! Start at    [`ReadyFile::prepare`].

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use pitwire_failure::Failure;
use serde_json::{Value, json};

/// The file that `--ready-file` names, if it does.
#[derive(Clone)]
pub struct ReadyFile(Option<PathBuf>);

impl ReadyFile {
    /// Removes the file of an earlier run and checks that a new one can be written.
    ///
    /// # Errors
    ///
    /// Returns a failure that names the file if it cannot be removed or written.
    pub fn prepare(path: Option<PathBuf>) -> Result<ReadyFile, Failure> {
        let file = ReadyFile(path);
        file.remove()?;
        if let Some(path) = &file.0 {
            let temporary = temporary(path);
            fs::write(&temporary, "")
                .and_then(|()| fs::remove_file(&temporary))
                .map_err(|error| cannot("write", path, &error))?;
        }
        Ok(file)
    }

    /// Writes an object with these fields and `pid`, the process id.
    ///
    /// # Errors
    ///
    /// Returns a failure that names the file if it cannot be written.
    pub fn write(&self, mut fields: Value) -> Result<(), Failure> {
        let Some(path) = &self.0 else { return Ok(()) };
        fields["pid"] = std::process::id().into();
        let temporary = temporary(path);
        let written = fs::write(&temporary, format!("{fields}\n")).and_then(|()| fs::rename(&temporary, path));
        written.map_err(|error| cannot("write", path, &error))
    }

    /// Removes the file, at the end of the run.
    ///
    /// # Errors
    ///
    /// Returns a failure that names the file if it exists and cannot be removed.
    pub fn remove(&self) -> Result<(), Failure> {
        let Some(path) = &self.0 else { return Ok(()) };
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(cannot("remove", path, &error)),
            _ => Ok(()),
        }
    }
}

/// Addresses at which a server can be reached.
pub struct ServedAt {
    pub http: SocketAddr,
    /// The TLS address, and the certificate authority's file if this run uses its own authority.
    pub tls: Option<(SocketAddr, Option<PathBuf>)>,
}

impl ServedAt {
    /// Returns the fields `http` and, if they apply, `tls` and `ca`.
    pub fn fields(&self) -> Value {
        let mut fields = json!({ "http": self.http.to_string() });
        if let Some((address, authority)) = &self.tls {
            fields["tls"] = address.to_string().into();
            if let Some(authority) = authority {
                fields["ca"] = authority.display().to_string().into();
            }
        }
        fields
    }
}

fn temporary(path: &Path) -> PathBuf {
    path.with_extension(format!("{}.tmp", std::process::id()))
}

fn cannot(verb: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot {verb} {}: {error}", path.display())).remedy("check --ready-file")
}
