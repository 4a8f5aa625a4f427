//! Output of the subcommands. A closed pipe is not an error; a full disk is.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first error of a write to standard output.
static WRITE_ERROR: OnceLock<String> = OnceLock::new();
/// Whether a write to standard output has failed.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Prints one line. An error is stored for [`write_error`].
pub fn say(line: &str) {
    print_line(stdout().lock(), line);
}

/// Prints a line with colour codes. They are removed unless standard output is a terminal without
/// `NO_COLOR`. `CLICOLOR_FORCE=1` keeps them in a pipe.
pub fn say_styled(line: &str) {
    print_line(anstream::AutoStream::auto(stdout()).lock(), line);
}

/// Writes an error to standard error. A failed write is ignored, because the terminal may be gone.
pub fn report(text: &str) {
    drop(writeln!(stderr(), "pitwire: {text}"));
}

/// Replaces control characters by `?`, and those that change the direction of text. Use it for
/// texts that a server or a member wrote: they must not steer the terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if steers_terminal(c) { '?' } else { c }).collect()
}

/// Does the same as [`printable`], and keeps the ends of lines.
pub fn printable_lines(text: &str) -> String {
    text.chars().map(|c| if c != '\n' && steers_terminal(c) { '?' } else { c }).collect()
}

/// Escapes the same characters in JSON, where they can stand in strings only. The meaning of the
/// JSON stays the same.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    if !json.contains(steers_terminal) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        match c {
            // White space between the tokens of JSON.
            '\n' | '\r' | '\t' => out.push(' '),
            // All of them are below U+10000, so one escape each is enough.
            c if steers_terminal(c) => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn steers_terminal(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns whether colour codes may be written to a stream: it is a terminal, and `NO_COLOR` is not
/// set.
pub fn has_colours(stream: &impl anstream::stream::RawStream) -> bool {
    anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never
}

fn print_line(mut out: impl Write, line: &str) {
    let written = writeln!(out, "{line}").and_then(|()| out.flush());
    let Err(error) = written else { return };
    HAS_FAILED.store(true, Ordering::Relaxed);
    if error.kind() != ErrorKind::BrokenPipe {
        WRITE_ERROR.get_or_init(|| error.to_string());
    }
}

/// Returns whether a write to standard output has failed, for example because the pipe is closed.
/// A command that prints without an end asks this after each line.
pub fn has_write_failed() -> bool {
    HAS_FAILED.load(Ordering::Relaxed)
}

/// Returns the first error of a write to standard output, other than a closed pipe.
pub fn write_error() -> Option<&'static str> {
    WRITE_ERROR.get().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[2J\u{9b}31m\u{202e}\nä"), "a?[2J?31m??ä");
        assert_eq!(printable_lines("a\u{1b}\nb\r\n"), "a?\nb?\n");
        let json = "{\"label\":\t\"\u{9b}2J\u{7f}\u{202e}ä\"}";
        assert_eq!(printable_json(json), r#"{"label": "\u009b2J\u007f\u202eä"}"#);
        assert!(matches!(printable_json("[1.50]"), Cow::Borrowed("[1.50]")));
    }
}
