//! Standard output of the subcommands. A closed pipe is not an error; a full disk is.

use std::io::{ErrorKind, Write, stdout};
use std::sync::OnceLock;

/// The first error of a write to standard output.
static WRITE_ERROR: OnceLock<String> = OnceLock::new();

/// Prints one line. An error is stored for [`write_error`].
pub fn say(line: &str) {
    print_line(stdout().lock(), line);
}

/// Prints a line with colour codes. They are removed unless standard output is a terminal without
/// `NO_COLOR`. `CLICOLOR_FORCE=1` keeps them in a pipe.
pub fn say_styled(line: &str) {
    print_line(anstream::AutoStream::auto(stdout()).lock(), line);
}

/// Returns whether colour codes may be written to a stream: it is a terminal, and `NO_COLOR` is not
/// set.
pub fn has_colours(stream: &impl anstream::stream::RawStream) -> bool {
    anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never
}

fn print_line(mut out: impl Write, line: &str) {
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
