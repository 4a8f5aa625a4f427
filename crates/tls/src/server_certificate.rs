//! The TLS certificate of a server: from named files, or issued by an authority that is kept in a
//! directory.
//!
//! Holds       an authority's key that others can read is refused; the server's own key is never
//!             written to disk.
//! Start at    [`server_certificate`].

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pitwire_failure::{Failure, read_bytes};
use zeroize::Zeroizing;

use crate::ServerConfig;
use crate::certificate::{Authority, CertificateError, issue_server_config, server_config};
use crate::regular_file::open_regular;

/// Files of the authority.
const CERTIFICATE: &str = "ca.pem";
const KEY: &str = "ca-key.pem";
/// Most bytes of a certificate or key file.
const MOST_BYTES: u64 = 1 << 20;

/// A server's TLS configuration, and the authority's certificate if it was created here.
pub struct ServerCertificate {
    pub config: Arc<ServerConfig>,
    pub authority: Option<PathBuf>,
}

/// Reads the certificate from files, or issues one for `address` by the authority in `directory`.
///
/// # Errors
///
/// Returns a failure that names the file if it cannot be read, written or used.
pub fn server_certificate(
    files: Option<(&Path, &Path)>,
    directory: &Path,
    address: SocketAddr,
) -> Result<ServerCertificate, Failure> {
    if let Some((certificate, key)) = files {
        let config = from_files(certificate, key)?;
        return Ok(ServerCertificate { config, authority: None });
    }
    // The path is printed for clients in other directories, so make it absolute.
    let directory = &std::path::absolute(directory)?;
    let (authority, key) = (directory.join(CERTIFICATE), directory.join(KEY));
    let secret = authority_key(directory, &authority, &key)?;
    let config = issue_server_config(&secret, &host_names(address.ip()), now_s()).map_err(|what| {
        Failure::new(format!("{}: {what}", key.display()))
            .remedy("move the directory away: a new authority is created, which clients must trust again")
    })?;
    Ok(ServerCertificate { config, authority: Some(authority) })
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Issues a certificate by an authority that exists for this run only. Returns the server's
/// configuration and the authority's certificate in PEM.
///
/// # Errors
///
/// The library cannot make one.
pub fn temporary(address: IpAddr) -> Result<(Arc<ServerConfig>, String), Failure> {
    let authority = Authority::generate().map_err(Failure::new)?;
    let key = Zeroizing::new(authority.key);
    let config = issue_server_config(&key, &host_names(address), now_s()).map_err(Failure::new)?;
    Ok((config, authority.certificate))
}

/// Reads a certificate chain and its key from PEM files.
///
/// # Errors
///
/// A file cannot be read, or its content cannot be used. The error names the file and the option.
pub fn from_files(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, Failure> {
    let (chain, secret) = (read(certificate, "--tls-cert")?, Zeroizing::new(read(key, "--tls-key")?));
    server_config(&chain, &secret, now_s()).map_err(|flaw| {
        let (file, remedy) = match &flaw {
            CertificateError::Certificate(_) => {
                (certificate, "give the server's certificate in PEM form, its own first, by --tls-cert")
            }
            CertificateError::Key(_) => (key, "give the certificate's private key in PEM form by --tls-key"),
            CertificateError::Pair(_) => (key, "give --tls-cert and --tls-key of one pair"),
        };
        Failure::new(format!("{}: {flaw}", file.display())).remedy(remedy)
    })
}

fn read(path: &Path, flag: &str) -> Result<Vec<u8>, Failure> {
    let failed =
        |what: String| Failure::new(format!("cannot read {}: {what}", path.display())).remedy(format!("check {flag}"));
    open_regular(path).and_then(|file| read_bytes(file, MOST_BYTES)).map_err(|error| failed(error.to_string()))
}

/// Returns the key of the authority in a directory, and creates the authority if there is none.
fn authority_key(directory: &Path, certificate: &Path, key: &Path) -> Result<Zeroizing<String>, Failure> {
    let failed = |path: &Path, what: &str, remedy: &str| {
        Failure::new(format!("cannot use {}: {what}", path.display())).remedy(remedy.to_owned())
    };
    let anew = "move the directory away: a new authority is created, which clients must trust again";
    match (certificate.exists(), key.exists()) {
        (true, true) => {
            let mode = fs::metadata(key)?.permissions().mode() & 0o777;
            if mode & 0o077 != 0 {
                return Err(failed(key, &format!("others may read it (mode {mode:o})"), "chmod 600 it"));
            }
            let text = String::from_utf8(read(key, "the data directory")?);
            text.map(Zeroizing::new).map_err(|_| failed(key, "it is not text", anew))
        }
        (false, false) => {
            let made = Authority::generate().map_err(Failure::new)?;
            let secret = Zeroizing::new(made.key);
            write_authority(directory, certificate, key, &made.certificate, &secret)
                .map_err(|error| failed(directory, &error.to_string(), "check the permissions of the directory"))?;
            Ok(secret)
        }
        (has_certificate, _) => {
            let (there, missing) = if has_certificate { (certificate, KEY) } else { (key, CERTIFICATE) };
            Err(failed(there, &format!("there is no {missing} beside it"), anew))
        }
    }
}

/// Writes the key first and the certificate last, so that an authority with both files is complete.
fn write_authority(
    directory: &Path,
    certificate: &Path,
    key: &Path,
    certificate_text: &str,
    secret: &str,
) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let files = [(key, secret, 0o600), (certificate, certificate_text, 0o644)];
    for (at, (path, text, mode)) in files.into_iter().enumerate() {
        match write_new(path, text, mode) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            Err(error) => {
                // A part of an authority would be refused at every later start.
                for (written, ..) in files.iter().take(at + 1) {
                    let _ = fs::remove_file(written);
                }
                return Err(error);
            }
        }
    }
    // The names of the files, and of the directory, must survive a power cut as well.
    for directory in directory.ancestors().take(2) {
        fs::File::open(directory)?.sync_all()?;
    }
    Ok(())
}

fn write_new(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Returns the names under which clients reach the server: loopback names, its address, and the
/// host name if it listens on all addresses.
fn host_names(address: IpAddr) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let own = address.to_string();
    if !address.is_unspecified() && !names.contains(&own) {
        names.push(own);
    }
    if address.is_unspecified()
        && let Ok(host) = fs::read_to_string("/proc/sys/kernel/hostname")
    {
        let host = host.trim();
        if !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.')) {
            names.push(host.to_owned());
        }
    }
    names
}
