//! What a subcommand prints. A reader that has gone away is no reason to fail; a disk that is full is one.

use std::io::{ErrorKind, Write, stdout};
use std::sync::OnceLock;

/// Why something could not be printed, the first time.
static UNSAID: OnceLock<String> = OnceLock::new();

/// Prints one line.
pub fn say(line: &str) {
    let mut out = stdout().lock();
    let said = writeln!(out, "{line}").and_then(|()| out.flush());
    if let Err(error) = said
        && error.kind() != ErrorKind::BrokenPipe
    {
        UNSAID.get_or_init(|| error.to_string());
    }
}

pub fn unsaid() -> Option<&'static str> {
    UNSAID.get().map(String::as_str)
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
