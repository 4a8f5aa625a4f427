//! Standard output of the subcommands. A closed pipe is not an error; a full disk is.

use std::io::{ErrorKind, Write, stdout};
use std::sync::OnceLock;

/// The first error of a write to standard output.
static WRITE_ERROR: OnceLock<String> = OnceLock::new();

/// Prints one line. An error is stored for [`write_error`].
pub fn say(line: &str) {
    let mut out = stdout().lock();
    let written = writeln!(out, "{line}").and_then(|()| out.flush());
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        WRITE_ERROR.get_or_init(|| error.to_string());
    }
}

/// Returns the first error of a write to standard output, other than a closed pipe.
pub fn write_error() -> Option<&'static str> {
    WRITE_ERROR.get().map(String::as_str)
}
