//! The ready file of a server: one JSON object, written atomically once the server serves.
//!
//! Holds       1. a file of an earlier run is removed first, so that no reader mistakes it for the
//!                file of this run;
//!             2. a file that is not a ready file is neither removed nor replaced.
//! Start at    [`ReadyFile::prepare`].

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use pitwire_failure::Failure;
use serde_json::{Map, Value, json};

/// Every field that a ready file may have.
const FIELDS: [&str; 10] =
    ["ca", "cointossx", "epoch", "http", "metrics", "order_feed_recovery", "pid", "sbe", "tls", "url"];
/// Most bytes of a ready file. Paths are at most 4,096 bytes long.
const MOST_BYTES: u64 = 64 << 10;

/// The file that `--ready-file` names, if it does.
#[derive(Clone)]
pub struct ReadyFile(Option<PathBuf>);

impl ReadyFile {
    /// Removes the file of an earlier run and checks that a new one can be written.
    ///
    /// # Errors
    ///
    /// Returns a failure that names the file if it is not a ready file, or if it cannot be removed
    /// or written.
    pub fn prepare(path: Option<PathBuf>) -> Result<ReadyFile, Failure> {
        let file = ReadyFile(path);
        if let Some(path) = &file.0 {
            if exists(path) {
                fields_of(path)?;
                remove(path)?;
            }
            let temporary = temporary(path);
            create(&temporary, "")
                .and_then(|()| fs::remove_file(&temporary))
                .map_err(|error| cannot("write", path, &error))?;
        }
        Ok(file)
    }

    /// Writes an object with these fields and `pid`, the process id.
    ///
    /// # Errors
    ///
    /// Returns a failure that names the file if it exists by now, or if it cannot be written.
    pub fn write(&self, mut fields: Value) -> Result<(), Failure> {
        let Some(path) = &self.0 else { return Ok(()) };
        fields["pid"] = std::process::id().into();
        let is_known = |name: &String| FIELDS.contains(&name.as_str());
        debug_assert!(fields.as_object().is_some_and(|fields| fields.keys().all(is_known)), "{fields}");
        let temporary = temporary(path);
        let written = create(&temporary, &format!("{fields}\n")).and_then(|()| publish(&temporary, path));
        // It is gone if it was renamed.
        let _ = fs::remove_file(&temporary);
        written.map_err(|error| cannot("write", path, &error))
    }

    /// Removes the file, at the end of the run, if it is still the one of this process.
    ///
    /// # Errors
    ///
    /// Returns a failure that names the file if it exists and cannot be removed.
    pub fn remove(&self) -> Result<(), Failure> {
        let Some(path) = &self.0 else { return Ok(()) };
        let is_own = fields_of(path).is_ok_and(|fields| fields.get("pid") == Some(&std::process::id().into()));
        if is_own { remove(path) } else { Ok(()) }
    }
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Returns the fields of a ready file. A failure says why the file is not one.
fn fields_of(path: &Path) -> Result<Map<String, Value>, Failure> {
    let other = |what: &str| {
        Failure::new(format!("{} {what}", path.display()))
            .remedy("it is kept; name another file with --ready-file, or move this one away")
    };
    let metadata = fs::symlink_metadata(path).map_err(|error| cannot("read", path, &error))?;
    if !metadata.is_file() {
        return Err(other("exists and is not a regular file"));
    }
    let mut text = Vec::new();
    let opened = fs::File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut text));
    opened.map_err(|error| cannot("read", path, &error))?;
    match serde_json::from_slice(&text) {
        Ok(Value::Object(fields))
            if fields.get("pid").is_some_and(Value::is_u64)
                && fields.keys().all(|name| FIELDS.contains(&name.as_str())) =>
        {
            Ok(fields)
        }
        _ => Err(other("exists and is not the ready file of an earlier run")),
    }
}

fn create(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}

/// Gives a file its name. A link, unlike a rename, does not replace another file.
fn publish(temporary: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(temporary, path) {
        // Some file systems have no links.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists && !exists(path) => fs::rename(temporary, path),
        linked => linked,
    }
}

fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(cannot("remove", path, &error)),
        _ => Ok(()),
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
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    name.into()
}

fn cannot(verb: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot {verb} {}: {error}", path.display())).remedy("check --ready-file")
}
