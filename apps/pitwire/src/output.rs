//! What a subcommand prints. A reader that has gone away is no reason to fail.

use std::io::{Write, stdout};

/// Prints one line.
pub fn say(line: &str) {
    let mut out = stdout().lock();
    // The only failure is a closed standard output, and then nobody is left to tell.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
