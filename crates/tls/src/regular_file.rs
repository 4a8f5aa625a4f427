//! Files that are named by an option or lie beside a key.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Opens a file for reading, or a link to one. Opening a named pipe would wait for another process.
///
/// # Errors
///
/// The file cannot be opened, or is a directory, a named pipe, a socket or a device.
pub fn open_regular(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    File::open(path)
}
